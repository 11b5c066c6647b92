//! Writes down how claims ended, many at a time.
//!
//! Whatever ended while the last batch was written is the next one: a quiet engine settles each job at
//! once, a busy one a thousand in a step. A store that cannot be reached is asked again until it can:
//! what the reports say happened, and forgetting it would do the work twice.

use std::sync::Arc;

use outflow::core::{Congestion, CongestionLevel, Nanos};
use outflow::{CancelToken, SpawnError, Tasks};
use outflow_store::{Defer, JobEnd, JobStore, Name, SettleResult, Settlement, StoreError};
use tokio::sync::Mutex;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::sleep;

use crate::engine::EngineContext;
use crate::events::BulkEvent;
use crate::scheduler::{LOOK_AGAIN, emit_store_error, trouble};
use crate::session::HeldJobs;
use crate::worker::pool::WorkerSlot;

/// How a claim ended.
pub(crate) struct JobReport {
    /// Beats until this was written down.
    pub(crate) session: HeldJobs,
    /// Given up when this was written down.
    pub(crate) _place: WorkerSlot,
    pub(crate) id: Name,
    pub(crate) tenant: Name,
    pub(crate) action: Option<Name>,
    pub(crate) settlement: Settlement,
}

/// Starts writing down.
pub(crate) fn start<S: JobStore>(
    hub: &Arc<EngineContext<S>>,
    office: &Tasks,
    inbox: UnboundedReceiver<JobReport>,
) -> Result<(), SpawnError> {
    let (hub, inbox) = (Arc::clone(hub), Arc::new(Mutex::new(inbox)));
    office.spawn("settler", move |stop| {
        write_down(Arc::clone(&hub), Arc::clone(&inbox), stop)
    })
}

async fn write_down<S: JobStore>(
    hub: Arc<EngineContext<S>>,
    inbox: Arc<Mutex<UnboundedReceiver<JobReport>>>,
    stop: CancelToken,
) {
    let mut inbox = inbox.lock().await;
    let mut batch = Vec::new();
    let (mut stuck, mut again_at) = (Vec::new(), Nanos::ZERO);
    loop {
        let rest = again_at.since(hub.clock.now());
        tokio::select! {
            biased;
            () = stop.cancelled(), if inbox.is_empty() => return,
            () = sleep(rest), if !stuck.is_empty() => batch.append(&mut stuck),
            count = inbox.recv_many(&mut batch, MOST) => if count == 0 { return },
        }
        for (session, reports) in by_session(&mut batch) {
            let mut left = settle(&hub, &session, reports).await;
            if !left.is_empty() {
                again_at = hub.clock.now().saturating_add(LOOK_AGAIN);
                stuck.append(&mut left);
            }
        }
    }
}

/// Reports of one session go together; there is almost always one.
fn by_session(batch: &mut Vec<JobReport>) -> Vec<(Name, Vec<JobReport>)> {
    let mut sessions: Vec<(Name, Vec<JobReport>)> = Vec::new();
    for report in batch.drain(..) {
        match sessions
            .iter_mut()
            .find(|(name, _)| name == report.session.name())
        {
            Some((_, reports)) => reports.push(report),
            None => sessions.push((report.session.name().clone(), vec![report])),
        }
    }
    sessions
}

/// Writes down how these ended. Where something stands in the way of one of them, the others are written down
/// without it; what is left is tried again later.
async fn settle<S: JobStore>(
    hub: &EngineContext<S>,
    session: &Name,
    reports: Vec<JobReport>,
) -> Vec<JobReport> {
    let ends: Vec<_> = reports.iter().map(|one| one.settlement.clone()).collect();
    match written_down(hub, session, ends).await {
        Ok(settled) => {
            emit_reports(hub, reports, settled);
            Vec::new()
        }
        Err(error) if reports.len() == 1 => {
            emit_store_error(hub, &error);
            reports.into_iter().map(|one| one.simpler(hub)).collect()
        }
        Err(_) => {
            let mut stuck = Vec::new();
            for one in reports {
                stuck.append(&mut Box::pin(settle(hub, session, vec![one])).await);
            }
            stuck
        }
    }
}

/// Asks a store until it does it, unless it is there and cannot.
async fn written_down<S: JobStore>(
    hub: &EngineContext<S>,
    session: &Name,
    ends: Vec<Settlement>,
) -> Result<Vec<SettleResult>, StoreError> {
    loop {
        match hub.store.settle(session, ends.clone()).await {
            Err(error) if error.is_stuck() => return Err(error),
            // The same settlement twice does nothing: its claim is gone after the first.
            Err(error) => trouble(hub, &error).await,
            settled => return settled,
        }
    }
}

impl JobReport {
    /// A wait that could not be reckoned is the shortest.
    fn simpler<S>(mut self, hub: &EngineContext<S>) -> Self {
        let base = Defer::Fixed(hub.settings.load().congestion.base());
        match &mut self.settlement.end {
            JobEnd::PutOff(by) | JobEnd::RetryPutOff { by, .. } => *by = base,
            _ => {}
        }
        self
    }
}

/// Tells what became of them.
fn emit_reports<S>(hub: &EngineContext<S>, reports: Vec<JobReport>, settled: Vec<SettleResult>) {
    let is_over = |how: &SettleResult| {
        matches!(
            how,
            SettleResult::Done | SettleResult::Buried | SettleResult::Cancelled
        )
    };
    if settled.iter().any(is_over) {
        hub.over.notify_one();
    }
    for one in reports.iter().zip(&settled) {
        if is_refusal(&one.0.settlement.end) && *one.1 != SettleResult::Fenced {
            hub.spins.happened();
        }
    }
    let settings = hub.settings.load_full();
    for (report, how) in reports.into_iter().zip(settled) {
        hub.numbers.settled(how);
        if let SettleResult::PutOff {
            backoff,
            non_ready,
            speed,
        } = how
        {
            let level = CongestionLevel::new(backoff, settings.congestion.base());
            let met = Congestion {
                backoff,
                non_ready,
                speed,
                level,
            };
            hub.waited(&settings, &report.tenant, &met);
        }
        hub.emit(BulkEvent::Settled {
            id: report.id,
            tenant: report.tenant,
            action: report.action,
            how,
        });
    }
}

const fn is_refusal(end: &JobEnd) -> bool {
    matches!(end, JobEnd::Throttled { .. } | JobEnd::PutOff(_))
}

/// As many as one step of a store should take.
const MOST: usize = 1_000;
