//! `bench`: the figures of the project, measured beside its peers in the same run.
//!
//! The peers live in a workspace of their own, so that their dependencies never reach ours; this
//! only starts the program there with the flags it was given.

use std::path::PathBuf;

use anyhow::{Result, bail};
use lexopt::Parser;
use lexopt::prelude::*;

use crate::command::{Program, root};
use crate::needs::{self, Need};

/// Which suite, and what to pass on to it.
#[derive(Debug)]
pub(crate) struct Options {
    suite: String,
    flags: Vec<String>,
}

impl Options {
    /// Reads `NAME [--json] [--quick] [--scale N]`.
    pub(crate) fn parse(mut args: Parser) -> Result<Self> {
        let mut suite = None;
        let mut flags = Vec::new();
        while let Some(arg) = args.next()? {
            match arg {
                Long("json") => flags.push("--json".to_owned()),
                Long("quick") => flags.push(QUICK.to_owned()),
                Long("scale") => {
                    let times: u32 = args.value()?.parse()?;
                    flags.extend(["--scale".to_owned(), times.to_string()]);
                }
                Value(name) if suite.is_none() => suite = Some(name.string()?),
                other => return Err(other.unexpected().into()),
            }
        }
        let suite = suite.unwrap_or_default();
        if !SUITES.contains(&suite.as_str()) {
            let known = SUITES.join(", ");
            return Err(lexopt::Error::from(format!(
                "no benchmark {suite:?}: use one of {known}, as in `cargo xtask bench core`"
            ))
            .into());
        }
        if suite != "bulk" && flags.iter().any(|flag| flag == "--scale") {
            return Err(lexopt::Error::from("--scale is for `bulk`: leave it out").into());
        }
        Ok(Self { suite, flags })
    }

    fn is_quick(&self) -> bool {
        self.flags.iter().any(|flag| flag == QUICK)
    }

    fn is_among(&self, suites: &[&str]) -> bool {
        suites.contains(&self.suite.as_str())
    }
}

/// Builds the suite and runs it.
pub(crate) fn run(options: &Options) -> Result<()> {
    if !root().join(MANIFEST).exists() {
        bail!("{MANIFEST} is missing: benchmarks need the whole tree, so clone it again");
    }
    let suite = Program::cargo("run --quiet --release --manifest-path")
        .args([MANIFEST, "--", &options.suite])
        .args(&options.flags);
    let suite = suite.env("OUTFLOW_PEERS", root().join("target").display().to_string());
    if options.is_among(&OF_QUEUES) {
        provide(&needs::QUEUES);
        build_queues();
    }
    if !options.is_among(&OF_THE_PROGRAM) {
        return suite.run();
    }
    // As it is shipped: peers come from their packagers, built with the same care.
    Program::cargo("build --profile dist --package outflow-cli").run()?;
    provide(&needs::PROXIES);
    if !options.is_quick() {
        provide(&needs::FURTHER_PROXIES);
        build_proxies();
    }
    suite
        .env("OUTFLOW_PROGRAM", program().display().to_string())
        .run()
}

/// Installs what can be had. The rest is said to be missing, here and in the table, and a table without
/// one peer is better than none, so nothing fails for it.
fn provide(peers: &[Need]) {
    for peer in peers {
        if let Err(problem) = peer.meet() {
            eprintln!("SKIPPED: {problem:#}");
        }
    }
}

/// The proxies that are libraries. Where Pingora cannot be built, the other one can.
fn build_proxies() {
    let done = build_peers("--bins --features pingora").or_else(|problem| {
        eprintln!("SKIPPED without Pingora: {problem:#}");
        build_peers("--bin peer-hyper")
    });
    if let Err(problem) = done {
        eprintln!("SKIPPED without bare hyper: {problem:#}");
    }
}

/// The queue that is a library.
fn build_queues() {
    if let Err(problem) = build_peers("--bin peer-apalis --features apalis") {
        eprintln!("SKIPPED without apalis: {problem:#}");
    }
}

fn build_peers(what: &str) -> Result<()> {
    Program::cargo("build --quiet --release --package outflow-peers --manifest-path")
        .args([MANIFEST])
        .args(what.split(' '))
        .run()
}

/// The binary that cargo has just built.
pub(crate) fn program() -> PathBuf {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    target.join("dist").join("outflow")
}

/// The manifest of the peers' workspace.
pub(crate) const MANIFEST: &str = "benches/Cargo.toml";

const QUICK: &str = "--quick";

const SUITES: [&str; 8] = [
    "core",
    "waiters",
    "zero429",
    "client",
    "storm",
    "proxy",
    "throughput",
    "bulk",
];

/// Those that run beside queues of others.
const OF_QUEUES: [&str; 2] = ["throughput", "bulk"];

/// Those that run the program itself, beside other programs.
const OF_THE_PROGRAM: [&str; 2] = ["storm", "proxy"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        for words in [&["cores"][..], &[], &["--json"]] {
            let error = Options::parse(Parser::from_args(words)).expect_err("not a suite");
            assert!(error.to_string().contains("use one of core"), "{error}");
        }
    }

    #[test]
    fn flags_are_passed_on() {
        let options = Options::parse(Parser::from_args(["core", "--json", "--quick"]));
        let options = options.expect("valid");
        assert_eq!(
            (options.suite.as_str(), options.flags),
            ("core", vec!["--json".to_owned(), "--quick".to_owned()])
        );
    }

    // Anywhere else it would be ignored, and somebody would believe in it.
    #[test]
    fn only_bulk_is_scaled() {
        let options = Options::parse(Parser::from_args(["bulk", "--scale", "10"]));
        assert_eq!(options.expect("valid").flags, ["--scale", "10"]);
        for words in [&["core", "--scale", "10"][..], &["bulk", "--scale", "x"]] {
            assert!(
                Options::parse(Parser::from_args(words)).is_err(),
                "{words:?}"
            );
        }
    }
}
