//! The project's own commands, so that a newcomer needs to know none of the tools behind them.
//!
//! A Rust program rather than a set of scripts: it runs wherever the project builds, and its rules
//! are tested like the rest. It decides nothing about the product and is never shipped.

mod bench;
mod ci;
mod command;
mod fuzz;
mod mutants;
mod needs;
mod soak;
mod stopwatch;
mod test;
mod tidy;

use std::process::ExitCode;

use lexopt::Parser;
use lexopt::prelude::*;

fn main() -> ExitCode {
    match run(Parser::from_env()) {
        Ok(()) => ExitCode::SUCCESS,
        // The parser's error is its own source, and would be told twice.
        Err(error) if error.is::<lexopt::Error>() => {
            eprintln!("xtask: {error}");
            ExitCode::from(USAGE_ERROR)
        }
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut args: Parser) -> anyhow::Result<()> {
    let Some(arg) = args.next()? else {
        print!("{HELP}");
        return Ok(());
    };
    let Value(name) = arg else {
        return match arg {
            Short('h') | Long("help") => {
                print!("{HELP}");
                Ok(())
            }
            other => Err(other.unexpected().into()),
        };
    };
    match name.to_str() {
        Some(name) if COMMANDS.contains(&name) && asks_for_help(&mut args) => {
            print!("{HELP}");
            Ok(())
        }
        Some("test") => test::run(&test::Options::parse(args)?),
        Some("bench") => bench::run(&bench::Options::parse(args)?),
        Some("soak") => soak::run(&soak::Options::parse(args)?),
        Some("ci") => nothing_more(args).and_then(|()| ci::run()),
        Some("tidy") => nothing_more(args).and_then(|()| tidy::run()),
        Some("mutants") => mutants::run(&mutants::Options::parse(args)?),
        Some("fuzz") => fuzz::run(&fuzz::Options::parse(args)?),
        _ => Err(lexopt::Error::from(format!(
            "no command {}: use one of {}",
            name.display(),
            COMMANDS.join(", ")
        ))
        .into()),
    }
}

/// Anywhere among the arguments, for whoever asks wants to read before anything runs. Behind `--`
/// they belong to another program.
fn asks_for_help(args: &mut Parser) -> bool {
    args.try_raw_args().is_some_and(|raw| {
        let mut own = raw.as_slice().iter().take_while(|arg| *arg != "--");
        own.any(|arg| arg == "--help" || arg == "-h")
    })
}

/// For a command without options: refuses an argument rather than ignoring it.
fn nothing_more(mut args: Parser) -> anyhow::Result<()> {
    match args.next()? {
        None => Ok(()),
        Some(arg) => Err(arg.unexpected().into()),
    }
}

/// What shells and scripts expect of a command line that is wrong.
const USAGE_ERROR: u8 = 2;

const COMMANDS: [&str; 7] = ["test", "bench", "soak", "ci", "tidy", "mutants", "fuzz"];

const HELP: &str = "\
cargo xtask COMMAND

  test [--stress] [FILTER...]     install what the tests need and run them all, or those named
  bench NAME [--json] [--quick] [--scale N]
                                  measure against the peers; bulk N times as fast
  soak [--for 3h] [--rate 200] [--json]
                                  load the program for hours and see that nothing grows
  ci                              everything that must hold before a change lands
  tidy                            the rules of the house that no compiler checks
  mutants [ARG...]                break the code on purpose and see that a test notices
  fuzz [TARGET] [--seconds N]     throw random bytes at the parsers (needs a nightly toolchain)

--help or -h after any command prints this and runs nothing.
";

#[cfg(test)]
mod tests {
    use super::*;

    // Also behind another argument: nobody who asks wants the command run.
    #[test]
    fn every_command_answers_a_call_for_help() {
        for name in COMMANDS {
            assert!(HELP.contains(&format!("\n  {name} ")), "{name}");
            for words in [&[name, "--help"][..], &[name, "-h"], &[name, "x", "--help"]] {
                assert!(run(Parser::from_args(words)).is_ok(), "{words:?}");
            }
        }
        let mut passed_on = Parser::from_args(["--", "--help"]);
        assert!(!asks_for_help(&mut passed_on));
        assert!(run(Parser::from_args(["tst", "--help"])).is_err());
    }

    // A flag that is ignored is a check that somebody believes was made.
    #[test]
    fn what_is_not_understood_is_a_usage_error() {
        for words in [
            &["tst"][..],
            &["ci", "--fast"],
            &["tidy", "core"],
            &["--version"],
        ] {
            let error = run(Parser::from_args(words)).expect_err("not understood");
            assert!(error.is::<lexopt::Error>(), "{words:?}: {error}");
        }
    }
}
