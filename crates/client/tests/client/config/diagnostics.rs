//! Every error of a configuration and its exact message.
//!
//! The cases are in `config/diagnostics/*.txt`: a text, and below it the expected messages. They are
//! separate from the code because users read them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use outflow::config::{Config, Environment, Source, show_value};

/// One case: `=== name`, lines of `env NAME=VALUE`, the text, a line of `---`, the expectation.
struct DiagnosticCase<'a> {
    name: &'a str,
    given: &'a str,
    expected: &'a str,
}

fn cases(file: &str) -> Vec<DiagnosticCase<'_>> {
    let written = file.split("=== ").filter(|case| !case.is_empty());
    let case = |case| {
        let (name, rest) = str::split_once(case, '\n').expect("a name");
        let (given, expected) = rest.split_once("---\n").expect("an expectation");
        DiagnosticCase {
            name,
            given,
            expected: expected.trim_end(),
        }
    };
    written.map(case).collect()
}

fn render(given: &str) -> String {
    let variable = |line: &str| {
        let (name, value) = line.strip_prefix("env ")?.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    let environment: Environment = given.lines().filter_map(variable).collect();
    let text: Vec<_> = given.lines().filter(|line| !line.starts_with("env ")).collect();
    let source = Source::new("outflow.toml", text.join("\n") + "\n");
    let rendered = match Config::read(&[source], &environment) {
        Ok(config) => config.warnings.to_string(),
        Err(diagnostics) => diagnostics.to_string(),
    };
    rendered.trim_end().to_owned()
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/client/config/diagnostics");
    let entries = std::fs::read_dir(folder).expect("the folder");
    entries.map(|entry| entry.expect("a file").path()).collect()
}

// With `EXPECT=write` the test writes the files, for review before they are committed.
#[test]
fn every_error_has_exactly_this_message() {
    let (mut failures, mut count) = (String::new(), 0);
    for file in files() {
        let text = std::fs::read_to_string(&file).expect("readable");
        let mut written = Vec::new();
        for DiagnosticCase { name, given, expected } in cases(&text) {
            let rendered = render(given);
            written.push(format!("=== {name}\n{given}---\n{rendered}\n"));
            if rendered != expected {
                let _ = writeln!(failures, "{name}\nexpected\n{expected}\ngot\n{rendered}\n");
            }
        }
        count += written.len();
        if std::env::var_os("EXPECT").is_some() {
            std::fs::write(&file, written.join("\n")).expect("writable");
        }
    }
    assert!(failures.is_empty(), "{failures}");
    assert!(count >= 160, "{count} cases were found");
}

// A word and a number have no form of a secret. Each text is an API's, and has an error at the secret or beside it.
#[test]
fn no_message_quotes_a_header_or_the_value_of_an_unknown_key() {
    for text in [
        "headers = { \"X Foo\" = \"CANARY\" }",
        "headers = { Host = \"CANARY\" }",
        "headers = { X-Foo = { value = \"CANARY\" } }",
        "headers = { X-K = CANARY }",
        "headers = { Anthropic-Version = 2023, X-K = \"CANARY\" }",
        "header = { X-Foo = \"CANARY\" }",
        "[apis]\nx = { base_url = \"http://h\", timeoutt = \"5s\", headers = { X-Foo = \"CANARY\" } }",
        "[apis.shop.headers]\nX-Foo = CANARY",
        "[apis.shop.headers]\n\"X Foo\" = \"CANARY\"",
        "api_key =\n\"CANARY\"",
        "api_key =\nCANARY",
        "api_key =\n[CANARY]",
        "value = \"CANARY\"",
        "pin = \"CANARY\"",
        "pin = CANARY",
        "account = \"CANARY\"",
        "client_id = CANARY",
        "webhook = \"CANARY\"",
        "webhook = { url = \"CANARY\" }",
        "level = \"CANARY\"",
        "retry = { backoff = { dir = \"CANARY\", path = [\"CANARY\"] } }",
    ] {
        for secret in ["tulipgarden", "8675309123456"] {
            let text = text.replace("CANARY", secret);
            let shown = render(&format!("[apis.shop]\nbase_url = \"https://shop.example\"\n{text}"));
            assert!(shown.contains("outflow.toml:"), "{text}");
            assert!(!shown.contains(secret), "{shown}");
        }
    }
    for text in [
        "headers.8675309123456.x = 1\nheaders.8675309123456 = 2",
        "[apis.shop.8675309123456]",
        "8675309123456 = 1",
    ] {
        let shown = render(&format!("[apis.shop]\nbase_url = \"https://shop.example\"\n{text}"));
        assert!(
            shown.contains("outflow.toml:") && !shown.contains("8675309123456"),
            "{shown}"
        );
    }
}

// The file documents every key. A key that messages do not know would hide its wrong value from its user.
#[test]
fn messages_quote_a_plain_value_of_every_documented_key() {
    let assigned = DEFAULTS
        .lines()
        .filter_map(|line| line.trim_start_matches('#').split_once(" = "));
    let is_key = |name: &&str| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    let keys: Vec<_> = assigned.map(|(name, _)| name).filter(is_key).collect();
    assert!(keys.len() > 100, "{keys:?}");
    for key in keys {
        let holds_secret = ["key", "headers"].contains(&key) || key.ends_with("_env") || key.ends_with("_file");
        let shown = show_value(key, "soon");
        assert_eq!(shown == "soon", !holds_secret, "{key}");
    }
}

const DEFAULTS: &str = include_str!("../../../config.default.toml");
