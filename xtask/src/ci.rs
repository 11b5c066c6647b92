//! `ci`: runs all checks that a change must pass, the fastest first.
//!
//! The test step calls the code of `cargo xtask test`, so that a newcomer and CI run the same tests.

use anyhow::{Context, Result, bail};
use lexopt::Parser;
use lexopt::prelude::*;

use crate::bench::BENCHES_MANIFEST;
use crate::command::{CommandLine, repository_root};
use crate::stopwatch::{StopWatch, format_span};
use crate::test::TestOptions;
use crate::tools::CARGO_DENY;
use crate::{fuzz, test, tidy};

/// Extent of a run.
#[derive(Default)]
pub(crate) struct CiOptions {
    full: bool,
}

impl CiOptions {
    /// Parses `[--full]`.
    pub(crate) fn parse(mut args: Parser) -> Result<Self> {
        let mut options = Self::default();
        while let Some(arg) = args.next()? {
            match arg {
                Long("full") => options.full = true,
                other => return Err(other.unexpected().into()),
            }
        }
        Ok(options)
    }
}

/// Runs the steps and stops at the first error.
pub(crate) fn run(options: &CiOptions) -> Result<()> {
    let total = StopWatch::start();
    for step in selected_steps(options) {
        let watch = StopWatch::start();
        eprintln!("== {}", step.name);
        (step.run)().with_context(|| format!("ci stopped at {}", step.name))?;
        eprintln!("== {}: {}", step.name, format_span(watch.elapsed()));
    }
    eprintln!("== ci: {}", format_span(total.elapsed()));
    Ok(())
}

/// One check of a run.
struct CiStep {
    name: &'static str,
    run: fn() -> Result<()>,
    /// The step compiles a second workspace with its own dependencies, so only `--full` runs it.
    full_only: bool,
}

impl CiStep {
    const fn always(name: &'static str, run: fn() -> Result<()>) -> Self {
        Self {
            name,
            run,
            full_only: false,
        }
    }

    const fn full(name: &'static str, run: fn() -> Result<()>) -> Self {
        Self {
            full_only: true,
            ..Self::always(name, run)
        }
    }
}

fn selected_steps(options: &CiOptions) -> impl Iterator<Item = &'static CiStep> {
    let full = options.full;
    STEPS.iter().filter(move |step| full || !step.full_only)
}

static STEPS: [CiStep; 9] = [
    CiStep::always("fmt", || CommandLine::cargo("fmt --all --check").run()),
    CiStep::always("tidy", tidy::run),
    CiStep::always("deny", check_dependencies),
    CiStep::always("clippy", lint_workspace),
    CiStep::always("other platforms", check_other_platforms),
    CiStep::always("doc", build_documentation),
    CiStep::always("test", || test::run(&TestOptions::default())),
    CiStep::full("clippy of the benchmarks", lint_benchmarks),
    CiStep::full("clippy of the fuzz targets", fuzz::lint),
];

fn lint_workspace() -> Result<()> {
    CommandLine::cargo("clippy --locked --workspace --all-targets -- -D warnings").run()
}

/// Compiles the code of host files for the other platforms, where their standard libraries are installed.
fn check_other_platforms() -> Result<()> {
    let installed = CommandLine::parse("rustup target list --installed")
        .output()
        .unwrap_or_default();
    for target in OTHER_PLATFORMS {
        if !installed.lines().any(|line| line.trim() == target) {
            eprintln!("SKIPPED {target}: its standard library is not installed: `rustup target add {target}`");
            continue;
        }
        CommandLine::cargo("check --locked --package outflow-ledger --target")
            .args([target])
            .run()?;
    }
    Ok(())
}

/// Platforms of the host files beside Linux.
const OTHER_PLATFORMS: [&str; 2] = ["aarch64-apple-darwin", "x86_64-pc-windows-gnu"];

fn build_documentation() -> Result<()> {
    CommandLine::cargo("doc --locked --workspace --no-deps")
        .env("RUSTDOCFLAGS", "-D warnings")
        .run()
}

/// Checks bans, licences, sources and advisories of all dependencies.
fn check_dependencies() -> Result<()> {
    if !CARGO_DENY.ensure_installed()? {
        return Ok(());
    }
    CommandLine::cargo("deny check bans licenses sources").run()?;
    // The database comes from the network: a machine without it prints the reason, and no other failure is skipped.
    if let Err(reason) = CommandLine::cargo("deny fetch db").output() {
        eprintln!("SKIPPED advisories: the database cannot be fetched: {reason:#}");
        return Ok(());
    }
    CommandLine::cargo("deny check --disable-fetch advisories").run()
}

fn lint_benchmarks() -> Result<()> {
    if !repository_root().join(BENCHES_MANIFEST).exists() {
        bail!("{BENCHES_MANIFEST} is missing: clone the whole repository");
    }
    CommandLine::cargo("clippy --workspace --all-targets --manifest-path")
        .args([BENCHES_MANIFEST, "--", "-D", "warnings"])
        .run()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(args: &[&str]) -> Vec<&'static str> {
        let options = CiOptions::parse(Parser::from_args(args)).expect("valid");
        selected_steps(&options).map(|step| step.name).collect()
    }

    #[test]
    fn only_a_full_run_lints_the_other_workspaces() {
        let usual = names(&[]);
        assert_eq!(
            usual,
            ["fmt", "tidy", "deny", "clippy", "other platforms", "doc", "test"]
        );
        let full = names(&["--full"]);
        assert_eq!(full.len(), STEPS.len());
        assert!(full.starts_with(&usual));
    }

    #[test]
    fn an_unknown_flag_is_an_error() {
        assert!(CiOptions::parse(Parser::from_args(["--fast"])).is_err());
    }
}
