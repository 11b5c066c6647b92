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
    ActionReport, ActionSpec, Answer, Batch, Beat, ClaimAsk, Claims, DeadLetter, DeadPick,
    Embedded, Gate, JobStore, Left, Name, Outcome, Page, Reaped, Redis, RipeAsk, Scope, Settled,
    Settlement, Snapshot, Start, Submitted, Tally, TenantReport, TenantRule, Token,
};

/// A store of either kind.
pub(crate) struct Stored {
    kept: Kept,
    clock: SystemClock,
    /// Until when nothing of an API is given out.
    rests: OnceLock<BTreeMap<String, WallTime>>,
}

/// Where it is.
enum Kept {
    /// In a directory.
    Here(Embedded),
    /// In a server.
    Shared(Box<Redis>),
}

/// Asks whichever it is.
macro_rules! either {
    ($store:expr, $step:ident($($what:expr),*)) => {
        match &$store.kept {
            Kept::Here(store) => store.$step($($what),*).await,
            Kept::Shared(store) => store.$step($($what),*).await,
        }
    };
}

impl JobStore for Stored {
    async fn submit(&self, batch: Batch) -> Answer<Submitted> {
        either!(self, submit(batch))
    }

    async fn claim(&self, ask: ClaimAsk, gate: &mut dyn Gate) -> Answer<Claims> {
        match self.resting(&ask.lane) {
            Some(left) => Ok(Claims {
                jobs: Vec::new(),
                next: Some(left),
                ..Claims::default()
            }),
            None => either!(self, claim(ask, gate)),
        }
    }

    async fn settle(&self, session: &Name, ends: Vec<Settlement>) -> Answer<Vec<Settled>> {
        either!(self, settle(session, ends))
    }

    async fn debit(&self, start: &Start) -> Answer<Option<Duration>> {
        either!(self, debit(start))
    }

    async fn refund(&self, start: &Start, at: Duration) -> Answer<()> {
        either!(self, refund(start, at))
    }

    async fn beat(&self, session: &Name, lease: Duration) -> Answer<Beat> {
        either!(self, beat(session, lease))
    }

    async fn reap(&self, most: usize, recoveries: u32) -> Answer<Reaped> {
        either!(self, reap(most, recoveries))
    }

    async fn disown(&self, session: &Name, known: &[Token]) -> Answer<u64> {
        either!(self, disown(session, known))
    }

    /// Made at once and not when it is first looked at: what rings in between must not be missed.
    fn changed(&self) -> impl Future<Output = ()> + Send {
        let changed: Pin<Box<dyn Future<Output = ()> + Send + '_>> = match &self.kept {
            Kept::Here(store) => Box::pin(store.changed()),
            Kept::Shared(store) => Box::pin(store.changed()),
        };
        changed
    }

    async fn lanes(&self) -> Answer<Vec<Name>> {
        either!(self, lanes())
    }

    async fn set_usual(&self, rule: TenantRule) -> Answer<()> {
        either!(self, set_usual(rule))
    }

    async fn set_rule(&self, tenant: &Name, rule: TenantRule) -> Answer<()> {
        either!(self, set_rule(tenant, rule))
    }

    async fn unset_rule(&self, tenant: &Name) -> Answer<()> {
        either!(self, unset_rule(tenant))
    }

    async fn pause(&self, scope: &Scope) -> Answer<()> {
        either!(self, pause(scope))
    }

    async fn resume(&self, scope: &Scope) -> Answer<()> {
        either!(self, resume(scope))
    }

    async fn cancel(&self, scope: &Scope) -> Answer<u64> {
        either!(self, cancel(scope))
    }

    async fn release(&self, tenant: &Name, most: u64) -> Answer<u64> {
        either!(self, release(tenant, most))
    }

    async fn open(&self, spec: ActionSpec) -> Answer<()> {
        either!(self, open(spec))
    }

    async fn close(&self, action: &Name) -> Answer<()> {
        either!(self, close(action))
    }

    async fn action(&self, id: &Name) -> Answer<Option<ActionReport>> {
        either!(self, action(id))
    }

    async fn left(&self, action: &Name) -> Answer<Left> {
        either!(self, left(action))
    }

    async fn actions(&self, page: Page) -> Answer<Vec<ActionReport>> {
        either!(self, actions(page))
    }

    async fn ripe(&self, ask: RipeAsk<'_>) -> Answer<Vec<ActionReport>> {
        either!(self, ripe(ask))
    }

    async fn told(&self, action: &Name) -> Answer<()> {
        either!(self, told(action))
    }

    async fn outcomes(&self, action: &Name, after: u64, most: usize) -> Answer<Vec<Outcome>> {
        either!(self, outcomes(action, after, most))
    }

    async fn tally(&self) -> Answer<Tally> {
        either!(self, tally())
    }

    async fn active(&self) -> Answer<u64> {
        either!(self, active())
    }

    async fn tenant(&self, name: &Name) -> Answer<Option<TenantReport>> {
        either!(self, tenant(name))
    }

    async fn tenants(&self, page: Page) -> Answer<Vec<TenantReport>> {
        either!(self, tenants(page))
    }

    async fn snapshot(&self, keep: Duration) -> Answer<()> {
        either!(self, snapshot(keep))
    }

    async fn history(&self, tenant: &Name, most: usize) -> Answer<Vec<Snapshot>> {
        either!(self, history(tenant, most))
    }

    async fn reset(&self, tenant: &Name) -> Answer<()> {
        either!(self, reset(tenant))
    }

    async fn dead(&self, after: u64, most: usize) -> Answer<Vec<DeadLetter>> {
        either!(self, dead(after, most))
    }

    async fn revive(&self, pick: &DeadPick) -> Answer<u64> {
        either!(self, revive(pick))
    }

    async fn purge(&self, pick: &DeadPick) -> Answer<u64> {
        either!(self, purge(pick))
    }

    async fn tidy(&self, dead_before: WallTime) -> Answer<u64> {
        either!(self, tidy(dead_before))
    }

    async fn recount(&self) -> Answer<u64> {
        either!(self, recount())
    }

    fn warning(&self) -> Option<String> {
        match &self.kept {
            Kept::Here(store) => store.warning(),
            Kept::Shared(store) => store.warning(),
        }
    }
}

impl Stored {
    /// A store in a directory.
    pub(crate) fn here(store: Embedded) -> Self {
        Self::of(Kept::Here(store))
    }

    /// A store in a server.
    pub(crate) fn shared(store: Redis) -> Self {
        Self::of(Kept::Shared(Box::new(store)))
    }

    fn of(kept: Kept) -> Self {
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
        let Lane::Api { api, .. } = Lane::of(lane) else {
            return None;
        };
        let left = self.rests.get()?.get(&api)?.since(self.clock.wall());
        (!left.is_zero()).then_some(left)
    }

    /// Which kind it is, as the configuration spells it.
    pub(crate) const fn kind(&self) -> &'static str {
        match self.kept {
            Kept::Here(_) => "embedded",
            Kept::Shared(_) => "redis",
        }
    }

    /// Takes nothing more, and lets what was taken be written.
    pub(crate) fn end(&self) {
        match &self.kept {
            Kept::Here(store) => store.end(),
            // A server answers when it has written.
            Kept::Shared(_) => {}
        }
    }
}
