//! What a configuration means once it is read: values, defaults, layers, origins, secrets.

use std::time::Duration;

use outflow::config::{
    CacheSettings, Config, Environment, LogFormat, LogLevel, LogSettings, MetricsSettings,
    Mistakes, Ndjson, Source, Style,
};
use outflow::core::{
    Accounting, Adaptive, Attempt, Dialect, Effect, HealthSettings, Kind, Limit, Pacing, Rate,
    Share, Streak,
};
use outflow::{
    Addresses, Api, CacheMode, HealthScope, Mode, Place, Proxy, Rules, Thresholds, Timeouts, Trust,
    WhenAsleep,
};
use secrecy::ExposeSecret;

const STOCK: &str = "[apis.stock]\nbase_url = \"https://stock.example\"\n";

fn read(text: &str, variables: &[(&str, &str)]) -> Result<Config, Mistakes> {
    let environment = Environment::from_iter(variables.iter().copied());
    Config::read(&[Source::new("outflow.toml", text)], &environment)
}

fn stock(more: &str) -> Api {
    with(more, &[])
}

fn with(more: &str, variables: &[(&str, &str)]) -> Api {
    let config = read(&format!("{STOCK}{more}"), variables);
    let config = config.unwrap_or_else(|mistakes| panic!("{mistakes}"));
    config.apis.into_iter().next().expect("one API")
}

