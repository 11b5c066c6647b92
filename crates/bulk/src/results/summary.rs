//! Summary of an action: a few numbers and the ids of its failed jobs.

use std::time::Duration;

use outflow::core::ThrottleCounts;
use outflow_store::{ActionReport, ActionStage, JobStatus, JobStore, Name, StoreError};

use super::outcome_pages::OutcomePages;

/// Summary of an action, final or so far.
#[derive(Clone, PartialEq, Debug)]
pub struct ActionSummary {
    /// Action.
    pub action: Name,
    /// Stage of the action.
    pub stage: ActionStage,
    /// Number of its jobs.
    pub total: u64,
    /// Number of jobs that are done.
    pub success: u64,
    /// Number of jobs that failed without further retries.
    pub failed: u64,
    /// Number of jobs that were cancelled or expired.
    pub cancelled: u64,
    /// Mean duration of a job that is done.
    pub mean: Duration,
    /// Mean number of throttles and deferrals of a job.
    pub throttles_per_job: f64,
    /// Failed jobs that were not requeued, in the order of their failures: the first thousand.
    pub failed_ids: Vec<Name>,
}

impl ActionSummary {
    /// Sums up an action of this store.
    pub(crate) async fn new<S: JobStore>(store: &S, report: &ActionReport) -> Result<Self, StoreError> {
        let counts = report.counts;
        let failed = counts.dead + counts.failed;
        Ok(Self {
            action: report.spec.id.clone(),
            stage: report.stage,
            total: counts.submitted(),
            success: counts.done,
            failed,
            cancelled: counts.cancelled,
            mean: counts.mean().unwrap_or_default(),
            throttles_per_job: ThrottleCounts::new(counts.throttles, counts.tried()).per_job(),
            failed_ids: failed_ids(store, &report.spec.id, failed).await?,
        })
    }
}

/// Returns the ids of failed jobs. Reads outcomes only until it has found all of them, or enough.
async fn failed_ids<S: JobStore>(store: &S, action: &Name, failed: u64) -> Result<Vec<Name>, StoreError> {
    let limit = usize::try_from(failed).unwrap_or(MAX_IDS).min(MAX_IDS);
    let mut outcomes = OutcomePages::new(store, action);
    let mut found = Vec::with_capacity(limit);
    while found.len() < limit
        && let Some(page) = outcomes.next().await?
    {
        let failures = page.into_iter().filter(|one| one.ended == JobStatus::Failed);
        found.extend(failures.map(|one| one.id).take(limit - found.len()));
    }
    Ok(found)
}

/// Enough for a person; the dead letters have all of them.
const MAX_IDS: usize = 1_000;
