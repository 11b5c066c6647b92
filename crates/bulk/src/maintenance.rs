//! Periodic tasks: heartbeats, recovery, scaling, samples and garbage collection.

pub(crate) mod tenant_rules;
pub(crate) mod tenant_sampler;

use std::sync::Arc;
use std::time::Duration;

use outflow::{SpawnError, Tasks};
use outflow_core::WallTime;
use outflow_store::{HeartbeatResult, JobStore, ReapResult, StoreError};
use tokio::time::sleep;

use crate::engine::EngineContext;
use crate::events::BulkEvent;
use crate::scheduler::unless_cancelled;
use crate::session::UncertainSession;
use crate::worker::pool::Autoscaler;

/// Starts all periodic tasks.
pub(crate) fn start<S: JobStore>(context: &Arc<EngineContext<S>>, tasks: &Tasks) -> Result<(), SpawnError> {
    spawn(context, tasks, "heartbeat", send_heartbeats)?;
    spawn(context, tasks, "reaper", reap)?;
    spawn(context, tasks, "autoscaler", scale)?;
    spawn(context, tasks, "congestion_sampler", sample_congestion)?;
    spawn(context, tasks, "tenant_sampler", sample_tenants)?;
    spawn(context, tasks, "garbage_collector", collect_garbage)
}

/// Starts a task that runs until the shutdown.
fn spawn<S, W>(
    context: &Arc<EngineContext<S>>,
    tasks: &Tasks,
    name: &'static str,
    work: fn(Arc<EngineContext<S>>) -> W,
) -> Result<(), SpawnError>
where
    S: JobStore,
    W: Future<Output = ()> + Send + 'static,
{
    let context = Arc::clone(context);
    tasks.spawn(name, move |cancel| {
        let work = work(Arc::clone(&context));
        async move {
            unless_cancelled(&cancel, work).await;
        }
    })
}

async fn send_heartbeats<S: JobStore>(context: Arc<EngineContext<S>>) {
    loop {
        let settings = context.settings.load_full();
        sleep(settings.heartbeat).await;
        for session in context.sessions.alive() {
            let until = context.clock.now().saturating_add(settings.lease);
            match context.store.heartbeat(&session, settings.lease).await {
                Ok(HeartbeatResult::Alive) => context.sessions.renewed(&session, until),
                Ok(HeartbeatResult::Lost) => {
                    context.sessions.mark_lost(&session);
                    context.events.emit(BulkEvent::LeaseLost);
                }
                Err(error) => context.wait_after_store_error(&error).await,
            }
        }
    }
}

/// Recovers jobs of dead workers.
async fn reap<S: JobStore>(context: Arc<EngineContext<S>>) {
    loop {
        if let Some(message) = context.store.take_warning() {
            context.events.emit(BulkEvent::Error { message });
        }
        if let Err(error) = context.restore_lost_rules().await {
            context.wait_after_store_error(&error).await;
        }
        if let Err(error) = release_unknown(&context).await {
            context.wait_after_store_error(&error).await;
        }
        let recoveries = context.settings.load().recoveries;
        let next = match context.store.reap(MAX_REAPED, recoveries).await {
            Ok(reaped) => {
                report_reaped(&context, &reaped);
                reaped.next
            }
            Err(error) => {
                context.wait_after_store_error(&error).await;
                None
            }
        };
        sleep(next.unwrap_or(SECOND).clamp(SOON, SECOND)).await;
    }
}

fn report_reaped<S>(context: &EngineContext<S>, reaped: &ReapResult) {
    let (returned, dead_lettered) = (reaped.returned, reaped.dead_lettered);
    context.metrics.counters.reaped(returned + dead_lettered);
    if reaped.expired + returned + dead_lettered > 0 {
        context.results.job_ended.notify_one();
    }
    if returned + dead_lettered > 0 {
        context.events.emit(BulkEvent::Reaped {
            returned,
            dead_lettered,
        });
    }
}

/// Returns jobs of claims whose response was lost, before the reaper counts them as started.
async fn release_unknown<S: JobStore>(context: &EngineContext<S>) -> Result<(), StoreError> {
    for UncertainSession { session, known } in context.sessions.uncertain() {
        let sent = context.clock.now();
        context.store.release_unknown(&session, &known).await?;
        context.sessions.mark_released(&session, sent);
    }
    Ok(())
}

/// Adjusts the worker pool to the queue depth.
async fn scale<S: JobStore>(context: Arc<EngineContext<S>>) {
    let mut scaler = Autoscaler::default();
    loop {
        sleep(SECOND).await;
        let Ok(counts) = context.store.job_counts().await else {
            continue;
        };
        let bounds = context.worker_bounds();
        let current = context.pool.size();
        let size = scaler.adjust(bounds, counts.queued, current);
        if size != current {
            context.pool.resize(size);
        }
    }
}

/// Stores samples of the tenants' congestion.
async fn sample_congestion<S: JobStore>(context: Arc<EngineContext<S>>) {
    loop {
        let every = context.settings.load().snapshot_every.max(SOON);
        sleep(every).await;
        let begun = context.clock.now();
        if let Err(error) = tenant_sampler::record_history(&context).await {
            context.wait_after_store_error(&error).await;
        }
        // So many tenants that a sample takes long get fewer of them.
        sleep((context.clock.now().since(begun) * MAX_SAMPLING).saturating_sub(every)).await;
    }
}

/// Samples all tenants for metrics and alerts.
async fn sample_tenants<S: JobStore>(context: Arc<EngineContext<S>>) {
    loop {
        if let Err(error) = tenant_sampler::sample(&context).await {
            context.wait_after_store_error(&error).await;
        }
        sleep(SAMPLE_INTERVAL).await;
    }
}

/// Deletes expired data, and audits the store's counts.
async fn collect_garbage<S: JobStore>(context: Arc<EngineContext<S>>) {
    let mut unaudited = AUDIT_INTERVAL;
    loop {
        let every = context.settings.load().retention.sweep_every();
        sleep(every).await;
        unaudited = unaudited.saturating_add(every);
        context.start_limits.tenants.prune();
        let keep = context.settings.load().retention.dead;
        let now = context.clock.wall().as_duration();
        let before = WallTime::since_epoch(now.saturating_sub(keep));
        while let Ok(deleted) = context.store.collect_garbage(before).await
            && deleted > 0
        {
            sleep(SOON).await;
        }
        if unaudited >= AUDIT_INTERVAL
            && let Ok(jobs) = context.store.audit().await
        {
            unaudited = Duration::ZERO;
            context.metrics.counters.set_drift(jobs);
            if jobs > 0 {
                context.events.emit(BulkEvent::Drift { jobs });
            }
        }
    }
}

/// An expired lease stays unnoticed for this long at most.
const SECOND: Duration = Duration::from_secs(1);

/// A sample takes a tenth of the time at most.
const MAX_SAMPLING: u32 = 9;

/// Scrapes come every fifteen seconds as a rule, and alerts are about minutes.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(5);

/// Wait between two parts of the same work.
const SOON: Duration = Duration::from_millis(10);

/// Larger steps would block the store for too long.
const MAX_REAPED: usize = 1_000;

/// An audit of a million jobs takes a while.
const AUDIT_INTERVAL: Duration = Duration::from_mins(10);
