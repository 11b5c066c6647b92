//! `bench`: measures Outflow and its peers in one run.
//!
//! The peers live in their own workspace, so that their dependencies never reach the product. This
//! command installs the peers and starts the benchmark program there.

use std::path::PathBuf;

use anyhow::{Result, bail};
use lexopt::Parser;
use lexopt::prelude::*;

use crate::command::{CommandLine, repository_root};
use crate::metadata::target_directory;
use crate::tools::{FULL_RUN_PROXIES, PROXIES, QUEUES, ToolRequirement};

/// Suite name and flags of the benchmark program.
#[derive(Debug)]
pub(crate) struct BenchOptions {
    suite: String,
    flags: Vec<String>,
}

impl BenchOptions {
    /// Parses `NAME [--json] [--quick] [--scale N]`.
    pub(crate) fn parse(mut args: Parser) -> Result<Self> {
        let mut suite = None;
        let mut flags = Vec::new();
        while let Some(arg) = args.next()? {
            match arg {
                Long("json") => flags.push("--json".to_owned()),
                Long("quick") => flags.push(QUICK.to_owned()),
                Long("scale") => {
                    let factor: u32 = args.value()?.parse()?;
                    flags.extend([SCALE.to_owned(), factor.to_string()]);
                }
                Value(name) if suite.is_none() => suite = Some(name.string()?),
                other => return Err(other.unexpected().into()),
            }
        }
        let suite = suite.unwrap_or_default();
        let options = Self { suite, flags };
        options.check().map_err(lexopt::Error::from)?;
        Ok(options)
    }

    fn check(&self) -> Result<(), String> {
        if !self.is_one_of(&SUITES) {
            let (suite, known) = (&self.suite, SUITES.join(", "));
            return Err(format!(
                "no benchmark {suite:?}: use one of {known}, as in `cargo xtask bench core`"
            ));
        }
        if self.suite != "bulk" && self.has_flag(SCALE) {
            return Err("only `bulk` has --scale: leave it out".to_owned());
        }
        Ok(())
    }

    fn has_flag(&self, name: &str) -> bool {
        self.flags.iter().any(|flag| flag == name)
    }

    fn is_one_of(&self, suites: &[&str]) -> bool {
        suites.contains(&self.suite.as_str())
    }
}

/// Builds the suite and runs it.
pub(crate) fn run(options: &BenchOptions) -> Result<()> {
    if !repository_root().join(BENCHES_MANIFEST).exists() {
        bail!("{BENCHES_MANIFEST} is missing: clone the whole repository");
    }
    let peers = repository_root().join("target").display().to_string();
    let suite = CommandLine::cargo("run --quiet --release --manifest-path")
        .args([BENCHES_MANIFEST, "--", &options.suite])
        .args(&options.flags)
        .env("OUTFLOW_PEERS", peers);
    if options.is_one_of(&QUEUE_SUITES) {
        install_peers(&QUEUES);
    }
    if options.is_one_of(&JOB_SUITES) {
        build_queue_peers();
    }
    if !options.is_one_of(&PROGRAM_SUITES) {
        return suite.run();
    }
    // Peers come from their packagers as optimised builds, so Outflow is measured as it is shipped.
    CommandLine::cargo("build --profile dist --package outflow-cli").run()?;
    install_peers(&PROXIES);
    if !options.has_flag(QUICK) {
        install_peers(&FULL_RUN_PROXIES);
        build_proxy_peers();
    }
    let program = shipped_program()?.display().to_string();
    suite.env("OUTFLOW_PROGRAM", program).run()
}

/// Installs peers. A missing peer fails no run: the table without it still has its use.
fn install_peers(peers: &[ToolRequirement]) {
    for peer in peers {
        if let Err(problem) = peer.ensure_installed() {
            eprintln!("SKIPPED: {problem:#}");
        }
    }
}

/// Builds the proxies that are libraries; a failure of Pingora leaves hyper.
fn build_proxy_peers() {
    let built = build_peers("--bins --features pingora").or_else(|problem| {
        eprintln!("SKIPPED without Pingora: {problem:#}");
        build_peers("--bin peer-hyper")
    });
    if let Err(problem) = built {
        eprintln!("SKIPPED without bare hyper: {problem:#}");
    }
}

/// Builds the queue that is a library.
fn build_queue_peers() {
    if let Err(problem) = build_peers("--bin peer-apalis --features apalis") {
        eprintln!("SKIPPED without apalis: {problem:#}");
    }
}

fn build_peers(selection: &str) -> Result<()> {
    CommandLine::cargo("build --quiet --release --package outflow-peers --manifest-path")
        .args([BENCHES_MANIFEST])
        .args(selection.split(' '))
        .run()
}

/// Returns the path of the binary of the `dist` profile.
fn shipped_program() -> Result<PathBuf> {
    Ok(target_directory()?.join("dist").join("outflow"))
}

/// Manifest of the benchmark workspace.
pub(crate) const BENCHES_MANIFEST: &str = "benches/Cargo.toml";

const QUICK: &str = "--quick";
const SCALE: &str = "--scale";

const SUITES: [&str; 10] = [
    "core",
    "waiters",
    "zero429",
    "client",
    "recovery",
    "storm",
    "proxy",
    "throughput",
    "bulk",
    "ledger",
];

/// Suites that run other job queues.
const QUEUE_SUITES: [&str; 3] = ["throughput", "bulk", "ledger"];

/// Suites with a queue that is a library.
const JOB_SUITES: [&str; 2] = ["throughput", "bulk"];

/// Suites that run the program and other proxies.
const PROGRAM_SUITES: [&str; 2] = ["storm", "proxy"];

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<BenchOptions> {
        BenchOptions::parse(Parser::from_args(args))
    }

    #[test]
    fn an_unknown_suite_lists_the_known_suites() {
        for args in [&["cores"][..], &[], &["--json"]] {
            let error = parse(args).expect_err("not a suite");
            assert!(error.to_string().contains("use one of core"), "{error}");
        }
    }

    #[test]
    fn the_suite_gets_the_flags() {
        let options = parse(&["core", "--json", "--quick"]).expect("valid");
        assert_eq!(options.suite, "core");
        assert_eq!(options.flags, ["--json", "--quick"]);
    }

    // Another suite would ignore the flag silently.
    #[test]
    fn only_bulk_accepts_a_scale() {
        let options = parse(&["bulk", "--scale", "10"]).expect("valid");
        assert_eq!(options.flags, ["--scale", "10"]);
        for args in [&["core", "--scale", "10"][..], &["bulk", "--scale", "x"]] {
            assert!(parse(args).is_err(), "{args:?}");
        }
    }
}
