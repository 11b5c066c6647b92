//! Runs one job and reports its end.
//!
//! A report is made in every case: a panic is a failure, an abort is an interruption or a return. Only a process
//! that dies reports nothing, and then its lease expires.

mod call;
mod call_arrival;
mod failure_judge;
pub(crate) mod handler;
pub(crate) mod lane_executor;
pub(crate) mod lane_history;
pub(crate) mod pool;
mod start_check;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use outflow::{AttemptResult, Outflow, Permit};
use outflow_core::Nanos;
use outflow_store::{ClaimedJob, CooldownScope, JobEnd, JobStore, StoredResult};
use tokio::time::sleep;

use crate::engine::EngineContext;
use crate::results::result_writer::JobReport;
use crate::scheduler::MIN_WAIT;
use crate::scheduler::start_permission::{HeldPermits, StartPermission, find_upstream};
use crate::scheduler::strategy::AttemptFailure;
use crate::session::HeldJobs;
use crate::settings::EngineSettings;
use crate::submit::job_payload::HttpCall;
use call_arrival::CallArrival;
use failure_judge::{ApiBefore, FailureJudge, is_suspect};
use handler::{Handler, HandlerError, HandlerTask};
use lane_history::{AttemptSign, LaneHistory, SignKind};
use pool::WorkerSlots;
use start_check::acquire_permits;

/// Executor of a job.
#[derive(Clone)]
pub(crate) enum Executor {
    Client(Outflow),
    Handler(Arc<dyn Handler>),
}

/// A claimed job whose end is not reported yet.
pub(crate) struct RunningJob<S> {
    context: Arc<EngineContext<S>>,
    /// Taken when the end is reported.
    claim: Option<HeldJobs>,
    /// Free as soon as the attempt is over and its end waits for evidence.
    slot: Option<WorkerSlots>,
    lane: Arc<LaneHistory>,
    job: ClaimedJob,
    /// Set before the first effect that others can see.
    started: AtomicBool,
    arrival: CallArrival,
}

impl<S> RunningJob<S> {
    /// Binds a job to its claim. Its worker slot is free when its end is stored: a store that cannot write stops
    /// new work, and the heartbeat continues until it can.
    pub(crate) fn new(context: &Arc<EngineContext<S>>, claim: WorkerClaim, job: ClaimedJob) -> Self {
        Self {
            context: Arc::clone(context),
            claim: Some(claim.held),
            slot: Some(claim.slot),
            lane: claim.lane,
            job,
            started: AtomicBool::new(false),
            arrival: CallArrival::Unsent,
        }
    }

    fn report(&mut self, mut end: JobEnd) {
        let Some(session) = self.claim.take() else {
            return;
        };
        self.context.bind_deferral(&mut end, &self.job);
        let arrived = self.arrival.counts_from(self.context.clock.now());
        self.context.results.report(JobReport {
            session,
            _slot: self.slot.take(),
            id: self.job.id.clone(),
            tenant: self.job.tenant.clone(),
            action: self.job.action.clone(),
            lane: Arc::clone(&self.lane),
            arrived: arrived.filter(|_| self.job.holds_units),
            token: self.job.token,
            end,
        });
    }
}

impl<S: JobStore> RunningJob<S> {
    /// Runs the job.
    pub(crate) async fn run(mut self, executor: &Executor, permission: StartPermission) {
        let Some(session) = self.claim.as_ref().map(|held| held.name().clone()) else {
            return;
        };
        // Such a job takes its units when it starts.
        let starts_later = matches!(permission, StartPermission::Unchecked);
        self.job.holds_units |= starts_later && self.context.settings.load().shared;
        let permits = acquire_permits(&self.context, &session, (executor, &self.job), permission).await;
        let end = match permits.map(|permits| self.bind_to_lease(permits)) {
            Ok(Some(permits)) => self.start(executor, permits).await,
            Ok(None) => JobEnd::Returned,
            Err(end) => end,
        };
        self.report(end);
    }

