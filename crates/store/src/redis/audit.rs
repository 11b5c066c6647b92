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

pub(super) async fn recount(caller: &ScriptRunner) -> StoreResult<u64> {
    for _ in 0..MOST_WALKS {
        let before = version(caller).await?;
        let books = StoredCounts::read(caller).await?;
        let found = scan::walk(caller, &books).await?;
        if version(caller).await? == before {
            return Ok(found.difference(&books));
        }
    }
    Err(StoreError::unreachable(
        "jobs moved while they were counted: count again when it is quieter",
    ))
}

async fn version(caller: &ScriptRunner) -> StoreResult<Value> {
    let mut command = cmd("HGET");
    command.arg(caller.key("epoch")).arg("g");
    caller.send(&command).await
}

/// State in which the scan found a job.
#[derive(Clone, Copy)]
enum JobPart {
    Waiting,
    PutOff,
    Delayed,
    Claimed,
    Dead,
}

/// Counts of scanned jobs by state.
#[derive(Default)]
struct ScannedCounts {
    queued: u64,
    put_off: u64,
    delayed: u64,
    claimed: u64,
    dead: u64,
}

impl ScannedCounts {
    const fn add(&mut self, part: JobPart) {
        match part {
            JobPart::Waiting => self.queued += 1,
            JobPart::PutOff => {
                self.queued += 1;
                self.put_off += 1;
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
    const fn difference(&self, tally: &JobCounts) -> u64 {
        self.queued.abs_diff(tally.queued)
            + self.put_off.abs_diff(tally.non_ready)
            + self.delayed.abs_diff(tally.delayed)
            + self.claimed.abs_diff(tally.in_flight)
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
    told: HashMap<Name, u64>,
    /// Entries in a job's place that are not jobs.
    unreadable: u64,
}

impl ScanTotals {
    fn difference(&self, books: &StoredCounts) -> u64 {
        let active = self.tenants.values().filter(|tenant| tenant.has_work());
        let active = u64::try_from(active.count()).unwrap_or(u64::MAX);
        self.unreadable
            + self.all.difference(&books.all)
            + self.all.dead.abs_diff(books.all.dead)
            + active.abs_diff(books.active)
            + self.of_lanes(books)
            + self.of_tenants(books)
            + self.of_actions(books)
    }

    fn of_lanes(&self, books: &StoredCounts) -> u64 {
        let found = |lane| self.lanes.get(lane).copied().unwrap_or(0);
        let lanes = books.lanes.iter();
        lanes
            .map(|(lane, queued)| found(lane).abs_diff(*queued))
            .sum()
    }

    fn of_tenants(&self, books: &StoredCounts) -> u64 {
        let none = ScannedCounts::default();
        let known = books.tenants.iter().map(|(name, tally)| {
            let found = self.tenants.get(name).unwrap_or(&none);
            found.difference(tally) + tally.dead.saturating_sub(found.dead)
        });
        let work = self.tenants.iter().filter(|(_, found)| found.has_work());
        let unknown = work.filter(|(name, _)| !books.tenants.contains_key(*name));
        known.sum::<u64>()
            + unknown
                .map(|(_, found)| found.queued + found.claimed)
                .sum::<u64>()
    }

    fn of_actions(&self, books: &StoredCounts) -> u64 {
        let none = ScannedCounts::default();
        let actions = books.actions.iter().map(|(name, kept)| {
            let found = self.actions.get(name).unwrap_or(&none);
            let told = self.told.get(name).copied().unwrap_or(0);
            found.difference(&kept.tally)
                + found.dead.abs_diff(kept.tally.dead)
                + kept.tally.over().saturating_sub(told)
        });
        actions.sum()
    }
}

/// A busy queue cannot be counted; one that pauses for a moment can.
const MOST_WALKS: u32 = 5;