fn rates(limits: &[Limit]) -> Vec<String> {
    limits
        .iter()
        .map(|limit| limit.rate().to_string())
        .collect()
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn an_api_of_which_only_the_place_is_known_has_the_usual_settings() {
    let api = stock("");
    assert_eq!(rates(&api.rules.limits), ["5/s"]);
    assert_eq!(api.rules.limits, Rules::usual().limits);
    assert_eq!(api.timeouts, Timeouts::default());
    assert_eq!(api.rules.timeout, seconds(10));
    assert_eq!(api.rules.max_wait, seconds(30));
    assert_eq!((api.retry.count, api.rules.queue), (2, 10_000));
    assert_eq!(*api.rules.health.settings(), HealthSettings::ADAPTIVE);
    assert_eq!((api.redirects, api.largest_body), (5, 10 << 20));
    assert!(api.credential.is_none() && api.rules.groups.is_empty());
}

#[test]
fn five_a_second_hold_only_where_nothing_was_said() {
    assert_eq!(rates(&stock("limits = [\"7/s\"]").rules.limits), ["7/s"]);
    assert!(
        stock("limits = []").rules.limits.is_empty(),
        "said to be none"
    );
    let grouped = stock("[apis.stock.groups.orders]\nlimits = [\"9/s\"]").rules;
    assert!(
        grouped.limits.is_empty(),
        "groups share nothing unless it is said"
    );
    let default = grouped.groups.iter().find(|group| group.name == "default");
    assert_eq!(rates(&default.expect("added").limits), ["5/s"]);
    let own = stock("[apis.stock.groups.default]\nlimits = [\"9/s\"]").rules;
    assert_eq!(
        (own.groups.len(), rates(&own.groups[0].limits)),
        (1, vec!["9/s".to_owned()])
    );
    let both = stock("limits = [\"7/s\"]\n[apis.stock.groups.orders]\nlimits = [\"9/s\"]").rules;
    assert_eq!(
        (rates(&both.limits), both.groups.len()),
        (vec!["7/s".to_owned()], 1)
    );
}

#[test]
fn a_limit_is_read_in_each_of_its_forms() {
    let more = r#"
        limits = [
            "10/s",
            "1 per 2s",
            { rate = "100/min", kind = "fixed", accounting = "safe" },
            { rate = "1000/h", kind = "aligned", accounting = "send", warn_below = "10%" },
            { rate = "2/s", kind = "bucket", burst = 40, guard = "5ms", pacing = "soft" },
            { rate = "3/s", pacing = { max_delay = "1s" } },
        ]
    "#;
    let limits = stock(more).rules.limits;
    assert_eq!(
        rates(&limits),
        ["10/s", "1/2s", "100/min", "1000/h", "2/s", "3/s"]
    );
    let kinds: Vec<_> = limits.iter().map(Limit::kind).collect();
    assert_eq!(
        kinds[2..5],
        [Kind::Fixed, Kind::Aligned, Kind::Bucket { burst: 40 }]
    );
    assert_eq!(limits[0].accounting(), Accounting::Tight);
    assert_eq!(limits[2].accounting(), Accounting::Safe);
    assert_eq!(limits[3].accounting(), Accounting::Send);
    assert_eq!(limits[3].warn_below(), Some(Share::percent(10)));
    assert_eq!(limits[4].guard(), Duration::from_millis(5));
    assert_eq!(limits[4].pacing(), Pacing::SOFT);
    assert_eq!(
        limits[5].pacing(),
        Pacing::Soft {
            max_delay: seconds(1)
        }
    );
}

// Half of a call more than 17 a second is 35 in two; the bucket holds what comes in one second.
#[test]
fn a_base_rate_is_a_bucket_beside_the_limits() {
    let limits = stock("rate_base = 17.5\nlimits = [\"50/s\"]").rules.limits;
    assert_eq!(rates(&limits), ["35/2s", "50/s"]);
    assert_eq!(limits[0].kind(), Kind::Bucket { burst: 17 });
    let limits = stock("rate_base = \"35/s\"\nbucket_capacity = 10")
        .rules
        .limits;
    assert_eq!(
        (rates(&limits), limits[0].capacity()),
        (vec!["35/s".to_owned()], 10)
    );
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
fn groups_and_routes_are_read_in_their_order() {
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
    let names: Vec<_> = rules
        .groups
        .iter()
        .map(|group| group.name.as_str())
        .collect();
    assert_eq!(names, ["orders", "quotes", "default"]);
    assert_eq!(rules.groups[0].aliases, ["trading", "REST_ORDER"]);
    assert_eq!(rules.groups[0].cost.units(), 2);
    let route = &rules.routes[0];
    assert_eq!(route.methods.len(), 2);
    assert_eq!(
        (route.group.as_str(), route.cost.map(|cost| cost.units())),
        ("trading", Some(3))
    );
    assert!(rules.routes[1].cost.is_none() && rules.routes[1].methods.is_empty());
}

#[test]
fn everything_else_of_an_api_is_read() {
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
        methods = ["GET", "PURGE"]
        proxy = "http://proxy.example:3128"
        trust = { file = "ca.pem" }
        addresses = "any"
        redirects = 0
        largest_body = "1MiB"
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
    assert_eq!(
        (api.rules.timeout, api.rules.max_wait),
        (seconds(8), seconds(90))
    );
    assert_eq!(
        (api.retry.count, api.rules.mode, api.rules.queue),
        (1, Mode::Reject, 7)
    );
    assert_eq!(api.rules.health.settings().concurrency, 9);
    assert_eq!(api.rules.adaptive, Adaptive::Learn);
    assert!(
        api.rules.dialects.contains(Dialect::Upbit) && !api.rules.dialects.contains(Dialect::Ietf)
    );
    assert_eq!(api.cache, CacheMode::Force(seconds(300)));
    assert_eq!(api.methods.len(), 2);
    assert_eq!(
        api.proxy,
        Proxy::Url("http://proxy.example:3128".parse().expect("valid"))
    );
    assert_eq!(api.trust, Trust::File("ca.pem".into()));
    assert_eq!(
        (api.addresses, api.redirects, api.largest_body),
        (Addresses::Any, 0, 1 << 20)
    );
    let thresholds = Thresholds {
        usage: Share::percent(70),
        memory: 60_000_000,
        statistics_every: seconds(7),
    };
    assert_eq!(api.rules.thresholds, thresholds);
    assert_eq!(api.retry.backoff.delay(9, u64::MAX), seconds(4));
    assert_eq!(
        (api.retry.budget.per_second, api.retry.budget.ttl),
        (3, seconds(20))
    );
    let judged = api.rules.policy.classify(&Attempt::status(401));
    assert_eq!(judged.outcome.effect(), Effect::OtherFailed);
    let judged = api.rules.policy.classify(&Attempt::status(503));
    assert_eq!(judged.retry, outflow::core::Retry::Pointless);
}

// The parts of an attempt follow the whole, and a probe outlasts an attempt, unless it is said otherwise.
#[test]
fn times_that_were_not_said_follow_those_that_were() {
    let quick = stock("timeout = \"2s\"");
    assert_eq!(
        (quick.timeouts.connect, quick.timeouts.read),
        (seconds(2), seconds(2))
    );
    let slow = stock("timeout = \"1m\"");
    assert_eq!(
        (slow.timeouts.connect, slow.timeouts.read),
        (seconds(3), seconds(60))
    );
    assert_eq!(slow.rules.health.settings().probe_timeout, seconds(90));
}

#[test]
fn every_health_variable_is_read() {
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
        streak = "throttled"
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
        n_throttle: 4,
        streak: Streak::Throttled,
        escalation: outflow::core::Escalation::Throttle,
        p_recover: Share::percent(5),
        s_recover: 6,
        n_cacheonly: 7,
        p_sleep: Share::percent(70),
        p_sleep_held: seconds(120),
        confirm_after: Duration::ZERO,
        short_retry_after: seconds(3),
        max_retry_after: seconds(3_600),
        sleep_min: seconds(4),
        sleep_max: seconds(40),
        sleep_jitter: Share::percent(10),
        cooldown_factor: outflow::core::Factor::percent(150),
        throttle_share: Share::percent(25),
        throttle_floor: rate("2/s"),
        concurrency: 8,
        probe_success: 2,
        neutral_per_success: 3,
        probe_concurrency: 2,
        probe_rate: rate("1/s"),
        probe_timeout: seconds(20),
        ramp_factor: outflow::core::Factor::percent(120),
        ramp_every: seconds(60),
        cache_only_after: None,
        auto_recover: None,
        release_jitter: seconds(2),
    };
    assert_eq!(*rules.health.settings(), expected);
    let breaker = stock("health = { profile = \"breaker\" }").rules;
    assert_eq!(*breaker.health.settings(), HealthSettings::BREAKER);
}

#[test]
fn what_is_set_for_the_whole_program_is_read() {
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
    let log = LogSettings {
        format: LogFormat::Json,
        level: LogLevel::Debug,
        file: Some("outflow.log".into()),
        max_size: 1 << 20,
        max_files: 3,
    };
    let ndjson = Ndjson::File("metrics.ndjson".into());
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
        CacheSettings {
            dir: Some("cache".into()),
            size: 2 << 30
        }
    );
    let nothing = read("", &[]).expect("an empty text is a configuration");
    assert!(nothing.apis.is_empty());
    assert_eq!(nothing.log, LogSettings::default());
}

