//! Publication: jobs that are on the disk join the state, and may be claimed from then on.

use outflow_core::{ClockPair, WallTime};

use super::actions::record_action;
use super::submit::{AcceptedBatch, AcceptedJob};
use super::tenants::wake_tenant;
use super::transitions::{count, count_as};
use crate::action::ActionStage;
use crate::embedded::state::StoreState;
use crate::embedded::state::delayed::{DelayUntil, DelayedJob, JobCountState};
use crate::embedded::state::job_entry::{AttemptHistory, IdRun, JobBody, JobEntry, JobPosition, RUN_LIMIT};
use crate::job::{NewJob, SubmitReceipt, SubmitResult};

/// Queues the jobs of a batch that is on the disk.
pub(crate) fn publish(state: &mut StoreState, batch: AcceptedBatch, moment: ClockPair) -> SubmitResult {
    let AcceptedBatch {
        mut receipts,
        jobs,
        runs,
        action,
        closes,
    } = batch;
    if let Some(action) = action.and_then(|id| state.actions.get_mut(id)) {
        action.state.closed |= closes;
    }
    let mut jobs = jobs.into_iter().peekable();
    for (position, run) in runs {
        let near = is_near_front(state, position);
        if near {
            state.runs.open(run, run.count);
        } else {
            push_run(state, position, run);
        }
        while let Some(job) = jobs.next_if(|job| job.seq < run.end()) {
            let index = job.index;
            let queued = add_job(state, job, action, near, moment);
            if let Some(SubmitReceipt::Accepted { place, .. }) = receipts.get_mut(index) {
                *place = queued;
            }
        }
        state.update_order(position.lane, position.tenant);
    }
    finish_action(state, action, moment.wall);
    SubmitResult {
        receipts,
        queued: state.counts.queued,
        active: state.active_tenants,
    }
}

/// Returns true if a new job of this queue is so near the front that it stays in memory.
fn is_near_front(state: &StoreState, position: JobPosition) -> bool {
    let fits = state.payload_bytes < PAYLOAD_LIMIT;
    let queue = state.lanes.queue(position);
    queue.is_some_and(|queue| fits && queue.runs.is_empty() && queue.front.len() < RUN_LIMIT)
}

fn push_run(state: &mut StoreState, position: JobPosition, run: IdRun) {
    let member = state.lanes.tenant_mut(position.lane, position.tenant);
    if let Some(member) = member {
        if !member.queues.get(position.class).has_work() {
            member.classes.arrive(position.class);
        }
        let queue = member.queues.get_mut(position.class);
        queue.runs.push_back(run);
    }
}

/// Adds one job, and returns the number of its tenant's waiting jobs in its lane.
fn add_job(state: &mut StoreState, accepted: AcceptedJob, action: Option<u32>, near: bool, moment: ClockPair) -> u64 {
    let AcceptedJob { seq, position, job, .. } = accepted;
    let start = job.not_before.filter(|at| *at > moment.wall);
    let counted_as = match start {
        Some(_) => JobCountState::Delayed,
        None => JobCountState::Queued,
    };
    wake_tenant(state, position.tenant);
    count(state, position, action, |counts| count_as(counts, counted_as));
    state.lanes.add_job(position);
    let entry = new_entry(&job, position, action);
    if let Some(at) = start {
        if !near {
            state.runs.track(seq);
        }
        let until = DelayUntil::Civil(at);
        let delayed = DelayedJob {
            entry,
            until,
            counted_as,
        };
        state.delayed.insert(seq, delayed);
    } else if near {
        keep_in_memory(state, seq, entry, job);
    }
    state.ids.last_seq = state.ids.last_seq.max(seq);
    let member = state.lanes.tenant(position.lane, position.tenant);
    member.map_or(0, |member| member.queued)
}

fn keep_in_memory(state: &mut StoreState, seq: u64, entry: JobEntry, job: NewJob) {
    let JobPosition { lane, tenant, .. } = entry.position;
    let body = JobBody {
        name: job.id,
        payload: job.payload,
    };
    state.payload_bytes += body.memory_bytes();
    let body = Some(body);
    if let Some(member) = state.lanes.tenant_mut(lane, tenant) {
        member.insert(seq, JobEntry { body, ..entry });
    }
}

/// Ends a closed action whose last job is over.
pub(crate) fn finish_action(state: &mut StoreState, action: Option<u32>, at: WallTime) {
    let Some((id, action)) = action.and_then(|id| Some((id, state.actions.get_mut(id)?))) else {
        return;
    };
    if action.stage() == ActionStage::Aggregating && action.state.ended.is_none() {
        action.state.ended = Some(at);
        record_action(state, id);
    }
}

fn new_entry(job: &NewJob, position: JobPosition, action: Option<u32>) -> JobEntry {
    JobEntry {
        position,
        action,
        cost: job.cost,
        deadline: job.deadline,
        max_retries: job.max_retries,
        history: AttemptHistory::default(),
        body: None,
    }
}

/// Bytes of payloads in memory: enough for the next seconds of every lane, and small next to the rest of
/// the process.
pub(crate) const PAYLOAD_LIMIT: usize = 64 * 1_024 * 1_024;
