//! `throughput`: cost of storing a job that does nothing.
//!
//! Two contests. On Redis, the alternative queues use the same server in the same run, one after the other in
//! rotating turns. A hundred thousand jobs of 105 bytes are submitted, claimed and completed. The benchmark
//! measures the time and the server keeps the accounts, so no contender reports its own speed. On the disk, the
//! floor is a bare journal: 105 bytes for each job, appended and synced by the batch.
//!
//! Ours is the store alone, on both sides: the other queues do nothing with a job either.

pub(crate) mod account;
mod contender;
mod directory;
mod disk;
mod growth;
mod journal;
mod life;
mod monitor;
mod ours;
mod ours_embedded;
mod ours_redis;
mod peers;
mod rows;
mod sqlite;

use std::io;

use outflow_testkit::{RedisOptions, RedisServer};

use crate::clock;
use crate::figure::Figure;
use crate::measure::Plan;
use contender::Contender;
use life::{Life, Lives};
use ours::Shape;
use ours_redis::OnRedis;

/// Measures the cost of storing a job.
pub(crate) fn figures(plan: Plan) -> Vec<Figure> {
    clock::since_begin();
    let shared = shared(plan);
    let mut figures = shared.unwrap_or_else(|why| vec![Figure::missing("redis", "", &format!("missing: {why}"))]);
    // The directory's figures come first, because they count all written bytes.
    let directory = directory::figures(plan);
    let growth = growth::figures(plan);
    figures.extend(disk::figures(plan));
    figures.extend(directory);
    figures.extend(growth);
    figures
}

/// Runs every contender on one server, in rotating turns.
fn shared(plan: Plan) -> io::Result<Vec<Figure>> {
    let server = RedisServer::start(RedisOptions::default())?;
    let mut lives = Lives::default();
    let mut contenders = on_redis(&server, &mut lives);
    let (rounds, jobs) = if plan.is_thorough() { (3, 100_000) } else { (1, 10_000) };
    for _ in 0..rounds {
        contenders.retain_mut(|contender| {
            let life = Life::measure(contender.as_mut(), &server, jobs);
            lives.took(contender.name(), life, Lives::add)
        });
        let next = contenders.len().min(1);
        contenders.rotate_left(next);
    }
    for contender in &mut contenders {
        let trips = monitor::trips_per_job(contender.as_mut(), &server);
        lives.took(contender.name(), trips, Lives::add_trips);
    }
    let mut figures = rows::figures(&lives);
    figures.extend(ours_redis::shapes(&server, plan));
    Ok(figures)
}

/// Returns the contenders that run here and reports the missing ones.
fn on_redis(server: &RedisServer, lives: &mut Lives) -> Vec<Box<dyn Contender>> {
    let mut here: Vec<Box<dyn Contender>> = Vec::new();
    match OnRedis::connect(server, Shape::DEFAULT) {
        Ok(ours) => here.push(Box::new(ours)),
        Err(why) => eprintln!("SKIPPED without ours: {why}"),
    }
    for peer in peers::Peer::ALL {
        match peer.start(server) {
            Ok(started) => here.push(Box::new(started)),
            Err(why) => {
                eprintln!("SKIPPED without {}: {why}", peer.name());
                lives.missing.push(peer.name());
            }
        }
    }
    here
}
