//! Commands of the project, so that a newcomer needs no knowledge of the tools behind them.
//!
//! The task runner is a Rust program instead of scripts: it runs wherever the project builds, and its
//! rules have tests. It contains no product code and is never shipped.

mod bench;
mod ci;
mod command;
mod dist;
mod fuzz;
mod metadata;
mod mutants;
mod soak;
mod stopwatch;
mod test;
mod tidy;
mod tools;

use std::process::ExitCode;

use lexopt::Parser;
use lexopt::prelude::*;

use bench::BenchOptions;
use ci::CiOptions;
use fuzz::FuzzOptions;
use mutants::MutantsOptions;
use soak::SoakOptions;
use test::TestOptions;

fn main() -> ExitCode {
    match run(Parser::from_env()) {
        Ok(()) => ExitCode::SUCCESS,
        // The parser's error is its own source; the alternate format would print it twice.
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
    let name = name.string()?;
    if COMMANDS.contains(&name.as_str()) && has_help_flag(&mut args) {
        print!("{HELP}");
        return Ok(());
    }
    run_command(&name, args)
}

fn run_command(name: &str, args: Parser) -> anyhow::Result<()> {
    match name {
        "test" => test::run(&TestOptions::parse(args)?),
        "bench" => bench::run(&BenchOptions::parse(args)?),
        "soak" => soak::run(&SoakOptions::parse(args)?),
        "ci" => ci::run(&CiOptions::parse(args)?),
        "tidy" => {
            reject_arguments(args)?;
            tidy::run()
        }
        "mutants" => mutants::run(&MutantsOptions::parse(args)?),
        "fuzz" => fuzz::run(&FuzzOptions::parse(args)?),
        "dist" => {
            reject_arguments(args)?;
            dist::run()
        }
        _ => {
            let known = COMMANDS.join(", ");
            let message = format!("no command {name}: use one of {known}");
            Err(lexopt::Error::from(message).into())
        }
    }
}

/// Searches all arguments for a help flag. Arguments after `--` belong to another program.
fn has_help_flag(args: &mut Parser) -> bool {
    args.try_raw_args().is_some_and(|raw| {
        let mut own = raw.as_slice().iter().take_while(|arg| *arg != "--");
        own.any(|arg| arg == "--help" || arg == "-h")
    })
}

/// Returns an error for any argument of a command without options.
fn reject_arguments(mut args: Parser) -> anyhow::Result<()> {
    match args.next()? {
        None => Ok(()),
        Some(arg) => Err(arg.unexpected().into()),
    }
}

/// Exit code of shells for a wrong command line.
const USAGE_ERROR: u8 = 2;

const COMMANDS: [&str; 8] = ["test", "bench", "soak", "ci", "tidy", "mutants", "fuzz", "dist"];

const HELP: &str = "\
cargo xtask COMMAND

  test [--stress] [FILTER...]     install missing tools and run all tests, or the named ones
  bench NAME [--json] [--quick] [--scale N]
                                  measure Outflow and its peers; N multiplies the rates of bulk
  soak [--for 3h] [--rate 200] [--json]
                                  run the program under load for hours and measure growth
  ci [--full]                     run all checks that a change must pass; --full adds the
                                  benchmarks and the fuzz targets
  tidy                            check the project rules that no compiler checks
  mutants [ARG...]                change the code on purpose and report undetected changes
  fuzz [TARGET] [--seconds N]     feed random bytes to the parsers (needs a nightly toolchain)
  dist                            build the program for a release, and list its dependencies (SBOM)

--help or -h after any command prints this text and runs nothing.
";

#[cfg(test)]
mod tests {
    use super::*;

    // A help flag after another argument also prevents the run.
    #[test]
    fn every_command_has_help() {
        for name in COMMANDS {
            assert!(HELP.contains(&format!("\n  {name} ")), "{name}");
            for args in [&[name, "--help"][..], &[name, "-h"], &[name, "x", "--help"]] {
                assert!(run(Parser::from_args(args)).is_ok(), "{args:?}");
            }
        }
        let mut passed_on = Parser::from_args(["--", "--help"]);
        assert!(!has_help_flag(&mut passed_on));
        assert!(run(Parser::from_args(["tst", "--help"])).is_err());
    }

    // An ignored flag would look like a check that ran.
    #[test]
    fn unknown_arguments_are_usage_errors() {
        for args in [&["tst"][..], &["ci", "--fast"], &["tidy", "core"], &["--version"]] {
            let error = run(Parser::from_args(args)).expect_err("unknown");
            assert!(error.is::<lexopt::Error>(), "{args:?}: {error}");
        }
    }
}
