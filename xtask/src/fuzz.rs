//! `fuzz`: random bytes for every parser, steered by the branches they reach.
//!
//! The fuzzer needs a nightly toolchain, which the project does not require. Without one nothing is
//! lost for good: each target's body is an ordinary function that the property tests of
//! `cargo xtask test` run too, only with less cunning inputs.

use anyhow::{Context, Result, bail};
use lexopt::Parser;
use lexopt::prelude::*;

use crate::command::{Program, root};
use crate::needs::{FUZZ, Met};

/// Which targets, and for how long each.
pub(crate) struct Options {
    target: Option<String>,
    seconds: u32,
}

impl Options {
    /// Reads `[TARGET] [--seconds N]`.
    pub(crate) fn parse(mut args: Parser) -> Result<Self> {
        let mut options = Self {
            target: None,
            seconds: DEFAULT_SECONDS,
        };
        while let Some(arg) = args.next()? {
            match arg {
                Long("seconds") => options.seconds = args.value()?.parse()?,
                Value(name) if options.target.is_none() => options.target = Some(name.string()?),
                other => return Err(other.unexpected().into()),
            }
        }
        Ok(options)
    }
}

/// Fuzzes one target, or each in turn.
pub(crate) fn run(options: &Options) -> Result<()> {
    let targets = chosen(known_targets()?, options.target.as_deref())?;
    if !Program::new("rustup", ["run", "nightly", "rustc", "--version"]).succeeds() {
        bail!(
            "fuzzing needs a nightly toolchain: install one with `rustup toolchain install nightly`; \
             until then `cargo xtask test` runs the same bodies on random inputs"
        );
    }
    if FUZZ.meet()? == Met::No {
        bail!("fuzzing needs cargo-fuzz: `cargo xtask test` runs the same bodies meanwhile");
    }
    targets.iter().try_for_each(|target| {
        std::fs::create_dir_all(root().join(format!("{CORPUS}/{target}")))
            .with_context(|| format!("cannot make a folder below {CORPUS}"))?;
        search(target, options.seconds).run()
    })
}

/// What is found goes to the first folder; the seeds are the project's own and only read. Connections
/// that a target keeps have buffers which were read to their end, and the search for leaks knows nobody
/// who points there; what really grows is found by the bound on memory.
fn search(target: &str, seconds: u32) -> Program {
    Program::new("rustup", ["run", "nightly", "cargo", "fuzz", "run", target])
        .args([format!("{CORPUS}/{target}"), format!("{SEEDS}/{target}")])
        .args(["--".to_owned(), "-detect_leaks=0".to_owned()])
        .args([format!("-max_total_time={seconds}")])
}

/// Sees that every target compiles, on the toolchain of the project: the fuzzer's runtime, which
/// needs a C++ compiler to build, is not linked and so not built.
pub(crate) fn lint() -> Result<()> {
    Program::cargo("clippy --locked --all-targets --manifest-path")
        .args([MANIFEST, "--", "-D", "warnings"])
        .env("CUSTOM_LIBFUZZER_PATH", "unlinked/libfuzzer.a")
        .run()
}

fn chosen(known: Vec<String>, wanted: Option<&str>) -> Result<Vec<String>> {
    match wanted {
        None => Ok(known),
        Some(name) if known.iter().any(|target| target == name) => Ok(vec![name.to_owned()]),
        Some(name) => bail!("no fuzz target {name:?}: use one of {}", known.join(", ")),
    }
}

/// The files of the target folder, by name.
fn known_targets() -> Result<Vec<String>> {
    let files = std::fs::read_dir(root().join(TARGETS))
        .with_context(|| format!("cannot list {TARGETS}: fuzzing needs the whole tree"))?;
    let mut targets = Vec::new();
    for file in files {
        let path = file?.path();
        if path.extension().is_some_and(|end| end == "rs") {
            targets.extend(
                path.file_stem()
                    .map(|stem| stem.to_string_lossy().into_owned()),
            );
        }
    }
    targets.sort();
    Ok(targets)
}

const MANIFEST: &str = "fuzz/Cargo.toml";
const TARGETS: &str = "fuzz/fuzz_targets";
const CORPUS: &str = "fuzz/corpus";
const SEEDS: &str = "fuzz/seeds";

/// Long enough for a shallow fault to show, short enough to wait for.
const DEFAULT_SECONDS: u32 = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_begins_with_the_seeds_of_its_target() {
        assert_eq!(
            search("rate", 5).to_string(),
            "rustup run nightly cargo fuzz run rate fuzz/corpus/rate fuzz/seeds/rate -- \
             -detect_leaks=0 -max_total_time=5"
        );
        for target in known_targets().expect("the tree is whole") {
            let seeds = std::fs::read_dir(root().join(format!("{SEEDS}/{target}")));
            let some = seeds.is_ok_and(|mut seeds| seeds.next().is_some());
            assert!(some, "{target} has no seeds");
        }
    }

    #[test]
    fn an_unknown_target_is_answered_with_the_known_ones() {
        let known = vec!["rate".to_owned(), "retry_after".to_owned()];
        assert_eq!(
            chosen(known.clone(), Some("rate")).ok(),
            Some(vec!["rate".to_owned()])
        );
        assert_eq!(chosen(known.clone(), None).ok(), Some(known.clone()));
        let error = chosen(known, Some("rat")).expect_err("no such target");
        assert!(error.to_string().contains("rate, retry_after"), "{error}");
    }
}
