//! Cost of a job in the embedded store with many jobs, or many tenants.
//!
//! In processor time of this process, the writer thread included: wall-clock time is that of the disk's syncs,
//! which varies more than the measured difference.

use std::io;

use super::contender::Contender;
use super::directory::reopened;
use super::ours::Shape;
use super::ours_embedded::fresh;
use crate::clock;
use crate::figure::{Figure, Goal};
use crate::measure::{Plan, approx};

/// Measures both figures. They take a minute, so a quick run skips them.
pub(super) fn figures(plan: Plan) -> Vec<Figure> {
    if !plan.is_thorough() {
        return Vec::new();
    }
    GROWTHS.iter().map(Growth::figure).collect()
}

/// A figure that compares a job's cost with this many more jobs or tenants.
struct Growth {
    name: &'static str,
    most: f64,
    few: Workload,
    many: Workload,
}

/// Jobs, and the number of their tenants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Workload {
    jobs: u64,
    tenants: usize,
}

impl Growth {
    fn figure(&self) -> Figure {
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

impl Workload {
    /// Returns the processor time from the submission of all to the end of all, in a new store.
    fn micros_per_job(self) -> io::Result<f64> {
        let shape = Shape {
            tenants: self.tenants,
            ..Shape::DEFAULT
        };
        let mut store = fresh(shape)?;
        let before = clock::process_time();
        store.enqueue(self.jobs)?;
        store.drain(self.jobs)?;
        let spent = clock::process_time().saturating_sub(before);
        // The next run does not pay for the closing of this one.
        let home = store.end();
        reopened(home.path())?;
        let micros = spent.as_secs_f64() * 1e6 / approx(self.jobs);
        eprintln!("{self:?}: {micros:.2} us of processor time per job");
        Ok(micros)
    }
}

/// Number of jobs of the goals, and of the runs on Redis.
const GROWTHS: [Growth; 2] = [
    Growth {
        name: "embedded_growth_jobs",
        most: 1.5,
        few: Workload {
            jobs: 10_000,
            tenants: 10,
        },
        many: Workload {
            jobs: 1_000_000,
            tenants: 10,
        },
    },
    Growth {
        name: "embedded_growth_tenants",
        most: 4.0,
        few: Workload {
            jobs: 100_000,
            tenants: 10,
        },
        many: Workload {
            jobs: 100_000,
            tenants: 100_000,
        },
    },
];

/// A median needs three.
const ROUNDS: usize = 3;
