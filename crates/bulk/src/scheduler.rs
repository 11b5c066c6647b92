//! Starts jobs: a place in the crew, a permit of the door, then the job whose turn it is.
//!
//! One loop for each lane. It sleeps until something can have changed: a permit that it stands in line
//! for, an instant that the store named, a ring of the store. Nothing ticks and nothing spins. The order
//! of the three is what matters: a permit that waited for a place in the crew would be lost to others,
//! and a job that waited for a permit would be lost to its tenant.

pub(crate) mod claim_filter;
pub(crate) mod global_rate;
pub(crate) mod pacing;
pub(crate) mod permit_wait;
pub(crate) mod tenant_limits;

use std::sync::Arc;
use std::time::Duration;

use outflow::{CancelToken, Permit, Refusal, SpawnError, TaskGroup, Tasks};
use outflow_core::{Cost, Nanos};
use outflow_store::{AllowAll, ClaimBatch, ClaimFilter, ClaimRequest, JobStore, Name, StoreError};
use tokio::time::{sleep, timeout};

use crate::engine::EngineContext;
use crate::events::BulkEvent;
use crate::scheduler::claim_filter::{MissingPermit, PermitFilter, StartPermission};
use crate::scheduler::pacing::StartPacer;
use crate::scheduler::permit_wait::{PermitWait, WaitResult};
use crate::session::PendingClaim;
use crate::settings::{EngineSettings, SchedulerKind};
use crate::shared::scheduled_start::ScheduledStart;
use crate::shared::server_clock::ServerClock;
use crate::submit::lane::Lane;
use crate::worker::lane_executor::LaneExecutor;
use crate::worker::pool::WorkerSlot;
use crate::worker::{Executor, RunningJob};

/// Starts a loop for every lane that has work, now and later.
pub(crate) fn start<S: JobStore>(
    hub: &Arc<EngineContext<S>>,
    crew: &Tasks,
) -> Result<(), SpawnError> {
    let crowd = Arc::new(crew.task_group("jobs")?);
    let lanes = Arc::new(crew.task_group("lanes")?);
    let hub = Arc::clone(hub);
    crew.spawn("foreman", move |stop| {
        oversee(
            Arc::clone(&hub),
            Arc::clone(&lanes),
            Arc::clone(&crowd),
            stop,
        )
    })
}

/// Finds lanes that nobody schedules yet.
async fn oversee<S: JobStore>(
    hub: Arc<EngineContext<S>>,
    lanes: Arc<TaskGroup>,
    crowd: Arc<TaskGroup>,
    stop: CancelToken,
) {
    while !stop.is_cancelled() {
        let store = Arc::clone(&hub.store);
        let changed = store.changed();
        match hub.store.lanes().await {
            Ok(found) => {
                for lane in found {
                    let Some(served) = ServedLane::begin(&hub, &lane) else {
                        continue;
                    };
                    let (schedule, stop) = (LaneSchedule::new(&hub, lane, &crowd), stop.clone());
                    // After a shutdown has begun nothing is started, and nothing needs to be.
                    let _stopping = lanes.spawn(async move {
                        let _served = served;
                        schedule.run(stop).await;
                    });
                }
            }
            Err(error) => trouble(&hub, &error).await,
        }
        tokio::select! {
            _ = timeout(LOOK_AGAIN, changed) => {}
            () = stop.cancelled() => {}
        }
    }
}

/// A lane that somebody schedules. Should its loop ever panic, the next look begins it anew.
struct ServedLane<S> {
    hub: Arc<EngineContext<S>>,
    lane: Name,
}

impl<S> ServedLane<S> {
    /// Nothing if somebody does already.
    fn begin(hub: &Arc<EngineContext<S>>, lane: &Name) -> Option<Self> {
        hub.lanes().insert(lane.clone()).then(|| Self {
            hub: Arc::clone(hub),
            lane: lane.clone(),
        })
    }
}

