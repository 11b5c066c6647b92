//! Remaining work of an action, estimated on request.
//!
//! The store keeps no count of an action's jobs per queue: every job would write it, for a query that
//! comes once a second at most. It visits jobs in memory one by one. The first job of a run on the disk
//! represents the run, because neighbours in a queue were nearly always submitted together.

use std::collections::HashMap;

use outflow_core::ClockPair;
use rusqlite::{OptionalExtension, params};

use crate::action::{RemainingInLane, RemainingWork};
use crate::embedded::disk::int_codec::{to_sql, to_u64};
use crate::embedded::state::StoreState;
use crate::embedded::state::class_queue::ClassQueue;
use crate::embedded::state::job_entry::{IdRun, JobEntry, JobPosition};
use crate::embedded::state::priority_classes::CLASSES;
use crate::name::Name;

/// Estimates the work that an action's waiting jobs still need.
pub(crate) fn remaining(state: &StoreState, action: &Name, moment: ClockPair) -> rusqlite::Result<RemainingWork> {
    let known = state.actions.find_entry(action);
    let Some((id, action)) = known.filter(|(_, action)| action.counts.queued > 0) else {
        return Ok(RemainingWork::default());
    };
    let mut work = FoundWork::new(id);
    for (_, delayed) in state.delayed.iter() {
        work.add_entry(&delayed.entry);
    }
    for member in state.lanes.values().flat_map(|lane| lane.tenants.values()) {
        for class in CLASSES {
            add_queue_work(state, member.queues.get(class), &mut work)?;
        }
    }
    let found = RemainingWork {
        places: work.by_name(state),
        latest: state
            .delayed
            .last_end(DELAY_SAMPLE, moment, |entry| entry.action == Some(id)),
    };
    Ok(found.scaled_to(action.counts.queued))
}

fn add_queue_work(state: &StoreState, queue: &ClassQueue, work: &mut FoundWork) -> rusqlite::Result<()> {
    let Some(position) = state.lanes.position(queue.id) else {
        return Ok(());
    };
    // Jobs of other actions since the last of this one.
    let mut others = 0;
    for entry in queue.front.values() {
        if work.add_entry(entry) {
            work.add_others(position, std::mem::take(&mut others));
        } else {
            others += 1;
        }
    }
    for run in queue.runs.iter().take(work.reads_left) {
        work.reads_left -= 1;
        if let Some(cost) = cost_in_run(state, work.action, *run)? {
            work.add(position, run.count, run.count.saturating_mul(cost));
            work.add_others(position, std::mem::take(&mut others));
        } else {
            others += run.count;
        }
    }
    Ok(())
}

/// Returns the cost of the first job of a run, if it belongs to the action.
fn cost_in_run(state: &StoreState, action: u32, run: IdRun) -> rusqlite::Result<Option<u64>> {
    let sql = "SELECT action, cost FROM job WHERE seq >= ?1 AND seq < ?2 LIMIT 1";
    let mut statement = state.reader.prepare_cached(sql)?;
    let range = params![to_sql(run.first), to_sql(run.end())];
    let first = statement
        .query_row(range, |row| Ok((row.get::<_, Option<u32>>(0)?, row.get(1)?)))
        .optional()?;
    let its = first.filter(|(of, _)| *of == Some(action));
    Ok(its.map(|(_, cost)| to_u64(cost)))
}

/// Jobs of an action that a search found, by lane and tenant.
struct FoundWork {
    action: u32,
    places: HashMap<(u32, u32), FoundJobs>,
    /// Runs that the search may still read.
    reads_left: usize,
}

#[derive(Default)]
struct FoundJobs {
    jobs: u64,
    units: u64,
    /// Jobs of other actions before the last of these.
    others: u64,
}

impl FoundWork {
    fn new(action: u32) -> Self {
        Self {
            action,
            places: HashMap::new(),
            reads_left: RUN_SAMPLE,
        }
    }

    /// Adds a job of the action; returns false for another one.
    fn add_entry(&mut self, entry: &JobEntry) -> bool {
        let is_its = entry.action == Some(self.action);
        if is_its {
            self.add(entry.position, 1, entry.cost.units());
        }
        is_its
    }

    /// Adds jobs of other actions that wait before one of this.
    fn add_others(&mut self, position: JobPosition, jobs: u64) {
        let found = self.places.entry((position.lane, position.tenant)).or_default();
        found.others += jobs;
    }

    fn add(&mut self, position: JobPosition, jobs: u64, units: u64) {
        let place = (position.lane, position.tenant);
        let found = self.places.entry(place).or_default();
        found.jobs += jobs;
        found.units = found.units.saturating_add(units);
    }

    fn by_name(self, state: &StoreState) -> Vec<RemainingInLane> {
        let named = self.places.into_iter().map(|((lane, tenant), found)| {
            Some(RemainingInLane {
                lane: state.lanes.get(lane)?.name.clone(),
                tenant: state.tenants.get(tenant)?.name.clone(),
                jobs: found.jobs,
                units: found.units,
                until_last: found.jobs + found.others,
            })
        });
        named.flatten().collect()
    }
}

/// A quarter of a million jobs, whose first ones are read in some tens of milliseconds.
const RUN_SAMPLE: usize = 4_096;

/// The last delays may belong to other actions, but seldom this many of them.
const DELAY_SAMPLE: usize = 10_000;
