//! Values of a configuration, and their defaults.

use std::time::Duration;

use outflow::config::{CacheSection, LogFormat, LogLevel, LogSection, MetricsSettings, NdjsonTarget};
use outflow::core::{
    Accounting, AdaptiveMode, AttemptReport, Cost, CountBy, Dialect, HealthSettings, Limit, LimitKind, OutcomeClass,
    Pacing, Rate, Share,
};
use outflow::{
    AddressPolicy, AlertThresholds, Api, CacheMode, CredentialPlacement, HealthScope, Proxy, Rules, StaleOffline,
    Timeouts, TlsTrust, WaitMode, WhenAsleep,
};

use super::support::{rates, read, seconds, with};
use secrecy::ExposeSecret;

fn stock(more: &str) -> Api {
    with(more, &[])
}

#[test]
fn an_api_with_only_a_base_url_has_the_defaults() {
    let api = stock("");
    assert_eq!(rates(&api.rules.limits), ["5/s"]);
    assert_eq!(api.rules.limits, Rules::with_default_limit().limits);
    assert_eq!(api.timeouts, Timeouts::default());
    assert_eq!(api.rules.timeout, seconds(10));
    assert_eq!(api.rules.max_wait, seconds(30));
    assert_eq!((api.retry.count, api.rules.queue), (2, 10_000));
    assert_eq!(*api.rules.health.settings(), HealthSettings::ADAPTIVE);
    assert_eq!((api.redirects, api.max_body), (5, 10 << 20));
    assert!(api.credential.is_none() && api.rules.groups.is_empty());
}

#[test]
fn the_default_limit_applies_only_without_other_limits() {
    assert_eq!(rates(&stock("limits = [\"7/s\"]").rules.limits), ["7/s"]);
    assert!(stock("limits = []").rules.limits.is_empty(), "said to be none");
    let grouped = stock("[apis.stock.groups.orders]\nlimits = [\"9/s\"]").rules;
    assert!(grouped.limits.is_empty(), "groups share nothing unless it is said");
    let default = grouped.groups.iter().find(|group| group.name == "default");
    assert_eq!(rates(&default.expect("added").limits), ["5/s"]);
    let own = stock("[apis.stock.groups.default]\nlimits = [\"9/s\"]").rules;
    assert_eq!(
        (own.groups.len(), rates(&own.groups[0].limits)),
        (1, vec!["9/s".to_owned()])
    );
    let both = stock("limits = [\"7/s\"]\n[apis.stock.groups.orders]\nlimits = [\"9/s\"]").rules;
    assert_eq!((rates(&both.limits), both.groups.len()), (vec!["7/s".to_owned()], 1));
}

#[test]
fn the_parser_reads_every_form_of_a_limit() {
    let more = r#"
        limits = [
            "10/s",
            "0.35/s",
            { rate = "100/min", kind = "fixed", accounting = "safe" },
            { rate = "1000/h", kind = "aligned", accounting = "send", warn_below = "10%" },
            { rate = "2/s", kind = "bucket", burst = 40, guard = "5ms", pacing = "soft" },
            { rate = "3/s", pacing = { max_delay = "1s" } },
            { rate = "4/s", counts = "calls" },
            { rate = "50/10s", accounting = "auto" },
        ]
    "#;
    let limits = stock(more).rules.limits;
    assert_eq!(
        rates(&limits),
        ["10/s", "0.35/s", "100/min", "1000/h", "2/s", "3/s", "4/s", "50/10s"]
    );
    let kinds: Vec<_> = limits.iter().map(Limit::kind).collect();
    assert_eq!(
        kinds[2..5],
        [LimitKind::Fixed, LimitKind::Aligned, LimitKind::Bucket { burst: 40 }]
    );
    assert_eq!(limits[0].accounting(), Accounting::Tight);
    assert_eq!(limits[2].accounting(), Accounting::Safe);
    assert_eq!(limits[3].accounting(), Accounting::Send);
    assert_eq!(limits[7].accounting(), Accounting::Safe, "auto in a long window");
    assert_eq!(limits[3].warn_below(), Some(Share::percent(10)));
    assert_eq!(limits[4].guard(), Duration::from_millis(5));
    assert_eq!(limits[4].pacing(), Pacing::SOFT);
    assert_eq!(limits[5].pacing(), Pacing::Soft { max_delay: seconds(1) });
    assert_eq!(limits[0].measure(), CountBy::Cost);
    assert_eq!(limits[6].measure(), CountBy::Calls);
    assert_eq!(rates(&stock("limits = [\"1 per 2s\"]").rules.limits), ["1/2s"]);
}

