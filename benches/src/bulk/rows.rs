//! The rows of the table.
//!
//! Times are medians over the rounds. Values that must always hold show the worst round: a throttle in one
//! round of three is a throttle.

use std::fmt;

use super::judge::Judged;
use super::scenario::{
    ASYMMETRIC, CAPPED, COME_AND_GO, HALVED, HEADLINE, MAKESPAN_LOADED, MANY, SILENT, THOUSAND, TimeScale, WEIGHTS,
};
use crate::figure::{Figure, Goal};
use crate::measure::approx;

/// Result of one contender in one scenario.
pub(super) struct RunResult {
    pub(super) name: &'static str,
    pub(super) scenario: &'static str,
    /// Duration in seconds, and as a ratio to the ideal.
    pub(super) makespan: f64,
    pub(super) over_ideal: f64,
    pub(super) throttles: u64,
    pub(super) jobs: u64,
    pub(super) judged: Judged,
}

impl fmt::Display for RunResult {
    /// Progress line of a run: the table comes only after half an hour.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, scenario, .. } = self;
        let (makespan, over_ideal) = (self.makespan, self.over_ideal);
        write!(f, "{scenario} by {name}: {makespan:.1} s, {over_ideal:.3} of the ideal")
    }
}

impl RunResult {
    fn throttles_per_job(&self) -> f64 {
        approx(self.throttles) / approx(self.jobs)
    }
}

/// Every run, and the contenders that could not run.
#[derive(Default)]
pub(super) struct Runs {
    verdicts: Vec<RunResult>,
    pub(super) missing: Vec<&'static str>,
}

impl Runs {
    pub(super) fn add(&mut self, run_result: RunResult) {
        self.verdicts.push(run_result);
    }

    /// Returns one value of each contender's runs of a scenario, round by round.
    fn values_of(&self, scenario: &str, part: fn(&RunResult) -> f64) -> Vec<(&'static str, Vec<f64>)> {
        let mut all: Vec<(_, Vec<f64>)> = Vec::new();
        for run_result in self.verdicts.iter().filter(|v| v.scenario == scenario) {
            let value = part(run_result);
            match all.iter_mut().find(|(name, _)| *name == run_result.name) {
                Some((_, rounds)) => rounds.push(value),
                None => all.push((run_result.name, vec![value])),
            }
        }
        all
    }
}

/// Returns the results of all contenders, with our goals.
pub(super) fn figures(runs: &Runs, scale: TimeScale) -> Vec<Figure> {
    let makespan = if scale.rate < FAST { 1.006 } else { 1.005 };
    let first: FigureGoal = (HEADLINE, "makespan", Goal::Own(makespan), |v| v.over_ideal);
    let mut figures = Vec::new();
    for (scenario, name, goal, part) in std::iter::once(first).chain(GOALS) {
        let all = runs.values_of(scenario, part);
        let rows = with_peers(name, goal, &all);
        if !must_always_hold(goal) {
            figures.extend(rows);
            continue;
        }
        let worst: Vec<_> = all.iter().map(|(who, v)| (*who, vec![worst(v)])).collect();
        let worst = with_peers(name, goal, &worst).into_iter().zip(rows);
        figures.extend(worst.map(|(worst, Figure { spread, .. })| Figure { spread, ..worst }));
    }
    let missing = runs.missing.iter();
    figures.extend(missing.map(|peer| Figure::missing("makespan", peer, "missing: it does not run here")));
    figures
}

