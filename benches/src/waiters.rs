//! `waiters`: many tasks on one limit.
//!
//! Every contender gets the same tasks on the same runtime: a task asks for one permit, notes the
//! instant at which it resumes with it, and ends. Ours settles its permit as answered, which the
//! others have no word for; that is in its time. All read the operating system's clock.
//!
//! The plain names are of 10,000 tasks at 100 per 10 ms on a runtime of one thread, where the order of
//! resuming is the limiter's and not the scheduler's. The other cases carry what they are in their
//! names and show the best peer only.

mod bytes;
mod cancel;
mod case;
mod line;
mod lines;
mod race;
mod ready;

use crate::clock;
use crate::figure::{Figure, Goal};
use crate::measure::{Plan, approx};
use case::{Case, Limit};
use lines::Entrant;
use race::Outcome;

/// Everything that waiting promises.
pub(crate) fn figures(plan: Plan) -> Vec<Figure> {
    // The budget runs from here.
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

/// What is read off a race.
struct Measure {
    name: &'static str,
    goal: Goal,
    of: fn(&Outcome) -> f64,
    /// A promise that holds always is judged by its worst repeat.
    over: Over,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Over {
    Median,
    Worst,
}

fn races(plan: Plan, case: Case) -> Vec<Figure> {
    let entrants = lines::able(plan, case);
    let mut outcomes: Vec<Vec<Outcome>> = entrants.iter().map(|_| Vec::new()).collect();
    for round in case.turns(plan) {
        for turn in 0..entrants.len() {
            let seat = (round + turn) % entrants.len();
            if let (Some(entrant), Some(seen)) = (entrants.get(seat), outcomes.get_mut(seat)) {
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
            return vec![Figure::missing(
                &name,
                "",
                "missing: no runtime, or a task was refused",
            )];
        }
        let mut peers: Vec<(&str, &[f64])> =
            peers.iter().map(|(name, seen)| (*name, &**seen)).collect();
        if !case.is_headline() {
            peers.sort_by(|one, other| best(one.1).total_cmp(&best(other.1)));
            peers.truncate(1);
        }
        Figure::beside(&name, self.goal_in(case), ours, &peers)
    }

    fn read(&self, outcomes: &[Outcome]) -> Vec<f64> {
        let seen = outcomes.iter().map(self.of);
        match self.over {
            Over::Median => seen.collect(),
            Over::Worst => seen.reduce(f64::max).into_iter().collect(),
        }
    }

    /// Who resumes first of those who were called together is the scheduler's choice where there are
    /// several threads, and what a wake-up costs is the system's.
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
