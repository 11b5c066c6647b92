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
    ActionReport, ActionSpec, ActionStore, ClaimBatch, ClaimFilter, ClaimRequest, CongestionSample, ControlScope,
    DeadLetter, DeadLetterFilter, DeadLetterStore, EmbeddedStore, FencingToken, FinishedQuery, HeartbeatResult,
    JobCounts, JobOutcome, JobQueue, Name, PageRequest, ReapResult, RedisStore, RemainingWork, SettleResult,
    Settlement, StartDebit, StoreControl, StoreResult, SubmitBatch, SubmitResult, TenantReport, TenantRule,
    TenantStore,
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

macro_rules! either {
    ($store:expr, $step:ident($($what:expr),*)) => {
        match &$store.store {
            StoreVariant::Embedded(store) => store.$step($($what),*).await,
            StoreVariant::Redis(store) => store.$step($($what),*).await,
        }
    };
}

impl JobQueue for AnyStore {
    async fn submit(&self, batch: SubmitBatch) -> StoreResult<SubmitResult> {
        either!(self, submit(batch))
    }

    async fn claim(&self, ask: ClaimRequest, gate: &mut dyn ClaimFilter) -> StoreResult<ClaimBatch> {
        match self.closed_for(&ask.lane) {
            Some(left) => Ok(ClaimBatch {
                jobs: Vec::new(),
                next: Some(left),
                ..ClaimBatch::default()
            }),
            None => either!(self, claim(ask, gate)),
        }
    }

    async fn settle(&self, session: &Name, ends: Vec<Settlement>) -> StoreResult<Vec<SettleResult>> {
        either!(self, settle(session, ends))
    }

    async fn debit(&self, start: &StartDebit) -> StoreResult<Option<Duration>> {
        either!(self, debit(start))
    }

    async fn refund(&self, start: &StartDebit, at: Duration) -> StoreResult<()> {
        either!(self, refund(start, at))
    }

    async fn heartbeat(&self, session: &Name, lease: Duration) -> StoreResult<HeartbeatResult> {
        either!(self, heartbeat(session, lease))
    }

    async fn reap(&self, max: usize, recoveries: u32) -> StoreResult<ReapResult> {
        either!(self, reap(max, recoveries))
    }

    async fn release_unknown(&self, session: &Name, known: &[FencingToken]) -> StoreResult<u64> {
        either!(self, release_unknown(session, known))
    }

    // Created at once, not at the first poll: a change in between must not be missed.
    fn changed(&self) -> impl Future<Output = ()> + Send {
        let changed: Pin<Box<dyn Future<Output = ()> + Send + '_>> = match &self.store {
            StoreVariant::Embedded(store) => Box::pin(store.changed()),
            StoreVariant::Redis(store) => Box::pin(store.changed()),
        };
        changed
    }

    async fn lanes(&self) -> StoreResult<Vec<Name>> {
        either!(self, lanes())
    }
}

impl TenantStore for AnyStore {
    async fn set_default_rule(&self, rule: TenantRule) -> StoreResult<()> {
        either!(self, set_default_rule(rule))
    }

    async fn set_rule(&self, tenant: &Name, rule: TenantRule) -> StoreResult<()> {
        either!(self, set_rule(tenant, rule))
    }

    async fn remove_rule(&self, tenant: &Name) -> StoreResult<()> {
        either!(self, remove_rule(tenant))
    }

    async fn release_deferred(&self, tenant: &Name, max: u64) -> StoreResult<u64> {
        either!(self, release_deferred(tenant, max))
    }

    async fn active_tenants(&self) -> StoreResult<u64> {
        either!(self, active_tenants())
    }

    async fn tenant(&self, name: &Name) -> StoreResult<Option<TenantReport>> {
        either!(self, tenant(name))
    }

    async fn tenants(&self, page: PageRequest) -> StoreResult<Vec<TenantReport>> {
        either!(self, tenants(page))
    }

    async fn sample_congestion(&self, keep: Duration) -> StoreResult<()> {
        either!(self, sample_congestion(keep))
    }

    async fn congestion_history(&self, tenant: &Name, max: usize) -> StoreResult<Vec<CongestionSample>> {
        either!(self, congestion_history(tenant, max))
    }

    async fn reset_congestion(&self, tenant: &Name) -> StoreResult<()> {
        either!(self, reset_congestion(tenant))
    }
}

impl ActionStore for AnyStore {
    async fn open(&self, spec: ActionSpec) -> StoreResult<()> {
        either!(self, open(spec))
    }

    async fn close(&self, action: &Name) -> StoreResult<()> {
        either!(self, close(action))
    }

    async fn action(&self, id: &Name) -> StoreResult<Option<ActionReport>> {
        either!(self, action(id))
    }

    async fn remaining(&self, action: &Name) -> StoreResult<RemainingWork> {
        either!(self, remaining(action))
    }

    async fn actions(&self, page: PageRequest) -> StoreResult<Vec<ActionReport>> {
        either!(self, actions(page))
    }

    async fn take_finished(&self, ask: FinishedQuery<'_>) -> StoreResult<Vec<ActionReport>> {
        either!(self, take_finished(ask))
    }

    async fn mark_notified(&self, action: &Name) -> StoreResult<()> {
        either!(self, mark_notified(action))
    }

    async fn outcomes(&self, action: &Name, after: u64, max: usize) -> StoreResult<Vec<JobOutcome>> {
        either!(self, outcomes(action, after, max))
    }
}

impl DeadLetterStore for AnyStore {
    async fn dead_letters(&self, after: u64, max: usize) -> StoreResult<Vec<DeadLetter>> {
        either!(self, dead_letters(after, max))
    }

    async fn requeue(&self, pick: &DeadLetterFilter) -> StoreResult<u64> {
        either!(self, requeue(pick))
    }

    async fn purge(&self, pick: &DeadLetterFilter) -> StoreResult<u64> {
        either!(self, purge(pick))
    }
}

impl StoreControl for AnyStore {
    async fn pause(&self, scope: &ControlScope) -> StoreResult<()> {
        either!(self, pause(scope))
    }

    async fn resume(&self, scope: &ControlScope) -> StoreResult<()> {
        either!(self, resume(scope))
    }

    async fn cancel(&self, scope: &ControlScope) -> StoreResult<u64> {
        either!(self, cancel(scope))
    }

    async fn job_counts(&self) -> StoreResult<JobCounts> {
        either!(self, job_counts())
    }

    async fn collect_garbage(&self, dead_before: WallTime) -> StoreResult<u64> {
        either!(self, collect_garbage(dead_before))
    }

    async fn audit(&self) -> StoreResult<u64> {
        either!(self, audit())
    }

    fn take_warning(&self) -> Option<String> {
        match &self.store {
            StoreVariant::Embedded(store) => store.take_warning(),
            StoreVariant::Redis(store) => store.take_warning(),
        }
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
