//! Does one job, and reports how it ended.
//!
//! Whatever happens to the worker, a report is made: of a panic that the job failed, of an abort that
//! it was interrupted or did not begin. Only a process that dies makes none, and then its lease tells.

pub(crate) mod handler;
pub(crate) mod lane_executor;
pub(crate) mod pool;
mod start_check;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use outflow::{AttemptResult, Error, Outflow, Permit, Response, Verdict};
use outflow_core::{Nanos, OutcomeClass, Rate};
use outflow_store::{ClaimedJob, CooldownScope, JobEnd, JobStore, Settlement, StoredResult};
use tokio::time::sleep;

use self::start_check::{check_now, in_time};
use crate::engine::EngineContext;
use crate::results::result_writer::JobReport;
use crate::scheduler::SHORTEST;
use crate::scheduler::claim_filter::{HeldPermits, StartPermission};
use crate::session::HeldJobs;
use crate::settings::{EngineSettings, SchedulerKind};
use crate::shared::scheduled_start::ScheduledStart;
use crate::submit::job_payload::HttpCall;
use crate::worker::handler::{Handler, HandlerError, HandlerTask};
use crate::worker::pool::WorkerSlot;

/// Who does it.
#[derive(Clone)]
pub(crate) enum Executor {
    Client(Outflow),
    Handler(Arc<dyn Handler>),
}

/// A job that was claimed, and the duty to report how it ended.
pub(crate) struct RunningJob<S> {
    hub: Arc<EngineContext<S>>,
    /// Gone when it was reported.
    claim: Option<(HeldJobs, WorkerSlot)>,
    job: ClaimedJob,
    /// Whether it has begun, so that somebody may have seen it.
    begun: AtomicBool,
}

impl<S> RunningJob<S> {
    /// Of a job that this session claimed. Its place in the crew is free when its end is written down,
    /// so that a store that cannot write stops new work, and the beat goes on until it can.
    pub(crate) fn new(
        hub: &Arc<EngineContext<S>>,
        claim: (HeldJobs, WorkerSlot),
        job: ClaimedJob,
    ) -> Self {
        Self {
            hub: Arc::clone(hub),
            claim: Some(claim),
            job,
            begun: AtomicBool::new(false),
        }
    }

    fn report(&mut self, end: JobEnd) {
        let Some((session, place)) = self.claim.take() else {
            return;
        };
        let report = JobReport {
            session,
            _place: place,
            id: self.job.id.clone(),
            tenant: self.job.tenant.clone(),
            action: self.job.action.clone(),
            settlement: Settlement {
                token: self.job.token,
                end,
            },
        };
        // Nobody hears it after the end of everything: the lease will tell.
        let _unheard = self.hub.reports.send(report);
    }
}

impl<S: JobStore> RunningJob<S> {
    /// Does the job.
    pub(crate) async fn fulfil(mut self, doer: &Executor, leave: StartPermission) {
        let end = run_attempt(&self.hub, doer, (&self.job, &self.begun), leave).await;
        self.report(end);
    }
}

impl<S> Drop for RunningJob<S> {
    fn drop(&mut self) {
        self.report(if std::thread::panicking() {
            JobEnd::Retry {
                after: Duration::from_secs(1),
                words: "the worker panicked".to_owned(),
                result: None,
            }
        } else if self.begun.load(Ordering::Relaxed) {
            JobEnd::Interrupted
        } else {
            JobEnd::Returned
        });
    }
}

async fn run_attempt<S: JobStore>(
    hub: &EngineContext<S>,
    doer: &Executor,
    (job, begun): (&ClaimedJob, &AtomicBool),
    leave: StartPermission,
) -> JobEnd {
    let settings = hub.settings.load_full();
    let permits = match leave {
        StartPermission::Go(permits) => permits,
        StartPermission::Never(words) => return failed(words),
        StartPermission::Later(plan) => match check_now(hub, (&settings, plan), doer, job).await {
            Ok(permits) => permits,
            Err(end) => return end,
        },
        StartPermission::At(slot) => return at_its_instant(hub, doer, (job, begun), slot).await,
    };
    begun.store(true, Ordering::Relaxed);
    go(hub, doer, job, permits).await
}