#[test]
fn a_key_comes_from_a_variable_or_a_file_and_is_sent_as_told() {
    let keyed = |more: &str| {
        with(more, &[("KEY", " s3cret\n")])
            .credential
            .expect("a key")
    };
    let bearer = keyed("api_key_env = \"KEY\"");
    assert_eq!(
        (bearer.secret.expose_secret(), bearer.place),
        ("s3cret", Place::Bearer)
    );
    let header = keyed("api_key_env = \"KEY\"\nkey = { header = \"X-Api-Key\" }");
    assert_eq!(
        header.place,
        Place::Header(http::HeaderName::from_static("x-api-key"))
    );
    let query = keyed("api_key_env = \"KEY\"\nkey = { query = \"api_key\" }");
    assert_eq!(query.place, Place::Query("api_key".into()));
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "from-a-file\n").expect("writable");
    let filed = stock(&format!("api_key_file = {:?}", file.path()))
        .credential
        .expect("a key");
    assert_eq!(filed.secret.expose_secret(), "from-a-file");
}

#[test]
fn later_texts_lie_over_earlier_ones() {
    let sources = [
        Source::new(
            "base.toml",
            format!("{STOCK}timeout = \"5s\"\nlimits = [\"1/s\", \"2/s\"]"),
        ),
        Source::new(
            "mine.toml",
            "[apis.stock]\ntimeout = \"6s\"\nrate_limit_per_sec = 3",
        ),
    ];
    let config = Config::read(&sources, &Environment::empty()).expect("valid");
    assert_eq!(config.apis[0].timeouts.attempt, seconds(6));
    assert_eq!(rates(&config.apis[0].rules.limits), ["3/s"]);
    let origin = config.origins.of("apis.stock.timeout").expect("known");
    assert_eq!(origin.to_string(), "mine.toml:2");
}