// A quarter of each, for every unit.
#[test]
fn a_limit_counts_its_unit() {
    let words = ["cost", "calls", "tokens", "input_tokens", "output_tokens"];
    let measures = [
        CountBy::Cost,
        CountBy::Calls,
        CountBy::Tokens,
        CountBy::InputTokens,
        CountBy::OutputTokens,
    ];
    for (word, measure) in words.into_iter().zip(measures) {
        let more = format!("rate_share = \"1/4\"\nlimits = [{{ rate = \"8/s\", counts = \"{word}\" }}]");
        let limit = stock(&more).rules.limits[0];
        assert_eq!((limit.capacity(), limit.measure()), (2, measure), "{word}");
    }
}

// 17.5 calls per second are 35 in two seconds; the bucket holds the calls of one second.
#[test]
fn a_base_rate_is_a_bucket_in_addition_to_the_limits() {
    let limits = stock("rate_base = 17.5\nlimits = [\"50/s\"]").rules.limits;
    assert_eq!(rates(&limits), ["17.5/s", "50/s"]);
    assert_eq!(limits[0].kind(), LimitKind::Bucket { burst: 17 });
    let limits = stock("rate_base = \"35/s\"\nbucket_capacity = 10").rules.limits;
    assert_eq!((rates(&limits), limits[0].capacity()), (vec!["35/s".to_owned()], 10));
}

#[test]
fn a_share_of_the_rate_scales_every_limit_of_the_api() {
    let more = r#"
        rate_share = "1/4"
        limits = ["10/s", "100/min"]
        [apis.stock.groups.orders]
        limits = ["1/s", { rate = "2/s", kind = "bucket", burst = 40 }]
    "#;
    let rules = stock(more).rules;
    assert_eq!(rates(&rules.limits), ["2/s", "25/min"]);
    assert_eq!(rates(&rules.groups[0].limits), ["1/4s", "1/2s"]);
    assert_eq!(rules.groups[0].limits[1].capacity(), 10);
    assert_eq!(
        rates(&stock("rate_share = \"20%\"").rules.limits),
        ["1/s"],
        "the usual 5/s too"
    );
}

#[test]
fn groups_and_routes_keep_their_order() {
    let more = r#"
        routes = [
            { methods = ["POST", "DELETE"], path = "/orders/{id}", group = "trading", cost = 3 },
            { path = "/quotes/**", group = "quotes" },
        ]
        [apis.stock.groups.orders]
        limits = ["8/s"]
        aliases = ["trading", "REST_ORDER"]
        cost = 2
        [apis.stock.groups.quotes]
        rate_limit_per_sec = 10
    "#;
    let rules = stock(more).rules;
    let names: Vec<_> = rules.groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(names, ["orders", "quotes", "default"]);
    assert_eq!(rules.groups[0].aliases, ["trading", "REST_ORDER"]);
    assert_eq!(rules.groups[0].cost.units(), 2);
    let route = &rules.routes[0];
    assert_eq!(route.methods.len(), 2);
    assert_eq!(
        (route.group.as_str(), route.cost.map(Cost::units)),
        ("trading", Some(3))
    );
    assert!(rules.routes[1].cost.is_none() && rules.routes[1].methods.is_empty());
}

