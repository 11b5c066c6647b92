//! Taking jobs: checked first, kept before the answer, and placed with a reason.
//!
//! A submission is checked whole before any of it is taken, and every mistake is told at once. What is
//! taken is on the disk when the answer comes. What is answered about each job's place (ready, waiting,
//! refused) is an estimate by the formula: the scheduler does not use it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use outflow::Outflow;
use outflow::core::{CongestionLevel, Cost, Decision, Priority, WallTime, rate_limit_speed};
use outflow_store::{
    ActionSpec, BatchPosition, JobStore, Name, NewJob, SubmitBatch, SubmitReceipt, SubmitResult,
};

use crate::engine::{Engine, EngineContext};
use crate::error::BulkError;
use crate::events::BulkEvent;
use crate::job_payload::HttpCall;
use crate::lane::Lane;
use crate::settings::EngineSettings;

/// Something that a tenant wants done.
#[derive(Clone, PartialEq, Debug)]
pub struct JobSpec {
    /// Its name: the same job is taken once, however often it is submitted. Without one it gets one.
    pub id: Option<Name>,
    /// For whom.
    pub tenant: Name,
    /// What.
    pub work: JobWork,
    /// What it uses of a limit, if not what its route says.
    pub cost: Option<Cost>,
    /// Its class among the jobs of its tenant.
    pub priority: Priority,
    /// It does not begin before.
    pub not_before: Option<WallTime>,
    /// It does not begin after.
    pub deadline: Option<WallTime>,
    /// How often it may fail and be tried again, if not three times.
    pub max_retries: Option<u32>,
}

/// What is to be done.
#[derive(Clone, PartialEq, Debug)]
pub enum JobWork {
    /// A call of an API.
    Call(HttpCall),
    /// A task of a handler.
    Task {
        /// Which handler.
        handler: String,
        /// What it is given.
        payload: Bytes,
    },
}

impl JobSpec {
    /// A call for a tenant, on the usual terms.
    pub const fn call(tenant: Name, call: HttpCall) -> Self {
        Self::new(tenant, JobWork::Call(call))
    }

    /// A task of a handler for a tenant, on the usual terms.
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
}

impl JobSpec {
    /// Where a call would stand in line and what it would use, without any engine: for whoever checks a
    /// whole file before the first job of it is taken.
    ///
    /// # Errors
    /// If it could not be carried out as it is written, or is a task: which handlers there are is known
    /// to an engine alone.
    pub fn placement(
        &self,
        client: &Outflow,
        settings: &EngineSettings,
    ) -> Result<JobPlacement, BulkError> {
        let JobWork::Call(call) = &self.work else {
            return Err(BulkError::invalid(
                "a task of a handler can only be checked by an engine: ask it instead",
            ));
        };
        let (lane, _, cost) = called(client, call, self.cost)?;
        possible(self, cost, settings)?;
        Ok(JobPlacement { lane, cost })
    }
}

/// Where a job stands in line, and what it uses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobPlacement {
    /// The line.
    pub lane: Name,
    /// What it uses of a limit.
    pub cost: Cost,
}

/// Orders that are submitted together.
#[derive(Clone, PartialEq, Debug)]
pub struct JobSubmission {
    /// The action that they belong to: opened with the first of them that is taken, unless it is open.
    pub action: Option<ActionSpec>,
    /// Whether the action gets more.
    pub rest: BatchPosition,
    /// The orders, in the order in which each tenant's are to go.
    pub orders: Vec<JobSpec>,
}

/// Where a job went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubmittedJob {
    /// Its name; none if it was refused.
    pub id: Option<Name>,
    /// Where.
    pub destination: JobDestination,
}

/// Where a job went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JobDestination {
    /// It can begin within the second.
    Ready,
    /// It waits.
    NonReady {
        /// What for.
        reason: String,
        /// For about how long, by the formula.
        backoff: Duration,
    },
    /// It was not taken.
    Rejected {
        /// Why.
        reason: String,
    },
    /// It had been taken before, so nothing was changed.
    Duplicate,
}

