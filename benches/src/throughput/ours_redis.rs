//! Ours on the server that the peers share.

use std::io;

use outflow_store::{RedisOptions, RedisStore};
use outflow_testkit::RedisServer;
use tokio::runtime::Runtime;

use super::contender::Contender;
use super::life::Life;
use super::ours::{OURS, Ours, Shape};
use crate::figure::{Figure, Goal};
use crate::measure::Plan;
use crate::tasks::Flavour;

/// Ours in one shape. An emptied server is a data loss for the store, so it reconnects then.
pub(super) struct OnRedis {
    url: String,
    shape: Shape,
    ours: Ours<RedisStore>,
}

impl OnRedis {
    /// Connects.
    ///
    /// # Errors
    /// If the server does not accept it.
    pub(super) fn connect(server: &RedisServer, shape: Shape) -> io::Result<Self> {
        let url = server.url();
        let runtime = Flavour::Current.runtime()?;
        let store = connected(&runtime, &url)?;
        Ok(Self {
            url,
            shape,
            ours: Ours::new(store, runtime, shape)?,
        })
    }
}

/// Many submitters of one job each; each submits the next when it is stored. Claims and settlements are
/// batched, as workers do it.
struct Singles(OnRedis);

impl Contender for Singles {
    fn name(&self) -> &'static str {
        OURS
    }

    fn emptied(&mut self) -> io::Result<()> {
        self.0.emptied()
    }

    fn enqueue(&mut self, jobs: u64) -> io::Result<()> {
        self.0.ours.enqueue_singly(SUBMITTERS, jobs / SUBMITTERS)
    }

    fn drain(&mut self, jobs: u64) -> io::Result<()> {
        self.0.drain(jobs)
    }
}

fn connected(runtime: &Runtime, url: &str) -> io::Result<RedisStore> {
    let connected = runtime.block_on(RedisStore::connect(RedisOptions::new(url)));
    connected.map_err(io::Error::other)
}

impl Contender for OnRedis {
    fn name(&self) -> &'static str {
        OURS
    }

    fn emptied(&mut self) -> io::Result<()> {
        let runtime = Flavour::Current.runtime()?;
        let store = connected(&runtime, &self.url)?;
        self.ours = Ours::new(store, runtime, self.shape)?;
        Ok(())
    }

    fn enqueue(&mut self, jobs: u64) -> io::Result<()> {
        self.ours.enqueue(jobs)
    }

    fn drain(&mut self, jobs: u64) -> io::Result<()> {
        self.ours.drain(jobs)
    }
}

/// Measures the goals of other shapes, which have no peers.
pub(super) fn shapes(server: &RedisServer, plan: Plan) -> Vec<Figure> {
    let micros = |name, goal, shape, jobs| match life(server, shape, jobs) {
        Ok(life) => Figure::alone(name, goal, &[life.micros]),
        Err(why) => Figure::missing(name, "", &format!("missing: {why}")),
    };
    let one_by_one = Shape {
        batch: 1,
        ..Shape::DEFAULT
    };
    let mut figures = vec![
        singles(server),
        micros("redis_batch1_us", Goal::Own(20.0), one_by_one, 10_000),
        micros("redis_1000_tenants_us", Goal::Own(8.0), tenants(1_000), 20_000),
    ];
    if plan.is_thorough() {
        let few = life(server, Shape::DEFAULT, 10_000);
        let many = life(server, Shape::DEFAULT, 1_000_000);
        figures.push(growth("redis_growth_jobs", 1.5, few, many));
        let few = life(server, tenants(10), 100_000);
        let many = life(server, tenants(100_000), 100_000);
        figures.push(growth("redis_growth_tenants", 4.0, few, many));
    }
    figures
}

fn singles(server: &RedisServer) -> Figure {
    let connected = OnRedis::connect(server, Shape::DEFAULT);
    let jobs = SUBMITTERS * 156;
    let life = connected.and_then(|ours| Life::measure(&mut Singles(ours), server, jobs));
    match life {
        Ok(life) => Figure::alone("redis_singles_us", Goal::Shown, &[life.micros]),
        Err(why) => Figure::missing("redis_singles_us", "", &format!("missing: {why}")),
    }
}

fn tenants(tenants: usize) -> Shape {
    Shape {
        tenants,
        ..Shape::DEFAULT
    }
}

fn life(server: &RedisServer, shape: Shape, jobs: u64) -> io::Result<Life> {
    server.command(&["FLUSHALL", "SYNC"])?;
    Life::measure(&mut OnRedis::connect(server, shape)?, server, jobs)
}

/// Measures how much more a job costs the server when there are many.
fn growth(name: &str, most: f64, few: io::Result<Life>, many: io::Result<Life>) -> Figure {
    match (few, many) {
        (Ok(few), Ok(many)) => Figure::alone(name, Goal::Own(most), &[many.micros / few.micros]),
        (Err(why), _) | (_, Err(why)) => Figure::missing(name, "", &format!("missing: {why}")),
    }
}

/// Equal to the single submitters of the embedded store.
const SUBMITTERS: u64 = 64;