#[test]
fn the_parser_reads_every_other_key_of_an_api() {
    let more = r#"
        timeout = "8s"
        connect_timeout = "1s"
        read_timeout = "4s"
        max_wait = "1m30s"
        retry_count = 1
        rate_limit_mode = "reject"
        queue = 7
        concurrency = 9
        adaptive = "learn"
        dialects = ["upbit"]
        cache = { force = "5m" }
        stale_if_error = "1h"
        stale_offline = "any"
        methods = ["GET", "PURGE"]
        proxy = "http://proxy.example:3128"
        trust = { file = "ca.pem" }
        addresses = "any"
        redirects = 0
        max_body = "1MiB"
        cleanup_interval = "7s"
        memory_threshold_mb = 60
        max_log_entries = 5
        usage_alert = "70%"
        retry = { backoff = { base = "1s", cap = "4s" }, budget = { share = 0.1, per_second = 3, ttl = "20s" } }
        policy = { 401 = "failed", 5xx = { counts_as = "server_failed", retry = false }, dns = "neutral" }
    "#;
    let api = stock(more);
    let timeouts = Timeouts {
        attempt: seconds(8),
        connect: seconds(1),
        read: seconds(4),
    };
    assert_eq!(api.timeouts, timeouts);
    assert_eq!((api.rules.timeout, api.rules.max_wait), (seconds(8), seconds(90)));
    assert_eq!(
        (api.retry.count, api.rules.mode, api.rules.queue),
        (1, WaitMode::Reject, 7)
    );
    assert_eq!(api.rules.health.settings().concurrency, Some(9));
    assert_eq!(api.rules.adaptive, AdaptiveMode::Learn);
    assert!(api.rules.dialects.contains(Dialect::Upbit) && !api.rules.dialects.contains(Dialect::Ietf));
    assert_eq!(
        (api.cache, api.stale_if_error, api.stale_offline),
        (CacheMode::Force(seconds(300)), seconds(3_600), StaleOffline::Any)
    );
    assert_eq!(api.methods.len(), 2);
    assert_eq!(
        api.proxy,
        Proxy::Url("http://proxy.example:3128".parse().expect("valid"))
    );
    assert_eq!(api.trust, TlsTrust::File("ca.pem".into()));
    assert_eq!(
        (api.addresses, api.redirects, api.max_body),
        (AddressPolicy::Any, 0, 1 << 20)
    );
    let thresholds = AlertThresholds {
        usage: Share::percent(70),
        memory: 60_000_000,
        statistics_every: seconds(7),
    };
    assert_eq!(api.rules.thresholds, thresholds);
    assert_eq!(api.retry.backoff.delay(9, u64::MAX), seconds(4));
    assert_eq!((api.retry.budget.per_second, api.retry.budget.ttl), (3, seconds(20)));
    let judged = api.rules.policy.classify(&AttemptReport::status(401));
    assert_eq!(judged.outcome.effect(), OutcomeClass::OtherFailed);
    let judged = api.rules.policy.classify(&AttemptReport::status(503));
    assert_eq!(judged.retry, outflow::core::Retryability::Pointless);
}

// By default the parts of an attempt follow its timeout, and a probe outlasts an attempt.
#[test]
fn default_times_follow_the_written_ones() {
    let quick = stock("timeout = \"2s\"");
    assert_eq!((quick.timeouts.connect, quick.timeouts.read), (seconds(2), seconds(2)));
    let slow = stock("timeout = \"1m\"");
    assert_eq!((slow.timeouts.connect, slow.timeouts.read), (seconds(3), seconds(60)));
    assert_eq!(slow.rules.health.settings().probe_timeout, seconds(90));
}

