//! Garbage collection: removes old data, a piece at a time.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use outflow_core::ClockPair;
use outflow_sync::Mutex;

use super::transitions::catch_up;
use crate::embedded::disk::write_op::WriteOp;
use crate::embedded::state::StoreState;

/// One piece of garbage collection.
#[derive(Clone, Debug)]
pub(crate) struct GarbageSweep {
    pub(crate) at: ClockPair,
    /// Actions that may be removed.
    pub(crate) actions: Vec<u32>,
    pub(crate) result: Arc<Mutex<SweepResult>>,
}

/// Tenants that are removed, with their queues.
#[derive(Debug)]
pub(crate) struct IdleTenants {
    pub(crate) tenants: Vec<u32>,
    pub(crate) queues: Vec<u32>,
}

/// Items that a sweep removed from the disk.
#[derive(Debug, Default)]
pub(crate) struct SweepResult {
    pub(crate) removed: u64,
    /// Actions that were removed with all of their outcomes.
    pub(crate) actions: Vec<u32>,
}

/// Finds expired actions, and lets the writer remove them and all other old rows.
pub(crate) fn begin_sweep(state: &mut StoreState, moment: ClockPair) -> Arc<Mutex<SweepResult>> {
    catch_up(state, moment);
    let result = Arc::<Mutex<SweepResult>>::default();
    let sweep = GarbageSweep {
        at: moment,
        actions: expired_actions(state, moment),
        result: Arc::clone(&result),
    };
    state.log.record(WriteOp::Sweep(sweep));
    result
}

fn expired_actions(state: &StoreState, moment: ClockPair) -> Vec<u32> {
    let expired = state.actions.iter().filter(|(_, action)| {
        let ended = action.state.ended.filter(|_| action.stage().is_over());
        let is_settled = action.counts.open() == 0;
        is_settled && ended.is_some_and(|at| moment.wall.since(at) >= action.state.spec.keep)
    });
    expired.map(|(id, _)| id).take(ACTION_LIMIT).collect()
}

/// Removes tenants that are idle for a while, except those `expected` to have work. The writer calls this
/// in the transaction that deletes their rows: before it, a batch may write jobs of them; after it, a
/// tenant with the same name is another one.
pub(crate) fn remove_idle(state: &mut StoreState, sweep: &GarbageSweep, expected: &HashSet<u32>) -> IdleTenants {
    let tenants = idle_tenants(state, sweep.at, expected);
    let mut queues = Vec::new();
    for id in &tenants {
        if let Some(tenant) = state.tenants.remove(*id) {
            queues.extend(state.lanes.remove_tenant(*id, &tenant));
        }
    }
    IdleTenants { tenants, queues }
}

fn idle_tenants(state: &mut StoreState, moment: ClockPair, expected: &HashSet<u32>) -> Vec<u32> {
    let mut idle = Vec::new();
    for (id, tenant) in state.tenants.iter_mut() {
        let is_needed = tenant.has_own_rule || tenant.paused || tenant.counts.dead > 0;
        if is_needed || tenant.counts.open() > 0 || expected.contains(&id) {
            tenant.idle_since = None;
            continue;
        }
        let since = *tenant.idle_since.get_or_insert(moment.now);
        if moment.now.since(since) >= IDLE_AGE && idle.len() < TENANT_LIMIT {
            idle.push(id);
        }
    }
    idle
}

/// A tenant without work for this long loses its statistics.
const IDLE_AGE: Duration = Duration::from_hours(1);

/// Actions that one piece removes, each with up to as many outcomes as rows of a piece.
const ACTION_LIMIT: usize = 4;

/// Tenants that one piece removes.
const TENANT_LIMIT: usize = 256;
