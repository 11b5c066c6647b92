//! `test`: installs the tools that tests need, then compiles and runs everything.
//!
//! Three runners work one after another. Nextest runs each test in its own process, cargo runs the
//! examples in the documentation, and loom checks the shared limiter with its own atomics. The tests
//! run last, so that the summary of nextest is the end of the output.

mod plan;

use anyhow::Result;
use lexopt::Parser;
use lexopt::prelude::*;

use crate::command::{CommandLine, repository_root};
use crate::metadata::target_directory;
use crate::stopwatch::{StopWatch, format_span};
use crate::tools::{CLIENT_TOOLS, NEXTEST, SERVER_TOOLS};
use plan::{BuildState, TestPlan, TestStep};

/// Selection of tests.
#[derive(Default)]
pub(crate) struct TestOptions {
    /// Runs each property a million times, in the `stress_` tests, which are ignored otherwise.
    stress: bool,
    filters: Vec<String>,
}

impl TestOptions {
    /// Parses `[--stress] [FILTER...]`.
    pub(crate) fn parse(mut args: Parser) -> Result<Self> {
        let mut options = Self::default();
        while let Some(arg) = args.next()? {
            match arg {
                Long("stress") => options.stress = true,
                Value(filter) => options.filters.push(filter.string()?),
                other => return Err(other.unexpected().into()),
            }
        }
        Ok(options)
    }
}

/// Prints the plan and runs its steps. Filters select tests and leave the other two runners out.
pub(crate) fn run(options: &TestOptions) -> Result<()> {
    let plan = if options.filters.is_empty() {
        TestPlan::complete()
    } else {
        TestPlan::filtered()
    };
    eprint!("{}", plan.describe(BuildState::detect(&target_directory()?)));
    let mut runner = TestRunner::new(options);
    let total = StopWatch::start();
    for (position, step) in plan.steps() {
        let watch = StopWatch::start();
        eprintln!("== {position} {step}");
        runner.run_step(step)?;
        // Nothing follows the summary of the last runner.
        if step != TestStep::Tests {
            let (span, total) = (format_span(watch.elapsed()), format_span(total.elapsed()));
            eprintln!("== {position} {step}: {span}, {total} in total");
        }
    }
    Ok(())
}

/// Options of a run, and the tools found by its first step.
struct TestRunner<'a> {
    options: &'a TestOptions,
    has_nextest: bool,
    /// Words in the names of tests whose tool is missing.
    skipped_words: Vec<&'static str>,
}

impl<'a> TestRunner<'a> {
    fn new(options: &'a TestOptions) -> Self {
        Self {
            options,
            has_nextest: true,
            skipped_words: Vec::new(),
        }
    }

    fn run_step(&mut self, step: TestStep) -> Result<()> {
        match step {
            TestStep::Install => self.install_tools(),
            TestStep::Compile => self.compile_command().run(),
            TestStep::DocTests => CommandLine::cargo("test --doc --workspace").run(),
            TestStep::ModelCheck => run_model_check(),
            TestStep::Tests => self.test_command().run(),
        }
    }

    fn install_tools(&mut self) -> Result<()> {
        self.has_nextest = NEXTEST.ensure_installed()?;
        for (tool, word) in SERVER_TOOLS {
            if !tool.ensure_installed()? {
                self.skipped_words.push(word);
            }
        }
        for tool in CLIENT_TOOLS {
            tool.ensure_installed()?;
        }
        Ok(())
    }

    fn compile_command(&self) -> CommandLine {
        self.runner_command().args(["--no-run"])
    }

    fn test_command(&self) -> CommandLine {
        let stress_flags: &[&str] = match (self.options.stress, self.has_nextest) {
            (false, _) => &[],
            (true, true) => &["--run-ignored", "all"],
            (true, false) => &["--include-ignored"],
        };
        let skips: Vec<_> = self.skipped_words.iter().flat_map(|word| ["--skip", word]).collect();
        let runner = self.runner_command();
        if !self.has_nextest {
            let harness = runner.args(["--"]).args(stress_flags);
            return harness.args(&self.options.filters).args(skips);
        }
        let nextest = runner.args(stress_flags).args(&self.options.filters);
        if skips.is_empty() {
            return nextest;
        }
        nextest.args(["--"]).args(skips)
    }

    /// Returns the call of nextest, or of cargo's own runner if nextest is missing.
    fn runner_command(&self) -> CommandLine {
        if self.has_nextest {
            CommandLine::cargo("nextest run --workspace")
        } else {
            CommandLine::cargo("test --workspace --lib --bins --tests --examples")
        }
    }
}

/// Runs the loom tests in the dev profile, which optimises the core and loom.
fn run_model_check() -> Result<()> {
    if !repository_root().join(LOOM_TESTS).exists() {
        eprintln!("no model check: {LOOM_TESTS} does not exist");
        return Ok(());
    }
    // Its own directory: other flags for every crate would replace the artefacts of the tests.
    let target = target_directory()?.join("loom");
    CommandLine::cargo("test --package outflow-core --test loom")
        .env("RUSTFLAGS", "--cfg loom")
        .env("LOOM_MAX_PREEMPTIONS", MAX_PREEMPTIONS)
        .env("CARGO_TARGET_DIR", target.display().to_string())
        .run()
}

const LOOM_TESTS: &str = "crates/core/tests/loom.rs";

/// Almost every known race needs at most two forced thread switches; three leaves a margin and ends
/// within a minute.
const MAX_PREEMPTIONS: &str = "3";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> TestOptions {
        TestOptions::parse(Parser::from_args(args)).expect("valid")
    }

    fn command(args: &[&str], has_nextest: bool, skipped_words: &[&'static str]) -> String {
        let options = parse(args);
        let runner = TestRunner {
            options: &options,
            has_nextest,
            skipped_words: skipped_words.to_vec(),
        };
        runner.test_command().to_string()
    }

    #[test]
    fn a_stress_run_includes_the_ignored_tests() {
        assert_eq!(command(&["meter"], true, &[]), "cargo nextest run --workspace meter");
        assert_eq!(
            command(&["--stress"], true, &[]),
            "cargo nextest run --workspace --run-ignored all"
        );
        assert!(command(&["--stress"], false, &[]).ends_with(" -- --include-ignored"));
    }

    #[test]
    fn tests_of_a_missing_tool_are_skipped() {
        let with_nextest = command(&["store"], true, &["redis", "newman"]);
        assert!(
            with_nextest.ends_with(" store -- --skip redis --skip newman"),
            "{with_nextest}"
        );
        let without = command(&["store"], false, &["redis"]);
        assert!(without.ends_with(" -- store --skip redis"), "{without}");
    }

    // Other flags would compile other artefacts than the run needs.
    #[test]
    fn the_compile_step_builds_what_the_test_step_runs() {
        let options = parse(&[]);
        for has_nextest in [true, false] {
            let runner = TestRunner {
                options: &options,
                has_nextest,
                skipped_words: Vec::new(),
            };
            let compile = runner.compile_command().to_string();
            let run = runner.test_command().to_string();
            let shared = run.trim_end_matches(" --");
            assert_eq!(compile, format!("{shared} --no-run"));
        }
    }

    #[test]
    fn an_unknown_flag_is_an_error() {
        assert!(TestOptions::parse(Parser::from_args(["--fast"])).is_err());
    }
}
