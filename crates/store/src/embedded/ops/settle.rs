//! Settlements: end a claim with one of the results of the contract.

use std::time::Duration;

use outflow_core::{ClockPair, rate_limit_speed};

use super::poison_isolation::remove_claim;
use super::transitions::{JobEnding, catch_up, count, count_as, end_job, enqueue};
use crate::claim::FencingToken;
use crate::embedded::disk::write_op::{JobMark, MarkState, WriteOp};
use crate::embedded::state::StoreState;
use crate::embedded::state::action::ActionEnd;
use crate::embedded::state::claims::ClaimState;
use crate::embedded::state::delayed::{DelayUntil, DelayedJob, JobCountState};
use crate::embedded::state::job_entry::AttemptHistory;
use crate::name::Name;
use crate::settle::{CooldownScope, Defer, JobEnd, JobStatus, SettleResult, Settlement, StoredResult};

/// Ends one claim.
pub(crate) fn settle(
    state: &mut StoreState,
    session: &Name,
    settlement: Settlement,
    moment: ClockPair,
) -> SettleResult {
    let Settlement { token, end, .. } = settlement;
    if !is_held_by(state, session, token) {
        return SettleResult::Fenced;
    }
    let Some(claim) = remove_claim(state, token.job) else {
        return SettleResult::Fenced;
    };
    let first_step = state.log.len();
    let undo = claim.copy_without_charge();
    let settled = if claim.cancelled && starts_again(&claim, &end) {
        finish_claim(state, claim, JobStatus::Cancelled, moment)
    } else {
        apply(state, claim, end, moment)
    };
    state.log.set_undo(first_step, undo);
    settled
}

fn is_held_by(state: &StoreState, session: &Name, token: FencingToken) -> bool {
    let claim = state.claims.by_job.get(&token.job);
    claim.is_some_and(|claim| claim.number == token.claim && claim.session.as_ref() == Some(session))
}

fn apply(state: &mut StoreState, mut claim: ClaimState, end: JobEnd, moment: ClockPair) -> SettleResult {
    match end {
        JobEnd::Done { took, result } => {
            let ending = JobEnding::from_claim(claim, JobStatus::Done, moment.wall);
            end_job(state, JobEnding { took, result, ..ending });
            SettleResult::Done
        }
        JobEnd::Retry { after, message, result } => {
            record_error(state, claim.seq, message, moment);
            retry(state, claim, result, moment, |state, claim| {
                delay(state, claim, MarkState::Retry, after, moment);
                SettleResult::Waits
            })
        }
        JobEnd::RetryDeferred { by, message, result } => {
            record_error(state, claim.seq, message, moment);
            catch_up(state, moment);
            retry(state, claim, result, moment, |state, claim| {
                delay_deferred(state, claim, by, moment)
            })
        }
        JobEnd::Failed { message, result } => {
            record_error(state, claim.seq, message, moment);
            dead_letter(state, claim, result, moment)
        }
        JobEnd::Throttled { after, cooldown: park } => throttle(state, claim, after, park, moment),
        JobEnd::ApiFailed { after, message } => {
            record_error(state, claim.seq, message, moment);
            wait_for_api(state, claim, after, moment)
        }
        JobEnd::Returned => {
            let history = &mut claim.entry.history;
            history.attempts = history.attempts.saturating_sub(1);
            return_to_queue(state, claim, moment)
        }
        JobEnd::Interrupted => return_to_queue(state, claim, moment),
        JobEnd::Deferred(by) => defer(state, claim, by, moment),
    }
}

/// Returns a throttled job to its queue, and starts the cooldown of its tenant or lane.
fn throttle(
    state: &mut StoreState,
    mut claim: ClaimState,
    after: Duration,
    scope: CooldownScope,
    moment: ClockPair,
) -> SettleResult {
    let position = claim.entry.position;
    claim.entry.history.reset_recoveries();
    if !has_lost_action(state, &claim) {
        count_throttle(state, &mut claim);
    }
    let settled = return_to_queue(state, claim, moment);
    let until = moment.now.saturating_add(after);
    match scope {
        CooldownScope::Lane => {
            if let Some(lane) = state.lanes.get_mut(position.lane) {
                lane.cooldown_until = lane.cooldown_until.max(until);
            }
        }
        CooldownScope::Tenant => {
            let (lane, tenant) = (position.lane, position.tenant);
            state.lanes.block_tenant(lane, tenant, until);
        }
    }
    settled
}

