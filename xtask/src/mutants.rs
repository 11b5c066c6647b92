//! `mutants`: breaks the code that decides, one small change at a time, and sees whether a test
//! notices.
//!
//! Only what a wrong answer would be expensive in is mutated: the meters, the limiter and the
//! health machine. It takes hours, so it is no part of `ci`; a survivor is either killed by a new
//! test or listed with its reason in `docs/mutants.md`.

use anyhow::{Result, bail};
use lexopt::Parser;

use crate::command::Program;
use crate::needs::{MUTANTS, Met, NEXTEST};

/// What to hand to cargo-mutants beside our own choice of files.
pub(crate) struct Options {
    passed_on: Vec<String>,
}

impl Options {
    /// Takes every argument as one for cargo-mutants, such as `--list` or `--shard 0/8`.
    pub(crate) fn parse(mut args: Parser) -> Result<Self> {
        let passed_on = args
            .raw_args()?
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect();
        Ok(Self { passed_on })
    }
}

/// Mutates what decides.
pub(crate) fn run(options: &Options) -> Result<()> {
    if MUTANTS.meet()? == Met::No || NEXTEST.meet()? == Met::No {
        bail!("mutants need cargo-mutants and cargo-nextest: see above how to install them");
    }
    Program::cargo("mutants --package outflow-core --test-tool nextest")
        .args(FILES.iter().flat_map(|file| ["--file", file]))
        .args(&options.passed_on)
        .run()
}

const FILES: [&str; 9] = [
    "crates/core/src/meter.rs",
    "crates/core/src/meter/**",
    "crates/core/src/meter_set.rs",
    "crates/core/src/grant.rs",
    "crates/core/src/gcra.rs",
    "crates/core/src/limiter/**",
    "crates/core/src/health.rs",
    "crates/core/src/health/**",
    "crates/core/src/error_window.rs",
];