impl<S: JobStore> Engine<S> {
    /// Takes jobs, or refuses them, each with the reason.
    ///
    /// # Errors
    /// If an order cannot be carried out as it is written: all such are named, and none was taken. If
    /// the store fails, none was taken either, unless it says that nobody knows.
    pub async fn submit(&self, submission: JobSubmission) -> Result<Vec<SubmittedJob>, BulkError> {
        let hub = self.hub();
        let settings = self.settings();
        let jobs = checked(hub, &submission.orders)?;
        hub.keep_lost_rules().await?;
        let action = submission.action.as_ref().map(|spec| spec.id.clone());
        let batch = SubmitBatch {
            action: submission.action,
            rest: submission.rest,
            jobs,
            queue_max: settings.queue_max,
            remember: settings.retention.names,
        };
        let submitted = hub.store.submit(batch).await?;
        let placed = placed(&settings, &submitted);
        let taken = |one: &&SubmitReceipt| matches!(one, SubmitReceipt::Accepted { .. });
        let jobs = submitted.receipts.iter().filter(taken).count();
        let tenants = submission.orders.iter().map(|order| &order.tenant);
        hub.entered(&settings, tenants, &submitted);
        hub.emit(BulkEvent::Submitted {
            action,
            jobs: u64::try_from(jobs).unwrap_or(u64::MAX),
        });
        Ok(placed)
    }

    /// Whether an order could be carried out as it is written.
    ///
    /// # Errors
    /// If not; the error says what to change.
    pub fn check(&self, order: &JobSpec) -> Result<(), BulkError> {
        job(self.hub(), order).map(drop)
    }
}

/// All orders as jobs, or everything that is wrong with them.
fn checked<S>(hub: &Arc<EngineContext<S>>, orders: &[JobSpec]) -> Result<Vec<NewJob>, BulkError> {
    let mut wrong = Vec::new();
    let mut jobs = Vec::with_capacity(orders.len());
    for (number, order) in (1..).zip(orders) {
        match job(hub, order) {
            Ok(job) => jobs.push(job),
            Err(error) if wrong.len() < MOST_TOLD => wrong.push(format!("job {number}: {error}")),
            Err(_) => wrong.push(String::new()),
        }
    }
    if wrong.is_empty() {
        return Ok(jobs);
    }
    let more = wrong.len().saturating_sub(MOST_TOLD);
    wrong.truncate(MOST_TOLD);
    if more > 0 {
        wrong.push(format!("and {more} more"));
    }
    Err(BulkError::invalid(wrong.join("; ")))
}

fn job<S>(hub: &EngineContext<S>, order: &JobSpec) -> Result<NewJob, BulkError> {
    let (lane, payload, usual) = match &order.work {
        JobWork::Call(call) => called(&hub.client, call, order.cost)?,
        JobWork::Task { handler, payload } => {
            if !hub.handlers.contains_key(handler) {
                return Err(BulkError::invalid(format!(
                    "no handler is called {handler:?}: register it, or check its name"
                )));
            }
            (Lane::of_handler(handler)?, payload.clone(), Cost::ONE)
        }
    };
    let cost = order.cost.unwrap_or(usual);
    possible(order, cost, &hub.settings.load())?;
    let usual_job = NewJob::new(order.tenant.clone(), lane, payload);
    Ok(NewJob {
        id: order.id.clone(),
        cost,
        priority: order.priority,
        not_before: order.not_before,
        deadline: order.deadline,
        max_retries: order.max_retries.unwrap_or(usual_job.max_retries),
        ..usual_job
    })
}

/// Whether its time and its tenant's limit ever let it go.
fn possible(order: &JobSpec, cost: Cost, settings: &EngineSettings) -> Result<(), BulkError> {
    if let (Some(begin), Some(end)) = (order.not_before, order.deadline)
        && begin > end
    {
        return Err(BulkError::invalid(
            "it is not to begin before an instant that is after its deadline: change one of them",
        ));
    }
    let rate = settings.rule(&order.tenant).rate;
    match rate.filter(|rate| cost.units() > rate.quantity()) {
        Some(rate) => Err(BulkError::invalid(format!(
            "it costs {}, more than the {rate} of its tenant ever allow: split it, or lower its cost",
            cost.units()
        ))),
        None => Ok(()),
    }
}