    /// Lets nothing be sent after the session's lease in a shared store, which counts lost calls as arrived then.
    /// Returns nothing if the lease has ended.
    fn bind_to_lease(&self, mut permits: HeldPermits) -> Option<HeldPermits> {
        let Some(held) = self.claim.as_ref().filter(|_| self.context.settings.load().shared) else {
            return Some(permits);
        };
        let left = held.alive_until().since(self.context.clock.now());
        if left.is_zero() {
            return None;
        }
        permits.api = permits.api.map(|permit| permit.expire_after(left));
        Some(permits)
    }

    /// Makes one attempt, unless the job failed before and its lane is abandoned, or others go first.
    async fn start(&mut self, executor: &Executor, permits: HeldPermits) -> JobEnd {
        if self.job.attempt <= 1 {
            return self.attempt(executor, permits).await;
        }
        let job = self.job.token.job;
        if let Some(error) = self.lane.abandoned_error(job) {
            return failed(error);
        }
        let is_down = api_before(executor, &self.job).is_some_and(|api| api.is_down());
        if is_down && self.lane.steps_aside(job) {
            drop(permits);
            self.slot = None;
            sleep(ASIDE).await;
            return JobEnd::Returned;
        }
        self.attempt(executor, permits).await
    }

    /// Makes one attempt, and returns its end.
    async fn attempt(&mut self, executor: &Executor, permits: HeldPermits) -> JobEnd {
        self.started.store(true, Ordering::Relaxed);
        let context = Arc::clone(&self.context);
        let began = context.clock.now();
        let before = api_before(executor, &self.job);
        let in_flight = self.lane.begin(self.job.token, began);
        context.metrics.counters.attempt_began();
        let failed_before = self.lane.last_failure(self.job.token.job);
        let mut attempt = JobAttempt::new(&context, &self.job);
        attempt.expects_failure = is_suspect(&self.job)
            || before
                .as_ref()
                .is_some_and(|before| before.has_served_since(failed_before));
        self.arrival = CallArrival::Pending;
        let end = attempt.run(executor, permits).await;
        self.arrival = attempt.arrival;
        drop(in_flight);
        let failure = match end {
            AttemptEnd::Throttled(end) => {
                self.lane.note_error("the API throttled a call", context.clock.now());
                return end;
            }
            AttemptEnd::Other(end) => return end,
            AttemptEnd::Served(end) => {
                self.lane.record(AttemptSign {
                    job: self.job.token.job,
                    began,
                    ended: before.as_ref().map_or(began, |before| before.upstream.now()),
                    outcome: SignKind::Served,
                });
                return end;
            }
            AttemptEnd::Failed(failure) => failure,
        };
        self.slot = None;
        self.lane.note_error(&failure.message, context.clock.now());
        let settings = context.settings.load_full();
        let excused = match before {
            Some(before) => {
                let judge = FailureJudge {
                    job: &self.job,
                    began,
                    took: context.clock.now().since(began),
                    before,
                    lane: &self.lane,
                    lanes: &context.lanes,
                    failed_before,
                };
                judge.api_failure(&settings, &failure).await
            }
            None => None,
        };
        let strategy = settings.scheduler.strategy();
        excused.unwrap_or_else(|| strategy.retry(&settings, &self.job, failure))
    }
}

impl<S> Drop for RunningJob<S> {
    fn drop(&mut self) {
        self.report(if std::thread::panicking() {
            JobEnd::Retry {
                after: PANIC_RETRY,
                message: "the worker panicked".to_owned(),
                result: None,
            }
        } else if self.started.load(Ordering::Relaxed) {
            JobEnd::Interrupted
        } else {
            JobEnd::Returned
        });
    }
}

/// Claim of a job, with the slot of its worker and the history of its lane.
pub(crate) struct WorkerClaim {
    pub(crate) held: HeldJobs,
    pub(crate) slot: WorkerSlots,
    pub(crate) lane: Arc<LaneHistory>,
}

/// End of one attempt.
enum AttemptEnd {
    /// The API served the call, with whatever result.
    Served(JobEnd),
    /// It failed and may succeed later.
    Failed(AttemptFailure),
    /// The API throttled it.
    Throttled(JobEnd),
    /// The end says nothing about the API.
    Other(JobEnd),
}

