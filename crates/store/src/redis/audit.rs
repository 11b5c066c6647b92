//! Counts all jobs anew, from the jobs themselves, and compares every count that was kept as they moved: of
//! all jobs, of each lane, each tenant and each action.
//!
//! It walks over lists and sets in pieces, with plain commands and no script, so that a mistake of the
//! scripts is not made twice. While it walks others may move jobs; then it begins again.
//!
//! Two counts are not of what is there and can only be too high: a tenant's dead letters, which are forgotten
//! with its other statistics while the letters stay, and the ends of an action that must have been told,
//! since a revived job is told twice.

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

/// Where a job was found.
#[derive(Clone, Copy)]
enum JobPart {
    Waiting,
    PutOff,
    Delayed,
    Claimed,
    Dead,
}

/// What was found of some jobs.
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

    /// How far a tally is from it, but for the dead.
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

/// What was found of all.
#[derive(Default)]
struct ScanTotals {
    all: ScannedCounts,
    lanes: HashMap<Name, u64>,
    tenants: HashMap<Name, ScannedCounts>,
    actions: HashMap<Name, ScannedCounts>,
    /// Told ends by action.
    told: HashMap<Name, u64>,
    /// What stands where a job should, and is none.
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

/// A busy queue is not counted; one that pauses for a moment is.
const MOST_WALKS: u32 = 5;