#[test]
fn the_parser_reads_every_health_setting() {
    let more = r#"
        health_scope = "group"
        [apis.stock.health]
        profile = "breaker"
        when_asleep = "wait"
        window = "20s"
        window_length = 200
        min_samples = 10
        p_throttle = 0.4
        n_throttle = 4
        min_failures = 9
        n_failures = 5
        throttle_exit = "half_open"
        cooldown = "doubling"
        sleep_share = "7%"
        probe_start = 2
        probe_patience = "latency"
        probe_from = "sending"
        ramp_after = "always"
        escalation = "throttle"
        p_recover = "5%"
        s_recover = 6
        n_cacheonly = 7
        p_sleep = "70%"
        p_sleep_held = "2m"
        confirm_after = "0s"
        short_retry_after = "3s"
        max_retry_after = "1h"
        sleep_min = "4s"
        sleep_max = "40s"
        sleep_jitter = "10%"
        cooldown_factor = 1.5
        throttle_share = "25%"
        throttle_floor = "2/s"
        concurrency = 8
        probe_success = 2
        neutral_per_success = 3
        probe_concurrency = 2
        probe_rate = "1/s"
        probe_timeout = "20s"
        ramp_factor = 1.2
        ramp_every = "1m"
        cache_only_after = "never"
        auto_recover = "never"
        release_jitter = "2s"
    "#;
    let rules = stock(more).rules;
    assert_eq!(
        (rules.health_scope, rules.when_asleep),
        (HealthScope::Group, WhenAsleep::Wait)
    );
    let rate = |text: &str| text.parse::<Rate>().expect("valid");
    let expected = HealthSettings {
        window: seconds(20),
        window_length: 200,
        min_samples: 10,
        p_throttle: Share::percent(40),
        n_throttle: Some(4),
        min_failures: 9,
        n_failures: Some(5),
        throttle_exit: outflow::core::ThrottleExit::HalfOpen,
        cooldown: outflow::core::CooldownRule::Doubling,
        sleep_share: Share::percent(7),
        probe_start: 2,
        probe_patience: outflow::core::ProbePatience::Latency,
        probe_from: outflow::core::ProbeInstant::Sending,
        ramp_after: outflow::core::RampRule::Always,
        escalation: outflow::core::Escalation::Throttle,
        p_recover: Share::percent(5),
        s_recover: 6,
        n_cacheonly: Some(7),
        p_sleep: Some(Share::percent(70)),
        p_sleep_held: seconds(120),
        confirm_after: Duration::ZERO,
        short_retry_after: seconds(3),
        max_retry_after: seconds(3_600),
        sleep_min: seconds(4),
        sleep_max: seconds(40),
        sleep_jitter: Share::percent(10),
        cooldown_factor: outflow::core::RateFactor::percent(150),
        throttle_share: Share::percent(25),
        throttle_floor: rate("2/s"),
        concurrency: Some(8),
        probe_success: 2,
        neutral_per_success: 3,
        probe_concurrency: 2,
        probe_rate: Some(rate("1/s")),
        probe_timeout: seconds(20),
        ramp_factor: outflow::core::RateFactor::percent(120),
        ramp_every: seconds(60),
        cache_only_after: None,
        auto_recover: None,
        release_jitter: seconds(2),
    };
    assert_eq!(*rules.health.settings(), expected);
    let breaker = stock("health = { profile = \"breaker\" }").rules;
    assert_eq!(*breaker.health.settings(), HealthSettings::BREAKER);
    let cautious = stock("health = { profile = \"cautious\" }").rules;
    assert_eq!(*cautious.health.settings(), HealthSettings::CAUTIOUS);
    assert_eq!(cautious.when_asleep, WhenAsleep::Refuse);
}

#[test]
fn the_parser_reads_the_client_sections() {
    let text = r#"
        [log]
        format = "json"
        level = "debug"
        file = "outflow.log"
        max_size = "1MiB"
        max_files = 3
        [metrics]
        ndjson = { file = "metrics.ndjson" }
        interval = "30s"
        [cache]
        dir = "cache"
        size = "2GiB"
    "#;
    let config = read(text, &[]).expect("valid");
    let log = LogSection {
        format: LogFormat::Json,
        level: LogLevel::Debug,
        file: Some("outflow.log".into()),
        max_size: 1 << 20,
        max_files: 3,
    };
    let ndjson = NdjsonTarget::File("metrics.ndjson".into());
    assert_eq!(config.log, log);
    assert_eq!(
        config.metrics,
        MetricsSettings {
            ndjson,
            interval: seconds(30)
        }
    );
    assert_eq!(
        config.cache,
        CacheSection {
            dir: Some("cache".into()),
            size: 2 << 30
        }
    );
    let nothing = read("", &[]).expect("an empty text is a configuration");
    assert!(nothing.apis.is_empty());
    assert_eq!(nothing.log, LogSection::default());
}

