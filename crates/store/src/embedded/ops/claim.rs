//! Claims: hands out jobs of a lane in fair order.

use std::time::Duration;

use outflow_core::{ClockPair, Cost, FairCharge, Nanos};

use super::poison_isolation::{
    abandon_drain, check_isolation, drain_for, extend_drain, is_last_chance, is_suspect, isolate, release_drain,
};
use super::skip::skip_or_end;
use super::transitions::{catch_up, count};
use crate::claim::{ClaimBatch, ClaimDecision, ClaimFilter, ClaimRequest, ClaimedJob, FencingToken, NextJob};
use crate::embedded::disk::prefetch::read_run;
use crate::embedded::disk::write_op::{JobMark, MarkState, WriteOp};
use crate::embedded::ops::actions::record_action;
use crate::embedded::state::StoreState;
use crate::embedded::state::claims::ClaimState;
use crate::embedded::state::job_entry::{JobBody, JobEntry, JobPosition};
use crate::error::StoreError;

/// Hands out jobs of a lane, within the limit of the request and as the filter allows.
pub(crate) fn claim(
    state: &mut StoreState,
    request: &ClaimRequest,
    filter: &mut dyn ClaimFilter,
    moment: ClockPair,
) -> Result<ClaimBatch, StoreError> {
    catch_up(state, moment);
    let until = moment.now.saturating_add(request.lease);
    state.claims.renew_session(&request.session, until);
    let Some(lane) = state.lanes.find(&request.lane) else {
        return Ok(ClaimBatch::default());
    };
    if let Some(wait) = check_isolation(state, lane, moment.now) {
        return Ok(ClaimBatch {
            next: wait.left,
            ..ClaimBatch::default()
        });
    }
    let batch = hand_out(state, lane, request, filter, moment);
    release_drain(state, lane);
    batch
}

/// Hands out jobs of a lane that no isolated job delays.
fn hand_out(
    state: &mut StoreState,
    lane: u32,
    request: &ClaimRequest,
    filter: &mut dyn ClaimFilter,
    moment: ClockPair,
) -> Result<ClaimBatch, StoreError> {
    let mut batch = ClaimBatch::default();
    let mut skipped = 0;
    while batch.jobs.len() < request.max && !state.claims.has_isolated() {
        match check_next_job(state, lane, request, filter, moment) {
            Ok(JobCheck::Allowed(seq, position)) => match claim_job(state, seq, position, request, moment) {
                Some(job) => batch.jobs.push(job),
                None => skipped += 1,
            },
            Ok(JobCheck::Expired) => {
                batch.expired += 1;
                skipped += 1;
            }
            Ok(JobCheck::Skipped) => skipped += 1,
            Ok(JobCheck::OtherCost(cost)) => {
                batch.other_cost = Some(cost);
                break;
            }
            Err(error) if batch.jobs.is_empty() => return Err(error),
            Ok(JobCheck::Stop) | Err(_) => break,
        }
        if skipped > SKIP_LIMIT {
            batch.next = Some(SOON);
            return Ok(batch);
        }
    }
    batch.next = next_wakeup(state, lane, moment);
    Ok(batch)
}

/// Decides about the job that is next in order.
fn check_next_job(
    state: &mut StoreState,
    lane_id: u32,
    request: &ClaimRequest,
    filter: &mut dyn ClaimFilter,
    moment: ClockPair,
) -> Result<JobCheck, StoreError> {
    let lane = state.lanes.get_mut(lane_id);
    let lane = lane.filter(|lane| lane.cooldown_until <= moment.now);
    let Some(tenant) = lane.and_then(|lane| lane.next_tenant(moment.now)) else {
        return Ok(JobCheck::Stop);
    };
    let Some((seq, position)) = first_job(state, lane_id, tenant)? else {
        state.update_order(lane_id, tenant);
        return Ok(JobCheck::Skipped);
    };
    if let Some(check) = skip_or_end(state, seq, position, moment)? {
        return Ok(check);
    }
    let suspect = is_suspect(state, seq, position, request.recoveries);
    if suspect && !state.claims.by_job.is_empty() {
        drain_for(state, position, moment.now);
        return Ok(JobCheck::Stop);
    }
    if let Some(cost) = other_cost(state, request, seq, position) {
        if suspect {
            extend_drain(state, position, moment.now);
        }
        return Ok(JobCheck::OtherCost(cost));
    }
    Ok(match ask_filter(state, filter, seq, position) {
        ClaimDecision::Take => JobCheck::Allowed(seq, position),
        ClaimDecision::SkipUntil(until) => {
            let soon = moment.now.saturating_add(Duration::from_nanos(1));
            let earliest = abandon_drain(state, position, moment.now);
            let until = until.max(soon).max(earliest);
            let JobPosition { lane, tenant, .. } = position;
            state.lanes.block_tenant(lane, tenant, until);
            JobCheck::Skipped
        }
        ClaimDecision::Stop => {
            if suspect {
                extend_drain(state, position, moment.now);
            }
            JobCheck::Stop
        }
    })
}

/// Returns the cost of a job if the request is for another.
fn other_cost(state: &StoreState, request: &ClaimRequest, seq: u64, position: JobPosition) -> Option<Cost> {
    let wanted = request.cost?;
    let first = state.lanes.queue(position)?.front.get(&seq)?;
    (first.cost != wanted).then_some(first.cost)
}

fn ask_filter(state: &StoreState, filter: &mut dyn ClaimFilter, seq: u64, position: JobPosition) -> ClaimDecision {
    let tenant = state.tenants.get(position.tenant);
    let queue = state.lanes.queue(position);
    let first = queue.and_then(|queue| queue.front.get(&seq));
    let (Some(tenant), Some(first)) = (tenant, first) else {
        return ClaimDecision::Stop;
    };
    filter.decide(&NextJob {
        tenant: &tenant.name,
        cost: first.cost,
        priority: position.class,
    })
}

