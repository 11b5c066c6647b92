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
use super::script_call::ScriptRunner;
use crate::action::JobCounts;
use crate::contract::StoreResult;
use crate::error::StoreError;
use crate::name::Name;

pub(super) async fn recount(runner: &ScriptRunner) -> StoreResult<u64> {
    for _ in 0..MAX_SCANS {
        let before = read_version(runner).await?;
        let stored = StoredCounts::read(runner).await?;
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

/// Counts of scanned jobs by state.
#[derive(Default)]
struct ScannedCounts {
    queued: u64,
    deferred: u64,
    delayed: u64,
    claimed: u64,
    dead: u64,
}

impl ScannedCounts {
    const fn add(&mut self, part: JobPart) {
        match part {
            JobPart::Waiting => self.queued += 1,
            JobPart::Deferred => {
                self.queued += 1;
                self.deferred += 1;
            }
            JobPart::Delayed => {
                self.queued += 1;
                self.delayed += 1;
            }
            JobPart::Claimed => self.claimed += 1,
            JobPart::Dead => self.dead += 1,
        }
    }

    /// Returns the distance to stored counts, without dead letters.
    const fn difference(&self, counts: &JobCounts) -> u64 {
        self.queued.abs_diff(counts.queued)
            + self.deferred.abs_diff(counts.non_ready)
            + self.delayed.abs_diff(counts.delayed)
            + self.claimed.abs_diff(counts.in_flight)
    }

    const fn has_work(&self) -> bool {
        self.queued + self.claimed > 0
    }
}

/// Counts of the whole scan.
#[derive(Default)]
struct ScanTotals {
    all: ScannedCounts,
    lanes: HashMap<Name, u64>,
    tenants: HashMap<Name, ScannedCounts>,
    actions: HashMap<Name, ScannedCounts>,
    /// Stored outcomes by action.
    outcomes: HashMap<Name, u64>,
    /// Entries in a job's place that are not jobs.
    unreadable: u64,
}

impl ScanTotals {
    fn difference(&self, stored: &StoredCounts) -> u64 {
        let active = self.tenants.values().filter(|tenant| tenant.has_work());
        let active = u64::try_from(active.count()).unwrap_or(u64::MAX);
        self.unreadable
            + self.all.difference(&stored.all)
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
        let none = ScannedCounts::default();
        let known = stored.tenants.iter().map(|(name, counts)| {
            let found = self.tenants.get(name).unwrap_or(&none);
            found.difference(counts) + counts.dead.saturating_sub(found.dead)
        });
        let work = self.tenants.iter().filter(|(_, found)| found.has_work());
        let unknown = work.filter(|(name, _)| !stored.tenants.contains_key(*name));
        known.sum::<u64>() + unknown.map(|(_, found)| found.queued + found.claimed).sum::<u64>()
    }

    fn action_difference(&self, stored: &StoredCounts) -> u64 {
        let none = ScannedCounts::default();
        let actions = stored.actions.iter().map(|(name, counts)| {
            let found = self.actions.get(name).unwrap_or(&none);
            let outcomes = self.outcomes.get(name).copied().unwrap_or(0);
            found.difference(&counts.counts)
                + found.dead.abs_diff(counts.counts.dead)
                + counts.counts.over().saturating_sub(outcomes)
        });
        actions.sum()
    }
}

/// A busy queue cannot be counted; one that pauses for a moment can.
const MAX_SCANS: u32 = 5;