#[test]
fn a_variable_sets_any_key() {
    let variables = [
        ("OUTFLOW_APIS__STOCK__TIMEOUT", "4s"),
        ("OUTFLOW_APIS__STOCK__LIMITS", "[\"7/s\", \"70/min\"]"),
        ("OUTFLOW_APIS__STOCK__HEALTH__P_THROTTLE", "0.3"),
        ("OUTFLOW_APIS__STOCK__HEALTH_SCOPE", "group"),
        (
            "OUTFLOW_APIS__STOCK__GROUPS__MY_ORDERS__RATE_LIMIT_PER_SEC",
            "2",
        ),
        ("OUTFLOW_LOG__LEVEL", "trace"),
        ("PATH", "/bin"),
        ("OUTFLOW_CONFIG", "somewhere.toml"),
    ];
    let text = format!("{STOCK}[apis.stock.groups.My-Orders]\nlimits = [\"9/s\"]");
    let config = read(&text, &variables).expect("valid");
    let api = config.api("stock").expect("there");
    assert_eq!(api.timeouts.attempt, seconds(4));
    assert_eq!(rates(&api.rules.limits), ["7/s", "70/min"]);
    assert_eq!(api.rules.health.settings().p_throttle, Share::percent(30));
    assert_eq!(api.rules.health_scope, HealthScope::Group);
    assert_eq!(api.rules.groups.len(), 1, "spelled as the text spells it");
    assert_eq!(rates(&api.rules.groups[0].limits), ["2/s"]);
    assert_eq!(config.log.level, LogLevel::Trace);
    assert!(config.warnings.is_empty(), "{}", config.warnings);
}

#[test]
fn variables_alone_can_make_an_api() {
    let variables = [
        ("OUTFLOW_APIS__FILMS__PRESET", "tmdb"),
        ("OUTFLOW_APIS__FILMS__API_KEY_ENV", "TMDB_KEY"),
        ("TMDB_KEY", "abc"),
    ];
    let config = read("", &variables).expect("valid");
    assert_eq!(config.apis[0].name, "films");
    assert_eq!(rates(&config.apis[0].rules.limits), ["35/s", "50/s"]);
}

// The names and values are those that the first program of this kind had.
#[test]
fn the_older_operating_variables_still_govern_the_tmdb_preset() {
    let older = [
        ("ANIVAULT_RATE_BASE", "30.0"),
        ("ANIVAULT_BUCKET_CAP", "20"),
        ("ANIVAULT_CONCURRENCY", "3"),
        ("ANIVAULT_P_THROTTLE", "0.25"),
        ("ANIVAULT_P_RECOVER", "0.05"),
        ("ANIVAULT_N_THROTTLE", "4"),
        ("ANIVAULT_N_CACHEONLY", "6"),
        ("ANIVAULT_SLEEP_MIN", "3.0"),
        ("ANIVAULT_SLEEP_MAX", "200.5"),
        ("ANIVAULT_PROBE_SUCCESS", "7"),
        ("ANIVAULT_COOLDOWN_FACTOR", "3.0"),
    ];
    let text = format!("[apis.films]\npreset = \"tmdb\"\n{STOCK}");
    let config = read(&text, &older).expect("valid");
    let films = config.api("films").expect("there");
    assert_eq!(rates(&films.rules.limits), ["30/s", "50/s"]);
    assert_eq!(films.rules.limits[0].capacity(), 20);
    let settings = films.rules.health.settings();
    let expected = HealthSettings {
        concurrency: 3,
        p_throttle: Share::percent(25),
        p_recover: Share::percent(5),
        n_throttle: 4,
        n_cacheonly: 6,
        sleep_min: seconds(3),
        sleep_max: Duration::from_millis(200_500),
        probe_success: 7,
        cooldown_factor: outflow::core::Factor::percent(300),
        ..HealthSettings::ADAPTIVE
    };
    assert_eq!(*settings, expected);
    let other = config.api("stock").expect("there");
    assert_eq!(
        *other.rules.health.settings(),
        HealthSettings::ADAPTIVE,
        "no other API is meant"
    );
}

