//! Cancellation in pieces.
//!
//! Ending a million jobs in one step would block all other callers. So a mark cancels them first: from
//! then on the store hands out none of them. They end some thousand at a time, with the store unlocked in
//! between, and the caller gets its response after the last. If the caller dies before that, the next
//! query for finished actions continues the cancellation.

use outflow_core::{ClockPair, WallTime};
use rusqlite::params;

use super::actions::record_action;
use super::claim::remove_from_queue;
use super::transitions::{JobEnding, catch_up, end_job};
use crate::action::ActionStage;
use crate::embedded::disk::database_error::failed;
use crate::embedded::disk::int_codec::{to_sql, to_u64};
use crate::embedded::disk::prefetch::read_run;
use crate::embedded::disk::rows::entry_in_queue;
use crate::embedded::disk::write_op::{JobMark, MarkState, WriteOp};
use crate::embedded::state::StoreState;
use crate::embedded::state::action::ActionEnd;
use crate::embedded::state::delayed::JobCountState;
use crate::embedded::state::job_entry::{JobEntry, JobPosition};
use crate::embedded::state::priority_classes::CLASSES;
use crate::error::StoreError;
use crate::settle::JobStatus;
use crate::tenant::ControlScope;

/// A cancellation that ends its jobs piece by piece.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingCancel {
    scope: CancelScope,
    /// The last job that it covers.
    to: u64,
    /// The last job of the pieces so far.
    from: u64,
    /// The number of unstarted jobs.
    pub(crate) count: u64,
}

#[derive(Clone, Copy, Debug)]
enum CancelScope {
    Tenant(u32),
    Action(u32),
}

/// Starts a cancellation: the store hands out no more jobs of this scope. Returns nothing for an unknown
/// or finished scope.
pub(crate) fn begin_cancel(
    state: &mut StoreState,
    scope: &ControlScope,
    moment: ClockPair,
) -> Result<Option<PendingCancel>, StoreError> {
    catch_up(state, moment);
    state.log.needs_sync = true;
    let to = state.ids.last_seq;
    let (scope, count) = match scope {
        ControlScope::Tenant(name) => {
            let Some((id, tenant)) = state.tenants.find_mut(name) else {
                return Ok(None);
            };
            tenant.cancelled_to = to;
            (CancelScope::Tenant(id), tenant.counts.queued)
        }
        ControlScope::Action(name) => {
            let (id, action) = state.actions.known_mut(name)?;
            let count = action.counts.queued;
            if action.is_cut_short() {
                let rest = cancel_rest(state, id);
                return Ok(Some(PendingCancel { count, ..rest }));
            }
            if action.stage() >= ActionStage::Aggregating {
                return Ok(None);
            }
            action.end_early(ActionEnd::Cancelled, moment.wall);
            record_action(state, id);
            (CancelScope::Action(id), count)
        }
    };
    cancel_claims(state, scope);
    Ok(Some(PendingCancel {
        scope,
        to,
        from: 0,
        count,
    }))
}

/// Cancels the unstarted jobs of an action that ended early.
pub(crate) const fn cancel_rest(state: &StoreState, action: u32) -> PendingCancel {
    PendingCancel {
        scope: CancelScope::Action(action),
        to: state.ids.last_seq,
        from: 0,
        count: 0,
    }
}

/// Marks jobs in flight, so that they do not start again.
fn cancel_claims(state: &mut StoreState, scope: CancelScope) {
    for claim in state.claims.by_job.values_mut() {
        let is_covered = match scope {
            CancelScope::Tenant(id) => claim.entry.position.tenant == id,
            CancelScope::Action(id) => claim.entry.action == Some(id),
        };
        if is_covered && !claim.cancelled {
            claim.cancelled = true;
            let mark = JobMark::new(claim.seq, MarkState::Cancelled, claim.entry.history);
            state.log.record(WriteOp::Mark(mark));
        }
    }
}

/// Ends the next piece, and returns true if there may be more.
pub(crate) fn cancel_piece(
    state: &mut StoreState,
    cancel: &mut PendingCancel,
    moment: ClockPair,
) -> Result<bool, StoreError> {
    state.log.needs_sync = true;
    match cancel.scope {
        CancelScope::Action(action) => cancel_action(state, action, cancel, moment.wall).map_err(failed),
        CancelScope::Tenant(id) => {
            let more = cancel_tenant(state, id, cancel.to, moment.wall)?;
            let tenant = state.tenants.get_mut(id).filter(|_| !more);
            if let Some(tenant) = tenant.filter(|tenant| tenant.cancelled_to == cancel.to) {
                tenant.cancelled_to = 0;
            }
            Ok(more)
        }
    }
}

fn cancel_tenant(state: &mut StoreState, tenant: u32, to: u64, at: WallTime) -> Result<bool, StoreError> {
    let lanes = state.tenants.get(tenant).map(|of| of.lanes.clone());
    let mut left = PIECE;
    for lane in lanes.unwrap_or_default() {
        for class in CLASSES {
            let position = state.position(lane, tenant, class);
            left -= cancel_queue(state, position, to, left, at)?;
        }
    }
    left -= cancel_delayed(state, tenant, to, left, at);
    left -= cancel_held(state, tenant, to, left, at);
    Ok(left == 0)
}

