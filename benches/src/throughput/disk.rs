//! The contest on the disk: durable before it is answered.
//!
//! Only a sync makes an append durable, and a sync takes as long as the disk takes, so what a store adds is
//! seen against a bare journal that syncs as often. The journal keeps a job once and never takes it out; that
//! is the whole of its life there, and the floor under everybody else's.

use std::io;

use super::contender::Contender;
use super::journal::Journal;
use super::life::timed;
use super::sqlite::CommitPerJob;
use crate::figure::{Figure, Goal};
use crate::measure::{Plan, approx};

/// Lives a second of every contender, in rotating turns.
pub(super) fn figures(plan: Plan) -> Vec<Figure> {
    let mut contenders = match on_disk() {
        Ok(contenders) => contenders,
        Err(why) => return vec![Figure::missing("embedded", "", &format!("missing: {why}"))],
    };
    let rounds = if plan.is_thorough() { 5 } else { 3 };
    for round in 0..rounds {
        let seats = contenders.len();
        for turn in 0..seats {
            if let Some(seat) = contenders.get_mut((round + turn) % seats) {
                seat.turn();
            }
        }
    }
    contenders.iter().map(Seat::told).collect()
}

fn on_disk() -> io::Result<Vec<Seat>> {
    let seat = |figure, contender, jobs| Seat {
        figure,
        contender,
        jobs,
        rates: Vec::new(),
    };
    Ok(vec![
        seat(
            "embedded_life_per_s_100",
            Box::new(Journal::syncing(100)?),
            20_000,
        ),
        seat(
            "embedded_life_per_s_1000",
            Box::new(Journal::syncing(1_000)?),
            100_000,
        ),
        seat(
            "embedded_single_per_s",
            Box::new(CommitPerJob::open()?),
            300,
        ),
    ])
}

/// A contender, the figure that it is measured for, and what it has reached.
struct Seat {
    figure: &'static str,
    contender: Box<dyn Contender>,
    /// A second or so of work.
    jobs: u64,
    rates: Vec<f64>,
}

impl Seat {
    fn turn(&mut self) {
        let took = timed(|| {
            self.contender.enqueue(self.jobs)?;
            self.contender.drain(self.jobs)
        });
        match took {
            Ok(took) => self.rates.push(approx(self.jobs) / took.as_secs_f64()),
            Err(why) => eprintln!("SKIPPED a turn of {}: {why}", self.contender.name()),
        }
    }

    fn told(&self) -> Figure {
        Figure::theirs(
            self.figure,
            Goal::ShownHigher,
            (self.contender.name(), &self.rates),
        )
    }
}