/// Returns the first job of a tenant in a lane, and reads it from the disk if it is not in memory.
fn first_job(state: &mut StoreState, lane: u32, tenant: u32) -> Result<Option<(u64, JobPosition)>, StoreError> {
    loop {
        let member = state.lanes.tenant_mut(lane, tenant);
        let Some((class, member)) = member.and_then(|it| Some((it.next_class()?, it))) else {
            return Ok(None);
        };
        let queue = member.queues.get_mut(class);
        let position = JobPosition {
            queue: queue.id,
            lane,
            tenant,
            class,
        };
        let Some(run) = queue.run_to_read() else {
            let first = queue.front.first_key_value();
            return Ok(first.map(|(seq, _)| (*seq, position)));
        };
        read_run(state, position, run)?;
    }
}

/// Removes a job from its queue, without its payload.
pub(crate) fn remove_from_queue(state: &mut StoreState, seq: u64, position: JobPosition) -> Option<JobEntry> {
    let mut entry = state.lanes.queue_mut(position)?.front.remove(&seq)?;
    if let Some(body) = entry.body.take() {
        state.payload_bytes = state.payload_bytes.saturating_sub(body.memory_bytes());
    }
    state.update_order(position.lane, position.tenant);
    Some(entry)
}

/// Claims a job that the filter allowed.
fn claim_job(
    state: &mut StoreState,
    seq: u64,
    position: JobPosition,
    request: &ClaimRequest,
    moment: ClockPair,
) -> Option<ClaimedJob> {
    let first = state.lanes.queue(position)?.front.get(&seq);
    let body = first.and_then(|entry| entry.body.clone())?;
    let charge = charge_turn(state, seq, position);
    let mut entry = remove_from_queue(state, seq, position)?;
    entry.history.attempts += 1;
    let runs_alone = is_last_chance(&entry, request.recoveries);
    let number = state.claims.next_number(state.ids.epoch);
    let token = FencingToken {
        job: seq,
        claim: number,
    };
    let claimed = claimed_job(state, token, &entry, body);
    record_claim(state, seq, &entry, moment);
    state.claims.insert(ClaimState {
        seq,
        number,
        session: Some(request.session.clone()),
        entry,
        charge,
        cancelled: false,
    });
    if runs_alone {
        isolate(state, seq);
    }
    claimed
}

/// Charges the tenant and the class for a job.
fn charge_turn(state: &mut StoreState, seq: u64, position: JobPosition) -> Option<FairCharge> {
    let lane = state.lanes.get_mut(position.lane)?;
    let member = lane.tenants.get_mut(&position.tenant)?;
    let cost = member.queues.get(position.class).front.get(&seq)?.cost;
    member.classes.charge(position.class, cost);
    lane.order.charge(member.handle, cost)
}

fn claimed_job(state: &StoreState, token: FencingToken, entry: &JobEntry, body: JobBody) -> Option<ClaimedJob> {
    let action = entry.action.and_then(|id| state.actions.get(id));
    Some(ClaimedJob {
        token,
        id: body.name.or_else(|| state.ids.job_name(token.job))?,
        tenant: state.tenants.get(entry.position.tenant)?.name.clone(),
        action: action.map(|action| action.state.spec.id.clone()),
        cost: entry.cost,
        priority: entry.position.class,
        deadline: entry.deadline,
        attempt: entry.history.attempts,
        retries: entry.history.retries,
        throttles: entry.history.throttles,
        recoveries: entry.history.recoveries,
        holds_units: false,
        payload: body.payload,
    })
}

fn record_claim(state: &mut StoreState, seq: u64, entry: &JobEntry, moment: ClockPair) {
    count(state, entry.position, entry.action, |counts| {
        counts.queued -= 1;
        counts.in_flight += 1;
    });
    state.lanes.end_wait(entry.position);
    let mark = JobMark::new(seq, MarkState::Claimed, entry.history);
    state.log.record(WriteOp::Mark(mark));
    let Some(id) = entry.action else {
        return;
    };
    let action = state.actions.get_mut(id);
    if let Some(action) = action.filter(|action| action.state.started.is_none()) {
        action.state.started = Some(moment.wall);
        record_action(state, id);
    }
}

/// Returns the time until a claim may find more without an event.
fn next_wakeup(state: &StoreState, lane: u32, moment: ClockPair) -> Option<Duration> {
    let lane = state.lanes.get(lane)?;
    let cooldown = Some(lane.cooldown_until).filter(|until| *until > moment.now);
    let instants: [Option<Nanos>; 2] = [cooldown, lane.order.next_wakeup()];
    instants
        .into_iter()
        .flatten()
        .map(|at| at.since(moment.now))
        .chain(state.delayed.next_wakeup(moment))
        .min()
        .map(|wait| wait.max(SOON))
}

/// Decision about the job that is next in order.
pub(crate) enum JobCheck {
    /// It may be claimed.
    Allowed(u64, JobPosition),
    /// It was past its deadline.
    Expired,
    /// It, or its tenant, does not go now: another may.
    Skipped,
    /// No job of the lane may go.
    Stop,
    /// Its cost is not the requested one.
    OtherCost(Cost),
}

/// Jobs that one claim skips at most: a few milliseconds of work under the store's lock.
const SKIP_LIMIT: u32 = 4_096;

/// The shortest wait that a claim reports, so that callers do not spin.
const SOON: Duration = Duration::from_millis(1);
