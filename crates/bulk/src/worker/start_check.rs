//! The last check of a claimed job: its permits now, at its scheduled instant, or the end without an attempt.

use outflow::Permit;
use outflow_store::{ClaimedJob, JobEnd, JobStore};
use tokio::time::sleep;

use super::{Executor, failed};
use crate::engine::EngineContext;
use crate::scheduler::job_first;
use crate::scheduler::start_permission::{HeldPermits, StartPermission};
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
        StartPermission::Scheduled { start, permit } => {
            let permits = wait_for_start(context, job, &start, permit).await;
            (permits, Some(start))
        }
    }
}

/// Waits for the instant for which the store has debited its limits. A later start would meet the starts that were
/// scheduled for that time, so a late job is returned.
async fn wait_for_start<S: JobStore>(
    context: &EngineContext<S>,
    job: &ClaimedJob,
    scheduled: &ScheduledStart,
    permit: Option<Permit>,
) -> Result<HeldPermits, JobEnd> {
    let rate = context.settings.load().rule(&job.tenant).rate;
    if let Some(words) = context.start_limits.find_impossible(job, rate) {
        return Err(failed(words));
    }
    sleep(scheduled.start.since(context.clock.now())).await;
    let span = scheduled.latest.since(context.clock.now());
    if span.is_zero() {
        return Err(JobEnd::Returned);
    }
    Ok(HeldPermits {
        api: permit.map(|permit| permit.expire_after(span)),
        tenant: None,
    })
}
