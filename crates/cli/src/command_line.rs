//! Reads the command line, runs one command and reports the one error that may come back.
//!
//! The commands are in `commands`, one file each. This module makes no decisions.

use std::fmt;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use outflow::config::Diagnostics;

use crate::commands::Command;
use crate::exit::Exit;
use crate::signals::survive_hangups;
use crate::terminal::{ColourChoice, Terminal, answer_json, say};

/// Outbound traffic control for rate-limited APIs.
///
/// State the limits of each provider once; every call then waits for its permit instead of being throttled.
#[derive(Parser)]
#[command(name = "outflow", version, after_help = EXITS, after_long_help = FIRST)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    command: Option<Command>,
    /// Colour messages: on a terminal unless `NO_COLOR` is set, always or never.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: ColourChoice,
}

/// Runs the command of the command line.
pub fn main() -> ExitCode {
    let prepared = prepare_signals();
    // Clap reports an invalid command line itself, with usage and exit code 2.
    let line = CommandLine::parse();
    let terminal = Terminal::new(line.color);
    let exit = prepared.and_then(|()| match line.command {
        Some(command) => command.run(terminal),
        None => help(),
    });
    let exit = exit.unwrap_or_else(|error| {
        let exit = report(&error, terminal);
        // A caller that parses JSON gets a document for errors, too.
        if std::env::args_os().any(|word| word == "--json") {
            // The exit code is enough if the output is closed.
            let _unread = answer_json(&document(&error, exit));
        }
        exit
    });
    exit.into()
}

/// Prepares for SIGHUP before anything else, in the commands that reload on it.
fn prepare_signals() -> anyhow::Result<()> {
    let mut words = std::env::args_os().skip(1).filter_map(|word| word.into_string().ok());
    // `--color` may come first, with its value.
    let is_command = |word: &String| !word.starts_with('-') && !["auto", "always", "never"].contains(&word.as_str());
    match words.find(is_command).as_deref() {
        Some("serve" | "dev") => survive_hangups(),
        _ => Ok(()),
    }
}

fn help() -> anyhow::Result<Exit> {
    CommandLine::command().print_long_help()?;
    Ok(Exit::Done)
}

/// Prints an error and its causes, outermost first.
fn report(error: &anyhow::Error, terminal: Terminal) -> Exit {
    if let Some(diagnostics) = error.downcast_ref::<Diagnostics>() {
        say!("{}", diagnostics.render(terminal.style));
        return Exit::Usage;
    }
    if let Some(wrong) = error.downcast_ref::<InvalidLines>() {
        wrong.lines.iter().for_each(|line| say!("{line}"));
    }
    say!("{} {error}", terminal.alarm("error:"));
    for cause in error.chain().skip(1) {
        say!("  because: {cause}");
    }
    if error.is::<UsageError>() || error.is::<InvalidLines>() {
        return Exit::Usage;
    }
    Exit::Failed
}

/// Returns an error as a document.
fn document(error: &anyhow::Error, exit: Exit) -> serde_json::Value {
    let lines = error.downcast_ref::<InvalidLines>();
    let lines = lines.into_iter().flat_map(|wrong| wrong.lines.clone());
    let causes = error.chain().skip(1).map(ToString::to_string);
    let causes: Vec<_> = lines.chain(causes).collect();
    serde_json::json!({
        "error": error.to_string(),
        "because": causes,
        "exit_code": exit.code(),
    })
}

/// Error in the arguments; a repetition fails again.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// Errors of the lines of a job file.
#[derive(Debug)]
pub(crate) struct InvalidLines {
    pub(crate) message: String,
    pub(crate) lines: Vec<String>,
}

impl fmt::Display for InvalidLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for InvalidLines {}

const EXITS: &str = "\
Exit codes: 0 done, 1 failed, 2 invalid command line or configuration, 3 some jobs failed,
4 and 5 the response's status with --check-status, 75 blocked by a limit or a state,
99 a goal was missed, 130 interrupted.";

const FIRST: &str = "\
To see it at work, without any configuration:  outflow dev
To use it with your own APIs:                  outflow init && outflow check && outflow serve

Exit codes: 0 done, 1 failed, 2 invalid command line or configuration, 3 some jobs failed,
4 and 5 the response's status with --check-status, 75 blocked by a limit or a state,
99 a goal was missed, 130 interrupted.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }

    // 2 is what shells and scripts expect of a usage error, apart from 1, a command that failed.
    #[test]
    fn an_unknown_command_is_a_usage_error() {
        let error = CommandLine::try_parse_from(["outflow", "no-such-command"]).err();
        assert_eq!(error.map(|error| error.exit_code()), Some(2));
    }

    #[test]
    fn no_command_prints_the_help() {
        let line = CommandLine::try_parse_from(["outflow"]).expect("a bare call is valid");
        assert!(line.command.is_none());
    }

    // The help of a command says its purpose, and the help of a flag its effect.
    #[test]
    fn every_command_and_every_flag_has_a_help_text() {
        fn check(command: &clap::Command) {
            let name = command.get_name();
            assert!(command.get_about().is_some(), "{name} has no help text");
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{name}: {}", argument.get_id());
            }
            command.get_subcommands().for_each(check);
        }
        check(&CommandLine::command());
    }
}