fn cancel_queue(
    state: &mut StoreState,
    position: JobPosition,
    to: u64,
    limit: usize,
    at: WallTime,
) -> Result<usize, StoreError> {
    while let Some(queue) = state.lanes.queue_mut(position)
        && queue.front.len() < limit
        && queue.runs.front().is_some_and(|run| run.first <= to)
        && let Some(run) = queue.runs.pop_front()
    {
        read_run(state, position, run)?;
    }
    let Some(queue) = state.lanes.queue(position) else {
        return Ok(0);
    };
    let covered = queue.front.range(..=to).map(|(seq, _)| *seq);
    let seqs: Vec<u64> = covered.take(limit).collect();
    for seq in &seqs {
        if let Some(entry) = remove_from_queue(state, *seq, position) {
            cancel_job(state, *seq, entry, JobCountState::Queued, at);
        }
    }
    Ok(seqs.len())
}

fn cancel_delayed(state: &mut StoreState, tenant: u32, to: u64, limit: usize, at: WallTime) -> usize {
    let jobs = state.delayed.iter();
    let covered = jobs.filter(|(seq, job)| *seq <= to && job.entry.position.tenant == tenant);
    let seqs: Vec<u64> = covered.map(|(seq, _)| seq).take(limit).collect();
    for seq in &seqs {
        if let Some(job) = state.delayed.remove(*seq) {
            cancel_job(state, *seq, job.entry, job.counted_as, at);
        }
    }
    seqs.len()
}

fn cancel_held(state: &mut StoreState, tenant: u32, to: u64, limit: usize, at: WallTime) -> usize {
    let mut found = Vec::new();
    for (_, action) in state.actions.iter_mut() {
        let is_covered = |seq: &u64, entry: &mut JobEntry| *seq <= to && entry.position.tenant == tenant;
        let left = limit - found.len();
        found.extend(action.held.extract_if(.., is_covered).take(left));
    }
    let count = found.len();
    for (seq, entry) in found {
        state.lanes.end_hold(entry.position);
        cancel_job(state, seq, entry, JobCountState::Queued, at);
    }
    count
}

/// Searches all jobs for those of an action. A list per action would cost every submission.
fn cancel_action(
    state: &mut StoreState,
    action: u32,
    cancel: &mut PendingCancel,
    at: WallTime,
) -> rusqlite::Result<bool> {
    let sql = "SELECT max(seq) FROM (SELECT seq FROM job WHERE seq > ?1 ORDER BY seq LIMIT ?2)";
    let piece = i64::try_from(PIECE).unwrap_or(i64::MAX);
    let last: Option<i64> = state
        .reader
        .prepare_cached(sql)?
        .query_row(params![to_sql(cancel.from), piece], |row| row.get(0))?;
    let Some(last) = last.map(to_u64) else {
        return Ok(false);
    };
    let sql = "SELECT seq, line, action, cost, deadline, retries FROM job \
               WHERE seq > ?1 AND seq <= ?2 AND action = ?3";
    let mut statement = state.reader.prepare_cached(sql)?;
    let found: Vec<(u64, Option<JobEntry>)> = statement
        .query_map(params![to_sql(cancel.from), to_sql(last), action], |row| {
            Ok((to_u64(row.get(0)?), entry_in_queue(row, &state.lanes)))
        })?
        .collect::<rusqlite::Result<_>>()?;
    drop(statement);
    for (seq, entry) in found {
        if let Some(entry) = entry {
            cancel_row(state, seq, entry, at);
        }
    }
    cancel.from = last;
    Ok(last < cancel.to)
}

/// Cancels a job that waits in its queue, for an instant or for its action. It leaves a job in flight,
/// and a finished job whose row the writer has not deleted yet.
fn cancel_row(state: &mut StoreState, seq: u64, read: JobEntry, at: WallTime) {
    let position = read.position;
    if state.claims.by_job.contains_key(&seq) {
        return;
    }
    if let Some(job) = state.delayed.remove(seq) {
        return cancel_job(state, seq, job.entry, job.counted_as, at);
    }
    let action = read.action.and_then(|id| state.actions.get_mut(id));
    let held = action.and_then(|action| action.held.remove(&seq));
    if held.is_some() {
        state.lanes.end_hold(position);
    }
    let waiting = held
        .or_else(|| remove_from_queue(state, seq, position))
        .or_else(|| is_unread(state, seq, position).then_some(read));
    if let Some(entry) = waiting {
        cancel_job(state, seq, entry, JobCountState::Queued, at);
    }
}

fn is_unread(state: &StoreState, seq: u64, position: JobPosition) -> bool {
    let queue = state.lanes.queue(position);
    queue.is_some_and(|queue| queue.has_unread(seq)) && state.runs.is_untracked(seq)
}

fn cancel_job(state: &mut StoreState, seq: u64, entry: JobEntry, from: JobCountState, at: WallTime) {
    let ending = JobEnding::new(seq, entry, from, JobStatus::Cancelled, at);
    end_job(state, ending);
}

/// Jobs of one piece: some milliseconds of work under the store's lock.
const PIECE: usize = 2_048;
