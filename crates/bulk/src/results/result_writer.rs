//! Stores the ends of claims in batches.
//!
//! Ends that arrive while a batch is written form the next batch: an idle engine settles each job at once, a busy one
//! a thousand in a step. An unreachable store is retried until it answers: a forgotten end would run its job twice.

use std::sync::Arc;

use outflow::core::{Congestion, CongestionLevel, Nanos};
use outflow::{CancelToken, SpawnError, Tasks};
use outflow_store::{Defer, FencingToken, JobEnd, JobStore, Name, SettleResult, Settlement, StoreError};
use tokio::sync::Mutex;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::sleep;

use crate::engine::EngineContext;
use crate::events::BulkEvent;
use crate::scheduler::POLL_INTERVAL;
use crate::session::HeldJobs;
use crate::settings::EngineSettings;
use crate::worker::lane_history::LaneHistory;
use crate::worker::pool::WorkerSlots;

/// End of a claim.
pub(crate) struct JobReport {
    /// Keeps the heartbeat until the end is stored.
    pub(crate) session: HeldJobs,
    /// Released when the end is stored, unless it was free before.
    pub(crate) _slot: Option<WorkerSlots>,
    pub(crate) id: Name,
    pub(crate) tenant: Name,
    pub(crate) action: Option<Name>,
    pub(crate) lane: Arc<LaneHistory>,
    pub(crate) token: FencingToken,
    pub(crate) end: JobEnd,
    /// Latest arrival of its call, for a job that holds units in a shared store.
    pub(crate) arrived: Option<Nanos>,
}

/// Starts the writer.
pub(crate) fn start<S: JobStore>(
    context: &Arc<EngineContext<S>>,
    tasks: &Tasks,
    inbox: UnboundedReceiver<JobReport>,
) -> Result<(), SpawnError> {
    let (context, inbox) = (Arc::clone(context), Arc::new(Mutex::new(inbox)));
    tasks.spawn("result_writer", move |cancel| {
        write_results(Arc::clone(&context), Arc::clone(&inbox), cancel)
    })
}

async fn write_results<S: JobStore>(
    context: Arc<EngineContext<S>>,
    inbox: Arc<Mutex<UnboundedReceiver<JobReport>>>,
    cancel: CancelToken,
) {
    let mut inbox = inbox.lock().await;
    let mut batch = Vec::new();
    let (mut failed, mut retry_at) = (Vec::new(), Nanos::ZERO);
    loop {
        let wait = retry_at.since(context.clock.now());
        tokio::select! {
            biased;
            () = cancel.cancelled(), if inbox.is_empty() => return,
            () = sleep(wait), if !failed.is_empty() => batch.append(&mut failed),
            count = inbox.recv_many(&mut batch, MAX_BATCH) => if count == 0 { return },
        }
        for (session, reports) in group_by_session(&mut batch) {
            let mut left = settle(&context, &session, reports).await;
            if !left.is_empty() {
                retry_at = context.clock.now().saturating_add(POLL_INTERVAL);
                failed.append(&mut left);
            }
        }
    }
}

/// Groups reports by session; there is almost always one.
fn group_by_session(batch: &mut Vec<JobReport>) -> Vec<(Name, Vec<JobReport>)> {
    let mut sessions: Vec<(Name, Vec<JobReport>)> = Vec::new();
    for report in batch.drain(..) {
        let name = report.session.name();
        match sessions.iter_mut().find(|(known, _)| known == name) {
            Some((_, reports)) => reports.push(report),
            None => sessions.push((name.clone(), vec![report])),
        }
    }
    sessions
}

/// Stores the ends of one session. If one end fails, the others are stored without it; returns the failed ones.
async fn settle<S: JobStore>(context: &EngineContext<S>, session: &Name, reports: Vec<JobReport>) -> Vec<JobReport> {
    let now = context.clock.now();
    let ends: Vec<_> = reports.iter().map(|one| one.settlement(now)).collect();
    match settle_until_answered(context, session, ends).await {
        Ok(settled) => {
            report_settled(context, reports, settled);
            Vec::new()
        }
        Err(error) if reports.len() == 1 => {
            context.report_store_error(&error);
            let settings = context.settings.load();
            let simplified = reports.into_iter().map(|one| one.with_fixed_wait(&settings));
            simplified.collect()
        }
        Err(_) => {
            let mut failed = Vec::new();
            for one in reports {
                failed.append(&mut Box::pin(settle(context, session, vec![one])).await);
            }
            failed
        }
    }
}

/// Retries until the store answers; returns the error of a store that answers and cannot settle.
async fn settle_until_answered<S: JobStore>(
    context: &EngineContext<S>,
    session: &Name,
    ends: Vec<Settlement>,
) -> Result<Vec<SettleResult>, StoreError> {
    loop {
        match context.store.settle(session, ends.clone()).await {
            Err(error) if error.is_stuck() => return Err(error),
            // A repeated settlement has no effect: its claim ended with the first.
            Err(error) => context.wait_after_store_error(&error).await,
            settled => return settled,
        }
    }
}

impl JobReport {
    /// Returns the settlement in a request that begins now: transfers only make the arrival younger.
    fn settlement(&self, now: Nanos) -> Settlement {
        Settlement {
            token: self.token,
            end: self.end.clone(),
            arrived: self.arrived.map(|at| now.since(at)),
        }
    }

    /// Replaces a wait by formula, which the store could not compute, by the shortest wait.
    fn with_fixed_wait(mut self, settings: &EngineSettings) -> Self {
        let base = Defer::Fixed(settings.congestion.base());
        match &mut self.end {
            JobEnd::Deferred(by) | JobEnd::RetryDeferred { by, .. } => *by = base,
            _ => {}
        }
        self
    }
}

/// Counts the settled claims and emits their events.
fn report_settled<S>(context: &EngineContext<S>, reports: Vec<JobReport>, settled: Vec<SettleResult>) {
    if settled.iter().any(is_ended) {
        context.results.job_ended.notify_one();
    }
    let settings = context.settings.load_full();
    for (report, how) in reports.into_iter().zip(settled) {
        if is_throttle(&report.end) && how != SettleResult::Fenced {
            context.metrics.spins.count_refusal();
        }
        if is_ended(&how) {
            context.metrics.spins.count_end();
            report.lane.count_end();
        }
        context.metrics.counters.settled(how);
        context.metrics.counters.attempted(&report.end);
        record_deferral(context, &settings, &report.tenant, how);
        context.events.emit(BulkEvent::Settled {
            id: report.id,
            tenant: report.tenant,
            action: report.action,
            how,
        });
    }
}

fn record_deferral<S>(context: &EngineContext<S>, settings: &EngineSettings, tenant: &Name, how: SettleResult) {
    let SettleResult::Deferred {
        backoff,
        non_ready,
        speed,
    } = how
    else {
        return;
    };
    let met = Congestion {
        backoff,
        non_ready,
        speed,
        level: CongestionLevel::new(backoff, settings.congestion.base()),
    };
    let now = context.clock.now();
    context.metrics.record_deferral(now, settings, tenant, &met);
}

const fn is_ended(how: &SettleResult) -> bool {
    matches!(
        how,
        SettleResult::Done | SettleResult::DeadLettered | SettleResult::Cancelled
    )
}

const fn is_throttle(end: &JobEnd) -> bool {
    matches!(end, JobEnd::Throttled { .. } | JobEnd::Deferred(_))
}

/// Larger batches would block the store for too long.
const MAX_BATCH: usize = 1_000;
