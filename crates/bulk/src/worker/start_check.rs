//! The last check of a claimed job: its permits now, or the end without an attempt.

use outflow_store::{ClaimedJob, JobEnd, JobStore, Name};

use super::{Executor, failed};
use crate::engine::EngineContext;
use crate::scheduler::job_first;
use crate::scheduler::start_permission::{HeldPermits, StartPermission};

/// Returns the permits of a job, or its end.
pub(super) async fn acquire_permits<S: JobStore>(
    context: &EngineContext<S>,
    session: &Name,
    (executor, job): (&Executor, &ClaimedJob),
    permission: StartPermission,
) -> Result<HeldPermits, JobEnd> {
    match permission {
        StartPermission::Granted(permits) => Ok(permits),
        StartPermission::Impossible(words) => Err(failed(words)),
        StartPermission::Unchecked => job_first::try_start(context, session, executor, job).await,
    }
}
