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
    flags: Vec<&'static str>,
}

impl Options {
    /// Reads `NAME [--json] [--quick]`.
    pub(crate) fn parse(mut args: Parser) -> Result<Self> {
        let mut suite = None;
        let mut flags = Vec::new();
        while let Some(arg) = args.next()? {
            match arg {
                Long("json") => flags.push("--json"),
                Long("quick") => flags.push(QUICK),
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
        Ok(Self { suite, flags })
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
    if !OF_THE_PROGRAM.contains(&options.suite.as_str()) {
        return suite.run();
    }
    // As it is shipped: peers come from their packagers, built with the same care.
    Program::cargo("build --profile dist --package outflow-cli").run()?;
    provide(&needs::PROXIES);
    if !options.flags.contains(&QUICK) {
        provide(&needs::FURTHER_PROXIES);
        build_peers();
    }
    suite
        .env("OUTFLOW_PROGRAM", program().display().to_string())
        .env("OUTFLOW_PEERS", root().join("target").display().to_string())
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

/// The peers that are libraries. Where Pingora cannot be built, the other one can.
fn build_peers() {
    let build = |what: &str| {
        Program::cargo("build --quiet --release --package outflow-peers --manifest-path")
            .args([MANIFEST])
            .args(what.split(' '))
            .run()
    };
    let done = build("--bins --features pingora").or_else(|problem| {
        eprintln!("SKIPPED without Pingora: {problem:#}");
        build("--bin peer-hyper")
    });
    if let Err(problem) = done {
        eprintln!("SKIPPED without bare hyper: {problem:#}");
    }
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

const SUITES: [&str; 6] = ["core", "waiters", "zero429", "client", "storm", "proxy"];

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
            ("core", vec!["--json", "--quick"])
        );
    }
}
