//! The loop that starts the jobs of one lane.

use std::sync::Arc;
use std::time::Duration;

use outflow::{CancelToken, Refusal, TaskGroup};
use outflow_core::Nanos;
use outflow_store::{AllowAll, ClaimBatch, ClaimFilter, ClaimRequest, JobStore, Name, StoreError};
use tokio::time::{sleep, timeout};

use super::claim_filter::PermitFilter;
use super::pacing::StartPacer;
use super::permit_batch::BatchPlan;
use super::permit_wait::{PermitWait, WaitResult};
use super::start_permission::{MissingPermit, ReservedPermit, StartCheck, StartLimits, StartPermission, blocked_for};
use super::{MIN_WAIT, POLL_INTERVAL, unless_cancelled};
use crate::engine::EngineContext;
use crate::events::BulkEvent;
use crate::session::PendingClaim;
use crate::settings::EngineSettings;
use crate::submit::lane::Lane;
use crate::worker::lane_executor::LaneExecutor;
use crate::worker::lane_history::LaneHistory;
use crate::worker::pool::WorkerSlots;
use crate::worker::{Executor, RunningJob, WorkerClaim};

/// Schedule of one lane.
pub(super) struct LaneSchedule<S> {
    context: Arc<EngineContext<S>>,
    jobs: Arc<TaskGroup>,
    name: Name,
    lane: Lane,
    history: Arc<LaneHistory>,
    pacer: StartPacer,
    plan: BatchPlan,
    reserved: Option<ReservedPermit>,
    /// Instant of the last report that nothing executes these jobs.
    reported_unserved: Option<Nanos>,
}

/// Jobs of one claim, each with its permission.
struct PermittedBatch {
    claims: ClaimBatch,
    /// Fewer jobs mean that no more can start now.
    asked: usize,
    permissions: Vec<StartPermission>,
    missing: Option<MissingPermit>,
}

/// Step that follows a claim.
enum NextStep {
    /// More jobs may start at once.
    ClaimAgain,
    /// The next job lacks this.
    WaitFor(MissingPermit),
    /// No job can start before this span ends or the store changes.
    Sleep(Option<Duration>),
}

impl PermittedBatch {
    fn next_step(&mut self) -> NextStep {
        match self.missing.take() {
            Some(missing) => NextStep::WaitFor(missing),
            None if self.claims.other_cost.is_some() => NextStep::ClaimAgain,
            None if self.claims.jobs.len() < self.asked => NextStep::Sleep(self.claims.next),
            None => NextStep::ClaimAgain,
        }
    }
}

impl<S: JobStore> LaneSchedule<S> {
    pub(super) fn new(context: &Arc<EngineContext<S>>, name: Name, jobs: &Arc<TaskGroup>) -> Self {
        Self {
            context: Arc::clone(context),
            jobs: Arc::clone(jobs),
            lane: Lane::from_name(&name),
            history: context.lanes.get(&name),
            pacer: StartPacer::default(),
            plan: BatchPlan::default(),
            reserved: None,
            reported_unserved: None,
            name,
        }
    }

    /// Starts jobs until it is cancelled. Cancellation ends waits, but no claims: a claimed job must start or be
    /// returned.
    pub(super) async fn run(mut self, cancel: CancelToken) {
        let mut queue = None;
        while !cancel.is_cancelled() {
            let Some(executor) = self.executor() else {
                self.report_unserved();
                unless_cancelled(&cancel, sleep(POLL_INTERVAL)).await;
                continue;
            };
            self.reported_unserved = None;
            let slots = self.context.pool.take(MAX_BATCH);
            let Some(Some(slots)) = unless_cancelled(&cancel, slots).await else {
                return;
            };
            // Subscribed before the claim, so that no change after it is missed.
            let store = Arc::clone(&self.context.store);
            let changed = store.changed();
            match self.claim(&executor, slots).await {
                Ok(NextStep::ClaimAgain) => {}
                Ok(NextStep::WaitFor(MissingPermit::Distance(at))) => {
                    let wait = at.since(self.context.clock.now());
                    unless_cancelled(&cancel, sleep(wait)).await;
                }
                Ok(NextStep::WaitFor(MissingPermit::Permit { cost, refusal })) => {
                    let kept = queue.take().filter(|wait: &PermitWait| wait.cost == cost);
                    let join = |upstream| PermitWait::new(upstream, cost);
                    let joined = kept.or_else(|| executor.upstream.as_ref().map(join));
                    let waited = self.wait_for_permit(joined, &refusal);
                    queue = unless_cancelled(&cancel, waited).await.flatten();
                }
                Ok(NextStep::Sleep(span)) => {
                    queue = None;
                    // Limits may change, which no notification announces.
                    let span = span.unwrap_or(POLL_INTERVAL).min(POLL_INTERVAL);
                    unless_cancelled(&cancel, timeout(span, changed)).await;
                }
                Err(error) => {
                    queue = None;
                    let wait = self.context.wait_after_store_error(&error);
                    unless_cancelled(&cancel, wait).await;
                }
            }
        }
    }

