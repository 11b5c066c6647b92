//! The start check of a job that was claimed without permits.

use std::time::Duration;

use outflow::{AcquireOptions, Outflow, Permit, Refusal, RefusalReason, WaitMode, WaitReason};
use outflow_store::{ClaimedJob, JobEnd, JobStore, Name, StoreLimits};
use tokio::time::sleep;

use crate::engine::EngineContext;
use crate::scheduler::start_permission::{HeldPermits, find_upstream, is_impossible};
use crate::worker::{Executor, failed};

/// Acquires the permits of a job, or returns how it is deferred.
pub(crate) async fn try_start<S: JobStore>(
    context: &EngineContext<S>,
    session: &Name,
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
    let limits = &context.start_limits;
    if let Some(words) = limits.find_impossible(job, rate) {
        return Err(failed(words));
    }
    let own = rate.filter(|_| !settings.shared);
    let tenant = limits.tenants.acquire_within(&job.tenant, own, job.cost, EARLY);
    let tenant = tenant.await.map_err(deny)?;
    let api = match executor {
        Executor::Client(client) => acquire_api(client, job, settings.timeout).await.map_err(deny)?,
        Executor::Handler(_) => None,
    };
    // Counted last, since it is not refunded as permits are.
    let counted = match settings.store_limits() {
        Some(limits) => count_start(context, (session, limits), job).await?,
        None => limits
            .global
            .try_start(settings.global_rate, job.cost, context.clock.now())
            .is_ok(),
    };
    if counted {
        return Ok(HeldPermits { api, tenant });
    }
    Err(defer())
}

/// Counts a start against the limits of a shared store, now or in a moment. Returns false if there is no quota.
async fn count_start<S: JobStore>(
    context: &EngineContext<S>,
    (session, limits): (&Name, StoreLimits),
    job: &ClaimedJob,
) -> Result<bool, JobEnd> {
    let count = async || {
        let counted = context.store.count_start(session, job.token, limits).await;
        counted.map_err(|_| JobEnd::Returned)
    };
    match count().await? {
        Some(wait) if wait <= EARLY => {
            sleep(wait).await;
            Ok(count().await?.is_none())
        }
        wait => Ok(wait.is_none()),
    }
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
