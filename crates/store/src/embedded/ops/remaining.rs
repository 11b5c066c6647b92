//! Remaining work of an action, estimated on request.
//!
//! The store keeps no count of an action's jobs per queue: every job would write it, for a query that
//! comes once a second at most. It visits jobs in memory one by one. The first job of a run on the disk
//! represents the run, because neighbours in a queue were nearly always submitted together.

use std::collections::HashMap;

use outflow_core::{ClockPair, Priority};
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
        let mut found = Vec::new();
        for class in CLASSES {
            if let Some(queue) = add_queue_work(state, member.queues.get(class), &mut work)? {
                found.push((class, queue));
            }
        }
        add_turns(&found, &mut work);
    }
    let found = RemainingWork {
        places: work.by_name(state),
        latest: state
            .delayed
            .last_end(DELAY_SAMPLE, moment, |entry| entry.action == Some(id)),
    };
    Ok(found.scaled_to(action.counts.queued))
}

/// Jobs of one class of a tenant in a lane.
#[derive(Clone, Copy)]
struct SearchedQueue {
    position: JobPosition,
    jobs: u64,
    /// Jobs of the action.
    own: u64,
    /// Jobs up to the last of the action.
    until_last: u64,
}

impl SearchedQueue {
    /// Counts jobs, which are the action's or others'.
    const fn count(&mut self, jobs: u64, is_its: bool) {
        self.jobs += jobs;
        if is_its {
            self.own += jobs;
            self.until_last = self.jobs;
        }
    }
}

fn add_queue_work(
    state: &StoreState,
    queue: &ClassQueue,
    work: &mut FoundWork,
) -> rusqlite::Result<Option<SearchedQueue>> {
    let Some(position) = state.lanes.position(queue.id) else {
        return Ok(None);
    };
    let mut searched = SearchedQueue {
        position,
        jobs: 0,
        own: 0,
        until_last: 0,
    };
    for entry in queue.front.values() {
        searched.count(1, work.add_entry(entry));
    }
    for run in &queue.runs {
        let cost = match work.reads_left.checked_sub(1) {
            Some(left) => {
                work.reads_left = left;
                cost_in_run(state, work.action, *run)?
            }
            None => None,
        };
        if let Some(cost) = cost {
            work.add(position, run.count, run.count.saturating_mul(cost));
        }
        searched.count(run.count, cost.is_some());
    }
    Ok(Some(searched))
}

/// Adds the jobs of other actions that the classes of a tenant start before the last of this one.
fn add_turns(classes: &[(Priority, SearchedQueue)], work: &mut FoundWork) {
    let until = |(class, queue): &(Priority, SearchedQueue)| {
        let others = classes.iter().filter(|(other, _)| other != class);
        let turns = others.map(|(other, waiting)| {
            let turns = queue.until_last.saturating_mul(other.factor()) / class.factor();
            waiting.jobs.min(turns)
        });
        queue.until_last.saturating_add(turns.sum())
    };
    let own: u64 = classes.iter().map(|(_, queue)| queue.own).sum();
    let last = classes.iter().filter(|(_, queue)| queue.own > 0);
    if let Some((position, until)) = last
        .map(|one| (one.1.position, until(one)))
        .max_by_key(|(_, until)| *until)
    {
        work.add_others(position, until.saturating_sub(own));
    }
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
