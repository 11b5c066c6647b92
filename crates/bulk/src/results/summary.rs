//! What came of an action, in a few numbers and the names of those that failed.

use std::time::Duration;

use outflow::core::ThrottleCounts;
use outflow_store::{ActionReport, ActionStage, JobStatus, JobStore, Name, StoreError};

use crate::engine::Engine;
use crate::error::BulkError;
use crate::results::outcome_pages::OutcomePages;

/// What came of an action, or has come of it so far.
#[derive(Clone, PartialEq, Debug)]
pub struct ActionSummary {
    /// The action.
    pub action: Name,
    /// How far it is.
    pub stage: ActionStage,
    /// All of its jobs.
    pub total: u64,
    /// Those that are done.
    pub success: u64,
    /// Those that failed for good or too often.
    pub failed: u64,
    /// Those that were cancelled or too late to begin.
    pub cancelled: u64,
    /// How long one that is done took.
    pub mean: Duration,
    /// How often one was refused or put off.
    pub throttles_per_job: f64,
    /// Which failed and were not tried anew since, in the order in which they did: the first thousand.
    pub failed_ids: Vec<Name>,
}

impl ActionSummary {
    /// Of an action as it stands in this store.
    pub(crate) async fn new<S: JobStore>(
        store: &S,
        report: &ActionReport,
    ) -> Result<Self, StoreError> {
        let tally = report.tally;
        let failed = tally.dead + tally.failed;
        Ok(Self {
            action: report.spec.id.clone(),
            stage: report.stage,
            total: tally.submitted(),
            success: tally.done,
            failed,
            cancelled: tally.cancelled,
            mean: tally.mean().unwrap_or_default(),
            throttles_per_job: ThrottleCounts::new(tally.throttles, tally.tried()).per_job(),
            failed_ids: failures(store, &report.spec.id, failed).await?,
        })
    }
}

impl<S: JobStore> Engine<S> {
    /// What came of an action, or has come of it so far; nothing if it is not known.
    ///
    /// # Errors
    /// If the store cannot be asked.
    pub async fn summary(&self, action: &Name) -> Result<Option<ActionSummary>, BulkError> {
        let store = self.store();
        let Some(report) = store.action(action).await? else {
            return Ok(None);
        };
        Ok(Some(ActionSummary::new(store.as_ref(), &report).await?))
    }
}

/// The names of those that failed. Outcomes are read only until all of them, or enough, were found.
async fn failures<S: JobStore>(
    store: &S,
    action: &Name,
    failed: u64,
) -> Result<Vec<Name>, StoreError> {
    let wanted = usize::try_from(failed).unwrap_or(NAMED).min(NAMED);
    let mut outcomes = OutcomePages::new(store, action);
    let mut found = Vec::with_capacity(wanted);
    while found.len() < wanted
        && let Some(page) = outcomes.next().await?
    {
        let failures = page
            .into_iter()
            .filter(|one| one.ended == JobStatus::Failed);
        found.extend(failures.map(|one| one.id).take(wanted - found.len()));
    }
    Ok(found)
}

/// As many as somebody looks through; the dead letters have all of them.
const NAMED: usize = 1_000;
