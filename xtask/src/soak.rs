//! `soak`: runs the program under load for hours and measures growth.
//!
//! The benchmark program makes the load, serves the API and samples the process. This command builds
//! both and replaces itself with the load, so that Ctrl-C reaches the process that prints the result.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use lexopt::Parser;
use lexopt::prelude::*;

use crate::bench::BENCHES_MANIFEST;
use crate::command::{CommandLine, repository_root};
use crate::metadata::target_directory;

/// Duration, rate and output format of a soak run.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct SoakOptions {
    seconds: u32,
    rate: u32,
    json: Option<&'static str>,
}

impl SoakOptions {
    /// Parses `[--for TIME] [--rate CALLS] [--json]`.
    pub(crate) fn parse(mut args: Parser) -> Result<Self> {
        let mut options = Self {
            seconds: DEFAULT_SECONDS,
            rate: DEFAULT_CALLS_PER_SECOND,
            json: None,
        };
        while let Some(arg) = args.next()? {
            match arg {
                Long("for") => options.seconds = args.value()?.parse_with(parse_seconds)?,
                Long("rate") => options.rate = args.value()?.parse_with(parse_rate)?,
                Long("json") => options.json = Some("--json"),
                other => return Err(other.unexpected().into()),
            }
        }
        Ok(options)
    }
}

/// Builds the program and the load, and becomes the load.
pub(crate) fn run(options: &SoakOptions) -> Result<()> {
    CommandLine::cargo("build --release --package outflow-cli").run()?;
    CommandLine::cargo("build --release --manifest-path")
        .args([BENCHES_MANIFEST])
        .run()?;
    let program = target_directory()?.join("release").join("outflow");
    let mut load = Command::new(load_program());
    load.args(["soak", &options.seconds.to_string()])
        .arg(options.rate.to_string())
        .args(options.json)
        .env("OUTFLOW_PROGRAM", program)
        .current_dir(repository_root());
    // `exec` returns only on failure.
    Err(load.exec()).context("cannot start the load: build the benchmarks again")
}

/// Returns the path of the benchmark program, whose workspace has its own target directory.
fn load_program() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| repository_root().join("benches").join("target"), PathBuf::from);
    target.join("release").join("outflow-bench")
}

/// Parses `90s`, `20m` or `3h`.
fn parse_seconds(text: &str) -> Result<u32, String> {
    let units = [("s", 1), ("m", 60), ("h", 3_600)];
    let written = units
        .iter()
        .find_map(|(unit, length)| Some((text.strip_suffix(unit)?, length)));
    let span = written.and_then(|(number, length)| number.parse::<u32>().ok()?.checked_mul(*length));
    span.filter(|span| *span > 0)
        .ok_or_else(|| "write a time like 90s, 20m or 3h".to_owned())
}

fn parse_rate(text: &str) -> Result<u32, String> {
    let rate = text.parse().ok().filter(|rate| (1..=10_000).contains(rate));
    rate.ok_or_else(|| "write calls per second, from 1 to 10000".to_owned())
}

/// A leak of a few bytes per call shows after three hours.
const DEFAULT_SECONDS: u32 = 3 * 3_600;

/// Two million calls in three hours, at a fraction of one core.
const DEFAULT_CALLS_PER_SECOND: u32 = 200;

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<SoakOptions> {
        SoakOptions::parse(Parser::from_args(args))
    }

    #[test]
    fn the_default_is_three_hours_at_two_hundred_per_second() {
        let default = SoakOptions {
            seconds: 10_800,
            rate: 200,
            json: None,
        };
        assert_eq!(parse(&[]).expect("valid"), default);
        let given = SoakOptions {
            seconds: 120,
            rate: 50,
            json: Some("--json"),
        };
        let args = ["--for", "2m", "--rate", "50", "--json"];
        assert_eq!(parse(&args).expect("valid"), given);
    }

    #[test]
    fn a_time_has_a_unit() {
        for (text, seconds) in [("90s", 90), ("70m", 4_200), ("3h", 10_800)] {
            assert_eq!(parse_seconds(text), Ok(seconds), "{text}");
        }
        for wrong in ["", "3", "h", "0s", "-1m", "1.5h", "3 h", "2000000h"] {
            let error = parse(&["--for", wrong]).expect_err(wrong);
            assert!(error.to_string().contains("90s, 20m or 3h"), "{error}");
        }
    }

    #[test]
    fn invalid_arguments_are_usage_errors() {
        for args in [&["--rate", "0"][..], &["--rate", "x"], &["--fast"], &["3h"]] {
            let error = parse(args).expect_err("invalid");
            assert!(error.is::<lexopt::Error>(), "{args:?}: {error}");
        }
    }
}
