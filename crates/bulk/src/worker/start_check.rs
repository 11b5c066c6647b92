//! Whether a job may go now: where the store has set an instant, and where the job is to ask itself.

use std::sync::Arc;
use std::time::Duration;

use outflow::{
    AcquireOptions, Outflow, Permit, Refusal, RefusalReason, Target, Upstream, WaitMode, WaitReason,
};
use outflow_store::{ClaimedJob, JobEnd, JobStore, SharedLimits, StartDebit};

use super::{Executor, failed};
use crate::claim_filter::{HeldPermits, is_never};
use crate::engine::EngineContext;
use crate::job_payload::HttpCall;
use crate::settings::EngineSettings;

/// Where the store has debited the limits for an instant: the permit of the API's door, if the job can go in
/// so much time. Whoever is later would go beside those whose instant it is, and so gives the job back.
pub(super) async fn in_time(
    who: &Executor,
    job: &ClaimedJob,
    left: Duration,
) -> Result<HeldPermits, JobEnd> {
    if left.is_zero() {
        return Err(JobEnd::Returned);
    }
    let door = match who {
        Executor::Client(client) => find_upstream(client, job),
        Executor::Handler(_) => None,
    };
    let Some((door, target)) = door else {
        return Ok(HeldPermits::default());
    };
    let by = door.now().saturating_add(left);
    let options = AcquireOptions::new()
        .with_mode(WaitMode::Wait)
        .with_deadline(by);
    match door.acquire_with(target, options).await {
        Ok(permit) => Ok(HeldPermits {
            api: Some(permit.expire_after(by.since(door.now()))),
            tenant: None,
        }),
        // It would be given back for ever.
        Err(refusal) if is_never(&refusal) => Err(failed(refusal.to_string())),
        Err(_) => Err(JobEnd::Returned),
    }
}

/// Under the schedulers that try first: the permits if they are to be had, and otherwise by how much the
/// job is put off.
pub(super) async fn check_now<S: JobStore>(
    hub: &EngineContext<S>,
    (settings, plan): (&EngineSettings, Option<Arc<SharedLimits>>),
    doer: &Executor,
    job: &ClaimedJob,
) -> Result<HeldPermits, JobEnd> {
    let turned_away = |refusal: Refusal| {
        if is_never(&refusal) {
            // It would be put off for ever.
            return failed(refusal.to_string());
        }
        JobEnd::PutOff(settings.put_off())
    };
    let rate = settings.rule(&job.tenant).rate;
    let tenant = hub.doors.try_admit(&job.tenant, rate, job.cost);
    let tenant = tenant.map_err(turned_away)?;
    let api = match doer {
        Executor::Client(client) => {
            let permit = api_permit(client, job, settings.timeout).await;
            permit.map_err(turned_away)?
        }
        Executor::Handler(_) => None,
    };
    // The last, for it is not given back as permits are.
    if is_free(hub, (settings, plan), job).await? {
        return Ok(HeldPermits { api, tenant });
    }
    Err(JobEnd::PutOff(settings.put_off()))
}

/// Whether a start now is within what machines share, or else within what all tenants may here.
async fn is_free<S: JobStore>(
    hub: &EngineContext<S>,
    (settings, plan): (&EngineSettings, Option<Arc<SharedLimits>>),
    job: &ClaimedJob,
) -> Result<bool, JobEnd> {
    let Some(plan) = plan else {
        let started = hub
            .house
            .start(settings.global_rate, job.cost, hub.clock.now());
        return Ok(started.is_ok());
    };
    let start = StartDebit {
        tenant: job.tenant.clone(),
        cost: job.cost,
        plan: SharedLimits::clone(&plan),
    };
    let debited = hub.store.debit(&start).await;
    Ok(debited.map_err(|_| JobEnd::Returned)?.is_none())
}

/// The permit of the API's door, if its limits have room now. Where only a place among the calls in flight is
/// missing it is waited for: whoever has room at the limits is not what congestion is about, and a call comes
/// back sooner than the shortest wait ends.
async fn api_permit(
    client: &Outflow,
    job: &ClaimedJob,
    patience: Duration,
) -> Result<Option<Permit>, Refusal> {
    let Some((door, target)) = find_upstream(client, job) else {
        return Ok(None);
    };
    let permit = match door.try_acquire(target) {
        Err(refusal) if lacks_a_place(&refusal) => {
            let by = door.now().saturating_add(patience);
            let options = AcquireOptions::new()
                .with_mode(WaitMode::Wait)
                .with_deadline(by);
            door.acquire_with(target, options).await
        }
        answer => answer,
    };
    permit.map(Some)
}

const fn lacks_a_place(refusal: &Refusal) -> bool {
    matches!(
        refusal.cause,
        RefusalReason::Busy(WaitReason::Concurrency { .. })
    )
}

/// The door that a job's call passes; none if it is no call, or nobody knows its API.
fn find_upstream(client: &Outflow, job: &ClaimedJob) -> Option<(Upstream, Target)> {
    let call = HttpCall::decode(job.payload.clone()).ok()?;
    let door = client.upstream(&call.api)?;
    let path = call.path.split('?').next().unwrap_or_default();
    let target = door.route(&call.method, path).with_cost(job.cost);
    Some((door, target))
}
