//! Paused tenants that delay an action, because they have jobs of it in their queues.
//!
//! The store keeps no count of an action's jobs per tenant: every job would write it, for a query that
//! matters only during a pause. Instead it searches the queues of paused tenants, within limits.

use rusqlite::params;

use crate::embedded::disk::int_codec::to_sql;
use crate::embedded::state::StoreState;
use crate::embedded::state::class_queue::ClassQueue;
use crate::embedded::state::job_entry::{IdRun, JobEntry};
use crate::embedded::state::priority_classes::CLASSES;

/// Lists paused tenants with waiting jobs.
pub(crate) fn paused_tenants(state: &StoreState) -> Vec<u32> {
    let tenants = state.tenants.iter();
    let paused = tenants.filter(|(_, tenant)| tenant.paused && tenant.counts.queued > 0);
    paused.map(|(id, _)| id).collect()
}

/// Counts the tenants of a list that have waiting jobs of an action.
pub(crate) fn count_holding(state: &StoreState, action: u32, tenants: &[u32]) -> rusqlite::Result<u64> {
    let mut count = 0;
    for tenant in tenants {
        count += u64::from(has_waiting_jobs(state, action, *tenant)?);
    }
    Ok(count)
}

fn has_waiting_jobs(state: &StoreState, action: u32, tenant: u32) -> rusqlite::Result<bool> {
    let is_its = |entry: &JobEntry| entry.action == Some(action);
    let mut delayed = state.delayed.iter().map(|(_, job)| &job.entry);
    if delayed.any(|entry| entry.position.tenant == tenant && is_its(entry)) {
        return Ok(true);
    }
    for queue in queues_of(state, tenant) {
        if queue.front.values().any(is_its) {
            return Ok(true);
        }
        for run in queue.runs.iter().take(RUN_SAMPLE) {
            if run_has_action(state, action, *run)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn queues_of(state: &StoreState, tenant: u32) -> impl Iterator<Item = &ClassQueue> {
    let lanes = state.tenants.get(tenant).map(|tenant| &tenant.lanes);
    let lanes = lanes.into_iter().flatten();
    let members = lanes.filter_map(move |lane| state.lanes.tenant(*lane, tenant));
    members.flat_map(|member| CLASSES.map(|class| member.queues.get(class)))
}

fn run_has_action(state: &StoreState, action: u32, run: IdRun) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM job WHERE seq >= ?1 AND seq < ?2 AND action = ?3)";
    let mut statement = state.reader.prepare_cached(sql)?;
    let range = params![to_sql(run.first), to_sql(run.end()), action];
    statement.query_row(range, |row| row.get(0))
}

/// Four thousand jobs of a queue, which are read in a few milliseconds under the store's lock.
const RUN_SAMPLE: usize = 64;