impl<S> Drop for ServedLane<S> {
    fn drop(&mut self) {
        self.hub.lanes().remove(&self.lane);
    }
}

/// The schedule of one lane.
struct LaneSchedule<S> {
    hub: Arc<EngineContext<S>>,
    crowd: Arc<TaskGroup>,
    name: Name,
    lane: Lane,
    pace: StartPacer,
    server: ServerClock,
    /// A permit of the API's door that was waited for, and what it is worth.
    in_hand: Option<(Permit, Cost)>,
    /// When it was last told that nobody does these jobs.
    missed: Option<Nanos>,
}

/// How a claim went.
enum ClaimResult {
    /// There may be more at once.
    Again,
    /// Somebody could go with this.
    Wanted(MissingPermit),
    /// Nobody can before this, or before the store rings.
    Rest(Option<Duration>),
}

impl ClaimResult {
    fn after(claims: &ClaimBatch, wanted: Option<MissingPermit>) -> Self {
        match wanted {
            Some(wanted) => Self::Wanted(wanted),
            None if claims.jobs.is_empty() => Self::Rest(claims.next),
            None => Self::Again,
        }
    }
}

impl<S: JobStore> LaneSchedule<S> {
    fn new(hub: &Arc<EngineContext<S>>, name: Name, crowd: &Arc<TaskGroup>) -> Self {
        Self {
            hub: Arc::clone(hub),
            crowd: Arc::clone(crowd),
            lane: Lane::from_name(&name),
            pace: StartPacer::default(),
            server: ServerClock::default(),
            in_hand: None,
            missed: None,
            name,
        }
    }

    /// Starts jobs until it is told to stop. Waits are broken off for that, claims are not: what a
    /// claim has taken must be begun or given back.
    async fn run(mut self, stop: CancelToken) {
        let mut line = None;
        while !stop.is_cancelled() {
            let Some(staff) = self.staff() else {
                self.miss();
                until(&stop, sleep(LOOK_AGAIN)).await;
                continue;
            };
            self.missed = None;
            let Some(places) = until(&stop, self.hub.places.take(MOST_AT_ONCE)).await else {
                return;
            };
            // Made before the claim: what rings after it is not missed.
            let store = Arc::clone(&self.hub.store);
            let changed = store.changed();
            match self.claim(&staff, places).await {
                Ok(ClaimResult::Again) => {}
                Ok(ClaimResult::Wanted(MissingPermit::Distance(at))) => {
                    until(&stop, sleep(at.since(self.hub.clock.now()))).await;
                }
                Ok(ClaimResult::Wanted(MissingPermit::Permit { cost, refusal })) => {
                    let kept = line.take().filter(|line: &PermitWait| line.is_for(cost));
                    let joined = kept.or_else(|| staff.line_up(cost));
                    line = until(&stop, self.stand(joined, &refusal)).await.flatten();
                }
                Ok(ClaimResult::Rest(span)) => {
                    line = None;
                    // Limits may be others by then, and nobody rings for that.
                    let rest = timeout(span.unwrap_or(LOOK_AGAIN).min(LOOK_AGAIN), changed);
                    until(&stop, rest).await;
                }
                Err(error) => {
                    line = None;
                    until(&stop, trouble(&self.hub, &error)).await;
                }
            }
        }
    }

    /// Stands in line for a while: with a permit in hand after it, or still there, or sent away.
    async fn stand(&mut self, line: Option<PermitWait>, said: &Refusal) -> Option<PermitWait> {
        match line?.stand().await {
            WaitResult::Called(permit, cost) => self.in_hand = Some((permit, cost)),
            WaitResult::SentAway(refusal) => {
                let again = refusal.retry_after.or(said.retry_after);
                sleep(again.unwrap_or(LOOK_AGAIN).clamp(SHORTEST, LOOK_AGAIN)).await;
            }
            WaitResult::Still(line) => return Some(line),
        }
        None
    }

