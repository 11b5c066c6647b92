//! Broken configurations, and what is said about each: the line, the key, the message.
//!
//! The cases are in `diagnostics/*.txt`: `=== name`, lines of `env NAME=VALUE`, the text, a line of `---`,
//! and a line of `source:line | key | message` for each mistake.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::support::{Ran, command, folder};

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program/commands/diagnostics");
    let entries = std::fs::read_dir(folder).expect("the folder");
    entries.map(|entry| entry.expect("a file").path()).collect()
}

fn told(given: &str) -> String {
    let folder = folder();
    let (variables, text): (Vec<_>, Vec<_>) =
        given.lines().partition(|line| line.starts_with("env "));
    let file = folder.path().join("outflow.toml");
    std::fs::write(file, text.join("\n") + "\n").expect("writable");
    let mut command = command(folder.path(), &["check", "--json"]);
    command.env("HOME", "a-harmless-value");
    for variable in variables {
        let (name, value) = variable[4..].split_once('=').expect("a variable");
        command.env(name, value);
    }
    let document = Ran::of(command.output().expect("it starts")).json(2);
    assert_eq!(document["ok"], false);
    let mistakes = document["diagnostics"].as_array().expect("a list");
    let errors = mistakes.iter().filter(|one| one["severity"] == "error");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let line = |one: &Value| {
        let [source, key, message] = ["source", "key", "message"].map(|name| text(&one[name]));
        format!("{source}:{} | {key} | {message}", one["line"])
    };
    errors.map(line).collect::<Vec<_>>().join("\n")
}

// A hundred mistakes that people make, and more: each is told at its line, under its key.
#[test]
fn a_hundred_broken_files_are_each_told_what_is_wrong() {
    let (mut failures, mut count) = (String::new(), 0);
    for file in files() {
        let cases = std::fs::read_to_string(&file).expect("readable");
        for case in cases.split("=== ").filter(|case| !case.is_empty()) {
            let (name, rest) = case.split_once('\n').expect("a name");
            let (given, expected) = rest.split_once("---\n").expect("an expectation");
            let (expected, told) = (expected.trim_end(), told(given));
            count += 1;
            if told != expected {
                let _ = writeln!(failures, "{name}\nexpected\n{expected}\ntold\n{told}\n");
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
    assert!(count >= 100, "{count} cases were found");
}