#[test]
fn a_key_comes_from_a_variable_or_a_file_and_is_sent_as_configured() {
    let keyed = |more: &str| with(more, &[("KEY", " s3cret\n")]).credential.expect("a key");
    let bearer = keyed("api_key_env = \"KEY\"");
    assert_eq!(
        (bearer.secret.expose_secret(), bearer.place),
        ("s3cret", CredentialPlacement::Bearer)
    );
    let header = keyed("api_key_env = \"KEY\"\nkey = { header = \"X-Api-Key\" }");
    assert_eq!(
        header.place,
        CredentialPlacement::Header(http::HeaderName::from_static("x-api-key"))
    );
    let query = keyed("api_key_env = \"KEY\"\nkey = { query = \"api_key\" }");
    assert_eq!(query.place, CredentialPlacement::Query("api_key".into()));
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "from-a-file\n").expect("writable");
    let filed = stock(&format!("api_key_file = {:?}", file.path()))
        .credential
        .expect("a key");
    assert_eq!(filed.secret.expose_secret(), "from-a-file");
}

// One byte more than a key may have, and a file without an end.
#[test]
fn the_parser_stops_reading_a_file_that_is_no_key() {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    std::io::Write::write_all(&mut file, &vec![b'k'; 64 * 1024]).expect("writable");
    let config = |path: &std::path::Path| {
        let base = "[apis.stock]\nbase_url = \"https://stock.example\"\n";
        read(&format!("{base}api_key_file = {path:?}"), &[])
    };
    assert!(config(file.path()).is_ok());
    std::io::Write::write_all(&mut file, b"k").expect("writable");
    for path in [file.path(), std::path::Path::new("/dev/zero")] {
        let wrong = config(path).expect_err("no key").to_string();
        assert!(wrong.contains("too large for a key"), "{wrong}");
    }
}

// Documented and actual defaults are compared as they print, with every field; and every key must be in
// the file, set or behind a `#`.
#[test]
fn the_default_file_documents_every_key_and_default() {
    let written = include_str!("../../../config.default.toml");
    let documented = read(written, &[]).expect("the default file has no error");
    assert!(documented.warnings.is_empty(), "{}", documented.warnings);
    let bare = "[apis.example]\nbase_url = \"https://api.example.com\"\n";
    let silent = read(bare, &[]).expect("valid");
    assert_eq!(format!("{:#?}", documented.apis), format!("{:#?}", silent.apis));
    assert_eq!(documented.log, silent.log);
    assert_eq!(documented.metrics, silent.metrics);
    assert_eq!(documented.cache, silent.cache);
    for (key, _) in silent.origins.iter() {
        let name = key.rsplit('.').next().expect("a name");
        let says = |line: &str| line.trim_start_matches('#').starts_with(&format!("{name} = "));
        assert!(written.lines().any(says), "`{key}` is not documented");
    }
}

// Copied from a header, or from a shell with its quotes. The key is in no message.
#[test]
fn a_key_with_its_surroundings_is_warned_of() {
    let written = "[apis.x]\nbase_url = \"https://api.example.com\"\napi_key_env = \"KEY\"\n";
    for (value, words) in [
        ("Bearer s3cret", Some("begins with `Bearer`")),
        ("\"s3cret\"", Some("has quotes around it")),
        ("'s3cret'", Some("has quotes around it")),
        ("s3cret", None),
    ] {
        let config = read(written, &[("KEY", value)]).expect("valid");
        let warnings = config.warnings.to_string();
        assert_eq!(words.is_some(), !config.warnings.is_empty(), "{value}: {warnings}");
        assert!(warnings.contains(words.unwrap_or_default()), "{value}: {warnings}");
        assert!(!warnings.contains("s3cret"), "{warnings}");
    }
}
