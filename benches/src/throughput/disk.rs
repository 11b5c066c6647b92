//! The contest on the disk: durable before it is answered.
//!
//! Only a sync makes an append durable, and a sync takes as long as the disk takes, which differs from one
//! second to the next by a factor of five: so ours and its floor have short turns that alternate, and a
//! ratio is taken within a round. The floor is a bare journal that syncs as often as ours. It keeps a job once
//! and never takes it out; that is the whole of its life there, so nothing stands beside ours in how fast jobs
//! are taken out.

use std::io;

use super::contender::Contender;
use super::journal::Journal;
use super::life::{rate, timed};
use super::ours::Shape;
use super::ours_embedded::{self, Singles};
use super::sqlite::CommitPerJob;
use crate::figure::{Figure, Goal};
use crate::measure::{Plan, Series};

/// Every figure, in rounds in which each contender has a turn.
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
    contests.iter().flat_map(Contest::told).collect()
}

fn contests() -> io::Result<Vec<Contest>> {
    let thousand = Shape {
        batch: 1_000,
        ..Shape::USUAL
    };
    Ok(vec![
        Contest {
            figure: "embedded_life_per_s_100",
            goal: Goal::RatioAtLeast(0.85),
            halves: Halves::Shown,
            jobs: 5_000,
            ours: Seat::of(ours_embedded::fresh(Shape::USUAL)?),
            floor: Seat::of(Journal::syncing(100)?),
        },
        Contest {
            figure: "embedded_life_per_s_1000",
            goal: Goal::AtLeast(100_000.0),
            halves: Halves::Untold,
            jobs: 50_000,
            ours: Seat::of(ours_embedded::fresh(thousand)?),
            floor: Seat::of(Journal::syncing(1_000)?),
        },
        Contest {
            figure: "embedded_single_per_s",
            goal: Goal::RatioAtLeast(20.0),
            halves: Halves::Untold,
            // Ten of each submitter.
            jobs: 640,
            ours: Seat::of(Singles::fresh()?),
            floor: Seat::of(CommitPerJob::open()?),
        },
    ])
}

/// Ours and its floor in one figure.
struct Contest {
    figure: &'static str,
    goal: Goal,
    halves: Halves,
    /// A tenth of a second of work, more or less.
    jobs: u64,
    ours: Seat,
    floor: Seat,
}

impl Contest {
    /// Who was second is first the next time.
    fn round(&mut self, round: usize) {
        let mut seats = [&mut self.ours, &mut self.floor];
        if round % 2 == 1 {
            seats.reverse();
        }
        for seat in seats {
            seat.turn(self.jobs);
        }
    }

    fn told(&self) -> Vec<Figure> {
        let beside = |name, goal, part: fn(&Turn) -> f64| {
            Figure::against(
                name,
                goal,
                &self.ours.series(part),
                &self.floor.series(part),
            )
        };
        let mut figures = vec![beside(self.figure, self.goal, |turn| turn.life)];
        if self.halves == Halves::Shown {
            let goal = Goal::ShownHigher;
            figures.push(beside("embedded_enqueue_per_s", goal, |t| t.enqueued));
            let processed = self.ours.series(|turn| turn.processed).nanos;
            figures.push(Figure::alone("embedded_process_per_s", goal, &processed));
        }
        figures
    }
}

/// Whether the two halves of a life are rows of their own: those of the usual batch are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Halves {
    Shown,
    Untold,
}

/// Jobs a second in one turn.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Turn {
    life: f64,
    enqueued: f64,
    processed: f64,
}

impl Turn {
    /// One that failed. It leaves no number, so that ratios stay within their rounds.
    const FAILED: Self = Self {
        life: f64::NAN,
        enqueued: f64::NAN,
        processed: f64::NAN,
    };

    fn of(contender: &mut dyn Contender, jobs: u64) -> io::Result<Self> {
        let putting = timed(|| contender.enqueue(jobs))?;
        let taking = timed(|| contender.drain(jobs))?;
        Ok(Self {
            life: rate(jobs, putting + taking),
            enqueued: rate(jobs, putting),
            processed: rate(jobs, taking),
        })
    }
}

/// A contender, and what it reached in each round.
struct Seat {
    contender: Box<dyn Contender>,
    turns: Vec<Turn>,
}

impl Seat {
    fn of(contender: impl Contender + 'static) -> Self {
        Self {
            contender: Box::new(contender),
            turns: Vec::new(),
        }
    }

    fn turn(&mut self, jobs: u64) {
        let turn = Turn::of(self.contender.as_mut(), jobs).unwrap_or_else(|why| {
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
