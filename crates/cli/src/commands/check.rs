//! `outflow check`: says everything that is wrong with a configuration, and sends nothing.

mod advice;

use std::path::PathBuf;

use clap::Args;
use outflow::config::{DiagnosticSeverity, Diagnostics};
use serde_json::json;

use self::advice::ConfigAdvice;
use super::config_args::{found, named};
use crate::config::ProgramConfig;
use crate::config_sources::ConfigSources;
use crate::exit::Exit;
use crate::terminal::{Terminal, answer, answer_json, say};

/// Checks a configuration: every mistake at once, with its line and what to write instead.
#[derive(Args)]
pub(crate) struct Check {
    /// The files, later ones over earlier ones; `outflow.toml` if none is named.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

impl Check {
    /// Reads and judges.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Exit> {
        // A program reads a document, also about a file that is not there.
        let sources = if self.json {
            named(self.files)
        } else {
            found(self.files)?
        };
        let read = sources.read();
        let exit = if read.is_ok() {
            Exit::Done
        } else {
            Exit::Usage
        };
        if self.json {
            print_json(&sources, &read)?;
        } else {
            print_report(&sources, &read, terminal)?;
        }
        Ok(exit)
    }
}

fn print_report(
    sources: &ConfigSources,
    read: &Result<ProgramConfig, Diagnostics>,
    terminal: Terminal,
) -> anyhow::Result<()> {
    let mistakes = diagnostics(read);
    if !mistakes.is_empty() {
        say!("{}\n", mistakes.render(terminal.style()));
    }
    let (errors, warnings) = counts(mistakes);
    let Ok(config) = read else {
        say!(
            "{} and {}: nothing would be started",
            some(errors, "mistake"),
            some(warnings, "warning")
        );
        return Ok(());
    };
    let advice = advice::advice(config);
    for one in &advice {
        say!("{one}\n");
    }
    let files: Vec<_> = sources
        .files()
        .map(|file| file.display().to_string())
        .collect();
    let warnings = warnings + advice.len();
    answer(&format!(
        "{}: {}, {}\n",
        files.join(", "),
        some(config.client.apis.len(), "API"),
        some(warnings, "warning")
    ))
}

fn print_json(
    sources: &ConfigSources,
    read: &Result<ProgramConfig, Diagnostics>,
) -> anyhow::Result<()> {
    let mistakes = diagnostics(read);
    let (errors, warnings) = counts(mistakes);
    let advice: Vec<ConfigAdvice> = read.as_ref().map(advice::advice).unwrap_or_default();
    let files: Vec<_> = sources
        .files()
        .map(|file| file.display().to_string())
        .collect();
    answer_json(&json!({
        "ok": read.is_ok(),
        "files": files,
        "errors": errors,
        "warnings": warnings,
        "mistakes": mistakes,
        "advice": advice,
    }))
}

fn diagnostics(read: &Result<ProgramConfig, Diagnostics>) -> &Diagnostics {
    match read {
        Ok(config) => &config.client.warnings,
        Err(mistakes) => mistakes,
    }
}

fn counts(mistakes: &Diagnostics) -> (usize, usize) {
    let errors = mistakes
        .iter()
        .filter(|one| one.severity == DiagnosticSeverity::Error);
    let errors = errors.count();
    (errors, mistakes.len() - errors)
}

fn some(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}
