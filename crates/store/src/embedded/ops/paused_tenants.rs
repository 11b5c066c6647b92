//! Who holds an action up: tenants that an operator stopped, with jobs of it in their lines.
//!
//! No count is kept of the jobs that an action has with each tenant: it would be written with every job,
//! for a question that is asked while somebody is stopped. The lines of those who are stopped are looked
//! through instead, as far as that is soon done.

use rusqlite::params;

use crate::embedded::disk::int_codec::stored;
use crate::embedded::state::StoreState;
use crate::embedded::state::class_queue::ClassQueue;
use crate::embedded::state::job_entry::{IdRun, JobEntry};
use crate::embedded::state::priority_classes::CLASSES;

impl StoreState {
    /// The tenants that an operator stopped and that have jobs waiting.
    pub(crate) fn stopped_tenants(&self) -> Vec<u32> {
        let stopped = self.tenants.iter();
        stopped
            .filter(|(_, tenant)| tenant.paused && tenant.tally.queued > 0)
            .map(|(id, _)| *id)
            .collect()
    }

    /// How many of these tenants have jobs of an action waiting.
    pub(crate) fn holders(&self, action: u32, stopped: &[u32]) -> rusqlite::Result<u64> {
        let mut held = 0;
        for tenant in stopped {
            held += u64::from(self.has_waiting(action, *tenant)?);
        }
        Ok(held)
    }

    fn has_waiting(&self, action: u32, tenant: u32) -> rusqlite::Result<bool> {
        let is_its = |entry: &JobEntry| entry.action == Some(action);
        let mut put_off = self.waiting.values().map(|waiting| &waiting.entry);
        if put_off.any(|entry| entry.place.tenant == tenant && is_its(entry)) {
            return Ok(true);
        }
        for line in self.lines_of(tenant) {
            if line.front.values().any(is_its) {
                return Ok(true);
            }
            for run in line.runs.iter().take(RUNS_LOOKED_AT) {
                if self.is_in_run(action, *run)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn lines_of(&self, tenant: u32) -> impl Iterator<Item = &ClassQueue> {
        let lanes = self
            .tenants
            .get(&tenant)
            .into_iter()
            .flat_map(|of| &of.lanes);
        let seats = lanes.filter_map(move |lane| self.lanes.get(lane)?.seats.get(&tenant));
        seats.flat_map(|seat| CLASSES.map(|class| seat.lines.get(class)))
    }

    fn is_in_run(&self, action: u32, run: IdRun) -> rusqlite::Result<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM job WHERE seq >= ?1 AND seq < ?2 AND action = ?3)";
        let mut statement = self.reader.prepare_cached(sql)?;
        let range = params![stored(run.first), stored(run.end()), action];
        statement.query_row(range, |row| row.get(0))
    }
}

/// Four thousand jobs of a line, which are read in a few milliseconds while everybody waits.
const RUNS_LOOKED_AT: usize = 64;