    /// Says now and then that these jobs wait for a configuration that knows them.
    fn miss(&mut self) {
        let now = self.hub.clock.now();
        if self.missed.is_some_and(|at| now.since(at) < SAID_AGAIN) {
            return;
        }
        self.missed = Some(now);
        let words = match &self.lane {
            Lane::Handler(name) => format!("no handler is called {name:?}: its jobs wait for one"),
            Lane::Api { api, .. } => format!(
                "no API is called {api:?} any more: its jobs wait until the configuration has it again"
            ),
        };
        self.hub.emit(BulkEvent::Trouble { words });
    }

    /// Who does these jobs; nobody while the configuration does not know the API or the handler.
    fn staff(&self) -> Option<LaneExecutor> {
        match &self.lane {
            Lane::Handler(name) => Some(LaneExecutor {
                doer: Executor::Handler(Arc::clone(self.hub.handlers.get(name)?)),
                door: None,
            }),
            Lane::Api { .. } => Some(LaneExecutor {
                doer: Executor::Client(self.hub.client.clone()),
                door: Some(self.lane.upstream(&self.hub.client)?),
            }),
        }
    }

    /// Claims as many as there are places and permits, and has them begun.
    async fn claim(
        &mut self,
        staff: &LaneExecutor,
        places: Vec<WorkerSlot>,
    ) -> Result<ClaimResult, StoreError> {
        let settings = self.hub.settings.load_full();
        let asking = self.hub.sessions.begin_claim();
        let mut ask = ClaimRequest {
            lane: self.name.clone(),
            session: asking.name().clone(),
            most: places.len(),
            lease: settings.lease,
            recoveries: settings.recoveries,
            plan: None,
        };
        let plan = staff.plan(&self.name, &settings);
        let (claims, leaves, wanted) = match (settings.scheduler, plan) {
            (SchedulerKind::Permit, Some(plan)) => {
                if let Some(shut) = staff.shut_for(plan.horizon) {
                    return Ok(ClaimResult::Rest(Some(shut)));
                }
                ask.plan = Some(plan.clone());
                let claims = self.take_as_planned(ask).await?;
                self.report_share(staff, &claims);
                let clock = (&self.server, self.hub.clock.now());
                let slots = ScheduledStart::new(&claims, plan, clock).map(StartPermission::At);
                let leaves = slots.collect();
                (claims, leaves, None)
            }
            (SchedulerKind::Permit, None) => self.take_by_upstreams(ask, staff, &settings).await?,
            (SchedulerKind::Fixed | SchedulerKind::Backoff, plan) => {
                // Waited for under the scheduler before a reload: jobs ask for their own now.
                self.in_hand = None;
                let claims = self.take(ask, &mut AllowAll).await?;
                let plan = plan.map(Arc::new);
                let later = claims
                    .jobs
                    .iter()
                    .map(|_| StartPermission::Later(plan.clone()));
                let leaves = later.collect();
                (claims, leaves, None)
            }
        };
        let next = ClaimResult::after(&claims, wanted);
        self.begin(staff, &asking, claims, (leaves, places));
        Ok(next)
    }

    /// Claims what the doors let go.
    async fn take_by_upstreams(
        &mut self,
        ask: ClaimRequest,
        staff: &LaneExecutor,
        settings: &EngineSettings,
    ) -> Result<(ClaimBatch, Vec<StartPermission>, Option<MissingPermit>), StoreError> {
        let hub = Arc::clone(&self.hub);
        let mut gate = PermitFilter {
            doors: &hub.doors,
            house: &hub.house,
            settings,
            door: staff.door.clone(),
            in_hand: self.in_hand.take(),
            leaves: Vec::new(),
            pace: self.pace,
            ceilings: staff.ceilings(),
            wanted: None,
            now: hub.clock.now(),
        };
        let claims = self.take(ask, &mut gate).await?;
        self.pace = gate.pace;
        // Whoever only has to keep its distance goes with the permit that it waited for.
        let is_near = matches!(gate.wanted, Some(MissingPermit::Distance(_)));
        self.in_hand = gate.in_hand.filter(|_| is_near);
        Ok((claims, gate.leaves, gate.wanted))
    }

