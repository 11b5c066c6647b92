//! Every error of a configuration and its exact message.
//!
//! The cases are in `config/diagnostics/*.txt`: a text, and below it the expected messages. They are
//! separate from the code because users read them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use outflow::config::{Config, Environment, Source};

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
