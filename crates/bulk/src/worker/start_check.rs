//! The last check of a claimed job: its permits now, at its scheduled instant, or the end without an attempt.

use outflow_store::{ClaimedJob, JobEnd, JobStore};
use tokio::time::sleep;

use super::{Executor, failed};
use crate::engine::EngineContext;
use crate::scheduler::job_first;
use crate::scheduler::start_permission::{HeldPermits, StartPermission, acquire_within, find_upstream};
use crate::shared::scheduled_start::ScheduledStart;

/// Returns the permits of a job, or its end.
pub(super) async fn acquire_permits<S: JobStore>(
    context: &EngineContext<S>,
    executor: &Executor,
    job: &ClaimedJob,
    permission: StartPermission,
) -> (Result<HeldPermits, JobEnd>, Option<ScheduledStart>) {
    match permission {
        StartPermission::Granted(permits) => (Ok(permits), None),
        StartPermission::Impossible(words) => (Err(failed(words)), None),
        StartPermission::Unchecked(shared) => (job_first::try_start(context, shared, executor, job).await, None),
        StartPermission::Scheduled(start) => {
            let permits = acquire_scheduled(context, executor, job, &start).await;
            (permits, Some(start))
        }
    }
}

/// Waits for the instant for which the store has debited the limits, and acquires the API's permit.
async fn acquire_scheduled<S: JobStore>(
    context: &EngineContext<S>,
    executor: &Executor,
    job: &ClaimedJob,
    scheduled: &ScheduledStart,
) -> Result<HeldPermits, JobEnd> {
    let rate = context.settings.load().rule(&job.tenant).rate;
    if let Some(words) = context.start_limits.find_impossible(job, rate) {
        return Err(failed(words));
    }
    sleep(scheduled.start.since(context.clock.now())).await;
    let span = scheduled.latest.since(context.clock.now());
    let upstream = match executor {
        Executor::Client(client) if !span.is_zero() => find_upstream(client, job),
        Executor::Client(_) | Executor::Handler(_) => None,
    };
    acquire_within(upstream, span).await
}