fn with_peers(name: &str, goal: Goal, all: &[(&'static str, Vec<f64>)]) -> Vec<Figure> {
    let (ours, peers): (Vec<_>, Vec<_>) = all.iter().partition(|(who, _)| *who == OURS);
    let ours: Vec<f64> = ours.iter().flat_map(|(_, rounds)| rounds.clone()).collect();
    let peers: Vec<_> = peers.iter().map(|(who, v)| (*who, &v[..])).collect();
    Figure::with_peers(name, goal, &ours, &peers)
}

/// Returns true for values that must hold in every round, such as throttles. Times have goals above one, as
/// ratios to the ideal or in seconds.
fn must_always_hold(goal: Goal) -> bool {
    matches!(goal, Goal::Own(most) if most <= 1.0)
}

/// Returns the worst round; NaN is worse than any value.
fn worst(rounds: &[f64]) -> f64 {
    let worse = |worst: f64, one: &f64| if one.is_nan() { *one } else { worst.max(*one) };
    rounds.iter().fold(f64::MIN, worse)
}

/// From this multiple of the rates on, the goal for a thousand calls a second applies.
const FAST: u64 = 100;

/// A scenario, a figure's name, its goal, and its value of a run.
type FigureGoal = (&'static str, &'static str, Goal, fn(&RunResult) -> f64);

const GOALS: [FigureGoal; 31] = [
    (HEADLINE, "throttles_per_job", NONE, RunResult::throttles_per_job),
    (HEADLINE, "refused", NONE, |v| v.judged.refused),
    (HEADLINE, "peak_window", ONE, |v| v.judged.peak),
    (HEADLINE, "jain", Goal::AtLeast(0.999), |v| v.judged.jain),
    (HEADLINE, "lost", NONE, |v| v.judged.lost),
    (HEADLINE, "doubled", NONE, |v| v.judged.doubled),
    (THOUSAND, "thousand_s", Goal::Own(10.1), |v| v.makespan),
    (THOUSAND, "thousand_refused", NONE, |v| v.judged.refused),
    (THOUSAND, "thousand_peak_window", ONE, |v| v.judged.peak),
    (
        THOUSAND,
        "thousand_throttles_per_job",
        Goal::Shown,
        RunResult::throttles_per_job,
    ),
    (COME_AND_GO, "come_and_go", PERCENT, |v| v.over_ideal),
    (COME_AND_GO, "come_and_go_late_s", ONE, |v| v.judged.late),
    (COME_AND_GO, "come_and_go_refused", NONE, |v| v.judged.refused),
    (ASYMMETRIC, "asymmetric_finish", PERCENT, |v| v.judged.finish),
    (ASYMMETRIC, "asymmetric_jain", Goal::ShownHigher, |v| v.judged.jain),
    (ASYMMETRIC, "asymmetric_refused", NONE, |v| v.judged.refused),
    (WEIGHTS, "weights_astray_jobs", ONE, |v| v.judged.astray),
    (WEIGHTS, "weights_refused", NONE, |v| v.judged.refused),
    (CAPPED, "weights_capped_astray_jobs", ONE, |v| v.judged.astray),
    (CAPPED, "weights_capped_refused", NONE, |v| v.judged.refused),
    (HALVED, "halved", PERCENT, |v| v.over_ideal),
    (HALVED, "halved_refused", Goal::Shown, |v| v.judged.refused),
    (SILENT, "halved_in_silence", Goal::Shown, |v| v.over_ideal),
    (SILENT, "halved_in_silence_refused", Goal::Shown, |v| v.judged.refused),
    (MANY, "many", PERCENT, |v| v.over_ideal),
    (MANY, "many_jain", Goal::AtLeast(0.99), |v| v.judged.jain),
    (MANY, "many_refused", NONE, |v| v.judged.refused),
    (MANY, "many_peak_window", ONE, |v| v.judged.peak),
    (MAKESPAN_LOADED, "makespan_loaded", Goal::Own(1.005), |v| v.over_ideal),
    (MAKESPAN_LOADED, "makespan_loaded_refused", NONE, |v| v.judged.refused),
    (MAKESPAN_LOADED, "makespan_loaded_peak_window", ONE, |v| v.judged.peak),
];

const NONE: Goal = Goal::Own(0.0);
const ONE: Goal = Goal::Own(1.0);
/// A hundredth over the ideal.
const PERCENT: Goal = Goal::Own(1.01);

/// Name of the scheduler that has the goals; the others are shown next to it.
const OURS: &str = "Outflow";

#[cfg(test)]
mod tests {
    use super::*;

    fn run_result(makespan: f64, refused: f64) -> RunResult {
        RunResult {
            name: OURS,
            scenario: THOUSAND,
            makespan,
            over_ideal: makespan / 10.0,
            throttles: 0,
            jobs: 1_000,
            judged: Judged {
                refused,
                peak: 1.0,
                lost: 0.0,
                doubled: 0.0,
                jain: 1.0,
                astray: 0.0,
                finish: 1.0,
                late: 0.0,
            },
        }
    }

    // The slow round of three does not decide the time, and the throttle in one of three does.
    #[test]
    fn times_are_medians_and_throttles_the_worst_of_all_rounds() {
        let mut runs = Runs::default();
        for (makespan, refused) in [(10.0, 0.0), (10.04, 2.0), (12.0, 0.0)] {
            runs.add(run_result(makespan, refused));
        }
        let figures = figures(&runs, TimeScale::scaled(10));
        let ours = |name: &str| {
            let figure = figures.iter().find(|figure| figure.name == name);
            figure.map(|figure| (figure.ours, figure.ok))
        };
        assert_eq!(ours("thousand_s"), Some((Some(10.04), true)));
        assert_eq!(ours("thousand_refused"), Some((Some(2.0), false)));
    }
}
