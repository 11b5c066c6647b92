//! Runs one job and reports its end.
//!
//! A report is made in every case: a panic is a failure, an abort is an interruption or a return. Only a process
//! that dies reports nothing, and then its lease expires.

mod call;
pub(crate) mod handler;
pub(crate) mod lane_executor;
pub(crate) mod pool;
mod start_check;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use outflow::{AttemptResult, Outflow, Permit};
use outflow_core::Nanos;
use outflow_store::{ClaimedJob, CooldownScope, JobEnd, JobStore, Settlement, StoredResult};

use crate::engine::EngineContext;
use crate::results::result_writer::JobReport;
use crate::scheduler::MIN_WAIT;
use crate::scheduler::start_permission::{HeldPermits, StartPermission};
use crate::scheduler::strategy::AttemptFailure;
use crate::session::HeldJobs;
use crate::settings::EngineSettings;
use crate::submit::job_payload::HttpCall;
use handler::{Handler, HandlerError, HandlerTask};
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
    claim: Option<(HeldJobs, WorkerSlots)>,
    job: ClaimedJob,
    /// Set before the first effect that others can see.
    started: AtomicBool,
}

impl<S> RunningJob<S> {
    /// Binds a job to its claim. Its worker slot is free when its end is stored: a store that cannot write stops
    /// new work, and the heartbeat continues until it can.
    pub(crate) fn new(context: &Arc<EngineContext<S>>, held: HeldJobs, slot: WorkerSlots, job: ClaimedJob) -> Self {
        Self {
            context: Arc::clone(context),
            claim: Some((held, slot)),
            job,
            started: AtomicBool::new(false),
        }
    }

    fn report(&mut self, mut end: JobEnd) {
        let Some((session, slot)) = self.claim.take() else {
            return;
        };
        self.context.bind_deferral(&mut end, &self.job);
        self.context.results.report(JobReport {
            session,
            _slot: slot,
            id: self.job.id.clone(),
            tenant: self.job.tenant.clone(),
            action: self.job.action.clone(),
            settlement: Settlement {
                token: self.job.token,
                end,
            },
        });
    }
}

impl<S: JobStore> RunningJob<S> {
    /// Runs the job.
    pub(crate) async fn run(mut self, executor: &Executor, permission: StartPermission) {
        let (context, job) = (&self.context, &self.job);
        let (permits, scheduled) = acquire_permits(context, executor, job, permission).await;
        let end = match permits {
            Ok(permits) => {
                self.started.store(true, Ordering::Relaxed);
                JobAttempt::new(context, job).run(executor, permits).await
            }
            Err(end) => end,
        };
        if let Some(scheduled) = scheduled
            && matches!(end, JobEnd::Returned)
        {
            scheduled.refund(context, job).await;
        }
        self.report(end);
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

/// One attempt of a job.
struct JobAttempt<'a, S> {
    context: &'a EngineContext<S>,
    settings: Arc<EngineSettings>,
    job: &'a ClaimedJob,
    started: Nanos,
}

impl<'a, S> JobAttempt<'a, S> {
    fn new(context: &'a EngineContext<S>, job: &'a ClaimedJob) -> Self {
        Self {
            context,
            settings: context.settings.load_full(),
            job,
            started: context.clock.now(),
        }
    }

    async fn run(&self, executor: &Executor, permits: HeldPermits) -> JobEnd {
        match executor {
            Executor::Client(client) => match HttpCall::decode(self.job.payload.clone()) {
                Ok(call) => self.send(client, call, permits).await,
                Err(invalid) => failed(invalid.to_string()),
            },
            Executor::Handler(handler) => {
                count_start(permits.tenant);
                self.run_task(handler.as_ref()).await
            }
        }
    }

    async fn run_task(&self, handler: &dyn Handler) -> JobEnd {
        let task = HandlerTask {
            id: self.job.id.clone(),
            tenant: self.job.tenant.clone(),
            attempt: self.job.attempt,
            payload: self.job.payload.clone(),
        };
        match tokio::time::timeout(self.settings.timeout, handler.run(task)).await {
            Ok(Ok(body)) => self.done(self.stored_result(0, body)),
            Ok(Err(HandlerError::Passing(message))) => self.retry(message),
            Ok(Err(HandlerError::Final(message))) => failed(message),
            Ok(Err(HandlerError::Busy(after))) => JobEnd::Throttled {
                after: after.clamp(MIN_WAIT, MAX_COOLDOWN),
                cooldown: CooldownScope::Tenant,
            },
            Err(_) => self.retry("it took longer than its timeout".to_owned()),
        }
    }

    fn done(&self, result: Option<StoredResult>) -> JobEnd {
        JobEnd::Done {
            took: self.context.clock.now().since(self.started),
            result,
        }
    }

    fn retry(&self, message: String) -> JobEnd {
        self.retry_after(AttemptFailure {
            message,
            retry_after: None,
            result: None,
        })
    }

    fn retry_after(&self, failure: AttemptFailure) -> JobEnd {
        let strategy = self.settings.scheduler.strategy();
        strategy.retry(&self.settings, self.job, failure)
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

/// Counts the start of a task against its tenant's limit. A permit that dropped unsent would be refunded.
fn count_start(permit: Option<Permit>) {
    if let Some(mut permit) = permit {
        permit.sending();
        permit.settle(AttemptResult::status(200));
    }
}

/// Returns the end of a job that no retry helps.
pub(crate) const fn failed(message: String) -> JobEnd {
    JobEnd::Failed { message, result: None }
}

/// A panic is seldom a matter of time.
const PANIC_RETRY: Duration = Duration::from_secs(1);

/// A handler that asks for a longer wait is called again the next day.
const MAX_COOLDOWN: Duration = Duration::from_hours(24);