    /// Claims what the store lets go, and learns of its clock.
    async fn take_as_planned(&mut self, ask: ClaimRequest) -> Result<ClaimBatch, StoreError> {
        let asked = self.hub.clock.now();
        let claims = self.take(ask, &mut AllowAll).await?;
        if let Some(decided) = claims.decided {
            self.server.update((asked, self.hub.clock.now()), decided);
        }
        Ok(claims)
    }

    /// Lets the door know how much it does not see.
    fn report_share(&self, staff: &LaneExecutor, claims: &ClaimBatch) {
        let (Some((door, _)), Some(given)) = (&staff.door, claims.given) else {
            return;
        };
        let ours = u64::try_from(claims.jobs.len()).unwrap_or(u64::MAX);
        door.set_fleet_share(self.hub.takings.record(self.hub.clock.now(), ours, given));
    }

    /// Claims. An error does not say whether anything was taken, so nothing more is claimed under the same
    /// session.
    async fn take(
        &self,
        ask: ClaimRequest,
        gate: &mut impl ClaimFilter,
    ) -> Result<ClaimBatch, StoreError> {
        let (session, lease) = (ask.session.clone(), ask.lease);
        let claims = self.hub.store.claim(ask, gate).await;
        claims.inspect_err(|error| {
            if error.is_doubtful() {
                // A server that stood still does what it was sent when it goes on, seconds later.
                let until = self.hub.clock.now().saturating_add(lease);
                self.hub.sessions.doubt(&session, until);
            } else {
                self.hub.sessions.give_up(&session);
            }
        })
    }

    /// Has jobs begun, each with its leave and its place.
    fn begin(
        &self,
        staff: &LaneExecutor,
        asking: &PendingClaim,
        claims: ClaimBatch,
        (leaves, places): (Vec<StartPermission>, Vec<WorkerSlot>),
    ) {
        let given = leaves.into_iter().zip(places);
        for (job, (leave, place)) in claims.jobs.into_iter().zip(given) {
            let hold = asking.hold(job.token);
            let duty = RunningJob::new(&self.hub, (hold, place), job);
            let doer = staff.doer.clone();
            // In a shutdown nothing is started: the duty is dropped, and its job given back.
            let _stopping = self
                .crowd
                .spawn(async move { duty.fulfil(&doer, leave).await });
        }
    }
}

/// Does something that waits, unless it is told to stop meanwhile.
pub(crate) async fn until<T>(stop: &CancelToken, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        done = work => Some(done),
        () = stop.cancelled() => None,
    }
}

/// Tells that the store could not do it.
pub(crate) fn emit_store_error<S>(hub: &EngineContext<S>, error: &StoreError) {
    hub.numbers.store_failed();
    hub.note_loss(error);
    hub.emit(BulkEvent::Trouble {
        words: error.to_string(),
    });
}

/// The same, and lets it breathe.
pub(crate) async fn trouble<S>(hub: &EngineContext<S>, error: &StoreError) {
    emit_store_error(hub, error);
    let pause = if error.is_passing() {
        SHORTEST * 10
    } else {
        LOOK_AGAIN
    };
    sleep(pause).await;
}

/// No claim takes longer than this to answer, and no step of a store is larger.
const MOST_AT_ONCE: usize = 1_000;

/// How long a missed ring, a changed configuration or a lost message stays unnoticed at most.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Whoever missed it the first time reads it then.
const SAID_AGAIN: Duration = Duration::from_mins(1);

/// Between two questions whose answer is no.
pub(crate) const SHORTEST: Duration = Duration::from_millis(10);