/// Does a job for which the store has debited the limits, if it can go when it is to.
async fn at_its_instant<S: JobStore>(
    hub: &EngineContext<S>,
    doer: &Executor,
    (job, begun): (&ClaimedJob, &AtomicBool),
    slot: ScheduledStart,
) -> JobEnd {
    let rate = hub.settings.load().rule(&job.tenant).rate;
    if let Some(words) = hub.doors.never(&job.tenant, rate, job.cost) {
        return failed(words);
    }
    sleep(slot.start.since(hub.clock.now())).await;
    let end = match in_time(doer, job, slot.latest.since(hub.clock.now())).await {
        Ok(permits) => {
            begun.store(true, Ordering::Relaxed);
            go(hub, doer, job, permits).await
        }
        Err(end) => end,
    };
    if matches!(end, JobEnd::Returned) {
        slot.give_back(hub, job).await;
    }
    end
}

async fn go<S>(
    hub: &EngineContext<S>,
    doer: &Executor,
    job: &ClaimedJob,
    permits: HeldPermits,
) -> JobEnd {
    let (settings, begun) = (hub.settings.load_full(), hub.clock.now());
    match doer {
        Executor::Client(client) => {
            let call = match HttpCall::decode(job.payload.clone()) {
                Ok(call) => call,
                Err(wrong) => return failed(wrong.to_string()),
            };
            let attempt = JobAttempt {
                hub,
                settings: &settings,
                job,
                begun,
            };
            attempt.call(client, call, permits).await
        }
        Executor::Handler(handler) => {
            count_start(permits.tenant);
            task(hub, &settings, handler.as_ref(), (job, begun)).await
        }
    }
}

/// What a tenant's limit counts of a task is its start. Nobody knows what it does after that, and a permit that
/// was dropped unsent would be given back.
fn count_start(permit: Option<Permit>) {
    if let Some(mut permit) = permit {
        permit.sending();
        permit.settle(AttemptResult::status(200));
    }
}

async fn task<S>(
    hub: &EngineContext<S>,
    settings: &EngineSettings,
    handler: &dyn Handler,
    (job, begun): (&ClaimedJob, Nanos),
) -> JobEnd {
    let task = HandlerTask {
        id: job.id.clone(),
        tenant: job.tenant.clone(),
        attempt: job.attempt,
        payload: job.payload.clone(),
    };
    match tokio::time::timeout(settings.timeout, handler.run(task)).await {
        Ok(Ok(body)) => JobEnd::Done {
            took: hub.clock.now().since(begun),
            result: stored_result(settings, job, 0, body),
        },
        Ok(Err(HandlerError::Passing(words))) => again(settings, job, None, (words, None)),
        Ok(Err(HandlerError::Final(words))) => failed(words),
        Ok(Err(HandlerError::Busy(after))) => JobEnd::Throttled {
            after: after.clamp(SHORTEST, LONGEST_PARK),
            park: CooldownScope::Tenant,
        },
        Err(_) => {
            let words = "it took longer than its timeout".to_owned();
            again(settings, job, None, (words, None))
        }
    }
}

/// One attempt of a call.
struct JobAttempt<'a, S> {
    hub: &'a EngineContext<S>,
    settings: &'a EngineSettings,
    job: &'a ClaimedJob,
    begun: Nanos,
}

