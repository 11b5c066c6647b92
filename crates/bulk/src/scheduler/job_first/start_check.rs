//! The start check of a job that was claimed without permits.

use std::sync::Arc;
use std::time::Duration;

use outflow::{AcquireOptions, Outflow, Permit, Refusal, RefusalReason, WaitMode, WaitReason};
use outflow_store::{ClaimedJob, JobEnd, JobStore, SharedLimits, StartDebit};

use crate::engine::EngineContext;
use crate::scheduler::start_permission::{HeldPermits, find_upstream, is_impossible};
use crate::settings::EngineSettings;
use crate::worker::{Executor, failed};

/// Acquires the permits of a job, or returns how it is deferred.
pub(crate) async fn try_start<S: JobStore>(
    context: &EngineContext<S>,
    shared: Option<Arc<SharedLimits>>,
    executor: &Executor,
    job: &ClaimedJob,
) -> Result<HeldPermits, JobEnd> {
    let settings = context.settings.load_full();
    let defer = || JobEnd::Deferred(settings.scheduler.strategy().defer(&settings));
    let deny = |refusal: Refusal| {
        if is_impossible(&refusal) {
            // It would be deferred for ever.
            return failed(refusal.to_string());
        }
        defer()
    };
    let rate = settings.rule(&job.tenant).rate;
    let tenants = &context.start_limits.tenants;
    let tenant = tenants
        .acquire_within(&job.tenant, rate, job.cost, EARLY)
        .await
        .map_err(deny)?;
    let api = match executor {
        Executor::Client(client) => acquire_api(client, job, settings.timeout).await.map_err(deny)?,
        Executor::Handler(_) => None,
    };
    // Counted last, since it is not refunded as permits are.
    if count_start(context, &settings, shared, job).await? {
        return Ok(HeldPermits { api, tenant });
    }
    Err(defer())
}

/// Counts a start against the limits that machines share, or else against the global rate of this process.
/// Returns false if there is no quota.
async fn count_start<S: JobStore>(
    context: &EngineContext<S>,
    settings: &EngineSettings,
    shared: Option<Arc<SharedLimits>>,
    job: &ClaimedJob,
) -> Result<bool, JobEnd> {
    let Some(limits) = shared else {
        let (global, now) = (&context.start_limits.global, context.clock.now());
        let started = global.try_start(settings.global_rate, job.cost, now);
        return Ok(started.is_ok());
    };
    let start = StartDebit {
        tenant: job.tenant.clone(),
        cost: job.cost,
        plan: SharedLimits::clone(&limits),
    };
    let debited = context.store.debit(&start).await;
    Ok(debited.map_err(|_| JobEnd::Returned)?.is_none())
}

/// Acquires the API's permit if its limits have quota now, or in a moment. If only concurrency is exhausted, it waits:
/// that is no congestion, and a call in flight ends before the shortest deferral does.
async fn acquire_api(client: &Outflow, job: &ClaimedJob, timeout: Duration) -> Result<Option<Permit>, Refusal> {
    let Some((upstream, target)) = find_upstream(client, job) else {
        return Ok(None);
    };
    let within = |span| {
        let options = AcquireOptions::new().with_mode(WaitMode::Wait);
        upstream.acquire_with(target, options.with_deadline(upstream.now().saturating_add(span)))
    };
    let permit = match upstream.try_acquire(target) {
        Err(refusal) if lacks_concurrency(&refusal) => within(timeout).await,
        Err(refusal) if refusal.retry_after.is_some_and(|after| after <= EARLY) => within(EARLY).await,
        decided => decided,
    };
    permit.map(Some)
}

const fn lacks_concurrency(refusal: &Refusal) -> bool {
    matches!(refusal.reason, RefusalReason::Busy(WaitReason::Concurrency { .. }))
}

/// A job that was deferred by a whole window returns when the calls of its window still count, because a limit counts
/// arrivals and adds a guard. Without this wait every other window would be lost.
const EARLY: Duration = Duration::from_millis(50);