/// One attempt of a job.
struct JobAttempt<'a, S> {
    context: &'a EngineContext<S>,
    settings: Arc<EngineSettings>,
    job: &'a ClaimedJob,
    started: Nanos,
    /// True if another failure would be the job's own.
    expects_failure: bool,
    arrival: CallArrival,
}

impl<'a, S> JobAttempt<'a, S> {
    fn new(context: &'a EngineContext<S>, job: &'a ClaimedJob) -> Self {
        Self {
            context,
            settings: context.settings.load_full(),
            job,
            started: context.clock.now(),
            expects_failure: false,
            arrival: CallArrival::Unsent,
        }
    }

    async fn run(&mut self, executor: &Executor, permits: HeldPermits) -> AttemptEnd {
        match executor {
            Executor::Client(client) => match HttpCall::decode(self.job.payload.clone()) {
                Ok(call) => self.send(client, call, permits).await,
                Err(invalid) => AttemptEnd::Other(failed(invalid.to_string())),
            },
            Executor::Handler(handler) => {
                count_start(permits.tenant);
                self.arrival = CallArrival::By(self.started);
                self.run_task(handler.as_ref()).await
            }
        }
    }

    async fn run_task(&self, handler: &dyn Handler) -> AttemptEnd {
        let task = HandlerTask {
            id: self.job.id.clone(),
            tenant: self.job.tenant.clone(),
            attempt: self.job.attempt,
            payload: self.job.payload.clone(),
        };
        match tokio::time::timeout(self.settings.timeout, handler.run(task)).await {
            Ok(Ok(body)) => AttemptEnd::Served(self.done(self.stored_result(0, body))),
            Ok(Err(HandlerError::Passing(message))) => failed_attempt(message),
            Ok(Err(HandlerError::Final(message))) => AttemptEnd::Other(failed(message)),
            Ok(Err(HandlerError::Busy(after))) => AttemptEnd::Throttled(JobEnd::Throttled {
                after: after.clamp(MIN_WAIT, MAX_COOLDOWN),
                cooldown: CooldownScope::Tenant,
            }),
            Err(_) => failed_attempt("it took longer than its timeout".to_owned()),
        }
    }

    fn done(&self, result: Option<StoredResult>) -> JobEnd {
        JobEnd::Done {
            took: self.context.clock.now().since(self.started),
            result,
        }
    }

    /// Returns the result to store; a job without an action stores none, since no query reads it.
    fn stored_result(&self, status: u16, body: Bytes) -> Option<StoredResult> {
        self.job.action.as_ref().map(|_| StoredResult {
            status,
            body,
            keep: self.settings.retention.results,
        })
    }
}

/// Returns the state of the API before an attempt; the task of a handler has none.
fn api_before(executor: &Executor, job: &ClaimedJob) -> Option<ApiBefore> {
    let Executor::Client(client) = executor else {
        return None;
    };
    let (upstream, target) = find_upstream(client, job)?;
    Some(ApiBefore {
        health: upstream.state(target),
        served: upstream.last_success(target),
        upstream,
        target,
    })
}

/// Counts the start of a task against its tenant's limit. A permit that dropped unsent would be refunded.
fn count_start(permit: Option<Permit>) {
    if let Some(mut permit) = permit {
        permit.sending();
        permit.settle(AttemptResult::status(200));
    }
}

/// Returns the end of an attempt that failed without a response.
const fn failed_attempt(message: String) -> AttemptEnd {
    AttemptEnd::Failed(AttemptFailure {
        message,
        retry_after: None,
        result: None,
    })
}

/// Returns the end of a job that no retry helps.
pub(crate) const fn failed(message: String) -> JobEnd {
    JobEnd::Failed { message, result: None }
}

/// Long enough for the claim of another job.
const ASIDE: Duration = Duration::from_secs(1);

/// A panic is seldom a matter of time.
const PANIC_RETRY: Duration = Duration::from_secs(1);

/// A handler that asks for a longer wait is called again the next day.
const MAX_COOLDOWN: Duration = Duration::from_hours(24);
