//! Every mistake that a configuration can make, and what is said about it, word for word.
//!
//! The cases are in `config/mistakes/*.txt`: a text, and below it what is expected. They are kept apart
//! from the code because they are what people will read.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use outflow::config::{Config, Environment, Source};

/// One case: `=== name`, lines of `env NAME=VALUE`, the text, a line of `---`, what is expected.
struct Case<'a> {
    name: &'a str,
    given: &'a str,
    expected: &'a str,
}

fn cases(file: &str) -> Vec<Case<'_>> {
    let written = file.split("=== ").filter(|case| !case.is_empty());
    let case = |case| {
        let (name, rest) = str::split_once(case, '\n').expect("a name");
        let (given, expected) = rest.split_once("---\n").expect("an expectation");
        Case {
            name,
            given,
            expected: expected.trim_end(),
        }
    };
    written.map(case).collect()
}

fn told(given: &str) -> String {
    let variable = |line: &str| {
        let (name, value) = line.strip_prefix("env ")?.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    let environment: Environment = given.lines().filter_map(variable).collect();
    let text: Vec<_> = given
        .lines()
        .filter(|line| !line.starts_with("env "))
        .collect();
    let source = Source::new("outflow.toml", text.join("\n") + "\n");
    let told = match Config::read(&[source], &environment) {
        Ok(config) => config.warnings.to_string(),
        Err(mistakes) => mistakes.to_string(),
    };
    told.trim_end().to_owned()
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/client/config/diagnostics");
    let entries = std::fs::read_dir(folder).expect("the folder");
    entries.map(|entry| entry.expect("a file").path()).collect()
}

// With `EXPECT=write` the files are written anew, to be read by a person before they are kept.
#[test]
fn every_mistake_is_told_in_these_words() {
    let (mut failures, mut count) = (String::new(), 0);
    for file in files() {
        let text = std::fs::read_to_string(&file).expect("readable");
        let mut written = Vec::new();
        for Case {
            name,
            given,
            expected,
        } in cases(&text)
        {
            let told = told(given);
            written.push(format!("=== {name}\n{given}---\n{told}\n"));
            if told != expected {
                let _ = writeln!(failures, "{name}\nexpected\n{expected}\ntold\n{told}\n");
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
