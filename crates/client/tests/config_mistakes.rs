//! Every mistake that a configuration can make, and what is said about it, word for word.
//!
//! The cases are in `config/mistakes/*.txt`: a text, and below it what is expected. They are kept apart
//! from the code because they are what people will read.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use outflow::config::{Config, Environment, Source};

struct Case {
    name: String,
    environment: Vec<(String, String)>,
    text: String,
    expected: String,
}

/// Reads cases of the form `=== name`, lines `env NAME=VALUE`, the text, `--- ` and what is expected.
fn cases(file: &Path) -> Vec<Case> {
    let all = std::fs::read_to_string(file).expect("readable");
    all.split("=== ")
        .filter(|case| !case.trim().is_empty())
        .map(|case| {
            let (name, rest) = case.split_once('\n').expect("a name");
            let (given, expected) = rest.split_once("---\n").expect("an expectation");
            let (variables, lines): (Vec<_>, Vec<_>) =
                given.lines().partition(|line| line.starts_with("env "));
            let variable = |line: &&str| {
                let (name, value) = line["env ".len()..].split_once('=').expect("a value");
                (name.to_owned(), value.to_owned())
            };
            Case {
                name: name.trim().to_owned(),
                environment: variables.iter().map(variable).collect(),
                text: lines.join("\n") + "\n",
                expected: expected.trim_end().to_owned(),
            }
        })
        .collect()
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config/mistakes");
    let entries = std::fs::read_dir(folder).expect("the folder");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    files
}

fn told(case: &Case) -> String {
    let environment = Environment::from_iter(case.environment.clone());
    let source = Source::new("outflow.toml", case.text.as_str());
    match Config::read(&[source], &environment) {
        Ok(config) => config.warnings.to_string(),
        Err(mistakes) => mistakes.to_string(),
    }
}

// With `EXPECT=write` the files are written anew, to be read by a person and not by a program.
#[test]
fn every_mistake_is_told_in_these_words() {
    let mut failures = String::new();
    let mut count = 0;
    for file in files() {
        let mut written = String::new();
        for case in cases(&file) {
            count += 1;
            let told = told(&case);
            if told.trim_end() != case.expected {
                let name = &case.name;
                let _ = writeln!(
                    failures,
                    "{name}\nexpected\n{}\ntold\n{told}\n",
                    case.expected
                );
            }
            let environment: String = case
                .environment
                .iter()
                .map(|(name, value)| format!("env {name}={value}\n"))
                .collect();
            let _ = writeln!(
                written,
                "=== {}\n{environment}{}\n---\n{}\n",
                case.name,
                case.text.trim_end(),
                told.trim_end()
            );
        }
        if std::env::var_os("EXPECT").is_some() {
            std::fs::write(&file, written.trim_end().to_owned() + "\n").expect("writable");
        }
    }
    assert!(failures.is_empty(), "{failures}");
    assert!(count >= 60, "{count} cases");
}
