//! `waiters`: many tasks on one limit.
//!
//! Every contender gets the same tasks on the same runtime: a task acquires one permit, records the instant at
//! which it resumes, and ends. Ours settles its permit, which the others do not have; that is in its time. All
//! read the operating system's clock.
//!
//! The plain names are 10,000 tasks at 100 per 10 ms on a single-threaded runtime, where the limiter and not
//! the scheduler decides the order. The other cases have suffixes and show the best peer only.

mod bytes;
mod cancel;
mod case;
mod contenders;
mod race;
mod ready;
mod wait_limit;

use crate::clock;
use crate::figure::{Figure, Goal};
use crate::measure::{Plan, approx};
use case::{Case, Limit};
use contenders::Entrant;
use race::Outcome;

/// Measures all figures of waiting.
pub(crate) fn figures(plan: Plan) -> Vec<Figure> {
    // The budget starts here.
    clock::since_begin();
    let mut figures = ready::figures(plan);
    figures.extend(bytes::figures());
    figures.extend(races(plan, Case::HEADLINE));
    figures.extend(cancel::figures(plan));
    for case in Case::others(plan) {
        figures.extend(races(plan, case));
    }
    figures
}

/// Value that is read from a race.
struct Measure {
    name: &'static str,
    goal: Goal,
    of: fn(&Outcome) -> f64,
    /// A goal that must always hold is judged by its worst round.
    over: Over,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Over {
    Median,
    Worst,
}

fn races(plan: Plan, case: Case) -> Vec<Figure> {
    let entrants = contenders::able(plan, case);
    let mut outcomes: Vec<Vec<Outcome>> = entrants.iter().map(|_| Vec::new()).collect();
    for round in case.turns(plan) {
        for turn in 0..entrants.len() {
            let index = (round + turn) % entrants.len();
            if let (Some(entrant), Some(seen)) = (entrants.get(index), outcomes.get_mut(index)) {
                seen.extend((entrant.race)(case));
            }
        }
    }
    MEASURES
        .iter()
        .flat_map(|measure| measure.figures(case, &entrants, &outcomes))
        .collect()
}

impl Measure {
    fn figures(&self, case: Case, entrants: &[Entrant], outcomes: &[Vec<Outcome>]) -> Vec<Figure> {
        let name = format!("{}{}", self.name, case.suffix());
        let all: Vec<(&str, Vec<f64>)> = entrants
            .iter()
            .zip(outcomes)
            .map(|(entrant, outcomes)| (entrant.name, self.read(outcomes)))
            .collect();
        let Some(((_, ours), peers)) = all.split_first() else {
            return Vec::new();
        };
        if ours.is_empty() {
            return vec![Figure::missing(&name, "", "missing: no runtime, or a task was refused")];
        }
        let mut peers: Vec<(&str, &[f64])> = peers.iter().map(|(name, seen)| (*name, &**seen)).collect();
        if !case.is_headline() {
            peers.sort_by(|one, other| best(one.1).total_cmp(&best(other.1)));
            peers.truncate(1);
        }
        Figure::with_peers(&name, self.goal_in(case), ours, &peers)
    }

    fn read(&self, outcomes: &[Outcome]) -> Vec<f64> {
        let seen = outcomes.iter().map(self.of);
        match self.over {
            Over::Median => seen.collect(),
            Over::Worst => seen.reduce(f64::max).into_iter().collect(),
        }
    }

    /// Returns the goal of a case. With several threads the scheduler decides the order of woken tasks, and the
    /// system the cost of a wake-up.
    fn goal_in(&self, case: Case) -> Goal {
        match self.name {
            DISPLACEMENT if case.is_stolen_from() => Goal::Shown,
            CPU if case.is_one_by_one() => Goal::Shown,
            _ => self.goal,
        }
    }
}

fn best(seen: &[f64]) -> f64 {
    seen.iter().copied().fold(f64::INFINITY, f64::min)
}

const DISPLACEMENT: &str = "displacement";
const CPU: &str = "cpu_us_per_grant";

const MEASURES: [Measure; 5] = [
    Measure {
        name: "makespan",
        goal: Goal::Own(1.02),
        of: |outcome| outcome.makespan,
        over: Over::Median,
    },
    Measure {
        name: "max_window",
        goal: Goal::Own(1.0),
        of: |outcome| outcome.max_window,
        over: Over::Worst,
    },
    Measure {
        name: "polls_per_grant",
        goal: Goal::Own(2.0),
        of: |outcome| outcome.polls_per_grant,
        over: Over::Median,
    },
    Measure {
        name: DISPLACEMENT,
        goal: Goal::Own(0.0),
        of: |outcome| approx(outcome.displacement),
        over: Over::Worst,
    },
    Measure {
        name: CPU,
        goal: Goal::Own(2.5),
        of: |outcome| outcome.cpu_us_per_grant,
        over: Over::Median,
    },
];
