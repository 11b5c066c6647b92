//! Moves of a job between its queue, a delay and its end, and the counts of each move.
//!
//! Every job is counted three times, in total, for its tenant and for its action. One function does all
//! three, so that the counts cannot differ.

use std::time::Duration;

use outflow_core::{ClockPair, WallTime};

use super::publish::finish_action;
use crate::action::JobCounts;
use crate::embedded::disk::write_op::WriteOp;
use crate::embedded::state::StoreState;
use crate::embedded::state::claims::ClaimState;
use crate::embedded::state::delayed::JobCountState;
use crate::embedded::state::job_entry::{JobEntry, JobPosition};
use crate::settle::{JobStatus, StoredResult};

/// The end of one job.
#[derive(Debug)]
pub(crate) struct JobEnding {
    pub(crate) seq: u64,
    pub(crate) entry: JobEntry,
    pub(crate) from: JobCountState,
    pub(crate) status: JobStatus,
    pub(crate) at: WallTime,
    pub(crate) took: Duration,
    pub(crate) result: Option<StoredResult>,
    /// The reason of a cancellation.
    pub(crate) reason: Option<String>,
}

impl JobEnding {
    /// The end of a job without a result.
    pub(crate) const fn new(seq: u64, entry: JobEntry, from: JobCountState, status: JobStatus, at: WallTime) -> Self {
        Self {
            seq,
            entry,
            from,
            status,
            at,
            took: Duration::ZERO,
            result: None,
            reason: None,
        }
    }

    /// The end of a claimed job without a result.
    pub(crate) fn from_claim(claim: ClaimState, status: JobStatus, at: WallTime) -> Self {
        let from = JobCountState::InFlight;
        Self::new(claim.seq, claim.entry, from, status, at)
    }
}

/// Adds a job to its queue. It is counted already.
pub(crate) fn enqueue(state: &mut StoreState, seq: u64, entry: JobEntry) {
    let JobPosition { lane, tenant, .. } = entry.position;
    state.has_news = true;
    if let Some(member) = state.lanes.tenant_mut(lane, tenant) {
        member.insert(seq, entry);
    }
    state.update_order(lane, tenant);
}

/// Applies all events whose time has come: leases expire, and delayed jobs join their queues.
pub(crate) fn catch_up(state: &mut StoreState, moment: ClockPair) {
    state.claims.expire_leases(moment.now);
    while let Some(seq) = state.delayed.first_due(moment) {
        enqueue_delayed(state, seq);
    }
}

/// Moves a delayed job to its queue.
pub(crate) fn enqueue_delayed(state: &mut StoreState, seq: u64) {
    let Some(delayed) = state.delayed.remove(seq) else {
        return;
    };
    let entry = delayed.entry;
    count(state, entry.position, entry.action, |counts| {
        uncount_delay(counts, delayed.counted_as);
    });
    enqueue(state, seq, entry);
}

/// Counts a change of a job in total, for its tenant and for its action.
pub(crate) fn count(
    state: &mut StoreState,
    position: JobPosition,
    action: Option<u32>,
    change: impl Fn(&mut JobCounts),
) {
    change(&mut state.counts);
    if state.count_tenant(position.tenant, &change) {
        state.update_hold(position.tenant);
    }
    if let Some(action) = action.and_then(|id| state.actions.get_mut(id)) {
        change(&mut action.counts);
    }
}

/// Ends a job that is in no queue, not delayed and no longer claimed.
pub(crate) fn end_job(state: &mut StoreState, mut ending: JobEnding) {
    let JobEntry { position, action, .. } = ending.entry;
    if let Some(action) = action.and_then(|id| state.actions.get_mut(id)) {
        action.progress(ending.at);
        let is_cancelled = ending.status == JobStatus::Cancelled;
        ending.reason = action.timeout_reason().filter(|_| is_cancelled);
    }
    count(state, position, action, |counts| {
        uncount(counts, ending.from);
        match ending.status {
            JobStatus::Done => {
                counts.done += 1;
                counts.busy = counts.busy.saturating_add(ending.took);
            }
            JobStatus::Failed => counts.dead += 1,
            JobStatus::Expired | JobStatus::Cancelled => counts.cancelled += 1,
        }
    });
    if ending.from != JobCountState::InFlight {
        state.lanes.end_wait(position);
    }
    state.lanes.remove_job(position);
    if let Some(run) = state.runs.finish(ending.seq) {
        state.log.record(WriteOp::RunOver(run));
    }
    let Some(tenant) = state.tenants.get(position.tenant) else {
        return;
    };
    let (tenant, at) = (tenant.name.clone(), ending.at);
    state.log.record(WriteOp::Over(tenant, Box::new(ending)));
    finish_action(state, action, at);
}

/// Adds an open job to the counts.
pub(crate) const fn count_as(counts: &mut JobCounts, counted_as: JobCountState) {
    match counted_as {
        JobCountState::Queued => counts.queued += 1,
        JobCountState::Delayed => {
            counts.queued += 1;
            counts.delayed += 1;
        }
        JobCountState::Deferred => {
            counts.queued += 1;
            counts.non_ready += 1;
        }
        JobCountState::InFlight => counts.in_flight += 1,
    }
}

/// Removes an open job from the counts.
const fn uncount(counts: &mut JobCounts, counted_as: JobCountState) {
    match counted_as {
        JobCountState::InFlight => counts.in_flight -= 1,
        JobCountState::Queued | JobCountState::Delayed | JobCountState::Deferred => {
            counts.queued -= 1;
            uncount_delay(counts, counted_as);
        }
    }
}

/// Removes the delay of a job from the counts; it still counts as queued.
const fn uncount_delay(counts: &mut JobCounts, counted_as: JobCountState) {
    match counted_as {
        JobCountState::Delayed => counts.delayed -= 1,
        JobCountState::Deferred => counts.non_ready -= 1,
        JobCountState::Queued | JobCountState::InFlight => {}
    }
}
