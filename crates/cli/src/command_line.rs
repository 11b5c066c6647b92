//! Reads the command line, runs one command and reports the one error that may come back.
//!
//! What a command does is in `commands`, one file each; nothing is decided here.

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::commands::Command;
use crate::exit::Exit;

/// Outbound traffic control for rate-limited APIs.
#[derive(Parser)]
#[command(name = "outflow", version, after_help = EXITS)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    command: Option<Command>,
}

/// Runs the program as it was called.
pub fn main() -> ExitCode {
    // Clap answers a wrong command line itself, with its usage and exit code 2.
    let exit = run(CommandLine::parse()).unwrap_or_else(|error| {
        eprintln!("outflow: {error:#}");
        Exit::Failed
    });
    exit.into()
}

fn run(line: CommandLine) -> anyhow::Result<Exit> {
    match line.command {
        Some(command) => command.run(),
        None => {
            CommandLine::command().print_long_help()?;
            Ok(Exit::Done)
        }
    }
}

const EXITS: &str = "\
Exit codes: 0 done, 1 failed, 2 wrong command line or configuration, 3 some jobs failed,
4 and 5 the answer's status with --check-status, 75 blocked by a limit or a state,
99 a goal was missed, 130 interrupted.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_contradicts_itself_nowhere() {
        CommandLine::command().debug_assert();
    }

    // 2 is what shells and scripts expect of a usage error, apart from 1, a command that failed.
    #[test]
    fn an_unknown_command_is_a_usage_error() {
        let error = CommandLine::try_parse_from(["outflow", "no-such-command"]).err();
        assert_eq!(error.map(|error| error.exit_code()), Some(2));
    }

    #[test]
    fn no_command_at_all_is_answered_with_help() {
        let line = CommandLine::try_parse_from(["outflow"]).expect("a bare call is valid");
        assert!(line.command.is_none());
    }
}
