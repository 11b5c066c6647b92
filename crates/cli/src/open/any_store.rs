//! Where the program keeps its jobs: in a directory of its own, or in a server that others share.
//!
//! An engine is made for one kind of store, and which one it is stands in the configuration: this one is
//! either, so that whatever talks with the engine is written once. It may also hold jobs back for a while
//! after a start, until what was sent before it does not count any more.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;
use std::time::Duration;

use outflow::SystemClock;
use outflow_bulk::Lane;
use outflow_core::{Clock, WallTime};
use outflow_store::{
    ActionReport, ActionSpec, ActionStore, ClaimBatch, ClaimFilter, ClaimRequest, CongestionSample,
    ControlScope, DeadLetter, DeadLetterFilter, DeadLetterStore, EmbeddedStore, FencingToken,
    FinishedQuery, HeartbeatResult, JobCounts, JobOutcome, JobQueue, Name, PageRequest, ReapResult,
    RedisStore, RemainingWork, SettleResult, Settlement, StartDebit, StoreControl, StoreResult,
    SubmitBatch, SubmitResult, TenantReport, TenantRule, TenantStore,
};

/// A store of either kind.
pub(crate) struct AnyStore {
    kept: StoreVariant,
    clock: SystemClock,
    /// Until when nothing of an API is given out.
    rests: OnceLock<BTreeMap<String, WallTime>>,
}

/// Where it is.
enum StoreVariant {
    /// In a directory.
    Here(EmbeddedStore),
    /// In a server.
    Shared(Box<RedisStore>),
}

/// Asks whichever it is.
macro_rules! either {
    ($store:expr, $step:ident($($what:expr),*)) => {
        match &$store.kept {
            StoreVariant::Here(store) => store.$step($($what),*).await,
            StoreVariant::Shared(store) => store.$step($($what),*).await,
        }
    };
}

impl JobQueue for AnyStore {
    async fn submit(&self, batch: SubmitBatch) -> StoreResult<SubmitResult> {
        either!(self, submit(batch))
    }

    async fn claim(
        &self,
        ask: ClaimRequest,
        gate: &mut dyn ClaimFilter,
    ) -> StoreResult<ClaimBatch> {
        match self.resting(&ask.lane) {
            Some(left) => Ok(ClaimBatch {
                jobs: Vec::new(),
                next: Some(left),
                ..ClaimBatch::default()
            }),
            None => either!(self, claim(ask, gate)),
        }
    }

    async fn settle(
        &self,
        session: &Name,
        ends: Vec<Settlement>,
    ) -> StoreResult<Vec<SettleResult>> {
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

    async fn reap(&self, most: usize, recoveries: u32) -> StoreResult<ReapResult> {
        either!(self, reap(most, recoveries))
    }

    async fn release_unknown(&self, session: &Name, known: &[FencingToken]) -> StoreResult<u64> {
        either!(self, release_unknown(session, known))
    }

    /// Made at once and not when it is first looked at: what rings in between must not be missed.
    fn changed(&self) -> impl Future<Output = ()> + Send {
        let changed: Pin<Box<dyn Future<Output = ()> + Send + '_>> = match &self.kept {
            StoreVariant::Here(store) => Box::pin(store.changed()),
            StoreVariant::Shared(store) => Box::pin(store.changed()),
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

    async fn release_deferred(&self, tenant: &Name, most: u64) -> StoreResult<u64> {
        either!(self, release_deferred(tenant, most))
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

    async fn congestion_history(
        &self,
        tenant: &Name,
        most: usize,
    ) -> StoreResult<Vec<CongestionSample>> {
        either!(self, congestion_history(tenant, most))
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

    async fn outcomes(
        &self,
        action: &Name,
        after: u64,
        most: usize,
    ) -> StoreResult<Vec<JobOutcome>> {
        either!(self, outcomes(action, after, most))
    }
}

impl DeadLetterStore for AnyStore {
    async fn dead_letters(&self, after: u64, most: usize) -> StoreResult<Vec<DeadLetter>> {
        either!(self, dead_letters(after, most))
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
        match &self.kept {
            StoreVariant::Here(store) => store.take_warning(),
            StoreVariant::Shared(store) => store.take_warning(),
        }
    }
}

impl AnyStore {
    /// A store in a directory.
    pub(crate) fn here(store: EmbeddedStore) -> Self {
        Self::new(StoreVariant::Here(store))
    }

    /// A store in a server.
    pub(crate) fn shared(store: RedisStore) -> Self {
        Self::new(StoreVariant::Shared(Box::new(store)))
    }

    fn new(kept: StoreVariant) -> Self {
        Self {
            kept,
            clock: SystemClock::new(),
            rests: OnceLock::new(),
        }
    }

    /// Gives out no job of these APIs before these instants. Everything else goes on meanwhile; a second
    /// word of it changes nothing.
    pub(crate) fn rest_until(&self, instants: BTreeMap<String, WallTime>) {
        let _said_before = self.rests.set(instants);
    }

    /// How long a lane still rests.
    fn resting(&self, lane: &Name) -> Option<Duration> {
        let Lane::Api { api, .. } = Lane::from_name(lane) else {
            return None;
        };
        let left = self.rests.get()?.get(&api)?.since(self.clock.wall());
        (!left.is_zero()).then_some(left)
    }

    /// Which kind it is, as the configuration spells it.
    pub(crate) const fn kind(&self) -> &'static str {
        match self.kept {
            StoreVariant::Here(_) => "embedded",
            StoreVariant::Shared(_) => "redis",
        }
    }

    /// Takes nothing more, and lets what was taken be written.
    pub(crate) fn end(&self) {
        match &self.kept {
            StoreVariant::Here(store) => store.end(),
            // A server answers when it has written.
            StoreVariant::Shared(_) => {}
        }
    }
}
