//! How mistakes are told: all at once, in three forms, and never with a key in them.

use outflow::Api;
use outflow::config::{Config, Diagnostics, Environment, RenderStyle, Source};

const STOCK: &str = "[apis.stock]\nbase_url = \"https://stock.example\"\n";

fn read(text: &str, variables: &[(&str, &str)]) -> Result<Config, Diagnostics> {
    let environment: Environment = variables.iter().copied().collect();
    Config::read(&[Source::new("outflow.toml", text)], &environment)
}

fn with(more: &str, variables: &[(&str, &str)]) -> Api {
    let config = read(&format!("{STOCK}{more}"), variables);
    let config = config.expect("no mistake");
    config.apis.into_iter().next().expect("one API")
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
    assert!(!mistakes.render(RenderStyle::Plain).contains('\u{1b}'));
    assert!(mistakes.render(RenderStyle::Coloured).contains('\u{1b}'));
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
                    mistakes.render(RenderStyle::Coloured)
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
