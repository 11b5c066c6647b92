//! Steps of `cargo xtask test`, with the time that each is likely to take.
//!
//! The estimates let a newcomer decide whether to wait. No step depends on them.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use crate::stopwatch::format_span;

/// One step of a test run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TestStep {
    Install,
    Compile,
    DocTests,
    ModelCheck,
    Tests,
}

/// Compiled artefacts at the start of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BuildState {
    /// Nothing is compiled.
    Cold,
    /// An earlier run compiled most crates.
    Warm,
}

impl BuildState {
    /// Looks for a compiled core. Other files prove nothing: xtask has just compiled itself there, and
    /// clippy leaves metadata without code.
    pub(super) fn detect(target: &Path) -> Self {
        let artefacts = std::fs::read_dir(target.join("debug").join("deps"));
        let mut names = artefacts
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned());
        let has_core = names.any(|name| {
            name.starts_with("liboutflow_core-") && Path::new(&name).extension().is_some_and(|end| end == "rlib")
        });
        if has_core { Self::Warm } else { Self::Cold }
    }
}

/// Steps in their order.
pub(super) struct TestPlan(Vec<TestStep>);

impl TestPlan {
    /// Plans all steps.
    pub(super) fn complete() -> Self {
        use TestStep::{Compile, DocTests, Install, ModelCheck, Tests};
        Self(vec![Install, Compile, DocTests, ModelCheck, Tests])
    }

    /// Plans a run of selected tests.
    pub(super) fn filtered() -> Self {
        Self(vec![TestStep::Install, TestStep::Compile, TestStep::Tests])
    }

    /// Iterates over the steps, each with its position, such as `2/5`.
    pub(super) fn steps(&self) -> impl Iterator<Item = (String, TestStep)> {
        let count = self.0.len();
        (1..)
            .zip(&self.0)
            .map(move |(number, step)| (format!("{number}/{count}"), *step))
    }

    /// Lists the steps with their estimates.
    pub(super) fn describe(&self, state: BuildState) -> String {
        let total: Duration = self.0.iter().map(|step| step.estimate(state)).sum();
        let condition = match state {
            BuildState::Cold => "nothing is compiled yet",
            BuildState::Warm => "an earlier run compiled most of it",
        };
        let head = format!(
            "{} steps, about {} on 2 cores ({condition}):\n",
            self.0.len(),
            format_estimate(total)
        );
        let rows = self.steps().map(|(position, step)| {
            let span = format_estimate(step.estimate(state));
            let StepInfo { name, effect, .. } = step.info();
            format!("  {position} {name:<12} {span:>10}  {effect}\n")
        });
        head + &rows.collect::<String>()
    }
}

/// Texts and seconds of a step, without and with compiled artefacts.
struct StepInfo {
    name: &'static str,
    effect: &'static str,
    cold: u64,
    warm: u64,
}

impl TestStep {
    /// The seconds were measured on 2 cores of an otherwise idle machine, with all tools installed.
    fn info(self) -> StepInfo {
        let (name, effect, cold, warm) = match self {
            Self::Install => ("install", INSTALL_EFFECT, 20, 10),
            Self::Compile => ("compile", "compile all crates and their tests", 230, 60),
            Self::DocTests => ("doc tests", DOC_TESTS_EFFECT, 10, 10),
            Self::ModelCheck => ("model check", MODEL_CHECK_EFFECT, 25, 10),
            Self::Tests => ("tests", "run all unit and integration tests", 410, 410),
        };
        StepInfo {
            name,
            effect,
            cold,
            warm,
        }
    }

    fn estimate(self, state: BuildState) -> Duration {
        Duration::from_secs(match state {
            BuildState::Cold => self.info().cold,
            BuildState::Warm => self.info().warm,
        })
    }
}

const INSTALL_EFFECT: &str = "install missing tools, such as cargo-nextest and redis-server";
const DOC_TESTS_EFFECT: &str = "compile and run the examples in the documentation";
const MODEL_CHECK_EFFECT: &str = "run the shared limiter under every thread interleaving";

impl fmt::Display for TestStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.info().name)
    }
}

/// Rounds up to half a minute; below that, to 10 seconds.
fn format_estimate(span: Duration) -> String {
    let grain = if span.as_secs() < 30 { 10 } else { 30 };
    format_span(Duration::from_secs(span.as_secs().next_multiple_of(grain)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_lists_every_step_with_its_estimate() {
        let cold = TestPlan::complete().describe(BuildState::Cold);
        let steps: Vec<_> = cold.lines().skip(1).map(str::trim).collect();
        assert!(cold.starts_with("5 steps, about "), "{cold}");
        assert_eq!(steps.len(), 5, "{cold}");
        assert!(steps[1].starts_with("2/5 compile"), "{cold}");
        assert!(steps.iter().all(|line| line.contains(" min ") || line.contains(" s ")));
        let warm = TestPlan::complete().describe(BuildState::Warm);
        assert_ne!(cold, warm);
    }

    #[test]
    fn selected_tests_need_neither_examples_nor_the_model_checker() {
        let steps: Vec<_> = TestPlan::filtered().steps().collect();
        assert_eq!(steps.len(), 3);
        assert_eq!(steps[2], ("3/3".to_owned(), TestStep::Tests));
    }

    // Xtask itself and clippy write to the same folder.
    #[test]
    fn only_a_compiled_core_makes_a_build_warm() {
        let target = std::env::temp_dir().join(format!("outflow-plan-{}", std::process::id()));
        let deps = target.join("debug").join("deps");
        std::fs::create_dir_all(&deps).expect("writable");
        std::fs::write(deps.join("libanyhow-1.rlib"), "").expect("writable");
        std::fs::write(deps.join("liboutflow_core-1.rmeta"), "").expect("writable");
        assert_eq!(BuildState::detect(&target), BuildState::Cold);
        std::fs::write(deps.join("liboutflow_core-1.rlib"), "").expect("writable");
        assert_eq!(BuildState::detect(&target), BuildState::Warm);
        std::fs::remove_dir_all(&target).expect("removable");
        assert_eq!(BuildState::detect(&target), BuildState::Cold);
    }

    #[test]
    fn estimates_are_rounded_up() {
        for (seconds, shown) in [(4, "10 s"), (61, "1 min 30 s"), (600, "10 min")] {
            assert_eq!(format_estimate(Duration::from_secs(seconds)), shown);
        }
    }
}
