//! What has to be done in a steady rhythm: the beat, the reaping, the looks and the sweeping.

pub(crate) mod tenant_rules;
pub(crate) mod tenant_sampler;

use std::sync::Arc;
use std::time::Duration;

use outflow::{CancelToken, SpawnError, Tasks};
use outflow_core::WallTime;
use outflow_store::{HeartbeatResult, JobStore, StoreError};
use tokio::time::sleep;

use crate::engine::EngineContext;
use crate::events::BulkEvent;
use crate::maintenance::tenant_sampler::sample;
use crate::scheduler::{trouble, until};
use crate::session::UncertainSession;
use crate::worker::pool::Autoscaler;

/// Starts all of it.
pub(crate) fn start<S: JobStore>(
    hub: &Arc<EngineContext<S>>,
    office: &Tasks,
) -> Result<(), SpawnError> {
    let with = |hub: &Arc<EngineContext<S>>| Arc::clone(hub);
    let own = with(hub);
    office.spawn("beat", move |stop| lasting(stop, beat(with(&own))))?;
    let own = with(hub);
    office.spawn("reaper", move |stop| lasting(stop, reap(with(&own))))?;
    let own = with(hub);
    office.spawn("scale", move |stop| lasting(stop, scale(with(&own))))?;
    let own = with(hub);
    office.spawn("snapshots", move |stop| {
        lasting(stop, snapshots(with(&own)))
    })?;
    let own = with(hub);
    office.spawn("look", move |stop| {
        lasting(stop, run_tenant_sampler(with(&own)))
    })?;
    let own = with(hub);
    office.spawn("sweeper", move |stop| lasting(stop, sweep(with(&own))))
}

/// Something that is done until the end.
async fn lasting(stop: CancelToken, work: impl Future<Output = ()>) {
    until(&stop, work).await;
}

/// Says in time that this process lives.
async fn beat<S: JobStore>(hub: Arc<EngineContext<S>>) {
    loop {
        let settings = hub.settings.load_full();
        sleep(settings.beat).await;
        for session in hub.sessions.beating() {
            match hub.store.heartbeat(&session, settings.lease).await {
                Ok(HeartbeatResult::Alive) => {}
                Ok(HeartbeatResult::Lost) => {
                    hub.sessions.lose(&session);
                    hub.emit(BulkEvent::LeaseLost);
                }
                Err(error) => trouble(&hub, &error).await,
            }
        }
    }
}

/// Takes back what the dead held.
async fn reap<S: JobStore>(hub: Arc<EngineContext<S>>) {
    loop {
        if let Some(words) = hub.store.take_warning() {
            hub.emit(BulkEvent::Trouble { words });
        }
        if let Err(error) = hub.keep_lost_rules().await {
            trouble(&hub, &error).await;
        }
        if let Err(error) = disown(&hub).await {
            trouble(&hub, &error).await;
        }
        let recoveries = hub.settings.load().recoveries;
        let next = match hub.store.reap(MOST_REAPED, recoveries).await {
            Ok(reaped) => {
                hub.numbers.reaped(reaped.returned + reaped.buried);
                if reaped.expired > 0 {
                    hub.over.notify_one();
                }
                if reaped.returned + reaped.buried > 0 {
                    hub.over.notify_one();
                    hub.emit(BulkEvent::Reaped {
                        returned: reaped.returned,
                        buried: reaped.buried,
                    });
                }
                reaped.next
            }
            Err(error) => {
                trouble(&hub, &error).await;
                None
            }
        };
        sleep(next.unwrap_or(SECOND).clamp(SOON, SECOND)).await;
    }
}

/// Gives back what claims took whose answer was lost, before a reaper can take it for begun.
async fn disown<S: JobStore>(hub: &EngineContext<S>) -> Result<(), StoreError> {
    for UncertainSession { session, known } in hub.sessions.doubts() {
        let asked = hub.clock.now();
        hub.store.release_unknown(&session, &known).await?;
        hub.sessions.disowned(&session, asked);
    }
    Ok(())
}

/// Has as many places as the work wants.
async fn scale<S: JobStore>(hub: Arc<EngineContext<S>>) {
    let mut scale = Autoscaler::default();
    loop {
        sleep(SECOND).await;
        let Ok(tally) = hub.store.job_counts().await else {
            continue;
        };
        let crew = hub.settings.load().crew;
        let places = hub.places.all();
        let wanted = scale.adjust(crew, tally.queued, places);
        if wanted != places {
            hub.places.resize(wanted);
        }
    }
}

async fn snapshots<S: JobStore>(hub: Arc<EngineContext<S>>) {
    loop {
        let settings = hub.settings.load_full();
        sleep(settings.snapshot_every.max(SOON)).await;
        if let Err(error) = hub
            .store
            .sample_congestion(settings.retention.statistics)
            .await
        {
            trouble(&hub, &error).await;
        }
    }
}

/// Sees how all tenants stand.
async fn run_tenant_sampler<S: JobStore>(hub: Arc<EngineContext<S>>) {
    loop {
        if let Err(error) = sample(&hub).await {
            trouble(&hub, &error).await;
        }
        sleep(LOOK).await;
    }
}

/// Forgets what is too old, and looks whether the store's books are right.
async fn sweep<S: JobStore>(hub: Arc<EngineContext<S>>) {
    let mut uncounted = RECOUNT;
    loop {
        let every = hub.settings.load().retention.sweep_every();
        sleep(every).await;
        uncounted = uncounted.saturating_add(every);
        hub.doors.tidy();
        let keep = hub.settings.load().retention.dead;
        let now = hub.clock.wall().as_duration();
        let before = WallTime::since_epoch(now.saturating_sub(keep));
        while let Ok(gone) = hub.store.collect_garbage(before).await
            && gone > 0
        {
            sleep(SOON).await;
        }
        if uncounted >= RECOUNT
            && let Ok(jobs) = hub.store.audit().await
        {
            uncounted = Duration::ZERO;
            hub.numbers.drifted(jobs);
            if jobs > 0 {
                hub.emit(BulkEvent::Drift { jobs });
            }
        }
    }
}

/// The longest that a lease that ran out is not noticed.
const SECOND: Duration = Duration::from_secs(1);

/// Pages are asked for every fifteen seconds as a rule, and alerts look at minutes.
const LOOK: Duration = Duration::from_secs(5);

/// Between two pieces of the same work.
const SOON: Duration = Duration::from_millis(10);

/// As many as one step of a store should take.
const MOST_REAPED: usize = 1_000;

/// Counting a million jobs anew takes a while.
const RECOUNT: Duration = Duration::from_mins(10);