    /// Waits in the API's queue for a while: reserves the permit, keeps the place, or leaves the queue.
    async fn wait_for_permit(&mut self, queue: Option<PermitWait>, denied: &Refusal) -> Option<PermitWait> {
        match queue?.wait().await {
            WaitResult::Acquired(permit) => self.reserved = Some(permit),
            WaitResult::Refused(refusal) => {
                let wait = refusal.retry_after.or(denied.retry_after);
                sleep(wait.unwrap_or(POLL_INTERVAL).clamp(MIN_WAIT, POLL_INTERVAL)).await;
            }
            WaitResult::Waiting(queue) => return Some(queue),
        }
        None
    }

    /// Reports now and then that these jobs wait for a configuration that knows them.
    fn report_unserved(&mut self) {
        let now = self.context.clock.now();
        let reported = self.reported_unserved;
        if reported.is_some_and(|at| now.since(at) < REPORT_INTERVAL) {
            return;
        }
        self.reported_unserved = Some(now);
        let message = match &self.lane {
            Lane::Handler(name) => format!("no handler is called {name:?}: its jobs wait for one"),
            Lane::Api { api, .. } => {
                format!("no API is called {api:?} any more: its jobs wait until the configuration has it again")
            }
        };
        self.context.events.emit(BulkEvent::Error { message });
    }

    /// Returns the executor of these jobs, if the configuration knows the API or the handler.
    fn executor(&self) -> Option<LaneExecutor> {
        match &self.lane {
            Lane::Handler(name) => Some(LaneExecutor {
                executor: Executor::Handler(Arc::clone(self.context.handlers.get(name)?)),
                upstream: None,
            }),
            Lane::Api { .. } => Some(LaneExecutor {
                executor: Executor::Client(self.context.client.clone()),
                upstream: Some(self.lane.upstream(&self.context.client)?),
            }),
        }
    }

    /// Claims jobs for these worker slots, and starts them.
    async fn claim(&mut self, executor: &LaneExecutor, slots: WorkerSlots) -> Result<NextStep, StoreError> {
        let settings = self.context.settings.load_full();
        let pending = self.context.sessions.begin_claim();
        let request = ClaimRequest {
            lane: self.name.clone(),
            session: pending.name().clone(),
            max: slots.count(),
            lease: settings.lease,
            recoveries: settings.recoveries,
            limits: settings.store_limits(),
            cost: None,
        };
        let permit_first = settings.scheduler.strategy().is_permit_first();
        // The permit scheduler waits in the API's queue instead.
        if !permit_first
            && let Some(blocked) = executor
                .upstream
                .as_ref()
                .and_then(|upstream| blocked_for(upstream, Duration::ZERO))
        {
            return Ok(NextStep::Sleep(Some(blocked)));
        }
        let mut batch = match (permit_first, settings.shared) {
            (true, true) => self.claim_ahead(request, executor, &settings).await?,
            (true, false) => self.claim_permitted(request, executor, &settings).await?,
            (false, _) => self.claim_unchecked(request).await?,
        };
        let next = batch.next_step();
        self.history.set_queued(!matches!(next, NextStep::Sleep(None)));
        self.start_jobs(executor, &pending, batch, slots);
        Ok(next)
    }

    /// Claims jobs that ask for their permits when they start.
    async fn claim_unchecked(&mut self, mut request: ClaimRequest) -> Result<PermittedBatch, StoreError> {
        // Reserved under another scheduler, before a reload.
        self.reserved = None;
        request.limits = None;
        let claims = self.claim_with(request, &mut AllowAll).await?;
        Ok(PermittedBatch {
            permissions: claims.jobs.iter().map(|_| StartPermission::Unchecked).collect(),
            claims,
            asked: 1,
            missing: None,
        })
    }

