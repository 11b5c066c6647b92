//! `outflow check`: reports all errors of a configuration, and sends nothing.

mod advice;

use std::path::PathBuf;

use clap::Args;
use outflow::config::{DiagnosticSeverity, Diagnostics};
use serde_json::json;

use self::advice::ConfigAdvice;
use super::config_args::{existing_sources, sources_of};
use crate::config::ProgramConfig;
use crate::config_sources::ConfigSources;
use crate::exit::Exit;
use crate::terminal::{Terminal, answer, answer_json, count, say};

/// Check a configuration: report all errors at once, with line and correction.
#[derive(Args)]
pub(crate) struct CheckCommand {
    /// Check these files, where later ones override earlier ones; by default `outflow.toml`.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

impl CheckCommand {
    /// Reads the configuration and prints all diagnostics.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Exit> {
        // A caller that parses JSON gets a document for a missing file, too.
        let sources = if self.json {
            sources_of(self.files)
        } else {
            existing_sources(self.files)?
        };
        let read = sources.read();
        let exit = if read.is_ok() { Exit::Done } else { Exit::Usage };
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
    let diagnostics = diagnostics(read);
    if !diagnostics.is_empty() {
        say!("{}\n", diagnostics.render(terminal.style));
    }
    let (errors, warnings) = counts(diagnostics);
    let Ok(config) = read else {
        say!(
            "{} and {}: the program would not start",
            count(errors, "error", "errors"),
            count(warnings, "warning", "warnings")
        );
        return Ok(());
    };
    let advice = advice::find_advice(config);
    for one in &advice {
        say!("{one}\n");
    }
    let files: Vec<_> = sources.files().map(|file| file.display().to_string()).collect();
    let warnings = warnings + advice.len();
    answer(&format!(
        "{}: {}, {}\n",
        files.join(", "),
        count(config.client.apis.len(), "API", "APIs"),
        count(warnings, "warning", "warnings")
    ))
}

fn print_json(sources: &ConfigSources, read: &Result<ProgramConfig, Diagnostics>) -> anyhow::Result<()> {
    let diagnostics = diagnostics(read);
    let (errors, warnings) = counts(diagnostics);
    let advice: Vec<ConfigAdvice> = read.as_ref().map(advice::find_advice).unwrap_or_default();
    let files: Vec<_> = sources.files().map(|file| file.display().to_string()).collect();
    answer_json(&json!({
        "ok": read.is_ok(),
        "files": files,
        "errors": errors,
        "warnings": warnings,
        "diagnostics": diagnostics,
        "advice": advice,
    }))
}

fn diagnostics(read: &Result<ProgramConfig, Diagnostics>) -> &Diagnostics {
    match read {
        Ok(config) => &config.client.warnings,
        Err(diagnostics) => diagnostics,
    }
}

fn counts(diagnostics: &Diagnostics) -> (usize, usize) {
    let errors = diagnostics
        .iter()
        .filter(|one| one.severity == DiagnosticSeverity::Error);
    let errors = errors.count();
    (errors, diagnostics.len() - errors)
}
