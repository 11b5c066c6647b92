//! Diagnostics come all at once, in three forms, and never contain a key.

use outflow::Api;
use outflow::config::{Config, Diagnostics, Environment, RenderStyle, Source};

const STOCK: &str = "[apis.stock]\nbase_url = \"https://stock.example\"\n";

fn read(text: &str, variables: &[(&str, &str)]) -> Result<Config, Diagnostics> {
    let environment: Environment = variables.iter().copied().collect();
    Config::read(&[Source::new("outflow.toml", text)], &environment)
}

fn with(more: &str, variables: &[(&str, &str)]) -> Api {
    let config = read(&format!("{STOCK}{more}"), variables);
    let config = config.expect("no error");
    config.apis.into_iter().next().expect("one API")
}

#[test]
fn all_of_ten_errors_are_reported_at_once() {
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
    let diagnostics = read(text, &[]).expect_err("ten errors");
    let lines: Vec<_> = diagnostics.iter().map(|diagnostic| diagnostic.line).collect();
    assert_eq!(lines, [3, 4, 5, 6, 6, 7, 8, 8, 10, 12], "{diagnostics}");
    let fixed = text.replace("= 10\n", "= \"10s\"\n").replace("-1", "1");
    let fewer = read(&fixed, &[]).expect_err("eight of them");
    assert_eq!(fewer.len(), 8);
}

#[test]
fn diagnostics_are_values_json_and_coloured_text() {
    let diagnostics = read(&format!("{STOCK}timeuot = \"5s\""), &[]).expect_err("one");
    let diagnostic = diagnostics.iter().next().expect("one");
    assert_eq!((diagnostic.line, diagnostic.column), (3, 1));
    let json = serde_json::to_value(&diagnostics).expect("plain data");
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
    assert!(!diagnostics.render(RenderStyle::Plain).contains('\u{1b}'));
    assert!(diagnostics.render(RenderStyle::Coloured).contains('\u{1b}'));
}

// The key is in every place where a user may write it; each text has an error there or elsewhere.
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
        let diagnostics = read(&text, &[("KEY", CANARY)]);
        let shown = match &diagnostics {
            Ok(config) => format!("{config:?}{}", config.warnings),
            Err(diagnostics) => {
                let json = serde_json::to_string(diagnostics).expect("plain data");
                format!(
                    "{diagnostics}{diagnostics:?}{json}{}",
                    diagnostics.render(RenderStyle::Coloured)
                )
            }
        };
        assert!(!shown.contains(CANARY), "{key}:\n{shown}");
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
        let shown = read(STOCK, &[(name, CANARY)])
            .expect_err("no place for a key")
            .to_string();
        assert!(!shown.contains(CANARY), "{shown}");
    }
}

#[test]
fn a_missing_or_binary_file_is_a_diagnostic() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("outflow.toml");
    let missing = Config::from_file(&path).expect_err("not there yet").to_string();
    assert!(missing.contains("cannot be read"), "{missing}");
    std::fs::write(&path, STOCK).expect("writable");
    assert_eq!(Config::from_file(&path).expect("valid").apis.len(), 1);
    std::fs::write(&path, b"a = \"\xff\"").expect("writable");
    let bytes = Config::from_file(&path).expect_err("not text").to_string();
    assert!(bytes.contains("byte 5 is not UTF-8"), "{bytes}");
}

#[test]
fn unknown_sections_are_errors_and_the_programs_sections_are_ignored() {
    let shared = format!("{STOCK}[server]\nlisten = 7\nunknown = 1\n[admin]\n[bulk]\nlease = true\n");
    let config = read(&shared, &[]).expect("no error");
    assert!(config.warnings.is_empty(), "{}", config.warnings);
    let unknown = read(&format!("{STOCK}[serverr]\n"), &[]).expect_err("unknown");
    let text = unknown.to_string();
    assert!(text.contains("did you mean `server`?"), "{text}");
}