/// Delays a job that the API failed, and refunds its charge.
fn wait_for_api(state: &mut StoreState, mut claim: ClaimState, after: Duration, moment: ClockPair) -> SettleResult {
    claim.entry.history.reset_recoveries();
    if has_lost_action(state, &claim) {
        return finish_claim(state, claim, JobStatus::Cancelled, moment);
    }
    refund_turn(state, &mut claim);
    delay(state, &claim, MarkState::Retry, after, moment);
    SettleResult::Waits
}

/// Counts a throttle when it happens, for the job, its tenant and its action.
fn count_throttle(state: &mut StoreState, claim: &mut ClaimState) {
    let entry = &mut claim.entry;
    entry.history.throttles += 1;
    let (position, action) = (entry.position, entry.action);
    count(state, position, action, |counts| counts.throttles += 1);
    state.log.record(WriteOp::Throttled {
        tenant: position.tenant,
        action,
    });
}

/// Uses a retry after a wait, or dead-letters a job that has none left.
fn retry(
    state: &mut StoreState,
    mut claim: ClaimState,
    last: Option<StoredResult>,
    moment: ClockPair,
    wait: impl FnOnce(&mut StoreState, &ClaimState) -> SettleResult,
) -> SettleResult {
    if !claim.entry.use_retry() {
        return dead_letter(state, claim, last, moment);
    }
    if has_lost_action(state, &claim) {
        return finish_claim(state, claim, JobStatus::Cancelled, moment);
    }
    wait(state, &claim)
}

/// Defers a job for which the scheduler found no quota.
fn defer(state: &mut StoreState, mut claim: ClaimState, by: Defer, moment: ClockPair) -> SettleResult {
    catch_up(state, moment);
    if has_lost_action(state, &claim) {
        return finish_claim(state, claim, JobStatus::Cancelled, moment);
    }
    count_throttle(state, &mut claim);
    refund_turn(state, &mut claim);
    delay_deferred(state, &claim, by, moment)
}

/// Delays a deferred job as the rule says, and updates its tenant's congestion.
fn delay_deferred(state: &mut StoreState, claim: &ClaimState, by: Defer, moment: ClockPair) -> SettleResult {
    let id = claim.entry.position.tenant;
    let others = state.tenants.get(id).map(|of| of.counts.non_ready);
    let non_ready = others.unwrap_or(0) + 1;
    let (backoff, speed) = match by {
        Defer::Fixed(span) => (span, 0),
        Defer::Formula { rule, global, most } => {
            let speed = rate_limit_speed(global, state.active_tenants).min(most);
            let reading = rule.reading(non_ready, speed);
            (reading.backoff, reading.speed)
        }
    };
    delay(state, claim, MarkState::Deferred, backoff, moment);
    if let Some(tenant) = state.tenants.get_mut(id) {
        (tenant.last_backoff, tenant.speed) = (backoff, speed);
        tenant.last_update = Some(moment.wall);
    }
    state.log.record(WriteOp::Congested {
        tenant: id,
        backoff,
        speed,
        at: moment.wall,
    });
    SettleResult::Deferred {
        backoff,
        non_ready,
        speed,
    }
}

/// Delays a claimed job for a span.
fn delay(state: &mut StoreState, claim: &ClaimState, mark: MarkState, span: Duration, moment: ClockPair) {
    let entry = claim.entry.clone();
    let counted_as = match mark {
        MarkState::Deferred => JobCountState::Deferred,
        _ => JobCountState::Delayed,
    };
    state.log.record(WriteOp::Mark(JobMark {
        due: Some(moment.wall.saturating_add(span)),
        span: Some(span),
        ..JobMark::new(claim.seq, mark, entry.history)
    }));
    count_return(state, claim, counted_as);
    let delayed = DelayedJob {
        entry,
        until: DelayUntil::Instant(moment.now.saturating_add(span)),
        counted_as,
    };
    state.delayed.insert(claim.seq, delayed);
}