    /// Claims the jobs that get their permits.
    async fn claim_permitted(
        &mut self,
        request: ClaimRequest,
        executor: &LaneExecutor,
        settings: &EngineSettings,
    ) -> Result<PermittedBatch, StoreError> {
        let context = Arc::clone(&self.context);
        let mut filter = PermitFilter {
            check: self.start_check(&context.start_limits, executor, settings),
            permissions: Vec::new(),
            missing: None,
        };
        let claims = self.claim_with(request, &mut filter).await?;
        let PermitFilter {
            check,
            permissions,
            missing,
        } = filter;
        self.pacer = check.pacer;
        // A job that only has to keep its distance starts with the permit that the lane waited for.
        let is_paced = matches!(missing, Some(MissingPermit::Distance(_)));
        self.reserved = check.reserved.filter(|_| is_paced);
        Ok(PermittedBatch {
            claims,
            asked: 1,
            permissions,
            missing,
        })
    }

    fn start_check<'a>(
        &mut self,
        limits: &'a StartLimits,
        executor: &LaneExecutor,
        settings: &'a EngineSettings,
    ) -> StartCheck<'a> {
        StartCheck {
            limits,
            settings,
            upstream: executor.upstream.clone(),
            effective_limits: executor.effective_limits(),
            pacer: self.pacer,
            reserved: self.reserved.take(),
            now: self.context.clock.now(),
        }
    }

    /// Acquires permits of the API, and claims as many jobs from a shared store, which checks the other limits.
    async fn claim_ahead(
        &mut self,
        mut request: ClaimRequest,
        executor: &LaneExecutor,
        settings: &EngineSettings,
    ) -> Result<PermittedBatch, StoreError> {
        let context = Arc::clone(&self.context);
        let plan = self.plan.at_most(request.max);
        let mut check = self.start_check(&context.start_limits, executor, settings);
        let ahead = check.acquire_ahead(plan);
        let asked = ahead.jobs();
        if asked == 0 {
            return Ok(PermittedBatch {
                claims: ClaimBatch::default(),
                asked,
                permissions: Vec::new(),
                missing: ahead.missing,
            });
        }
        request.max = asked;
        request.cost = Some(plan.cost);
        let claims = self.claim_with(request, &mut AllowAll).await?;
        self.pacer = check.paced(plan.cost, claims.jobs.len());
        self.plan = plan.after(asked, &claims);
        Ok(PermittedBatch {
            permissions: ahead.permissions(&check, &claims.jobs),
            claims,
            asked,
            missing: None,
        })
    }

    /// Claims from the store. An error does not say if jobs were claimed, so the session claims no more.
    async fn claim_with(&self, request: ClaimRequest, filter: &mut impl ClaimFilter) -> Result<ClaimBatch, StoreError> {
        let (session, lease) = (request.session.clone(), request.lease);
        let until = self.context.clock.now().saturating_add(lease);
        let claims = self.context.store.claim(request, filter).await;
        if claims.is_ok() {
            self.context.sessions.renewed(&session, until);
        }
        claims.inspect_err(|error| {
            if error.is_doubtful() {
                // A stalled server executes the claim when it resumes, seconds later.
                let until = self.context.clock.now().saturating_add(lease);
                self.context.sessions.mark_uncertain(&session, until);
            } else {
                self.context.sessions.retire(&session);
            }
        })
    }

    /// Starts each job with its permission and its worker slot.
    fn start_jobs(
        &self,
        executor: &LaneExecutor,
        pending: &PendingClaim,
        batch: PermittedBatch,
        mut slots: WorkerSlots,
    ) {
        let slots = std::iter::from_fn(|| slots.split_one());
        let resources = batch.permissions.into_iter().zip(slots);
        for (job, (permission, slot)) in batch.claims.jobs.into_iter().zip(resources) {
            let claim = WorkerClaim {
                held: pending.hold(job.token),
                slot,
                lane: Arc::clone(&self.history),
            };
            let running = RunningJob::new(&self.context, claim, job);
            let executor = executor.executor.clone();
            // A shutdown refuses new tasks: the running job drops, and is returned.
            let _stopping = self.jobs.spawn(async move { running.run(&executor, permission).await });
        }
    }
}

/// Larger batches would block the store for too long.
const MAX_BATCH: usize = 1_000;

/// Seldom enough for a log, and often enough for a reader who joins later.
const REPORT_INTERVAL: Duration = Duration::from_mins(1);
