//! `fuzz`: feeds random bytes to every parser, guided by branch coverage.
//!
//! The fuzzer needs a nightly toolchain, which the project does not require. Each target's body is
//! also an ordinary function, and the property tests of `cargo xtask test` run it on random inputs.

use anyhow::{Context, Result, bail};
use lexopt::Parser;
use lexopt::prelude::*;

use crate::command::{CommandLine, repository_root};
use crate::tools::CARGO_FUZZ;

/// Targets and duration of a fuzz run.
pub(crate) struct FuzzOptions {
    target: Option<String>,
    seconds: u32,
}

impl FuzzOptions {
    /// Parses `[TARGET] [--seconds N]`.
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

/// Fuzzes one target, or all of them one after another.
pub(crate) fn run(options: &FuzzOptions) -> Result<()> {
    let targets = select_targets(list_targets()?, options.target.as_deref())?;
    if !CommandLine::parse("rustup run nightly rustc --version").succeeds() {
        bail!(
            "fuzzing needs a nightly toolchain: install it with `rustup toolchain install nightly`; \
             `cargo xtask test` runs the same bodies on random inputs"
        );
    }
    if !CARGO_FUZZ.ensure_installed()? {
        bail!("fuzzing needs cargo-fuzz: the lines above give the command to install it");
    }
    targets.iter().try_for_each(|target| {
        std::fs::create_dir_all(repository_root().join(format!("{CORPUS}/{target}")))
            .with_context(|| format!("cannot create a folder below {CORPUS}"))?;
        fuzz_command(target, options.seconds).run()
    })
}

/// Builds the call of the fuzzer, which writes to the corpus and only reads the seeds.
///
/// Leak detection is off: targets keep connections whose buffers it reports as unreachable. The memory
/// limit of the fuzzer still detects growth.
fn fuzz_command(target: &str, seconds: u32) -> CommandLine {
    CommandLine::parse("rustup run nightly cargo fuzz run")
        .args([target])
        .args([format!("{CORPUS}/{target}"), format!("{SEEDS}/{target}")])
        .args(["--".to_owned(), "-detect_leaks=0".to_owned()])
        .args([format!("-max_total_time={seconds}")])
}

/// Lints every target on the project's toolchain.
///
/// A check links nothing, so the path of the fuzzer's runtime may be a dummy, and no C++ compiler runs.
pub(crate) fn lint() -> Result<()> {
    CommandLine::cargo("clippy --locked --all-targets --manifest-path")
        .args([MANIFEST, "--", "-D", "warnings"])
        .env("CUSTOM_LIBFUZZER_PATH", "unlinked/libfuzzer.a")
        .run()
}

fn select_targets(known: Vec<String>, selected: Option<&str>) -> Result<Vec<String>> {
    match selected {
        None => Ok(known),
        Some(name) if known.iter().any(|target| target == name) => Ok(vec![name.to_owned()]),
        Some(name) => bail!("no fuzz target {name:?}: use one of {}", known.join(", ")),
    }
}

/// Lists the files of the target folder, by name.
fn list_targets() -> Result<Vec<String>> {
    let files = std::fs::read_dir(repository_root().join(TARGETS))
        .with_context(|| format!("cannot list {TARGETS}: clone the whole repository"))?;
    let mut targets = Vec::new();
    for file in files {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            let stem = path.file_stem();
            targets.extend(stem.map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    targets.sort();
    Ok(targets)
}

const MANIFEST: &str = "fuzz/Cargo.toml";
const TARGETS: &str = "fuzz/fuzz_targets";
const CORPUS: &str = "fuzz/corpus";
const SEEDS: &str = "fuzz/seeds";

/// One minute finds shallow faults.
const DEFAULT_SECONDS: u32 = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_starts_from_the_seeds_of_its_target() {
        assert_eq!(
            fuzz_command("rate", 5).to_string(),
            "rustup run nightly cargo fuzz run rate fuzz/corpus/rate fuzz/seeds/rate -- \
             -detect_leaks=0 -max_total_time=5"
        );
        for target in list_targets().expect("complete repository") {
            let seeds = std::fs::read_dir(repository_root().join(format!("{SEEDS}/{target}")));
            let has_seeds = seeds.is_ok_and(|mut seeds| seeds.next().is_some());
            assert!(has_seeds, "{target} has no seeds");
        }
    }

    #[test]
    fn an_unknown_target_lists_the_known_targets() {
        let known = vec!["rate".to_owned(), "retry_after".to_owned()];
        let one = select_targets(known.clone(), Some("rate")).ok();
        assert_eq!(one, Some(vec!["rate".to_owned()]));
        let all = select_targets(known.clone(), None).ok();
        assert_eq!(all, Some(known.clone()));
        let error = select_targets(known, Some("rat")).expect_err("no such target");
        assert!(error.to_string().contains("rate, retry_after"), "{error}");
    }
}
