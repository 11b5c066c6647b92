//! Jobs that are next in order and do not go: cancelled, held, damaged or expired.

use outflow_core::ClockPair;

use super::claim::{JobCheck, remove_from_queue};
use super::settle::record_error;
use super::transitions::{JobEnding, end_job};
use crate::embedded::disk::checksum::DAMAGED;
use crate::embedded::disk::int_codec::to_count;
use crate::embedded::disk::prefetch::load_body;
use crate::embedded::state::StoreState;
use crate::embedded::state::action::ActionEnd;
use crate::embedded::state::delayed::JobCountState;
use crate::embedded::state::job_entry::JobPosition;
use crate::error::StoreError;
use crate::settle::JobStatus;

/// Skips or ends the first job if it must not go. The filter is asked only afterwards, so that no permit
/// is taken in vain.
pub(crate) fn skip_or_end(
    state: &mut StoreState,
    seq: u64,
    position: JobPosition,
    moment: ClockPair,
) -> Result<Option<JobCheck>, StoreError> {
    let Some(reason) = skip_reason(state, seq, position, moment) else {
        return Ok(None);
    };
    let status = match reason {
        SkipReason::Held => return Ok(hold_for_action(state, seq, position)),
        SkipReason::Cancelled => JobStatus::Cancelled,
        // A damaged row may hold a wrong deadline, too.
        SkipReason::None | SkipReason::Expired if !load_body(state, seq, position)? => {
            record_error(state, seq, DAMAGED.to_owned(), moment);
            JobStatus::Failed
        }
        SkipReason::Expired => JobStatus::Expired,
        SkipReason::None => return Ok(None),
    };
    Ok(end_unstarted(state, seq, position, status, moment))
}

fn skip_reason(state: &StoreState, seq: u64, position: JobPosition, moment: ClockPair) -> Option<SkipReason> {
    let entry = state.lanes.queue(position)?.front.get(&seq)?;
    let action = entry.action.map(|id| state.actions.get(id));
    let is_over = match action {
        Some(Some(action)) => action.state.end != ActionEnd::Open,
        Some(None) => true,
        None => false,
    };
    let is_paused = action.flatten().is_some_and(|action| action.state.paused);
    let is_expired = entry.deadline.is_some_and(|at| at <= moment.wall);
    let cancelled_to = state.tenants.get(position.tenant)?.cancelled_to;
    Some(if is_over || seq <= cancelled_to {
        SkipReason::Cancelled
    } else if is_expired {
        SkipReason::Expired
    } else if is_paused {
        SkipReason::Held
    } else {
        SkipReason::None
    })
}

/// Ends expired jobs at the heads of some queues, even of queues that hand out nothing, and returns their
/// number. Jobs on the disk expire when they are read.
pub(crate) fn expire_queued(state: &mut StoreState, limit: usize, moment: ClockPair) -> u64 {
    let mut ended = 0;
    for position in state.lanes.next_to_expire(TENANT_BATCH) {
        while ended < limit
            && let Some(seq) = expired_head(state, position, moment)
            && end_unstarted(state, seq, position, JobStatus::Expired, moment).is_some()
        {
            ended += 1;
        }
    }
    to_count(ended)
}

fn expired_head(state: &StoreState, position: JobPosition, moment: ClockPair) -> Option<u64> {
    let queue = state.lanes.queue(position)?;
    let seq = *queue.front.first_key_value()?.0;
    let unread = queue.runs.front().is_some_and(|run| run.first < seq);
    let reason = skip_reason(state, seq, position, moment);
    (!unread && reason == Some(SkipReason::Expired)).then_some(seq)
}

/// Ends the first job before it starts.
fn end_unstarted(
    state: &mut StoreState,
    seq: u64,
    position: JobPosition,
    status: JobStatus,
    moment: ClockPair,
) -> Option<JobCheck> {
    let entry = remove_from_queue(state, seq, position)?;
    let from = JobCountState::Queued;
    end_job(state, JobEnding::new(seq, entry, from, status, moment.wall));
    Some(match status {
        JobStatus::Expired => JobCheck::Expired,
        _ => JobCheck::Skipped,
    })
}

/// Holds the first job until its action is resumed.
fn hold_for_action(state: &mut StoreState, seq: u64, position: JobPosition) -> Option<JobCheck> {
    let entry = remove_from_queue(state, seq, position)?;
    let action = state.actions.get_mut(entry.action?)?;
    action.held.insert(seq, entry);
    state.lanes.start_hold(position);
    Some(JobCheck::Skipped)
}

/// Reason for which a job does not go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SkipReason {
    None,
    Expired,
    Held,
    Cancelled,
}

/// Tenants that one search for expired jobs visits: less than a millisecond of work.
const TENANT_BATCH: usize = 2_000;