/// Whether a call can be written as HTTP has it.
fn sendable(call: &HttpCall) -> Result<(), BulkError> {
    if call.method == http::Method::CONNECT {
        return Err(BulkError::invalid(
            "CONNECT opens a tunnel and is no call: use another method",
        ));
    }
    let key = call.idempotency_key.as_deref().unwrap_or_default();
    http::HeaderValue::from_str(key).map(drop).map_err(|_| {
        BulkError::invalid("the idempotency key goes into a header: leave out line breaks")
    })
}

fn called(
    client: &Outflow,
    call: &HttpCall,
    cost: Option<Cost>,
) -> Result<(Name, Bytes, Cost), BulkError> {
    let Some((door, api)) = client.upstream(&call.api).zip(client.api(&call.api)) else {
        return Err(BulkError::invalid(format!(
            "no API is called {:?}: add it to the configuration, or check its name",
            call.api
        )));
    };
    if !api.methods.is_empty() && !api.methods.contains(&call.method) {
        return Err(BulkError::invalid(format!(
            "{} is not among the methods of {:?}: allow it, or use another",
            call.method, call.api
        )));
    }
    sendable(call)?;
    api.base_url
        .join(&call.path)
        .map_err(|wrong| BulkError::invalid(format!("path: {wrong}")))?;
    let path = call.path.split('?').next().unwrap_or_default();
    let target = door.route(&call.method, path);
    let cost = cost.unwrap_or(target.cost());
    if door.check(target.with_cost(cost)) == Decision::Never {
        return Err(BulkError::invalid(format!(
            "it costs {}, more than a limit of {:?} ever allows: split it, or lower its cost",
            cost.units(),
            call.api
        )));
    }
    Ok((
        Lane::of_call(&door, &call.method, path)?,
        call.encode(),
        cost,
    ))
}

/// Where each went, by the formula.
fn placed(settings: &EngineSettings, submitted: &SubmitResult) -> Vec<SubmittedJob> {
    let speed = rate_limit_speed(settings.global_rate, submitted.active);
    let accepted = |one: &&SubmitReceipt| matches!(one, SubmitReceipt::Accepted { .. });
    let accepted = submitted.receipts.iter().filter(accepted).count();
    // As it was when each of them joined: a batch is told what its jobs would be told one by one.
    let mut queued = submitted
        .queued
        .saturating_sub(u64::try_from(accepted).unwrap_or(u64::MAX));
    let one = |receipt: &SubmitReceipt| match receipt {
        SubmitReceipt::Accepted { id, place } => {
            queued += 1;
            SubmittedJob {
                id: Some(id.clone()),
                destination: destination(settings, queued, (*place, speed)),
            }
        }
        SubmitReceipt::Duplicate { id } => SubmittedJob {
            id: Some(id.clone()),
            destination: JobDestination::Duplicate,
        },
        SubmitReceipt::Full => rejected("queue at capacity"),
        SubmitReceipt::Closed => rejected("the action takes no more jobs: use another name"),
    };
    submitted.receipts.iter().map(one).collect()
}

fn rejected(reason: &str) -> SubmittedJob {
    SubmittedJob {
        id: None,
        destination: JobDestination::Rejected {
            reason: reason.to_owned(),
        },
    }
}

fn destination(
    settings: &EngineSettings,
    queued: u64,
    (place, speed): (u64, u64),
) -> JobDestination {
    let global = settings.global_rate;
    let ready = settings.ready_queue_max.min(global);
    if place <= speed && queued <= ready {
        return JobDestination::Ready;
    }
    let congestion = settings.congestion.reading(place, speed);
    let level: CongestionLevel = congestion.level;
    JobDestination::NonReady {
        reason: format!(
            "rate limited (global {queued}/{global}, group {place}/{speed}, congestion {level})"
        ),
        backoff: congestion.backoff,
    }
}

/// Enough to see what is wrong with a file.
const MOST_TOLD: usize = 20;
