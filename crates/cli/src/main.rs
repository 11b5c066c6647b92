//! The program: commands, sidecar, admin API, dashboard, config files, environment.
//!
//! `main` reads the command line, runs one command and reports the one error that may come back.
//! What a command does is in `commands`, one file each; nothing is decided here.
//!
//! Exit codes: 0 done, 1 the command failed, 2 the command line was wrong.

mod commands;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use commands::Command;

/// Outbound traffic control for rate-limited APIs.
#[derive(Parser)]
#[command(name = "outflow", version)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

fn main() -> ExitCode {
    // Clap answers a wrong command line itself, with its usage and exit code 2.
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("outflow: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<()> {
    match cli.command {
        Some(command) => command.run(),
        None => Ok(Cli::command().print_long_help()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_contradicts_itself_nowhere() {
        Cli::command().debug_assert();
    }

    // 2 is what shells and scripts expect of a usage error, apart from 1, a command that failed.
    #[test]
    fn an_unknown_command_is_a_usage_error() {
        let error = Cli::try_parse_from(["outflow", "no-such-command"]).err();
        assert_eq!(error.map(|error| error.exit_code()), Some(2));
    }

    #[test]
    fn no_command_at_all_is_answered_with_help() {
        let cli = Cli::try_parse_from(["outflow"]).expect("a bare call is valid");
        assert!(cli.command.is_none());
    }
}
