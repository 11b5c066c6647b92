//! The queue: claims, heartbeats and the recovery of jobs from dead sessions.

use std::time::Duration;

use outflow_core::Cost;

use super::job_codec::{ListedJob, decode_entry, micros, six_bytes};
use super::paging::{PAGE, query_call};
use super::reply::ScriptReply;
use super::script_call::ScriptRunner;
use super::{RedisStore, settle};
use crate::claim::{
    ClaimBatch, ClaimDecision, ClaimFilter, ClaimRequest, ClaimedJob, FencingToken, HeartbeatResult, LaneLoad, NextJob,
    ReapResult, StoreLimits,
};
use crate::contract::{JobQueue, StoreResult};
use crate::error::StoreError;
use crate::job::{SubmitBatch, SubmitResult};
use crate::name::Name;
use crate::settle::{JobEnd, SettleResult, Settlement};

impl JobQueue for RedisStore {
    async fn submit(&self, batch: SubmitBatch) -> StoreResult<SubmitResult> {
        self.submit_batcher.submit(batch).await
    }

    /// Claims jobs and asks the filter about each in order. The server cannot call the filter, so this
    /// happens after the claim: a refused job is returned as if unclaimed, at the cost of a second
    /// round trip. A filter that allows everything costs nothing: permits are acquired before the claim.
    async fn claim(&self, request: ClaimRequest, filter: &mut dyn ClaimFilter) -> StoreResult<ClaimBatch> {
        let mut claims = claim_unfiltered(&self.runner, &request).await?;
        let mut returned_jobs = Vec::new();
        let mut state = FilterState::default();
        claims.jobs.retain(|job| match state.decide_end(job, filter) {
            None => true,
            Some(end) => {
                let token = job.token;
                returned_jobs.push(Settlement {
                    token,
                    end,
                    arrived: None,
                });
                false
            }
        });
        if !returned_jobs.is_empty() {
            claims.next = Some(claims.next.map_or(RECLAIM_AFTER, |next| next.min(RECLAIM_AFTER)));
            let returned = self.settle(&request.session, returned_jobs).await;
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

    async fn settle(&self, session: &Name, ends: Vec<Settlement>) -> StoreResult<Vec<SettleResult>> {
        settle::settle(&self.runner, session, ends).await
    }

    async fn count_start(
        &self,
        session: &Name,
        token: FencingToken,
        limits: StoreLimits,
    ) -> StoreResult<Option<Duration>> {
        let call = self.runner.call(&self.runner.scripts.count_start);
        let call = call.arg(session.as_str()).arg(six_bytes(token.claim).as_slice());
        let call = call.arg(limits.global.unwrap_or_default());
        self.runner.read(call).await?.maybe_span()
    }

    async fn heartbeat(&self, session: &Name, lease: Duration) -> StoreResult<HeartbeatResult> {
        let call = self.runner.call(&self.runner.scripts.heartbeat);
        let call = call.arg(session.as_str()).arg(micros(lease));
        Ok(match self.runner.read_number(call).await? {
            0 => HeartbeatResult::Lost,
            _ => HeartbeatResult::Alive,
        })
    }

    async fn reap(&self, limit: usize, recoveries: u32) -> StoreResult<ReapResult> {
        let call = self.runner.call(&self.runner.scripts.reap);
        let call = call.arg(limit.clamp(1, MAX_JOBS)).arg(recoveries);
        let mut reply = self.runner.read(call).await?;
        Ok(ReapResult {
            returned: reply.number()?,
            dead_lettered: reply.number()?,
            next: reply.maybe_span()?,
            expired: reply.number()?,
        })
    }

    async fn release_unknown(&self, session: &Name, known: &[FencingToken]) -> StoreResult<u64> {
        let known: Vec<u8> = known.iter().flat_map(|token| six_bytes(token.claim)).collect();
        let mut returned = 0;
        loop {
            let call = self.runner.call(&self.runner.scripts.release_unknown);
            let call = call.arg(session.as_str()).arg(known.as_slice()).arg(MAX_JOBS);
            let mut reply = self.runner.read(call).await?;
            returned += reply.number()?;
            if reply.number()? == 0 {
                return Ok(returned);
            }
        }
    }

    fn changed(&self) -> impl Future<Output = ()> + Send {
        self.subscriber.wait(self.subscriber.listen())
    }

    async fn lane_loads(&self) -> StoreResult<Vec<LaneLoad>> {
        let mut loads: Vec<LaneLoad> = Vec::new();
        loop {
            let after = loads.last().map_or("", |load| load.lane.as_str());
            let reply = self.runner.read(query_call(&self.runner, "loads").arg(after)).await?;
            let full = reply.len() == 2 * PAGE;
            loads.extend(reply.read_all(|reply| {
                Ok(LaneLoad {
                    lane: reply.name()?,
                    tenants: reply.number()?,
                })
            })?);
            if !full {
                return Ok(loads);
            }
        }
    }

    async fn lanes(&self) -> StoreResult<Vec<Name>> {
        let mut lanes: Vec<Name> = Vec::new();
        loop {
            let after = lanes.last().map_or("", Name::as_str);
            let reply = self.runner.read(query_call(&self.runner, "lanes").arg(after)).await?;
            let full = reply.len() == PAGE;
            lanes.extend(reply.read_all(ScriptReply::name)?);
            if !full {
                return Ok(lanes);
            }
        }
    }
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

async fn claim_unfiltered(runner: &ScriptRunner, request: &ClaimRequest) -> StoreResult<ClaimBatch> {
    let global = |limits: StoreLimits| limits.global.unwrap_or_default().to_string();
    let call = runner
        .call(&runner.scripts.claim)
        .arg(request.lane.as_str())
        .arg(request.session.as_str())
        .arg(request.max.clamp(1, MAX_JOBS))
        .arg(micros(request.lease))
        .arg(request.cost.map(|cost| cost.units().to_string()).unwrap_or_default())
        .arg(request.limits.map(global).unwrap_or_default());
    decode_claims(runner.read(call).await?)
}

fn decode_claims(mut reply: ScriptReply) -> StoreResult<ClaimBatch> {
    let next = reply.maybe_span()?;
    let expired = reply.number()?;
    let first = reply.number()?;
    let mut entries = reply.list()?;
    let mut jobs = Vec::with_capacity(entries.len());
    // Claim numbers are consecutive.
    for claim in (first..).take(entries.len()) {
        // An unreadable entry stays until its session ends, and does not stop the others.
        if let Ok(entry) = decode_entry(entries.bytes()?) {
            jobs.push(to_claimed_job(entry, claim));
        }
    }
    let other_cost = reply.list()?.read_all(ScriptReply::number)?;
    Ok(ClaimBatch {
        jobs,
        next,
        expired,
        other_cost: other_cost.into_iter().next().map(Cost::new),
    })
}

fn to_claimed_job(entry: ListedJob, claim: u64) -> ClaimedJob {
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
        holds_units: entry.holds_units,
        payload: record.payload,
    }
}

/// The filter's clock is not the server's, so a refused claim is repeated after a moment.
const RECLAIM_AFTER: Duration = Duration::from_millis(20);

/// A few milliseconds of the server's time.
const MAX_JOBS: usize = 1_000;
