//! The contest on the disk: durable before it is answered.
//!
//! Only a sync makes an append durable, and a sync takes as long as the disk takes, which differs from one
//! second to the next by a factor of five: so ours and its floor have short turns that alternate, and a
//! ratio is taken within a round. The floor is a bare journal that syncs as often as ours. It keeps a job once
//! and never takes it out; that is the whole of its life there.

use std::io;

use super::contender::Contender;
use super::journal::Journal;
use super::life::timed;
use super::ours::Shape;
use super::ours_embedded::{self, Singles};
use super::sqlite::CommitPerJob;
use crate::figure::{Figure, Goal};
use crate::measure::{Plan, Series, approx};

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
    contests.iter().map(Contest::told).collect()
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
            jobs: 5_000,
            ours: Seat::of(ours_embedded::fresh(Shape::USUAL)?),
            floor: Seat::of(Journal::syncing(100)?),
        },
        Contest {
            figure: "embedded_life_per_s_1000",
            goal: Goal::AtLeast(100_000.0),
            jobs: 50_000,
            ours: Seat::of(ours_embedded::fresh(thousand)?),
            floor: Seat::of(Journal::syncing(1_000)?),
        },
        Contest {
            figure: "embedded_single_per_s",
            goal: Goal::RatioAtLeast(20.0),
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

    fn told(&self) -> Figure {
        Figure::against(
            self.figure,
            self.goal,
            &self.ours.series(),
            &self.floor.series(),
        )
    }
}

/// A contender, and how many lives a second it reached in each round.
struct Seat {
    contender: Box<dyn Contender>,
    rates: Vec<f64>,
}

impl Seat {
    fn of(contender: impl Contender + 'static) -> Self {
        Self {
            contender: Box::new(contender),
            rates: Vec::new(),
        }
    }

    /// A turn that failed leaves no number, so that ratios stay within their rounds.
    fn turn(&mut self, jobs: u64) {
        let took = timed(|| {
            self.contender.enqueue(jobs)?;
            self.contender.drain(jobs)
        });
        let rate = match took {
            Ok(took) => approx(jobs) / took.as_secs_f64(),
            Err(why) => {
                eprintln!("SKIPPED a turn of {}: {why}", self.contender.name());
                f64::NAN
            }
        };
        self.rates.push(rate);
    }

    fn series(&self) -> Series {
        Series {
            name: self.contender.name(),
            nanos: self.rates.clone(),
            strays: 0.0,
        }
    }
}
