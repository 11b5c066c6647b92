//! `mutants`: changes the code on purpose, one place at a time, and reports changes that no test
//! detects.
//!
//! It mutates the code whose errors cost most: meters, limiter and health machine. A run takes hours,
//! so `ci` leaves it out. Each survivor gets a new test or a row in `docs/mutants.md`.

use anyhow::{Result, bail};
use lexopt::Parser;

use crate::command::CommandLine;
use crate::tools::{CARGO_MUTANTS, NEXTEST};

/// Arguments for cargo-mutants.
pub(crate) struct MutantsOptions {
    extra_args: Vec<String>,
}

impl MutantsOptions {
    /// Passes every argument to cargo-mutants, such as `--list` or `--shard 0/8`.
    pub(crate) fn parse(mut args: Parser) -> Result<Self> {
        let extra_args = args.raw_args()?.map(|arg| arg.to_string_lossy().into_owned()).collect();
        Ok(Self { extra_args })
    }
}

/// Mutates the files of the core that decide about calls.
pub(crate) fn run(options: &MutantsOptions) -> Result<()> {
    if !CARGO_MUTANTS.ensure_installed()? || !NEXTEST.ensure_installed()? {
        bail!("mutants needs cargo-mutants and cargo-nextest: install them as shown above");
    }
    CommandLine::cargo("mutants --package outflow-core --test-tool nextest")
        .args(FILES.iter().flat_map(|file| ["--file", file]))
        .args(&options.extra_args)
        .run()
}

const FILES: [&str; 9] = [
    "crates/core/src/meter.rs",
    "crates/core/src/meter/**",
    "crates/core/src/meter_set.rs",
    "crates/core/src/receipt_set.rs",
    "crates/core/src/gcra.rs",
    "crates/core/src/shared_limiter/**",
    "crates/core/src/health.rs",
    "crates/core/src/health/**",
    "crates/core/src/error_window.rs",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::repository_root;

    // cargo-mutants ignores a pattern without files, and a renamed file would go unmutated.
    #[test]
    fn every_mutated_file_exists() {
        for file in FILES {
            let path = repository_root().join(file.trim_end_matches("/**"));
            assert!(path.exists(), "{file}");
        }
    }
}
