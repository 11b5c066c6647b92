//! What a job costs the embedded store more when there are many of them, or of their tenants.
//!
//! In processor time of this process, the thread that writes included: the time on the wall is that of the
//! disk's syncs, which differ more from one second to the next than what is asked about here.

use std::io;

use super::contender::Contender;
use super::directory::reopened;
use super::ours::Shape;
use super::ours_embedded::fresh;
use crate::clock;
use crate::figure::{Figure, Goal};
use crate::measure::{Plan, approx};

/// Both figures. They take a minute, so a quick run has none.
pub(super) fn figures(plan: Plan) -> Vec<Figure> {
    if !plan.is_thorough() {
        return Vec::new();
    }
    GROWTHS.iter().map(Growth::told).collect()
}

/// A figure: so many more jobs or tenants, and how much more a job may cost then.
struct Growth {
    name: &'static str,
    most: f64,
    few: Crowd,
    many: Crowd,
}

/// Jobs, and how many tenants they belong to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Crowd {
    jobs: u64,
    tenants: usize,
}

impl Growth {
    fn told(&self) -> Figure {
        let rounds: io::Result<Vec<_>> = (0..ROUNDS).map(|_| self.round()).collect();
        match rounds {
            Ok(rounds) => Figure::alone(self.name, Goal::Own(self.most), &rounds),
            Err(why) => Figure::missing(self.name, "", &format!("missing: {why}")),
        }
    }

    fn round(&self) -> io::Result<f64> {
        let few = self.few.micros_per_job()?;
        Ok(self.many.micros_per_job()? / few)
    }
}

impl Crowd {
    /// Processor time from the submission of all to the end of all, in a fresh store.
    fn micros_per_job(self) -> io::Result<f64> {
        let shape = Shape {
            tenants: self.tenants,
            ..Shape::USUAL
        };
        let mut store = fresh(shape)?;
        let before = clock::process_time();
        store.enqueue(self.jobs)?;
        store.drain(self.jobs)?;
        let spent = clock::process_time().saturating_sub(before);
        // Who comes next does not pay for the closing of this one.
        let home = store.end();
        reopened(home.path())?;
        let micros = spent.as_secs_f64() * 1e6 / approx(self.jobs);
        eprintln!("{self:?}: {micros:.2} us of processor time per job");
        Ok(micros)
    }
}

/// As they are promised, and as they are measured on Redis.
const GROWTHS: [Growth; 2] = [
    Growth {
        name: "embedded_growth_jobs",
        most: 1.5,
        few: Crowd {
            jobs: 10_000,
            tenants: 10,
        },
        many: Crowd {
            jobs: 1_000_000,
            tenants: 10,
        },
    },
    Growth {
        name: "embedded_growth_tenants",
        most: 4.0,
        few: Crowd {
            jobs: 100_000,
            tenants: 10,
        },
        many: Crowd {
            jobs: 100_000,
            tenants: 100_000,
        },
    },
];

/// A median needs three.
const ROUNDS: usize = 3;
