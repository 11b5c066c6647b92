//! A store of either kind: embedded in a directory, or Redis.
//!
//! An engine is generic over its store and the configuration chooses the kind at run time, so the program
//! uses this one. It can also withhold jobs after a start, until earlier requests no longer count.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use outflow_core::{Clock, WallTime};

use crate::{
    ActionReport, ActionSpec, ActionStore, ClaimBatch, ClaimFilter, ClaimRequest, CongestionRecord, CongestionSample,
    ControlScope, DeadLetter, DeadLetterFilter, DeadLetterStore, EmbeddedStore, FencingToken, FinishedQuery,
    HeartbeatResult, JobCounts, JobOutcome, JobQueue, LaneLoad, Name, PageRequest, ReapResult, RedisStore,
    RemainingWork, SettleResult, Settlement, StoreControl, StoreLimits, StoreResult, SubmitBatch, SubmitResult,
    TenantReport, TenantRule, TenantStore,
};

/// A store of either kind.
pub struct AnyStore {
    store: StoreVariant,
    clock: Arc<dyn Clock + Send + Sync>,
    /// Returns the instant before which a lane gives out no job.
    opens_at: OnceLock<LaneOpening>,
}

type LaneOpening = Box<dyn Fn(&Name) -> Option<WallTime> + Send + Sync>;

enum StoreVariant {
    Embedded(EmbeddedStore),
    Redis(Box<RedisStore>),
}

/// Implements steps that the chosen store performs.
macro_rules! forward {
    ($($step:ident($($name:ident: $type:ty),*) -> $done:ty;)*) => {$(
        async fn $step(&self, $($name: $type),*) -> StoreResult<$done> {
            match &self.store {
                StoreVariant::Embedded(store) => store.$step($($name),*).await,
                StoreVariant::Redis(store) => store.$step($($name),*).await,
            }
        }
    )*};
}

impl JobQueue for AnyStore {
    async fn claim(&self, request: ClaimRequest, filter: &mut dyn ClaimFilter) -> StoreResult<ClaimBatch> {
        if let Some(left) = self.closed_for(&request.lane) {
            return Ok(ClaimBatch {
                next: Some(left),
                ..ClaimBatch::default()
            });
        }
        match &self.store {
            StoreVariant::Embedded(store) => store.claim(request, filter).await,
            StoreVariant::Redis(store) => store.claim(request, filter).await,
        }
    }

    // Created at once, not at the first poll: a change in between must not be missed.
    fn changed(&self) -> impl Future<Output = ()> + Send {
        let changed: Pin<Box<dyn Future<Output = ()> + Send + '_>> = match &self.store {
            StoreVariant::Embedded(store) => Box::pin(store.changed()),
            StoreVariant::Redis(store) => Box::pin(store.changed()),
        };
        changed
    }

    forward! {
        submit(batch: SubmitBatch) -> SubmitResult;
        settle(session: &Name, ends: Vec<Settlement>) -> Vec<SettleResult>;
        count_start(session: &Name, token: FencingToken, limits: StoreLimits) -> Option<Duration>;
        heartbeat(session: &Name, lease: Duration) -> HeartbeatResult;
        reap(max: usize, recoveries: u32) -> ReapResult;
        release_unknown(session: &Name, known: &[FencingToken]) -> u64;
        lanes() -> Vec<Name>;
        lane_loads() -> Vec<LaneLoad>;
    }
}

impl TenantStore for AnyStore {
    forward! {
        set_default_rule(rule: TenantRule) -> ();
        set_rule(tenant: &Name, rule: TenantRule) -> ();
        remove_rule(tenant: &Name) -> ();
        release_deferred(tenant: &Name, max: u64) -> u64;
        active_tenants() -> u64;
        tenant(name: &Name) -> Option<TenantReport>;
        tenants(page: PageRequest) -> Vec<TenantReport>;
        begin_sampling(every: Duration) -> bool;
        record_congestion(samples: Vec<CongestionRecord>, keep: Duration) -> ();
        congestion_history(tenant: &Name, max: usize) -> Vec<CongestionSample>;
        reset_congestion(tenant: &Name) -> ();
    }
}

impl ActionStore for AnyStore {
    forward! {
        open(spec: ActionSpec) -> ();
        close(action: &Name) -> ();
        action(id: &Name) -> Option<ActionReport>;
        remaining(action: &Name) -> RemainingWork;
        actions(page: PageRequest) -> Vec<ActionReport>;
        take_finished(ask: FinishedQuery<'_>) -> Vec<ActionReport>;
        mark_notified(action: &Name) -> ();
        outcomes(action: &Name, after: u64, max: usize) -> Vec<JobOutcome>;
    }
}

impl DeadLetterStore for AnyStore {
    forward! {
        dead_letters(after: u64, max: usize) -> Vec<DeadLetter>;
        requeue(pick: &DeadLetterFilter) -> u64;
        purge(pick: &DeadLetterFilter) -> u64;
    }
}

impl StoreControl for AnyStore {
    fn take_warning(&self) -> Option<String> {
        match &self.store {
            StoreVariant::Embedded(store) => store.take_warning(),
            StoreVariant::Redis(store) => store.take_warning(),
        }
    }

    forward! {
        pause(scope: &ControlScope) -> ();
        resume(scope: &ControlScope) -> ();
        cancel(scope: &ControlScope) -> u64;
        job_counts() -> JobCounts;
        collect_garbage(dead_before: WallTime) -> u64;
        audit() -> u64;
    }
}

impl AnyStore {
    /// Wraps a store in a directory.
    pub fn embedded(store: EmbeddedStore, clock: Arc<dyn Clock + Send + Sync>) -> Self {
        Self::new(StoreVariant::Embedded(store), clock)
    }

    /// Wraps a store on a Redis server.
    pub fn redis(store: RedisStore, clock: Arc<dyn Clock + Send + Sync>) -> Self {
        Self::new(StoreVariant::Redis(Box::new(store)), clock)
    }

    fn new(store: StoreVariant, clock: Arc<dyn Clock + Send + Sync>) -> Self {
        Self {
            store,
            clock,
            opens_at: OnceLock::new(),
        }
    }

    /// Gives out no job of a lane before this instant. All other operations continue; a second call
    /// changes nothing.
    pub fn hold_lanes(&self, opens_at: impl Fn(&Name) -> Option<WallTime> + Send + Sync + 'static) {
        let _set_before = self.opens_at.set(Box::new(opens_at));
    }

    fn closed_for(&self, lane: &Name) -> Option<Duration> {
        let opens_at = self.opens_at.get()?(lane)?;
        let span = opens_at.since(self.clock.wall());
        (!span.is_zero()).then_some(span)
    }

    /// Returns the kind, as the configuration spells it.
    pub const fn kind(&self) -> &'static str {
        match self.store {
            StoreVariant::Embedded(_) => "embedded",
            StoreVariant::Redis(_) => "redis",
        }
    }

    /// Accepts nothing more; the writer finishes what was accepted.
    pub fn end(&self) {
        match &self.store {
            StoreVariant::Embedded(store) => store.end(),
            // Redis responds after it has written.
            StoreVariant::Redis(_) => {}
        }
    }
}
