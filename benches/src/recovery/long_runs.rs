//! Hours with a wrong limit or with some errors, and a limit that is four times too high.

use std::time::Duration;

use outflow_core::Rate;
use outflow_testkit::recovery::{RecoveryPlan, RecoveryScenario, RunRecord};
use tokio::runtime::Builder;

use super::approx;
use crate::figure::{Figure, Goal};

const NEAR: Duration = Duration::from_millis(50);
const HOUR: Duration = Duration::from_hours(1);

/// Plays the long runs.
pub(super) fn figures() -> Vec<Figure> {
    let mut figures = wrong_for_an_hour();
    figures.extend(["1/s", "5/s", "35/s"].map(few_errors));
    figures.extend(four_times_too_high());
    figures
}

/// A quarter of 35/s is 8 whole calls a second.
fn wrong_for_an_hour() -> Vec<Figure> {
    let scenario = RecoveryScenario::named("a quarter for ever", false);
    let run = played(&RecoveryPlan::new(&["35/s"], NEAR, lasting(scenario, HOUR)));
    let goodput = 100.0 * approx(run.good.len()) / (8.0 * HOUR.as_secs_f64());
    vec![
        Figure::alone(
            "refused_in_an_hour: a quarter of 35/s, 50 ms",
            Goal::Own(50.0),
            &[approx(run.refused.len())],
        ),
        Figure::alone(
            "goodput_percent: a quarter of 35/s for an hour, 50 ms",
            Goal::AtLeast(90.0),
            &[goodput],
        ),
    ]
}

fn few_errors(limit: &'static str) -> Figure {
    let scenario = RecoveryScenario::named("5 % random 500s", false);
    let run = played(&RecoveryPlan::new(&[limit], NEAR, lasting(scenario, 2 * HOUR)));
    let left = run.moves.len();
    Figure::alone(
        &format!("left_normal: 5 % random 500s for 2 h, {limit}, 50 ms"),
        Goal::Own(0.0),
        &[approx(left)],
    )
}

/// A thousand calls of a hundred callers: 200/s are configured, and the server allows 50/s.
fn four_times_too_high() -> Vec<Figure> {
    let calls = 1_000;
    let healthy = RecoveryScenario::new("a limit that is too high", Duration::ZERO, None, 2 * 60 * SECOND);
    let mut plan = RecoveryPlan::new(&["200/s"], NEAR, healthy);
    plan.server_limits = Rate::per_second(50).ok().map(|rate| vec![rate]);
    plan.workers = Some(100);
    let run = played(&plan);
    let end = run.good.get(calls - 1).copied().unwrap_or(f64::INFINITY);
    let refused = run.refused.iter().filter(|at| **at <= end).count();
    // Twenty windows begin in nineteen seconds.
    let ideal = 19.0 + NEAR.as_secs_f64();
    vec![
        Figure::alone(
            "refused_percent: 200/s configured, 50/s allowed, 1,000 calls, 50 ms",
            Goal::Own(5.0),
            &[100.0 * approx(refused) / approx(calls)],
        ),
        Figure::alone(
            "longer_percent: 200/s configured, 50/s allowed, 1,000 calls, 50 ms",
            Goal::Own(15.0),
            &[100.0 * (end / ideal - 1.0)],
        ),
    ]
}

/// Watches a scenario without an end for this long.
fn lasting(scenario: RecoveryScenario, span: Duration) -> RecoveryScenario {
    let mut scenario = scenario.watched_for(span);
    for trouble in &mut scenario.troubles {
        trouble.to = span;
    }
    scenario
}

fn played(plan: &RecoveryPlan) -> RunRecord {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build();
    #[expect(clippy::expect_used, reason = "without a runtime there is nothing to measure")]
    runtime.expect("a runtime").block_on(plan.run_busy())
}

const SECOND: Duration = Duration::from_secs(1);
