//! `outflow check`.

use super::support::{RunOutput, command, configured, folder, run_in};

const GOOD: &str = "[apis.stock]\nbase_url = \"https://stock.example\"\nlimits = [\"10/s\"]\n";

#[test]
fn check_accepts_a_valid_file() {
    let folder = configured(GOOD);
    let ran = run_in(folder.path(), &["check"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.out, "outflow.toml: 1 API, 0 warnings\n");
    assert!(ran.talk.is_empty(), "{ran:?}");
}

#[test]
fn check_reports_every_error_with_its_line() {
    let folder = configured(&format!("{GOOD}timeuot = \"5s\"\nmax_wait = 30\n"));
    let ran = run_in(folder.path(), &["check"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.out.is_empty(), "an answer is there only for a good file: {ran:?}");
    for part in [
        "error: unknown key `timeuot`",
        "outflow.toml:4:1",
        "did you mean `timeout`?",
        "outflow.toml:5:12",
        "write \"30s\" for seconds",
        "2 errors and 0 warnings",
    ] {
        assert!(ran.talk.contains(part), "{part} in {}", ran.talk);
    }
    assert!(!ran.talk.contains('\u{1b}'), "no terminal, no colour");
    let coloured = run_in(folder.path(), &["check", "--color", "always"]);
    assert!(coloured.talk.contains('\u{1b}'), "{coloured:?}");
}

#[test]
fn later_files_override_earlier_ones() {
    let folder = configured(GOOD);
    let over = "[apis.stock]\nlimits = [\"20/s\"]\n";
    std::fs::write(folder.path().join("over.toml"), over).expect("writable");
    let both = run_in(folder.path(), &["check", "outflow.toml", "over.toml", "--json"]);
    assert_eq!(both.json(0)["files"].as_array().map(Vec::len), Some(2));
    let alone = run_in(folder.path(), &["check", "over.toml", "--json"]);
    assert_eq!(alone.json(2)["diagnostics"][0]["key"], "apis.stock.base_url");
}

#[test]
fn check_says_how_to_create_a_missing_file() {
    let ran = run_in(folder().path(), &["check"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.talk.contains("outflow init"), "{ran:?}");
    let document = run_in(folder().path(), &["check", "--json"]).json(2);
    assert_eq!(document["ok"], false);
    assert_eq!(document["diagnostics"][0]["source"], "outflow.toml");
}

// A first wait of 50 ms under a window of 1 s, a cap of 5 min above a `max_wait` of 30 s, and a log of ten
// million entries.
#[test]
fn check_warns_of_settings_that_contradict_each_other() {
    let text = GOOD.replace("10/s", "10000000/s") + "retry.backoff.base = \"50ms\"\nretry.backoff.cap = \"5m\"\n";
    let ran = run_in(configured(&text).path(), &["check", "--json"]);
    let document = ran.json(0);
    let keys: Vec<_> = document["advice"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| one["key"].as_str().expect("a key"))
        .collect();
    assert_eq!(
        keys,
        [
            "apis.stock.retry.backoff.base",
            "apis.stock.retry.backoff.cap",
            "apis.stock.limits"
        ]
    );
    let people = run_in(configured(&text).path(), &["check"]);
    assert!(people.out.ends_with("1 API, 3 warnings\n"), "{people:?}");
    assert!(people.talk.contains("--> outflow.toml:4"), "{people:?}");
}

// Four in flight are 500 a minute with calls of 480 ms, and 30 a second with calls of 133 ms. Sixteen reach 30 a
// second with calls of half a second, and four 20 a minute with calls of twelve seconds.
#[test]
fn check_warns_of_a_concurrency_that_keeps_limits_out_of_reach() {
    let advice = |limit: &str, concurrency: &str| {
        let text = GOOD.replace("10/s", limit) + &format!("concurrency = {concurrency}\n");
        run_in(configured(&text).path(), &["check", "--json"]).json(0)["advice"].clone()
    };
    let four = advice("500/min", "4");
    assert_eq!(four[0]["key"], "apis.stock.concurrency", "{four}");
    assert_eq!(
        four[0]["message"],
        "4 calls in flight reach the limit 500/min only if a call takes at most 480 ms"
    );
    assert_eq!(advice("30/s", "4")[0]["key"], "apis.stock.concurrency");
    for (limit, concurrency) in [("30/s", "16"), ("20/min", "4"), ("500/min", "\"auto\"")] {
        assert_eq!(
            advice(limit, concurrency),
            serde_json::json!([]),
            "{concurrency} at {limit}"
        );
    }
}

// The provider counts by key. A directory that other users may enter is refused at the start, with a warning.
#[test]
fn check_warns_of_limits_that_are_not_shared() {
    let api = |name: &str| {
        format!(
            "[apis.{name}]\nbase_url = \"https://api.example/{name}\"\nlimits = [\"10/s\"]\napi_key_env = \"KEY\"\n"
        )
    };
    let folder = configured(&(api("one") + &api("two") + "[shared]\ndir = \"outflow.toml\"\n"));
    let advice = || {
        let mut command = command(folder.path(), &["check", "--json"]);
        command.env("KEY", "a secret of the test");
        RunOutput::new(command.output().expect("it runs")).json(0)["advice"].clone()
    };
    let keys: Vec<_> = advice()
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| one["key"].clone())
        .collect();
    assert_eq!(keys, ["shared.dir", "apis.two.base_url"]);
}

#[test]
fn check_gives_no_advice_on_presets() {
    for preset in ["upbit", "github", "openai"] {
        let text = format!("[apis.stock]\npreset = \"{preset}\"\n");
        let ran = run_in(configured(&text).path(), &["check", "--json"]);
        assert_eq!(ran.json(0)["advice"], serde_json::json!([]), "{preset}");
    }
}

// On a full disk no message can be written; the exit code still reports the result.
#[test]
fn check_does_not_panic_without_stderr() {
    let folder = tempfile::tempdir().expect("a directory");
    let full = std::fs::File::options().write(true).open("/dev/full");
    let mut command = command(folder.path(), &["check", "missing.toml"]);
    let ended = command.stderr(full.expect("there is one")).status();
    assert_eq!(ended.expect("it runs").code(), Some(2));
}

// A base of 2 s under a window of 1 s, ten minutes of waiting for four attempts of 30 s, and ten snapshots a
// second for a day of a thousand tenants.
#[test]
fn check_warns_of_bulk_settings_that_do_not_fit() {
    let advice = |bulk: &str| -> Vec<String> {
        let text = format!("{GOOD}[bulk]\n{bulk}");
        let document = run_in(configured(&text).path(), &["check", "--json"]).json(0);
        let advice = document["advice"].as_array().expect("a list").iter();
        let key = |one: &serde_json::Value| one["key"].as_str().expect("a key").to_owned();
        advice.map(key).collect()
    };
    for (bulk, key) in [
        ("congestion.base_backoff = \"2s\"", "bulk.congestion.base_backoff"),
        ("congestion.max_backoff = \"10m\"", "bulk.congestion.max_backoff"),
        ("scheduler = \"backoff\"\ntimeout = \"5s\"", "bulk.scheduler"),
        (
            "congestion.stats_retention = \"1d\"\ncongestion.snapshot_interval = \"100ms\"",
            "bulk.congestion.stats_retention",
        ),
    ] {
        assert_eq!(advice(bulk), [key], "{bulk}");
    }
    for fitting in [
        "",
        "scheduler = \"backoff\"",
        "timeout = \"5s\"",
        "congestion = { base_backoff = \"1s\", max_backoff = \"2m\", stats_retention = \"1h\" }",
    ] {
        assert_eq!(advice(fitting), Vec::<String>::new(), "{fitting}");
    }
}

// The block of the guide without its variable was reported a second time, as if no address were named.
#[test]
fn check_reports_an_unset_address_of_redis_once() {
    let reported = |shared: &str| -> Vec<String> {
        let folder = configured(&format!("{GOOD}[shared]\nlimits = \"redis\"\n{shared}"));
        let mut command = command(folder.path(), &["check", "--json"]);
        command.env_remove("REDIS_URL");
        let document = RunOutput::new(command.output().expect("it runs")).json(2);
        let diagnostics = document["diagnostics"].as_array().expect("a list").iter();
        let key = |one: &serde_json::Value| one["key"].as_str().expect("a key").to_owned();
        diagnostics.map(key).collect()
    };
    assert_eq!(reported("redis.url_env = \"REDIS_URL\"\n"), ["shared.redis.url_env"]);
    assert_eq!(reported(""), ["shared.limits"]);
}
