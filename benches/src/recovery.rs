//! Bad days of an API with the client as a user configures it: an address and limits, and nothing else.
//!
//! Ours is played in virtual time, so that outages of minutes take a second, with each of several limits and
//! latencies and three instants of healing; the worst counts. The peers have no clock that can be replaced:
//! two shorter outages are played for them in real time, together with ours.

use std::time::Duration;

use outflow_testkit::recovery::{RecoveryFigures, RecoveryPlan, RecoveryScenario};
use tokio::runtime::Builder;

use crate::figure::{Figure, Goal};
use crate::measure::Plan;

mod bulk_outages;
mod long_runs;
mod peers;
mod real_time;

/// Plays every scenario, and reports the goals.
pub(crate) fn figures(plan: Plan) -> Vec<Figure> {
    let mut figures = Vec::new();
    for cell in CELLS.iter().filter(|cell| plan.is_thorough() || cell.is_main()) {
        let phases = if plan.is_thorough() { &PHASES[..] } else { &PHASES[..1] };
        figures.extend(cell.figures(phases));
    }
    if plan.is_thorough() {
        figures.extend(long_runs::figures());
    }
    figures.extend(bulk_outages::figures());
    figures.extend(real_time::figures());
    figures
}

/// Limits and a latency.
struct BenchCell {
    limits: &'static [&'static str],
    latency: Duration,
}

impl BenchCell {
    const fn new(limits: &'static [&'static str], millis: u64) -> Self {
        Self {
            limits,
            latency: Duration::from_millis(millis),
        }
    }

    /// Returns true for the cell of the main table.
    fn is_main(&self) -> bool {
        self.limits == ["35/s"] && self.is_near()
    }

    fn is_near(&self) -> bool {
        self.latency < Duration::from_secs(1)
    }

    fn is_by_minute(&self) -> bool {
        self.limits.iter().any(|limit| limit.ends_with("min"))
    }

    fn figures(&self, phases: &[Duration]) -> Vec<Figure> {
        let scenarios = |phase: &Duration| RecoveryScenario::all(self.is_by_minute(), *phase);
        let names: Vec<_> = scenarios(&Duration::ZERO).iter().map(|one| one.name).collect();
        let mut figures = Vec::new();
        for name in names {
            let days = phases.iter().flat_map(scenarios).filter(|one| one.name == name);
            let runs: Vec<_> = days.filter_map(|day| self.play(day)).collect();
            figures.extend(self.judged(name, &runs));
        }
        figures
    }

    /// Plays one scenario in a runtime of its own, whose time begins with it.
    fn play(&self, day: RecoveryScenario) -> Option<RecoveryFigures> {
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build();
        let plan = RecoveryPlan::new(self.limits, self.latency, day);
        Some(runtime.ok()?.block_on(plan.run()))
    }

    fn judged(&self, name: &str, runs: &[RecoveryFigures]) -> Vec<Figure> {
        let parts = self.parts(name);
        let figures = parts.into_iter().map(|(part, goal, value)| {
            let worst = runs.iter().map(value).fold(f64::NEG_INFINITY, f64::max);
            // A rate that never came back has no number; any that misses every goal will do.
            let worst = if worst.is_infinite() { NEVER } else { worst };
            let millis = self.latency.as_millis();
            let name = format!("{part}: {name}, {}, {millis} ms", self.limits.join("+"));
            Figure::alone(&name, goal, &[worst])
        });
        figures.collect()
    }

    /// Returns the figures of a scenario with their goals.
    fn parts(&self, name: &str) -> Vec<FigurePart> {
        let failed = if self.is_near() {
            Goal::Own(most_failed(name))
        } else {
            Goal::Shown
        };
        let mut parts: Vec<FigurePart> = vec![
            ("failed_percent", failed, |run| run.failed),
            ("refused_per_10k", Goal::Shown, |run| run.refused),
            ("left_normal", most_left(name), |run| approx(run.left_normal)),
        ];
        if OUTAGES.contains(&name) {
            let full = if self.is_by_minute() { 120.0 } else { 30.0 };
            let half = if self.is_by_minute() {
                Goal::Shown
            } else {
                Goal::Own(10.0)
            };
            parts.push(("seconds_to_95", Goal::Own(full), RecoveryFigures::to_full_after_wait));
            parts.push(("seconds_to_50", half, RecoveryFigures::to_half_after_wait));
        } else if name.contains("idle") {
            parts.push(("limits_lowered", self.most_lowered(), |run| approx(run.lowered)));
        } else {
            parts.push(("seconds_to_95", self.most_seconds(name), |run| run.to_full));
        }
        if DEAD.contains(&name) {
            parts.push(("sent_per_s_after_20s", Goal::Own(1.0), |run| run.sent_late));
        }
        parts
    }

    /// Returns the goal of trouble that must not slow anything down. News of it takes an exchange, and
    /// limits by the minute are seen in steps of two seconds.
    fn most_seconds(&self, name: &str) -> Goal {
        if !name.contains("with headers") && !name.contains("404s") {
            return Goal::Shown;
        }
        Goal::Own(match (self.is_near(), self.is_by_minute()) {
            (true, false) => 0.0,
            _ => 2.0,
        })
    }

    /// Returns the goal of throttles on an idle API. A call a second uses more than half of 100 a minute,
    /// so that a throttle is evidence about it.
    fn most_lowered(&self) -> Goal {
        if self.limits.contains(&"100/min") {
            return Goal::Shown;
        }
        Goal::Own(0.0)
    }
}

/// A figure's name, its goal, and its value of a run.
type FigurePart = (&'static str, Goal, fn(&RecoveryFigures) -> f64);

/// Throttle halves the rate at a quarter of errors, which callers at four fifths of it cannot all afford.
fn most_failed(name: &str) -> f64 {
    if name.starts_with("25 %") { 25.0 } else { 2.0 }
}

fn most_left(name: &str) -> Goal {
    if name.starts_with("5 %") {
        Goal::Own(0.0)
    } else {
        Goal::Shown
    }
}

fn approx(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

const CELLS: [BenchCell; 8] = [
    BenchCell::new(&["35/s"], 50),
    BenchCell::new(&["35/s"], 2_000),
    BenchCell::new(&["5/s"], 50),
    BenchCell::new(&["5/s"], 2_000),
    BenchCell::new(&["50/s", "100/min"], 50),
    BenchCell::new(&["50/s", "100/min"], 2_000),
    BenchCell::new(&["500/min"], 50),
    BenchCell::new(&["500/min"], 2_000),
];

/// Delays of healing: outages end at different phases of our own waits.
const PHASES: [Duration; 3] = [
    Duration::ZERO,
    Duration::from_millis(1_700),
    Duration::from_millis(3_400),
];

const OUTAGES: [&str; 7] = [
    "429 for 20 s",
    "one 429, Retry-After 60",
    "503 for 2 min",
    "refused for 2 min",
    "hang for 2 min",
    "503, Retry-After 10, 2 min",
    "flapping 10 s/10 s, 5 min",
];

/// Outages in which nothing passes for longer than 20 s.
const DEAD: [&str; 5] = [
    "one 429, Retry-After 60",
    "503 for 2 min",
    "refused for 2 min",
    "hang for 2 min",
    "503, Retry-After 10, 2 min",
];

/// Stands for a rate that was not back when the run ended.
const NEVER: f64 = 9_999.0;