#[test]
fn an_operating_variable_means_the_only_api_and_the_newer_name_speaks_last() {
    let api = with(
        "",
        &[
            ("OUTFLOW_RATE_BASE", "12"),
            ("OUTFLOW_SLEEP_MIN", "4s"),
            ("OUTFLOW_RAMP_EVERY", "60"),
        ],
    );
    assert_eq!(rates(&api.rules.limits), ["12/s"]);
    assert_eq!(api.rules.health.settings().sleep_min, seconds(4));
    assert_eq!(api.rules.health.settings().ramp_every, seconds(60));
    let variables = [
        ("ANIVAULT_RATE_BASE", "30"),
        ("OUTFLOW_RATE_BASE", "20"),
        ("ANIVAULT_CONCURRENCY", "3"),
        ("OUTFLOW_CONCURRENCY", "5"),
        ("OUTFLOW_APIS__FILMS__CONCURRENCY", "6"),
    ];
    let config = read("[apis.films]\npreset = \"tmdb\"", &variables).expect("valid");
    assert_eq!(rates(&config.apis[0].rules.limits), ["20/s", "50/s"]);
    assert_eq!(config.apis[0].rules.health.settings().concurrency, 6);
}

#[test]
fn every_value_knows_where_it_came_from() {
    let text = "[apis.films]\npreset = \"tmdb\"\ntimeout = \"5s\"\n";
    let variables = [
        ("OUTFLOW_APIS__FILMS__MAX_WAIT", "9s"),
        ("ANIVAULT_SLEEP_MIN", "3"),
    ];
    let config = read(text, &variables).expect("valid");
    let origin = |key: &str| config.origins.of(key).map(ToString::to_string);
    let is = |text: &str| Some(text.to_owned());
    assert_eq!(origin("apis.films.timeout"), is("outflow.toml:3"));
    assert_eq!(origin("apis.films.preset"), is("outflow.toml:2"));
    assert_eq!(
        origin("apis.films.max_wait"),
        is("environment OUTFLOW_APIS__FILMS__MAX_WAIT")
    );
    assert_eq!(
        origin("apis.films.health.sleep_min"),
        is("environment ANIVAULT_SLEEP_MIN")
    );
    assert_eq!(origin("apis.films.health.sleep_max"), is("default"));
    assert_eq!(origin("log.level"), is("default"));
    let rate = origin("apis.films.rate_base").expect("known");
    assert!(rate.starts_with("preset tmdb:"), "{rate}");
    assert_eq!(origin("apis.films.nothing"), None);
    assert!(config.origins.iter().count() > 50);
}

#[test]
fn all_of_ten_mistakes_are_told_at_once() {
    let text = r#"
[apis.stock]
base_url = "stock.example"
timeout = 10
retry_count = -1
limits = ["10/fortnight", { rate = "5/s", kind = "buckett" }]
rate_limit_mode = "queue"
routes = [{ path = "orders", group = "nowhere" }]
[apis.stock.health]
sleep_min = "1h"
[log]
level = "loud"
"#;
    let mistakes = read(text, &[]).expect_err("ten mistakes");
    let lines: Vec<_> = mistakes.iter().map(|mistake| mistake.line).collect();
    assert_eq!(lines, [3, 4, 5, 6, 6, 7, 8, 8, 10, 12], "{mistakes}");
    let fixed = text.replace("= 10\n", "= \"10s\"\n").replace("-1", "1");
    let fewer = read(&fixed, &[]).expect_err("eight of them");
    assert_eq!(fewer.len(), 8);
}

