//! Broken configurations and the diagnostic for each: the line, the key, the message.
//!
//! The cases are in `diagnostics/*.txt`: `=== name`, lines of `env NAME=VALUE`, the text, a line of `---`,
//! and a line of `source:line | key | message` for each diagnostic.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::support::{RunOutput, command, folder};

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program/commands/diagnostics");
    let entries = std::fs::read_dir(folder).expect("the folder");
    entries.map(|entry| entry.expect("a file").path()).collect()
}

fn diagnose(given: &str) -> String {
    let folder = folder();
    let (variables, text): (Vec<_>, Vec<_>) = given.lines().partition(|line| line.starts_with("env "));
    let file = folder.path().join("outflow.toml");
    std::fs::write(file, text.join("\n") + "\n").expect("writable");
    let mut command = command(folder.path(), &["check", "--json"]);
    command.env("HOME", "a-harmless-value");
    for variable in variables {
        let (name, value) = variable[4..].split_once('=').expect("a variable");
        command.env(name, value);
    }
    let document = RunOutput::new(command.output().expect("it starts")).json(2);
    assert_eq!(document["ok"], false);
    let diagnostics = document["diagnostics"].as_array().expect("a list");
    let errors = diagnostics.iter().filter(|one| one["severity"] == "error");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let line = |one: &Value| {
        let [source, key, message] = ["source", "key", "message"].map(|name| text(&one[name]));
        format!("{source}:{} | {key} | {message}", one["line"])
    };
    errors.map(line).collect::<Vec<_>>().join("\n")
}

// Each case expects its diagnostics at their lines, under their keys.
#[test]
fn check_reports_the_errors_of_a_hundred_broken_files() {
    let (mut failures, mut count) = (String::new(), 0);
    for file in files() {
        let cases = std::fs::read_to_string(&file).expect("readable");
        for case in cases.split("=== ").filter(|case| !case.is_empty()) {
            let (name, rest) = case.split_once('\n').expect("a name");
            let (given, expected) = rest.split_once("---\n").expect("an expectation");
            let (expected, reported) = (expected.trim_end(), diagnose(given));
            count += 1;
            if reported != expected {
                let _ = writeln!(failures, "{name}\nexpected\n{expected}\nreported\n{reported}\n");
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
    assert!(count >= 100, "{count} cases were found");
}