/// Returns a job to the head of its queue, and refunds its charge.
pub(crate) fn return_to_queue(state: &mut StoreState, mut claim: ClaimState, moment: ClockPair) -> SettleResult {
    if has_lost_action(state, &claim) {
        return finish_claim(state, claim, JobStatus::Cancelled, moment);
    }
    let (seq, entry) = (claim.seq, claim.entry.clone());
    let untouched = entry.history == AttemptHistory::default();
    let op = if untouched && !state.runs.is_tracked(seq) {
        WriteOp::Unmark(seq)
    } else {
        WriteOp::Mark(JobMark::new(seq, MarkState::Returned, entry.history))
    };
    state.log.record(op);
    count_return(state, &claim, JobCountState::Queued);
    enqueue(state, seq, entry);
    refund_turn(state, &mut claim);
    SettleResult::Waits
}

fn count_return(state: &mut StoreState, claim: &ClaimState, counted_as: JobCountState) {
    let entry = &claim.entry;
    count(state, entry.position, entry.action, |counts| {
        counts.in_flight -= 1;
        count_as(counts, counted_as);
    });
    state.lanes.start_wait(entry.position);
}

/// Refunds the charge of a claim to its tenant and class.
fn refund_turn(state: &mut StoreState, claim: &mut ClaimState) {
    let Some(charge) = claim.charge.take() else {
        return;
    };
    let position = claim.entry.position;
    let Some(lane) = state.lanes.get_mut(position.lane) else {
        return;
    };
    if let Some(member) = lane.tenants.get_mut(&position.tenant) {
        member.classes.refund(position.class, claim.entry.cost);
    }
    lane.order.refund(charge);
}

/// Returns true if the action of a job ended without it. Such a job does not wait again.
fn has_lost_action(state: &StoreState, claim: &ClaimState) -> bool {
    claim.entry.action.is_some_and(|id| {
        let action = state.actions.get(id);
        action.is_none_or(|action| action.state.end != ActionEnd::Open)
    })
}

/// Records the error of an attempt.
pub(crate) fn record_error(state: &mut StoreState, seq: u64, message: String, moment: ClockPair) {
    state.log.record(WriteOp::AttemptError {
        seq,
        at: moment.wall,
        words: message,
    });
}

fn dead_letter(
    state: &mut StoreState,
    claim: ClaimState,
    result: Option<StoredResult>,
    moment: ClockPair,
) -> SettleResult {
    let ending = JobEnding::from_claim(claim, JobStatus::Failed, moment.wall);
    end_job(state, JobEnding { result, ..ending });
    SettleResult::DeadLettered
}

/// Ends a claimed job without a result.
pub(crate) fn finish_claim(
    state: &mut StoreState,
    claim: ClaimState,
    status: JobStatus,
    moment: ClockPair,
) -> SettleResult {
    end_job(state, JobEnding::from_claim(claim, status, moment.wall));
    match status {
        JobStatus::Done => SettleResult::Done,
        JobStatus::Failed => SettleResult::DeadLettered,
        JobStatus::Expired | JobStatus::Cancelled => SettleResult::Cancelled,
    }
}

/// Returns true if an end lets its job start again, which a cancelled job must not. Any other end counts
/// even for a cancelled job, because the call was made.
const fn starts_again(claim: &ClaimState, end: &JobEnd) -> bool {
    match end {
        JobEnd::Done { .. } | JobEnd::Failed { .. } => false,
        JobEnd::Retry { .. } | JobEnd::RetryDeferred { .. } => claim.entry.history.retries < claim.entry.max_retries,
        JobEnd::Throttled { .. }
        | JobEnd::ApiFailed { .. }
        | JobEnd::Returned
        | JobEnd::Interrupted
        | JobEnd::Deferred(_) => true,
    }
}
