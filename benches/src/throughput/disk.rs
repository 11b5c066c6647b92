//! The contest on the disk: durable before it is acknowledged.
//!
//! Only a sync makes an append durable, and the time of a sync varies by a factor of five from one second to
//! the next. So ours and its floor have short turns that alternate, and a ratio is taken within a round. The
//! floor is a bare journal that syncs as often as ours. It stores a job once and never removes it, so ours has
//! no peer for the speed of claims.

use std::io;

use super::contender::Contender;
use super::journal::Journal;
use super::life::{rate, timed};
use super::ours::Shape;
use super::ours_embedded::{self, Singles};
use super::sqlite::CommitPerJob;
use crate::figure::{Figure, Goal};
use crate::measure::{Plan, Series};

/// Measures every figure, in rounds in which each contender has a turn.
pub(super) fn figures(plan: Plan) -> Vec<Figure> {
    let mut contests = match contests() {
        Ok(contests) => contests,
        Err(why) => return vec![Figure::missing("embedded", "", &format!("missing: {why}"))],
    };
    let rounds = if plan.is_thorough() { 21 } else { 7 };
    for round in 0..rounds {
        for contest in &mut contests {
            contest.round(round);
        }
    }
    contests.iter().flat_map(Contest::figures).collect()
}

fn contests() -> io::Result<Vec<Contest>> {
    let thousand = Shape {
        batch: 1_000,
        ..Shape::DEFAULT
    };
    Ok(vec![
        Contest {
            figure: "embedded_life_per_s_100",
            goal: Goal::RatioAtLeast(0.85),
            halves: HalfRows::Shown,
            jobs: 5_000,
            ours: ContenderTurns::new(ours_embedded::fresh(Shape::DEFAULT)?),
            floor: ContenderTurns::new(Journal::syncing(100)?),
        },
        Contest {
            figure: "embedded_life_per_s_1000",
            goal: Goal::AtLeast(100_000.0),
            halves: HalfRows::Hidden,
            jobs: 50_000,
            ours: ContenderTurns::new(ours_embedded::fresh(thousand)?),
            floor: ContenderTurns::new(Journal::syncing(1_000)?),
        },
        Contest {
            figure: "embedded_single_per_s",
            goal: Goal::RatioAtLeast(20.0),
            halves: HalfRows::Hidden,
            // Ten of each submitter.
            jobs: 640,
            ours: ContenderTurns::new(Singles::fresh()?),
            floor: ContenderTurns::new(CommitPerJob::open()?),
        },
    ])
}

/// Ours and its floor in one figure.
struct Contest {
    figure: &'static str,
    goal: Goal,
    halves: HalfRows,
    /// About a tenth of a second of work.
    jobs: u64,
    ours: ContenderTurns,
    floor: ContenderTurns,
}

impl Contest {
    /// Gives both a turn; the order alternates.
    fn round(&mut self, round: usize) {
        let mut sides = [&mut self.ours, &mut self.floor];
        if round % 2 == 1 {
            sides.reverse();
        }
        for side in sides {
            side.turn(self.jobs);
        }
    }

    fn figures(&self) -> Vec<Figure> {
        let compare = |name, goal, part: fn(&Turn) -> f64| {
            Figure::against(name, goal, &self.ours.series(part), &self.floor.series(part))
        };
        let mut figures = vec![compare(self.figure, self.goal, |turn| turn.life)];
        if self.halves == HalfRows::Shown {
            let goal = Goal::ShownHigher;
            figures.push(compare("embedded_enqueue_per_s", goal, |t| t.enqueued));
            let processed = self.ours.series(|turn| turn.processed).nanos;
            figures.push(Figure::alone("embedded_process_per_s", goal, &processed));
        }
        figures
    }
}

/// Visibility of the two halves of a life as separate rows: only those of the default batch are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum HalfRows {
    Shown,
    Hidden,
}

/// Jobs a second in one turn.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Turn {
    life: f64,
    enqueued: f64,
    processed: f64,
}

impl Turn {
    /// A failed turn leaves NaN, so that ratios stay within their rounds.
    const FAILED: Self = Self {
        life: f64::NAN,
        enqueued: f64::NAN,
        processed: f64::NAN,
    };

    fn measure(contender: &mut dyn Contender, jobs: u64) -> io::Result<Self> {
        let enqueueing = timed(|| contender.enqueue(jobs))?;
        let draining = timed(|| contender.drain(jobs))?;
        Ok(Self {
            life: rate(jobs, enqueueing + draining),
            enqueued: rate(jobs, enqueueing),
            processed: rate(jobs, draining),
        })
    }
}

/// A contender, and its rate in each round.
struct ContenderTurns {
    contender: Box<dyn Contender>,
    turns: Vec<Turn>,
}

impl ContenderTurns {
    fn new(contender: impl Contender + 'static) -> Self {
        Self {
            contender: Box::new(contender),
            turns: Vec::new(),
        }
    }

    fn turn(&mut self, jobs: u64) {
        let turn = Turn::measure(self.contender.as_mut(), jobs).unwrap_or_else(|why| {
            eprintln!("SKIPPED a turn of {}: {why}", self.contender.name());
            Turn::FAILED
        });
        self.turns.push(turn);
    }

    fn series(&self, part: fn(&Turn) -> f64) -> Series {
        Series {
            name: self.contender.name(),
            nanos: self.turns.iter().map(part).collect(),
            strays: 0.0,
        }
    }
}
