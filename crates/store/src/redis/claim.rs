//! Claims, heartbeats and the recovery of jobs from dead sessions.

use std::time::Duration;

use super::job_codec::{self, ListedJob, decode_entry, micros, six_bytes};
use super::reply::{ScriptReply, number};
use super::script_call::ScriptRunner;
use super::settle::settle;
use super::shared_limits::push_limits;
use crate::claim::{
    ClaimBatch, ClaimDecision, ClaimFilter, ClaimRequest, ClaimedJob, FencingToken, HeartbeatResult, NextJob,
    ReapResult,
};
use crate::contract::StoreResult;
use crate::error::StoreError;
use crate::name::Name;
use crate::settle::{JobEnd, Settlement};

/// Claims jobs and asks the filter about each in order. The server cannot call the filter, so this
/// happens after the claim: a refused job is returned as if unclaimed, at the cost of a second
/// round trip. A filter that allows everything costs nothing; limits belong into the shared limits.
pub(super) async fn claim(
    runner: &ScriptRunner,
    request: ClaimRequest,
    filter: &mut dyn ClaimFilter,
) -> StoreResult<ClaimBatch> {
    let session = request.session.clone();
    let mut claims = claim_unfiltered(runner, request).await?;
    let mut returned_jobs = Vec::new();
    let mut state = FilterState::default();
    claims.jobs.retain(|job| match state.decide_end(job, filter) {
        None => true,
        Some(end) => {
            let token = job.token;
            returned_jobs.push(Settlement { token, end });
            false
        }
    });
    if !returned_jobs.is_empty() {
        claims.next = Some(claims.next.map_or(RECLAIM_AFTER, |next| next.min(RECLAIM_AFTER)));
        let returned = settle(runner, &session, returned_jobs).await;
        // The jobs were claimed even if returning some of them failed.
        returned.map_err(|error| {
            if error.is_lost() {
                error
            } else {
                StoreError::doubtful(error)
            }
        })?;
    }
    Ok(claims)
}

/// Decisions of the filter so far.
#[derive(Default)]
struct FilterState {
    stopped: bool,
    parked: Vec<Name>,
}

impl FilterState {
    /// Returns how the claim ends at once, or `None` if the job may start.
    fn decide_end(&mut self, job: &ClaimedJob, filter: &mut dyn ClaimFilter) -> Option<JobEnd> {
        if self.stopped {
            return Some(JobEnd::Returned);
        }
        if !self.parked.contains(&job.tenant) {
            let next_job = NextJob {
                tenant: &job.tenant,
                cost: job.cost,
                priority: job.priority,
            };
            match filter.decide(&next_job) {
                ClaimDecision::Take => return None,
                ClaimDecision::SkipUntil(_) => self.parked.push(job.tenant.clone()),
                ClaimDecision::Stop => self.stopped = true,
            }
        }
        Some(JobEnd::Returned)
    }
}

async fn claim_unfiltered(runner: &ScriptRunner, request: ClaimRequest) -> StoreResult<ClaimBatch> {
    let plan = request.plan.as_ref();
    let mut call = runner
        .call(&runner.scripts.claim)
        .arg(request.lane.as_str())
        .arg(request.session.as_str())
        .arg(request.max.clamp(1, MAX_JOBS))
        .arg(micros(request.lease))
        .arg(u8::from(plan.is_some()));
    push_limits(&mut call, plan);
    decode_claims(ScriptReply::new(runner.run(call).await?)?)
}

fn decode_claims(mut reply: ScriptReply) -> StoreResult<ClaimBatch> {
    let next = reply.maybe_span()?;
    let expired = reply.number()?;
    let first = reply.number()?;
    let mut starts = reply.bytes()?;
    let mut entries = reply.list()?;
    let mut jobs = Vec::with_capacity(entries.len());
    for claim in (first..).take(entries.len()) {
        let starts_in = if starts.is_empty() {
            Duration::ZERO
        } else {
            Duration::from_micros(job_codec::read_uint(&mut starts, 7)?)
        };
        // An unreadable entry stays until its session ends, and does not stop the others.
        if let Ok(entry) = decode_entry(entries.bytes()?) {
            jobs.push(to_claimed_job(entry, claim, starts_in));
        }
    }
    jobs.sort_by_key(|job| job.starts_in);
    let decided = Some(Duration::from_micros(reply.number()?));
    // Claim numbers are consecutive.
    let given = jobs.iter().map(|job| job.token.claim).max();
    Ok(ClaimBatch {
        jobs,
        next,
        expired,
        decided,
        given,
    })
}

fn to_claimed_job(entry: ListedJob, claim: u64, starts_in: Duration) -> ClaimedJob {
    let record = entry.record;
    ClaimedJob {
        token: FencingToken {
            job: entry.first,
            claim,
        },
        id: record.id,
        tenant: entry.tenant,
        action: record.action,
        cost: record.cost,
        priority: entry.priority,
        deadline: record.deadline,
        attempt: record.attempts.saturating_add(1),
        retries: record.retries,
        throttles: record.throttles,
        recoveries: record.recoveries,
        starts_in,
        payload: record.payload,
    }
}

pub(super) async fn heartbeat(runner: &ScriptRunner, session: &Name, lease: Duration) -> StoreResult<HeartbeatResult> {
    let call = runner
        .call(&runner.scripts.heartbeat)
        .arg(session.as_str())
        .arg(micros(lease));
    Ok(match number(&runner.run(call).await?)? {
        0 => HeartbeatResult::Lost,
        _ => HeartbeatResult::Alive,
    })
}

pub(super) async fn reap(runner: &ScriptRunner, limit: usize, recoveries: u32) -> StoreResult<ReapResult> {
    let call = runner
        .call(&runner.scripts.reap)
        .arg(limit.clamp(1, MAX_JOBS))
        .arg(recoveries);
    let mut reply = ScriptReply::new(runner.run(call).await?)?;
    Ok(ReapResult {
        returned: reply.number()?,
        dead_lettered: reply.number()?,
        next: reply.maybe_span()?,
        expired: reply.number()?,
    })
}

pub(super) async fn release_unknown(runner: &ScriptRunner, session: &Name, known: &[FencingToken]) -> StoreResult<u64> {
    let known: Vec<u8> = known.iter().flat_map(|token| six_bytes(token.claim)).collect();
    let mut returned = 0;
    loop {
        let call = runner
            .call(&runner.scripts.release_unknown)
            .arg(session.as_str())
            .arg(known.as_slice())
            .arg(MAX_JOBS);
        let mut reply = ScriptReply::new(runner.run(call).await?)?;
        returned += reply.number()?;
        if reply.number()? == 0 {
            return Ok(returned);
        }
    }
}

/// The filter's clock is not the server's, so a refused claim is repeated after a moment.
const RECLAIM_AFTER: Duration = Duration::from_millis(20);

/// A few milliseconds of the server's time.
const MAX_JOBS: usize = 1_000;
