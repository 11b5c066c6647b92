//! What an action has left, looked up when somebody asks.
//!
//! No count is kept of an action's jobs in each line: it would be written with every job, for a question that is
//! asked once a second at most. Jobs in memory are looked at one by one. Of a run on the disk the first job
//! stands for all, since jobs that follow each other in one line were nearly always submitted together.

use std::collections::HashMap;

use outflow_core::WallTime;
use rusqlite::{OptionalExtension, params};

use super::transitions::DelayUntil;
use crate::action::{RemainingInLane, RemainingWork};
use crate::embedded::disk::int_codec::{counted, stored};
use crate::embedded::state::StoreState;
use crate::embedded::state::class_queue::ClassQueue;
use crate::embedded::state::job_entry::{IdRun, JobEntry, JobPosition};
use crate::embedded::state::priority_classes::CLASSES;
use crate::name::Name;

/// Jobs and units, by lane and tenant.
type Found = HashMap<(u32, u32), (u64, u64)>;

impl StoreState {
    /// What the jobs of an action that wait still want.
    pub(crate) fn remaining(&self, action: &Name) -> rusqlite::Result<RemainingWork> {
        let Some(id) = self.action_ids.get(action) else {
            return Ok(RemainingWork::default());
        };
        let queued = self.actions.get(id).map_or(0, |of| of.tally.queued);
        if queued == 0 {
            return Ok(RemainingWork::default());
        }
        let mut found = Found::new();
        for waiting in self.waiting.values() {
            note(&mut found, *id, &waiting.entry);
        }
        let mut looks = RUNS_LOOKED_AT;
        for seat in self.lanes.values().flat_map(|lane| lane.seats.values()) {
            for class in CLASSES {
                let line = seat.lines.get(class);
                self.left_in(line, *id, (&mut found, &mut looks))?;
            }
        }
        let left = RemainingWork {
            places: self.by_name(found),
            latest: self.latest_of(*id),
        };
        Ok(left.of_all(queued))
    }

    fn left_in(
        &self,
        line: &ClassQueue,
        id: u32,
        (found, looks): (&mut Found, &mut usize),
    ) -> rusqlite::Result<()> {
        for entry in line.front.values() {
            note(found, id, entry);
        }
        let Some(place) = self.places.get(&line.id) else {
            return Ok(());
        };
        for run in line.runs.iter().take(*looks) {
            *looks -= 1;
            if let Some(cost) = self.cost_in_run(id, *run)? {
                add(found, *place, (run.count, run.count.saturating_mul(cost)));
            }
        }
        Ok(())
    }

    /// What a job of a run costs, if the run is the action's.
    fn cost_in_run(&self, action: u32, run: IdRun) -> rusqlite::Result<Option<u64>> {
        let sql = "SELECT action, cost FROM job WHERE seq >= ?1 AND seq < ?2 LIMIT 1";
        let mut statement = self.reader.prepare_cached(sql)?;
        let range = params![stored(run.first), stored(run.end())];
        let first = statement
            .query_row(range, |row| {
                Ok((row.get::<_, Option<u32>>(0)?, row.get(1)?))
            })
            .optional()?;
        let its = first.filter(|(of, _)| *of == Some(action));
        Ok(its.map(|(_, cost)| counted(cost)))
    }

    fn by_name(&self, found: Found) -> Vec<RemainingInLane> {
        let named = found.into_iter().map(|((lane, tenant), (jobs, units))| {
            Some(RemainingInLane {
                lane: self.lanes.get(&lane)?.name.clone(),
                tenant: self.tenants.get(&tenant)?.name.clone(),
                jobs,
                units,
            })
        });
        named.flatten().collect()
    }

    fn latest_of(&self, id: u32) -> Option<WallTime> {
        let last = self.starts.iter().rev().take(STARTS_LOOKED_AT);
        let mut waiting = last.filter_map(|(_, seq)| self.waiting.get(seq));
        let its = waiting.find(|one| one.entry.action == Some(id))?;
        match its.until {
            DelayUntil::Civil(at) => Some(at),
            DelayUntil::Instant(_) => None,
        }
    }
}

fn note(found: &mut Found, action: u32, entry: &JobEntry) {
    if entry.action == Some(action) {
        add(found, entry.place, (1, entry.cost.units()));
    }
}

fn add(found: &mut Found, place: JobPosition, (jobs, units): (u64, u64)) {
    let sum = found.entry((place.lane, place.tenant)).or_default();
    *sum = (sum.0 + jobs, sum.1.saturating_add(units));
}

/// A quarter of a million jobs, whose first ones are read in some tens of milliseconds.
const RUNS_LOOKED_AT: usize = 4_096;

/// Another action's may be the last to start, but seldom so many of them.
const STARTS_LOOKED_AT: usize = 10_000;
