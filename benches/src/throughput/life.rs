//! The life of many jobs, from submission to end, and its cost.

use std::io;
use std::time::Duration;

use outflow_testkit::RedisServer;

use super::account::Account;
use super::contender::Contender;
use crate::clock;
use crate::measure::approx;

/// Result of one turn of one contender, per job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    /// Jobs a second that were submitted, claimed and completed.
    pub(super) per_second: f64,
    /// Jobs a second that were submitted, without claims.
    pub(super) enqueued: f64,
    /// Jobs a second that were claimed and completed, without submissions.
    pub(super) processed: f64,
    /// Processor time of the server.
    pub(super) micros: f64,
    /// Commands of the server, those inside scripts included.
    pub(super) commands: f64,
    /// Memory of the server while the jobs wait.
    pub(super) bytes: f64,
}

impl Life {
    /// Runs one turn on an emptied server.
    ///
    /// # Errors
    /// If the contender or the server gives up.
    pub(super) fn measure(contender: &mut dyn Contender, server: &RedisServer, jobs: u64) -> io::Result<Self> {
        server.command(&["FLUSHALL", "SYNC"])?;
        contender.emptied()?;
        let (mut putting, mut taking) = (Duration::ZERO, Duration::ZERO);
        let (mut bytes, mut left) = (None, jobs);
        let before = Account::read(server)?;
        while left > 0 {
            let now = left.min(contender.portion());
            putting += timed(|| contender.enqueue(now))?;
            // Later portions find the remains of completed jobs.
            if bytes.is_none() {
                let held = Account::read(server)?.memory.saturating_sub(before.memory);
                bytes = Some(approx(held) / approx(now));
            }
            taking += timed(|| contender.drain(now))?;
            left -= now;
        }
        let after = Account::read(server)?;
        let spent = after.processor.saturating_sub(before.processor);
        Ok(Self {
            per_second: rate(jobs, putting + taking),
            enqueued: rate(jobs, putting),
            processed: rate(jobs, taking),
            micros: spent.as_secs_f64() * 1e6 / approx(jobs),
            commands: approx(after.commands.saturating_sub(before.commands)) / approx(jobs),
            bytes: bytes.unwrap_or(f64::NAN),
        })
    }
}

/// Returns the jobs a second.
pub(super) fn rate(jobs: u64, time: Duration) -> f64 {
    approx(jobs) / time.as_secs_f64()
}

/// Measures the time of the work.
///
/// # Errors
/// If it failed.
pub(super) fn timed(work: impl FnOnce() -> io::Result<()>) -> io::Result<Duration> {
    let begun = clock::read();
    work()?;
    Ok(clock::read().duration_since(begun))
}

/// All turns, by contender.
#[derive(Default)]
pub(super) struct Lives {
    turns: Vec<(&'static str, Life)>,
    trips: Vec<(&'static str, f64)>,
    /// Contenders that do not run here.
    pub(super) missing: Vec<&'static str>,
}

impl Lives {
    /// Records the result of a contender, or its failure; returns true if it continues.
    pub(super) fn took<T>(
        &mut self,
        name: &'static str,
        came: io::Result<T>,
        add: impl FnOnce(&mut Self, &'static str, T),
    ) -> bool {
        match came {
            Ok(came) => {
                add(self, name, came);
                true
            }
            Err(why) => {
                eprintln!("SKIPPED {name}, which gave up: {why}");
                self.missing.push(name);
                false
            }
        }
    }

    pub(super) fn add(&mut self, name: &'static str, life: Life) {
        self.turns.push((name, life));
    }

    pub(super) fn add_trips(&mut self, name: &'static str, trips: f64) {
        self.trips.push((name, trips));
    }

    /// Returns this value of each turn of one contender.
    pub(super) fn values_of(&self, name: &str, part: fn(&Life) -> f64) -> Vec<f64> {
        let named = self.turns.iter().filter(|(who, _)| *who == name);
        named.map(|(_, life)| part(life)).collect()
    }

    /// Returns the round trips per job of one contender.
    pub(super) fn trips_of(&self, name: &str) -> Vec<f64> {
        let named = self.trips.iter().filter(|(who, _)| *who == name);
        named.map(|(_, trips)| *trips).collect()
    }

    /// Returns the contenders with a turn, in the order of their first.
    pub(super) fn names(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        for (name, _) in &self.turns {
            if !names.contains(name) {
                names.push(*name);
            }
        }
        names
    }
}
