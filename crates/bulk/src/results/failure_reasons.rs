//! Failed jobs by reason, for the end of an action.

use std::collections::BTreeMap;
use std::fmt;

use outflow_store::{ActionReport, JobOutcome, JobStatus, JobStore};

use super::outcome_pages::OutcomePages;
use crate::engine::Engine;
use crate::error::BulkError;

/// Numbers of jobs that are not done, by reason.
///
/// ```
/// use outflow_bulk::FailureReasons;
///
/// let mut reasons = FailureReasons::default();
/// assert!(reasons.is_empty());
/// (0..8).for_each(|_| reasons.add("500"));
/// (0..4).for_each(|_| reasons.add("timeout"));
/// assert_eq!(reasons.to_string(), "8 × 500, 4 × timeout");
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FailureReasons {
    jobs: BTreeMap<String, u64>,
}

impl FailureReasons {
    /// Counts one job that ended for this reason.
    pub fn add(&mut self, reason: &str) {
        let is_known = self.jobs.contains_key(reason) || self.jobs.len() < MAX_REASONS;
        let reason = if is_known { reason } else { OTHER };
        *self.jobs.entry(reason.to_owned()).or_default() += 1;
    }

    /// Removes one job that was counted for this reason, because it is retried.
    pub fn remove(&mut self, reason: &str) {
        let known = if self.jobs.contains_key(reason) { reason } else { OTHER };
        if let Some(jobs) = self.jobs.get_mut(known) {
            *jobs = jobs.saturating_sub(1);
        }
        self.jobs.retain(|_, jobs| *jobs > 0);
    }

    /// Returns the reason of an outcome, unless the job is done: its status, its error, or its end.
    pub fn reason(outcome: &JobOutcome) -> Option<String> {
        Some(match (outcome.ended, outcome.status, &outcome.error) {
            (JobStatus::Done, ..) => return None,
            (JobStatus::Failed, Some(status @ 100..), _) => status.to_string(),
            (_, _, Some(error)) => short(error).to_owned(),
            (JobStatus::Expired, ..) => "expired".to_owned(),
            (JobStatus::Failed, ..) => "failed".to_owned(),
            (JobStatus::Cancelled, ..) => "cancelled".to_owned(),
        })
    }

    /// Counts the job of an outcome, unless it is done.
    pub fn add_outcome(&mut self, outcome: &JobOutcome) {
        if let Some(reason) = Self::reason(outcome) {
            self.add(&reason);
        }
    }

    /// Returns true if no job failed.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Returns the reasons with their numbers, the most frequent first.
    pub fn sorted(&self) -> Vec<(&str, u64)> {
        let mut sorted: Vec<_> = self
            .jobs
            .iter()
            .map(|(reason, jobs)| (reason.as_str(), *jobs))
            .collect();
        sorted.sort_by_key(|(_, jobs)| std::cmp::Reverse(*jobs));
        sorted
    }
}

impl fmt::Display for FailureReasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (reason, jobs)) in self.sorted().into_iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{jobs} × {reason}")?;
        }
        Ok(())
    }
}

/// Returns the part of an error before the advice.
fn short(error: &str) -> &str {
    let reason = error.split(": ").next().unwrap_or(error);
    reason.get(..reason.floor_char_boundary(MAX_LENGTH)).unwrap_or(reason)
}

impl<S: JobStore> Engine<S> {
    /// Counts the jobs of an ended action that are not done, by reason, over its first hundred thousand outcomes.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn failure_reasons(&self, report: &ActionReport) -> Result<FailureReasons, BulkError> {
        let mut reasons = FailureReasons::default();
        let mut missing = report.counts.over() - report.counts.done;
        let mut outcomes = OutcomePages::new(self.store().as_ref(), &report.spec.id);
        for _ in 0..MAX_PAGES {
            let Some(page) = outcomes.next().await?.filter(|_| missing > 0) else {
                break;
            };
            for outcome in page.iter().filter(|outcome| outcome.ended != JobStatus::Done) {
                reasons.add_outcome(outcome);
                missing = missing.saturating_sub(1);
            }
        }
        Ok(reasons)
    }
}

/// More reasons than these are counted together.
const MAX_REASONS: usize = 20;

const OTHER: &str = "other reasons";

/// Bytes of a reason: a line of a table.
const MAX_LENGTH: usize = 80;

/// A second or two of reading.
const MAX_PAGES: usize = 200;
