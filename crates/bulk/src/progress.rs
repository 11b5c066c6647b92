//! Progress of an action: counts, remaining time, bottlenecks and waits.

mod bottleneck;
pub(crate) mod competing_work;
mod eta;
pub(crate) mod in_flight_bound;
pub(crate) mod lower_bound;
pub(crate) mod remaining_time;
pub(crate) mod stall;
pub(crate) mod tenant_bounds;
pub(crate) mod throughput;
pub(crate) mod workload;

use std::time::Duration;

use outflow_store::{ActionReport, ActionStage, JobCounts, JobStore, Name, RemainingWork};

use crate::engine::Engine;
use crate::error::BulkError;

/// Progress of an action.
#[derive(Clone, PartialEq, Debug)]
pub struct ActionProgress {
    /// Stage of the action.
    pub stage: ActionStage,
    /// Its jobs.
    pub counts: JobCounts,
    /// Part of its jobs that ended, of a million.
    pub over_ppm: u32,
    /// Remaining time; nothing while the action, one of its tenants or one of its APIs is paused, and without limits
    /// before the first job ended.
    pub eta: Option<Duration>,
    /// Sentences about concurrency and workers that hold its jobs back, in place of limits.
    pub bottlenecks: Vec<String>,
    /// Sentences about what its jobs wait for now: a limit, a sleep, a pause, a response. Empty without open jobs.
    pub waits: Vec<String>,
}

impl<S: JobStore> Engine<S> {
    /// Returns the progress of an action; nothing for an unknown action.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn progress(&self, action: &Name) -> Result<Option<ActionProgress>, BulkError> {
        match self.store().action(action).await? {
            Some(report) => self.report_progress(&report).await.map(Some),
            None => Ok(None),
        }
    }

    /// Returns the progress of an action whose report was read before.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn report_progress(&self, report: &ActionReport) -> Result<ActionProgress, BulkError> {
        let context = &self.context;
        let remaining = match report.counts.queued {
            0 => RemainingWork::default(),
            _ => context.store.remaining(&report.spec.id).await?,
        };
        let backlogs = context.measure_lanes().await?;
        let waits = match report.counts.open() {
            0 => Vec::new(),
            _ => self.action_waits(report, &remaining).await?,
        };
        let counts = report.counts;
        let part = u128::from(counts.over()) * MILLION / u128::from(counts.submitted().max(1));
        Ok(ActionProgress {
            stage: report.stage,
            counts,
            over_ppm: u32::try_from(part).unwrap_or(u32::MAX),
            eta: context.action_eta(report, &remaining, &backlogs),
            bottlenecks: self.bottlenecks(counts.queued),
            waits,
        })
    }
}

const MILLION: u128 = 1_000_000;