impl<S> JobAttempt<'_, S> {
    async fn call(&self, client: &Outflow, mut call: HttpCall, mut permits: HeldPermits) -> JobEnd {
        let (job, settings) = (self.job, self.settings);
        let own = call.timeout;
        call.put_key(job.id.as_str());
        let mut request = client
            .request(call.method, &call.api, &call.path)
            .headers(call.headers)
            .body(call.body)
            .header("outflow-attempt", job.attempt.to_string())
            .priority(job.priority)
            .cost(job.cost)
            .timeout(own.unwrap_or(settings.timeout))
            .no_retry();
        // Whoever says how long this job may take knows better than what holds for all calls of the API.
        if let Some(own) = own {
            request = request.attempt_timeout(own);
        }
        if let Some(permit) = permits.api.take() {
            request = request.with_permit(permit);
        }
        if let Some(tenant) = &mut permits.tenant {
            tenant.sending();
        }
        let sent = request.send().await;
        settle_tenant(permits.tenant, &sent);
        match sent {
            Ok(answer) => self.answered(answer).await,
            Err(error) => self.unanswered(&error),
        }
    }

    async fn answered(&self, answer: Response) -> JobEnd {
        let (settings, job) = (self.settings, self.job);
        let (code, verdict) = (answer.status().as_u16(), answer.verdict());
        if let Some(end) = verdict.and_then(|verdict| self.judged(&verdict)) {
            return end;
        }
        if verdict.is_some_and(|verdict| verdict.is_worth_a_retry()) {
            let asked = answer.retry_after();
            let words = format!("the API answered {code}");
            // The status is worth telling without a body that broke off.
            let body = answer.bytes().await.unwrap_or_default();
            let result = stored_result(settings, job, code, body);
            return again(settings, job, asked, (words, result));
        }
        let body = match answer.bytes().await {
            Ok(body) => body,
            Err(error) => return again(settings, job, None, (error.to_string(), None)),
        };
        let result = stored_result(settings, job, code, body);
        if code >= 400 {
            return JobEnd::Failed {
                words: format!("the API answered {code}"),
                result,
            };
        }
        JobEnd::Done {
            took: self.hub.clock.now().since(self.begun),
            result,
        }
    }

    /// A refusal puts the job back where it was and uses no retry.
    fn judged(&self, verdict: &Verdict) -> Option<JobEnd> {
        if !matches!(
            verdict.effect,
            OutcomeClass::Throttled | OutcomeClass::Banned
        ) {
            return None;
        }
        let own = self.settings.rule(&self.job.tenant).rate;
        let asked = verdict.retry_after;
        Some(match (self.settings.scheduler, own) {
            (SchedulerKind::Permit, Some(rate)) => JobEnd::Throttled {
                after: asked.unwrap_or_else(|| blind(self.job.throttles, rate)),
                park: CooldownScope::Tenant,
            },
            // The API's door was told too, and knows when somebody may go again.
            (SchedulerKind::Permit, None) => JobEnd::Throttled {
                after: asked.unwrap_or_default(),
                park: CooldownScope::Lane,
            },
            (SchedulerKind::Fixed | SchedulerKind::Backoff, _) => {
                JobEnd::PutOff(self.settings.put_off())
            }
        })
    }

    fn unanswered(&self, error: &Error) -> JobEnd {
        // An API that the configuration lost after the claim: the job waits in its line until it is back.
        if error.is_refused() || error.is_unknown_api() {
            return JobEnd::Returned;
        }
        let worth = error
            .verdict()
            .is_some_and(|verdict| verdict.is_worth_a_retry());
        if worth || error.is_timeout() || error.is_connect() {
            let asked = error.retry_after();
            return again(self.settings, self.job, asked, (error.to_string(), None));
        }
        failed(error.to_string())
    }
}

/// How long a tenant rests after a refusal that did not say: no longer than its window, and no longer than a
/// second at first, since a window of a day would be a day. Who is refused again and again rests ever longer.
fn blind(throttles: u32, rate: Rate) -> Duration {
    let rest = rate.per().min(FIRST_REST);
    rest.saturating_mul(1 << throttles.min(MOST_DOUBLINGS))
        .min(rate.per())
}

/// The tenant's own door learns when the call came back, and nothing else: what is wrong with the
/// API is the API's.
fn settle_tenant(permit: Option<Permit>, sent: &Result<Response, Error>) {
    let Some(permit) = permit else { return };
    match sent {
        Ok(_) => drop(permit.settle(AttemptResult::status(200))),
        Err(error) if error.attempts() == 0 => permit.refund(),
        Err(_) => drop(permit),
    }
}

fn again(
    settings: &EngineSettings,
    job: &ClaimedJob,
    asked: Option<Duration>,
    (words, result): (String, Option<StoredResult>),
) -> JobEnd {
    if settings.scheduler == SchedulerKind::Backoff {
        let by = settings.put_off();
        return JobEnd::RetryPutOff { by, words, result };
    }
    let retry = job.retries.saturating_add(1);
    let own = settings.backoff.delay(retry, fastrand::u64(..));
    JobEnd::Retry {
        after: asked.map_or(own, |asked| asked.max(own)),
        words,
        result,
    }
}

const fn failed(words: String) -> JobEnd {
    JobEnd::Failed {
        words,
        result: None,
    }
}

/// What is kept for whoever asks after the action; nobody asks after a job without one.
fn stored_result(
    settings: &EngineSettings,
    job: &ClaimedJob,
    status: u16,
    body: Bytes,
) -> Option<StoredResult> {
    job.action.as_ref().map(|_| StoredResult {
        status,
        body,
        keep: settings.retention.results,
    })
}

/// A refusal is seldom about more than the second.
const FIRST_REST: Duration = Duration::from_secs(1);

/// A minute, and a little more.
const MOST_DOUBLINGS: u32 = 6;

/// A handler that says to wait for ever is asked again the next day.
const LONGEST_PARK: Duration = Duration::from_hours(24);
