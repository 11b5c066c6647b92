//! Recounts all jobs from the jobs themselves and compares every stored counter: in total, per
//! lane, per tenant and per action.
//!
//! The audit reads lists and sets in pieces with plain commands and no script, so it does not
//! repeat an error of the scripts. If jobs move during the scan, it starts again.
//!
//! Two stored counters may be too low without being wrong. A tenant's dead letters outlive its statistics. The
//! outcomes of an action may outnumber its jobs, since a requeued job reports twice.

mod expected;
mod scan;

use std::collections::HashMap;

use redis::{Value, cmd};

use self::expected::StoredCounts;
use super::RedisStore;
use super::script_call::ScriptRunner;
use crate::action::JobCounts;
use crate::contract::StoreResult;
use crate::error::StoreError;
use crate::name::Name;

pub(super) async fn recount(store: &RedisStore) -> StoreResult<u64> {
    let runner = &store.runner;
    for _ in 0..MAX_SCANS {
        let before = read_version(runner).await?;
        let stored = StoredCounts::read(store).await?;
        let found = scan::scan_jobs(runner, &stored).await?;
        if read_version(runner).await? == before {
            return Ok(found.difference(&stored));
        }
    }
    Err(StoreError::unreachable(
        "jobs moved while they were counted: repeat the audit when fewer jobs move",
    ))
}

async fn read_version(runner: &ScriptRunner) -> StoreResult<Value> {
    let mut command = cmd("HGET");
    command.arg(runner.key("epoch")).arg("g");
    runner.send(&command).await
}

/// State in which the scan found a job.
#[derive(Clone, Copy)]
enum JobPart {
    Waiting,
    Deferred,
    Delayed,
    Claimed,
    Dead,
}

impl JobPart {
    const fn count(self, counts: &mut JobCounts) {
        match self {
            Self::Waiting => counts.queued += 1,
            Self::Deferred => {
                counts.queued += 1;
                counts.non_ready += 1;
            }
            Self::Delayed => {
                counts.queued += 1;
                counts.delayed += 1;
            }
            Self::Claimed => counts.in_flight += 1,
            Self::Dead => counts.dead += 1,
        }
    }
}

/// Returns the distance between counts of open jobs.
const fn open_difference(found: &JobCounts, stored: &JobCounts) -> u64 {
    found.queued.abs_diff(stored.queued)
        + found.non_ready.abs_diff(stored.non_ready)
        + found.delayed.abs_diff(stored.delayed)
        + found.in_flight.abs_diff(stored.in_flight)
}

/// Counts of the whole scan.
#[derive(Default)]
struct ScanTotals {
    all: JobCounts,
    lanes: HashMap<Name, u64>,
    tenants: HashMap<Name, JobCounts>,
    actions: HashMap<Name, JobCounts>,
    /// Stored outcomes by action.
    outcomes: HashMap<Name, u64>,
    /// Entries in a job's place that are not jobs.
    unreadable: u64,
}

impl ScanTotals {
    fn difference(&self, stored: &StoredCounts) -> u64 {
        let active = self.tenants.values().filter(|found| found.open() > 0);
        let active = u64::try_from(active.count()).unwrap_or(u64::MAX);
        self.unreadable
            + open_difference(&self.all, &stored.all)
            + self.all.dead.abs_diff(stored.all.dead)
            + active.abs_diff(stored.active)
            + self.lane_difference(stored)
            + self.tenant_difference(stored)
            + self.action_difference(stored)
    }

    fn lane_difference(&self, stored: &StoredCounts) -> u64 {
        let found = |lane| self.lanes.get(lane).copied().unwrap_or(0);
        let lanes = stored.lanes.iter();
        lanes.map(|(lane, queued)| found(lane).abs_diff(*queued)).sum()
    }

    fn tenant_difference(&self, stored: &StoredCounts) -> u64 {
        let none = JobCounts::default();
        let known = stored.tenants.iter().map(|(name, counts)| {
            let found = self.tenants.get(name).unwrap_or(&none);
            open_difference(found, counts) + counts.dead.saturating_sub(found.dead)
        });
        let unknown = self.tenants.iter();
        let unknown = unknown.filter(|(name, _)| !stored.tenants.contains_key(*name));
        known.sum::<u64>() + unknown.map(|(_, found)| found.open()).sum::<u64>()
    }

    fn action_difference(&self, stored: &StoredCounts) -> u64 {
        let none = JobCounts::default();
        let actions = stored.actions.iter().map(|(name, counts)| {
            let found = self.actions.get(name).unwrap_or(&none);
            let outcomes = self.outcomes.get(name).copied().unwrap_or(0);
            open_difference(found, &counts.counts)
                + found.dead.abs_diff(counts.counts.dead)
                + counts.counts.over().saturating_sub(outcomes)
        });
        actions.sum()
    }
}

/// A busy queue cannot be counted; one that pauses for a moment can.
const MAX_SCANS: u32 = 5;
