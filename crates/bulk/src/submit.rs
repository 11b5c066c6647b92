//! Submission of jobs: checked, stored, and placed with a reason.
//!
//! All jobs of a submission are checked before any is stored, and all errors are reported at once. Accepted jobs are
//! durable when the response is sent. The reported destination (ready, waiting, rejected) is an estimate by the
//! formula: the scheduler does not use it.

mod check;
mod destination;
pub(crate) mod job_payload;
pub(crate) mod lane;
mod timeout_warning;

use std::time::Duration;

use bytes::Bytes;
use outflow::Outflow;
use outflow::core::{Cost, Priority, WallTime};
use outflow_store::{ActionSpec, BatchPosition, JobStore, Name, SubmitBatch, SubmitReceipt, SubmitResult};

use crate::engine::Engine;
use crate::error::BulkError;
use crate::events::BulkEvent;
use crate::settings::EngineSettings;
use check::{check_all, check_call, check_limits, to_job};
use destination::SubmittedPlaces;
use job_payload::HttpCall;

/// Job to submit.
#[derive(Clone, PartialEq, Debug)]
pub struct JobSpec {
    /// Id; a job is accepted once, however often it is submitted. A job without an id gets one.
    pub id: Option<Name>,
    /// Tenant.
    pub tenant: Name,
    /// Work.
    pub work: JobWork,
    /// Cost, if not the cost of its route.
    pub cost: Option<Cost>,
    /// Priority among the jobs of its tenant.
    pub priority: Priority,
    /// Earliest start.
    pub not_before: Option<WallTime>,
    /// Latest start.
    pub deadline: Option<WallTime>,
    /// Number of retries after failures, if not three.
    pub max_retries: Option<u32>,
}

/// Work of a job.
#[derive(Clone, PartialEq, Debug)]
pub enum JobWork {
    /// Call of an API.
    Call(HttpCall),
    /// Task of a handler.
    Task {
        /// Handler.
        handler: String,
        /// Payload of the task.
        payload: Bytes,
    },
}

impl JobSpec {
    /// Creates a call with the defaults.
    pub const fn call(tenant: Name, call: HttpCall) -> Self {
        Self::new(tenant, JobWork::Call(call))
    }

    /// Creates a task of a handler with the defaults.
    pub fn task(tenant: Name, handler: &str, payload: Bytes) -> Self {
        let handler = handler.to_owned();
        Self::new(tenant, JobWork::Task { handler, payload })
    }

    const fn new(tenant: Name, work: JobWork) -> Self {
        Self {
            id: None,
            tenant,
            work,
            cost: None,
            priority: Priority::Normal,
            not_before: None,
            deadline: None,
            max_retries: None,
        }
    }

    /// Returns lane and cost of a call without an engine, to check a whole file before the first submission.
    ///
    /// # Errors
    /// If the job is invalid, or is a task: only an engine knows its handlers.
    pub fn placement(&self, client: &Outflow, settings: &EngineSettings) -> Result<JobPlacement, BulkError> {
        let JobWork::Call(call) = &self.work else {
            return Err(BulkError::invalid(
                "a task of a handler can only be checked by an engine: ask it instead",
            ));
        };
        let placement = check_call(client, call, self.cost)?;
        check_limits(self, placement.cost, settings)?;
        Ok(placement)
    }
}

/// Lane and cost of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobPlacement {
    /// Lane.
    pub lane: Name,
    /// Cost.
    pub cost: Cost,
}

/// Jobs that are submitted together.
#[derive(Clone, PartialEq, Debug)]
pub struct JobSubmission {
    /// Action of the jobs; the first accepted job opens it, unless it is open.
    pub action: Option<ActionSpec>,
    /// Position of this batch in the action.
    pub rest: BatchPosition,
    /// Jobs, in the order in which each tenant's are to start.
    pub jobs: Vec<JobSpec>,
}

/// Receipt of a submitted job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubmittedJob {
    /// Id; a rejected job has none.
    pub id: Option<Name>,
    /// Destination of the job.
    pub destination: JobDestination,
}

/// Destination of a submitted job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JobDestination {
    /// It can start within the second.
    Ready,
    /// It waits.
    NonReady {
        /// Reason of the wait.
        reason: String,
        /// Estimated wait by the formula.
        backoff: Duration,
    },
    /// It was not accepted.
    Rejected {
        /// Reason of the rejection.
        reason: String,
    },
    /// It was accepted before, and nothing changed.
    Duplicate,
}

impl<S: JobStore> Engine<S> {
    /// Submits jobs. Each is accepted, or rejected with a reason.
    ///
    /// # Errors
    /// If a job is invalid: the error names all such jobs, and none was accepted. If the store fails, none was
    /// accepted either, unless the error says that the result is unknown.
    pub async fn submit(&self, submission: JobSubmission) -> Result<Vec<SubmittedJob>, BulkError> {
        let context = &self.context;
        let settings = self.settings();
        let jobs = check_all(context, &submission.jobs)?;
        context.restore_lost_rules().await?;
        let action = submission.action.as_ref().map(|spec| spec.id.clone());
        let places = SubmittedPlaces::new(&jobs);
        let batch = SubmitBatch {
            action: submission.action,
            rest: submission.rest,
            jobs,
            queue_max: settings.queue_max,
            remember: settings.retention.names,
        };
        let submitted = context.store.submit(batch).await?;
        context.backlogs.expire();
        let shares = context.recent_shares().await;
        let destinations = places.into_destinations(context, &shares, &submitted);
        context.events.emit(BulkEvent::Submitted {
            action,
            jobs: count_accepted(&submitted),
        });
        Ok(to_receipts(&submitted, destinations))
    }

    /// Checks a job without submitting it.
    ///
    /// # Errors
    /// If the job is invalid; the error says what to change.
    pub fn check(&self, job: &JobSpec) -> Result<(), BulkError> {
        to_job(&self.context, job).map(drop)
    }
}

fn count_accepted(submitted: &SubmitResult) -> u64 {
    let accepted = |one: &&SubmitReceipt| matches!(one, SubmitReceipt::Accepted { .. });
    let count = submitted.receipts.iter().filter(accepted).count();
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Returns the receipt of each job. The destinations are those of the accepted jobs.
fn to_receipts(submitted: &SubmitResult, destinations: Vec<JobDestination>) -> Vec<SubmittedJob> {
    let mut destinations = destinations.into_iter();
    let receipt = |receipt: &SubmitReceipt| match receipt {
        SubmitReceipt::Accepted { id, .. } => SubmittedJob {
            id: Some(id.clone()),
            destination: destinations.next().unwrap_or(JobDestination::Ready),
        },
        SubmitReceipt::Duplicate { id } => SubmittedJob {
            id: Some(id.clone()),
            destination: JobDestination::Duplicate,
        },
        SubmitReceipt::Full => rejected("queue at capacity"),
        SubmitReceipt::Closed => rejected("the action takes no more jobs: use another name"),
    };
    submitted.receipts.iter().map(receipt).collect()
}

fn rejected(reason: &str) -> SubmittedJob {
    SubmittedJob {
        id: None,
        destination: JobDestination::Rejected {
            reason: reason.to_owned(),
        },
    }
}
