//! The rows of the table.

use std::fmt;

use super::judge::Judged;
use super::scenario::{
    ASYMMETRIC, CAPPED, COME_AND_GO, HALVED, HEADLINE, MANY, Pace, SILENT, THOUSAND, WEIGHTS,
};
use crate::figure::{Figure, Goal};
use crate::measure::approx;

/// How one contender did in one scenario.
pub(super) struct Verdict {
    pub(super) name: &'static str,
    pub(super) scenario: &'static str,
    /// In seconds, and against the ideal.
    pub(super) makespan: f64,
    pub(super) over_ideal: f64,
    pub(super) throttles: u64,
    pub(super) jobs: u64,
    pub(super) judged: Judged,
}

impl fmt::Display for Verdict {
    /// As it is told when the run ends, to whoever waits half an hour for the table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, scenario, .. } = self;
        let (makespan, over_ideal) = (self.makespan, self.over_ideal);
        write!(
            f,
            "{scenario} by {name}: {makespan:.1} s, {over_ideal:.3} of the ideal"
        )
    }
}

impl Verdict {
    fn throttles_per_job(&self) -> f64 {
        approx(self.throttles) / approx(self.jobs)
    }
}

/// Every run, and who could not have one.
#[derive(Default)]
pub(super) struct Runs {
    verdicts: Vec<Verdict>,
    pub(super) missing: Vec<&'static str>,
}

impl Runs {
    pub(super) fn add(&mut self, verdict: Verdict) {
        self.verdicts.push(verdict);
    }

    /// A part of each contender's run of a scenario, by their names.
    fn of(&self, scenario: &str, part: fn(&Verdict) -> f64) -> Vec<(&'static str, [f64; 1])> {
        let named = self.verdicts.iter().filter(|v| v.scenario == scenario);
        named.map(|v| (v.name, [part(v)])).collect()
    }
}

/// What every contender came to, beside what ours has to reach.
pub(super) fn told(runs: &Runs, pace: Pace) -> Vec<Figure> {
    let makespan = if pace.rate < LOADED { 1.006 } else { 1.005 };
    let first: Promise = (HEADLINE, "makespan", Goal::Own(makespan), |v| v.over_ideal);
    let mut figures = Vec::new();
    for (scenario, name, goal, part) in std::iter::once(first).chain(PROMISES) {
        let all = runs.of(scenario, part);
        let (ours, peers): (Vec<_>, Vec<_>) = all.iter().partition(|(name, _)| *name == OURS);
        let ours: Vec<f64> = ours.iter().map(|(_, value)| value[0]).collect();
        let peers: Vec<_> = peers.iter().map(|(name, v)| (*name, &v[..])).collect();
        figures.extend(Figure::beside(name, goal, &ours, &peers));
    }
    let missing = runs.missing.iter();
    figures.extend(
        missing.map(|peer| Figure::missing("makespan", peer, "missing: it does not run here")),
    );
    figures
}

/// From this multiple of the rates on the machine is loaded, and the guard weighs nothing.
const LOADED: u64 = 100;

/// A scenario, a figure's name, its goal, and which part of a run it is.
type Promise = (&'static str, &'static str, Goal, fn(&Verdict) -> f64);

const PROMISES: [Promise; 28] = [
    (
        HEADLINE,
        "throttles_per_job",
        NONE,
        Verdict::throttles_per_job,
    ),
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
        Verdict::throttles_per_job,
    ),
    (COME_AND_GO, "come_and_go", PERCENT, |v| v.over_ideal),
    (COME_AND_GO, "come_and_go_late_s", ONE, |v| v.judged.late),
    (COME_AND_GO, "come_and_go_refused", NONE, |v| {
        v.judged.refused
    }),
    (ASYMMETRIC, "asymmetric_finish", PERCENT, |v| {
        v.judged.finish
    }),
    (ASYMMETRIC, "asymmetric_jain", Goal::ShownHigher, |v| {
        v.judged.jain
    }),
    (ASYMMETRIC, "asymmetric_refused", NONE, |v| v.judged.refused),
    (WEIGHTS, "weights_astray_jobs", ONE, |v| v.judged.astray),
    (WEIGHTS, "weights_refused", NONE, |v| v.judged.refused),
    (CAPPED, "weights_capped_astray_jobs", ONE, |v| {
        v.judged.astray
    }),
    (CAPPED, "weights_capped_refused", NONE, |v| v.judged.refused),
    (HALVED, "halved", PERCENT, |v| v.over_ideal),
    (HALVED, "halved_refused", Goal::Shown, |v| v.judged.refused),
    (SILENT, "halved_in_silence", Goal::Shown, |v| v.over_ideal),
    (SILENT, "halved_in_silence_refused", Goal::Shown, |v| {
        v.judged.refused
    }),
    (MANY, "many", PERCENT, |v| v.over_ideal),
    (MANY, "many_jain", Goal::AtLeast(0.99), |v| v.judged.jain),
    (MANY, "many_refused", NONE, |v| v.judged.refused),
    (MANY, "many_peak_window", ONE, |v| v.judged.peak),
];

const NONE: Goal = Goal::Own(0.0);
const ONE: Goal = Goal::Own(1.0);
/// A hundredth over the ideal.
const PERCENT: Goal = Goal::Own(1.01);

/// What ours is called where it keeps its promises; its other schedulers stand beside it.
const OURS: &str = "Outflow";