#[test]
fn mistakes_are_values_and_json_and_coloured_text() {
    let mistakes = read(&format!("{STOCK}timeuot = \"5s\""), &[]).expect_err("one");
    let mistake = mistakes.iter().next().expect("one");
    assert_eq!((mistake.line, mistake.column), (3, 1));
    let json = serde_json::to_value(&mistakes).expect("plain data");
    let expected = serde_json::json!([{
        "severity": "error",
        "source": "outflow.toml",
        "line": 3,
        "column": 1,
        "key": "apis.stock.timeuot",
        "message": "unknown key `timeuot`",
        "help": "did you mean `timeout`?",
    }]);
    assert_eq!(json, expected);
    assert!(!mistakes.render(Style::Plain).contains('\u{1b}'));
    assert!(mistakes.render(Style::Coloured).contains('\u{1b}'));
}

// The key is put wherever a hurried person may put it; each text is wrong in that place or another.
#[test]
fn no_message_holds_a_key() {
    const CANARY: &str = "cAnArY-7f3a";
    let keys = [
        format!("api_key = \"{CANARY}\""),
        format!("api_key = {CANARY}"),
        format!("api_key = '''\n{CANARY}\n'''"),
        format!("api_key = [\"{CANARY}\"]"),
        format!("key = \"{CANARY}\""),
        format!("key = {{ token = \"{CANARY}\" }}"),
        format!("api_key_env = \"{CANARY}\""),
        format!("api_key_env = \"KEY\" # {CANARY}"),
        format!("token = \"{CANARY}\"\ntoken = \"{CANARY}\""),
        format!("proxy = \"http://u:{CANARY}@p.example\""),
        format!("apikey \"{CANARY}\""),
        format!("[apis.stock.auth]\npassword = \"{CANARY}"),
    ];
    for key in keys {
        let text = format!("{STOCK}{key}\n");
        let mistakes = read(&text, &[("KEY", CANARY)]);
        let told = match &mistakes {
            Ok(config) => format!("{config:?}{}", config.warnings),
            Err(mistakes) => {
                let json = serde_json::to_string(mistakes).expect("plain data");
                format!(
                    "{mistakes}{mistakes:?}{json}{}",
                    mistakes.render(Style::Coloured)
                )
            }
        };
        assert!(!told.contains(CANARY), "{key}:\n{told}");
    }
    let environment = Environment::from_iter([("KEY", CANARY)]);
    assert!(!format!("{environment:?}").contains(CANARY));
    let api = with("api_key_env = \"KEY\"", &[("KEY", CANARY)]);
    assert!(!format!("{api:?}").contains(CANARY));
    for name in [
        "OUTFLOW_APIS__STOCK__API_KEY",
        "OUTFLOW_APIS__STOCK__KEY",
        "OUTFLOW_APIS__STOCK__API_KEY_ENV",
    ] {
        let told = read(STOCK, &[(name, CANARY)])
            .expect_err("no place for a key")
            .to_string();
        assert!(!told.contains(CANARY), "{told}");
    }
}

#[test]
fn a_file_is_read_and_one_that_is_none_is_a_mistake() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("outflow.toml");
    let missing = Config::from_file(&path)
        .expect_err("not there yet")
        .to_string();
    assert!(missing.contains("cannot be read"), "{missing}");
    std::fs::write(&path, STOCK).expect("writable");
    assert_eq!(Config::from_file(&path).expect("valid").apis.len(), 1);
    std::fs::write(&path, b"a = \"\xff\"").expect("writable");
    let bytes = Config::from_file(&path).expect_err("not text").to_string();
    assert!(bytes.contains("byte 5 is not UTF-8"), "{bytes}");
}
