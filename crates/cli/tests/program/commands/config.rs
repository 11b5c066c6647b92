//! `outflow config show` and `default`.

use serde_json::Value;

use super::support::{RunOutput, command, configured, run, run_in};

const TEXT: &str = "\
[server]
listen = \":7080\"

[apis.quotes]
preset = \"upbit\"
timeout = \"7s\"

[apis.shop]
base_url = \"https://shop.example\"
api_key_env = \"SHOP_KEY\"
rate_limit_per_sec = 3
";

fn shown(flags: &[&str]) -> RunOutput {
    let folder = configured(TEXT);
    let mut arguments = vec!["config", "show"];
    arguments.extend_from_slice(flags);
    let output = command(folder.path(), &arguments)
        .env("SHOP_KEY", "sk-canary-1234567890")
        .env("OUTFLOW_APIS__SHOP__TIMEOUT", "9s")
        .output();
    RunOutput::new(output.expect("it starts"))
}

#[test]
fn config_show_prints_every_value_with_its_origin() {
    let document = shown(&["--json"]).json(0);
    let values = document["values"].as_array().expect("a list");
    let of = |key: &str| -> [&Value; 3] {
        let one = values.iter().find(|one| one["key"] == key);
        let one = one.unwrap_or_else(|| panic!("{key} is not shown"));
        [&one["value"], &one["origin"], &one["from"]]
    };
    for (key, expected) in [
        ("server.listen", ["\":7080\"", "file", "outflow.toml:2"]),
        ("server.grace", ["\"30s\"", "default", "default"]),
        ("apis.quotes.timeout", ["\"7s\"", "file", "outflow.toml:6"]),
        (
            "apis.shop.timeout",
            ["\"9s\"", "environment", "environment OUTFLOW_APIS__SHOP__TIMEOUT"],
        ),
        ("apis.shop.api_key_env", ["\"SHOP_KEY\"", "file", "outflow.toml:10"]),
        ("apis.shop.retry_count", ["2", "default", "default"]),
        // This default depends on other keys: no attempt connects for longer than it lasts.
        ("apis.quotes.connect_timeout", ["\"3000ms\"", "default", "default"]),
        // `rate_limit_per_sec` sets the groups only, so the default of five a second does not apply.
        ("apis.quotes.limits", ["[]", "default", "default"]),
    ] {
        assert_eq!(of(key), expected, "{key}");
    }
    assert_eq!(of("apis.shop.limits")[0], &Value::Null);
    let candle = of("apis.quotes.groups.candle.limits");
    assert_eq!([candle[0], candle[1]], ["[\"10/s\"]", "preset"]);
    let from = candle[2].as_str().expect("a text");
    assert!(from.starts_with("preset upbit:"), "{from}");
}

#[test]
fn config_show_prints_one_line_for_each_value_and_no_secret() {
    let with = shown(&["--sources"]);
    assert_eq!(with.code, Some(0), "{with:?}");
    let line = |key: &str| with.out.lines().find(|line| line.starts_with(key));
    let grace = line("server.grace = ").expect("shown");
    assert!(
        grace.starts_with("server.grace = \"30s\" ") && grace.ends_with("# default"),
        "{grace}"
    );
    assert!(!with.out.contains("canary"), "{}", with.out);
    let without = shown(&[]);
    assert!(without.out.contains("\nserver.listen = \":7080\"\n"), "{without:?}");
}

// The output is a configuration with the same values.
#[test]
fn config_show_prints_a_valid_configuration() {
    let first = shown(&[]).out;
    let folder = configured(&first);
    let output = command(folder.path(), &["config", "show"])
        .env("SHOP_KEY", "sk-canary-1234567890")
        .output();
    let second = RunOutput::new(output.expect("it starts"));
    assert_eq!(second.code, Some(0), "{second:?}");
    assert_eq!(second.out, first);
}

#[test]
fn config_show_reports_an_invalid_file_as_check_does() {
    let ran = run_in(configured("[apis.a]\n").path(), &["config", "show"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.talk.contains("this API has no `base_url`"), "{ran:?}");
}

#[test]
fn the_default_file_is_valid() {
    let default = run(&["config", "default"]);
    let ran = run_in(configured(&default.out).path(), &["check"]);
    assert_eq!(ran.out, "outflow.toml: 1 API, 0 warnings\n", "{ran:?}");
}
