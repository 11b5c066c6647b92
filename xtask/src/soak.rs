//! `soak`: the program under load for hours, to see what grows.
//!
//! The load, the API behind the program and the looks at its process are in the benchmarks' program; this
//! builds both and becomes it, so that Ctrl-C reaches the one process that can still tell what was found.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use lexopt::Parser;
use lexopt::prelude::*;

use crate::bench::{self, MANIFEST};
use crate::command::{Program, root};

/// How long, how much, and how it is told.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Options {
    seconds: u32,
    rate: u32,
    json: Option<&'static str>,
}

impl Options {
    /// Reads `[--for TIME] [--rate CALLS] [--json]`.
    pub(crate) fn parse(mut args: Parser) -> Result<Self> {
        let mut options = Self {
            seconds: THREE_HOURS,
            rate: CALLS_A_SECOND,
            json: None,
        };
        while let Some(arg) = args.next()? {
            match arg {
                Long("for") => options.seconds = args.value()?.parse_with(seconds)?,
                Long("rate") => options.rate = args.value()?.parse_with(rate)?,
                Long("json") => options.json = Some("--json"),
                other => return Err(other.unexpected().into()),
            }
        }
        Ok(options)
    }
}

/// Builds the program and the load, and turns into the load.
pub(crate) fn run(options: &Options) -> Result<()> {
    Program::cargo("build --release --package outflow-cli").run()?;
    Program::cargo("build --release --manifest-path")
        .args([MANIFEST])
        .run()?;
    let mut load = Command::new(load_program());
    load.args(["soak", &options.seconds.to_string()])
        .arg(options.rate.to_string())
        .args(options.json)
        .env("OUTFLOW_PROGRAM", bench::program())
        .current_dir(root());
    // It only comes back if it failed.
    Err(load.exec()).context("the load cannot be started: build it again")
}

/// The benchmarks are a workspace of their own, with a directory of its own for what is built.
fn load_program() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("benches").join("target"), PathBuf::from);
    target.join("release").join("outflow-bench")
}

/// Reads `90s`, `20m` or `3h`.
fn seconds(text: &str) -> Result<u32, String> {
    let units = [("s", 1), ("m", 60), ("h", 3_600)];
    let written = units
        .iter()
        .find_map(|(unit, length)| Some((text.strip_suffix(unit)?, length)));
    let span =
        written.and_then(|(number, length)| number.parse::<u32>().ok()?.checked_mul(*length));
    span.filter(|span| *span > 0)
        .ok_or_else(|| "write a time like 90s, 20m or 3h".to_owned())
}

fn rate(text: &str) -> Result<u32, String> {
    let rate = text.parse().ok().filter(|rate| (1..=10_000).contains(rate));
    rate.ok_or_else(|| "write how many calls a second, from 1 to 10000".to_owned())
}

/// Long enough for a leak of a few bytes a call to show.
const THREE_HOURS: u32 = 3 * 3_600;

/// Two million calls in that time, and most of one core left to whoever else works here.
const CALLS_A_SECOND: u32 = 200;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Options> {
        Options::parse(Parser::from_args(words))
    }

    #[test]
    fn three_hours_at_two_hundred_a_second_unless_told() {
        let usual = Options {
            seconds: 10_800,
            rate: 200,
            json: None,
        };
        assert_eq!(read(&[]).expect("valid"), usual);
        let told = Options {
            seconds: 120,
            rate: 50,
            json: Some("--json"),
        };
        let words = ["--for", "2m", "--rate", "50", "--json"];
        assert_eq!(read(&words).expect("valid"), told);
    }

    #[test]
    fn a_time_has_a_unit() {
        for (text, wanted) in [("90s", 90), ("70m", 4_200), ("3h", 10_800)] {
            assert_eq!(seconds(text), Ok(wanted), "{text}");
        }
        for wrong in ["", "3", "h", "0s", "-1m", "1.5h", "3 h", "2000000h"] {
            let error = read(&["--for", wrong]).expect_err(wrong);
            assert!(error.to_string().contains("90s, 20m or 3h"), "{error}");
        }
    }

    #[test]
    fn what_cannot_be_done_is_not_tried() {
        for words in [&["--rate", "0"][..], &["--rate", "x"], &["--fast"], &["3h"]] {
            let error = read(words).expect_err("not understood");
            assert!(error.is::<lexopt::Error>(), "{words:?}: {error}");
        }
    }
}
