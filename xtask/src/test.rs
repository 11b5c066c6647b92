//! `test`: everything the tests need, then all of them.
//!
//! Three runners, because no one of them does it all: nextest for tests, each in a process of its
//! own; cargo for the examples in the documentation; and the model checker, which needs the core
//! built against its own atomics and therefore a target folder of its own.

use anyhow::Result;
use lexopt::Parser;
use lexopt::prelude::*;

use crate::command::{Program, root};
use crate::needs::{
    CALLERS, CHROMIUM, Met, NEWMAN, NEXTEST, NPM, Need, PACKAGES, PIP, PROMTOOL, REDIS, STRACE,
    VALKEY,
};

/// What to run.
#[derive(Default)]
pub(crate) struct Options {
    runs: Runs,
    filters: Vec<String>,
}

/// How long the laws are run.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Runs {
    /// The ten thousand cases of every change.
    #[default]
    Usual,
    /// Also the million cases of a `stress_` test.
    Stress,
}

impl Options {
    /// Reads `[--stress] [FILTER...]`.
    pub(crate) fn parse(mut args: Parser) -> Result<Self> {
        let mut options = Self::default();
        while let Some(arg) = args.next()? {
            match arg {
                Long("stress") => options.runs = Runs::Stress,
                Value(filter) => options.filters.push(filter.string()?),
                other => return Err(other.unexpected().into()),
            }
        }
        Ok(options)
    }
}

/// Runs the tests; those proper come last, so that their summary is what stays in view. A filter
/// picks among them and leaves the other two runners out.
pub(crate) fn run(options: &Options) -> Result<()> {
    let runner = NEXTEST.meet()?;
    let mut left_out = Vec::new();
    for (installer, need, word) in SERVERS {
        if meet_by(installer, need)? == Met::No {
            left_out.push(word);
        }
    }
    // A test whose client is missing says so itself and is skipped.
    CALLERS.iter().map(Need::meet).collect::<Result<Vec<_>>>()?;
    for (installer, need) in &PACKAGES {
        meet_by(Some(installer), need)?;
    }
    if options.filters.is_empty() {
        Program::cargo("test --doc --workspace").run()?;
        model_check()?;
    }
    match runner {
        Met::Yes => nextest(options, &left_out).run(),
        Met::No => plain(options, &left_out).run(),
    }
}

/// Meets a need by what installs it. Without that the need itself says what is lost.
fn meet_by(installer: Option<&Need>, need: &Need) -> Result<Met> {
    if !need.is_met() {
        installer.map(Need::meet).transpose()?;
    }
    need.meet()
}

/// Tests that need a program say so in their names, and are left out where there is none.
fn nextest(options: &Options, left_out: &[&str]) -> Program {
    let program = Program::cargo("nextest run --workspace");
    let program = match options.runs {
        Runs::Usual => program,
        Runs::Stress => program.args(["--run-ignored", "all"]),
    };
    let program = program.args(&options.filters);
    if left_out.is_empty() {
        return program;
    }
    program.args(["--"]).args(skips(left_out))
}

fn skips<'w>(left_out: &[&'w str]) -> Vec<&'w str> {
    left_out.iter().flat_map(|word| ["--skip", word]).collect()
}

/// The same tests without nextest, for a machine that cannot have it.
fn plain(options: &Options, left_out: &[&str]) -> Program {
    let program = Program::cargo("test --workspace --lib --bins --tests --");
    let program = match options.runs {
        Runs::Usual => program,
        Runs::Stress => program.args(["--include-ignored"]),
    };
    program.args(&options.filters).args(skips(left_out))
}

fn model_check() -> Result<()> {
    if !root().join(LOOM_TESTS).exists() {
        eprintln!("nothing to model-check: {LOOM_TESTS} does not exist");
        return Ok(());
    }
    Program::cargo("test --package outflow-core --release --test loom")
        .env("RUSTFLAGS", "--cfg loom")
        .env("LOOM_MAX_PREEMPTIONS", MAX_PREEMPTIONS)
        .env("CARGO_TARGET_DIR", loom_target()?)
        .run()
}

/// Apart from the usual one: other flags for every crate would throw its contents away each time.
fn loom_target() -> Result<String> {
    let metadata = Program::cargo("metadata --no-deps --format-version 1").output()?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata)?;
    let target = metadata
        .get("target_directory")
        .and_then(|path| path.as_str());
    Ok(format!("{}/loom", target.unwrap_or("target")))
}

/// What some tests talk to, and the word in their names.
const SERVERS: [(Option<&Need>, &Need, &str); 6] = [
    (None, &CHROMIUM, "chromium"),
    (None, &REDIS, "redis"),
    (None, &PROMTOOL, "promtool"),
    (None, &STRACE, "strace"),
    (Some(&PIP), &VALKEY, "valkey"),
    (Some(&NPM), &NEWMAN, "newman"),
];

const LOOM_TESTS: &str = "crates/core/tests/loom.rs";

/// Almost every known race needs two forced switches of thread or fewer; three leaves a margin and
/// still ends within a minute.
const MAX_PREEMPTIONS: &str = "3";

#[cfg(test)]
mod tests {
    use super::*;

    fn options(words: &[&str]) -> Options {
        Options::parse(Parser::from_args(words)).expect("valid")
    }

    #[test]
    fn a_long_run_includes_the_ignored_tests() {
        let usual = nextest(&options(&["meter"]), &[]).to_string();
        assert_eq!(usual, "cargo nextest run --workspace meter");
        let stress = nextest(&options(&["--stress"]), &[]).to_string();
        assert_eq!(stress, "cargo nextest run --workspace --run-ignored all");
    }

    #[test]
    fn tests_that_need_a_server_are_left_out_where_there_is_none() {
        let options = options(&["store"]);
        let with_runner = nextest(&options, &["redis", "newman"]).to_string();
        assert!(
            with_runner.ends_with(" store -- --skip redis --skip newman"),
            "{with_runner}"
        );
        let without = plain(&options, &["redis"]).to_string();
        assert!(without.ends_with("-- store --skip redis"), "{without}");
    }

    #[test]
    fn an_unknown_flag_is_refused() {
        assert!(Options::parse(Parser::from_args(["--fast"])).is_err());
    }
}
