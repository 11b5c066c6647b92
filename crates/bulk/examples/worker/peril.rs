//! A store in front of which, and behind which, the process can be made to die.
//!
//! `OUTFLOW_FAILPOINT=claim:3` ends the process when it is about to ask the store for its third claim,
//! `claim+:3` when that was answered and nobody has seen the answer. With `record` it prints a line for
//! each call that is made, from which a test knows at how many points there is to die. Kills between the
//! two are the store's own business: see the points of its commits, which the same variable names.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Mutex;
use std::time::Duration;

use outflow::core::WallTime;
use outflow_store::{
    ActionReport, ActionSpec, Answer, Batch, Beat, ClaimAsk, Claims, DeadLetter, DeadPick, Gate,
    JobStore, Left, Name, Outcome, Page, Reaped, RipeAsk, Scope, Settled, Settlement, Snapshot,
    Start, Submitted, Tally, TenantReport, TenantRule, Token,
};

/// A store, and where to die.
pub(crate) struct Peril<S> {
    store: S,
    plan: Plan,
    passed: Mutex<HashMap<&'static str, u64>>,
}

enum Plan {
    Live,
    Record,
    Die {
        call: String,
        side: Side,
        count: u64,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    After,
}

impl<S> Peril<S> {
    /// A store with what the environment says about dying.
    pub(crate) fn new(store: S) -> Self {
        let asked = std::env::var("OUTFLOW_FAILPOINT").unwrap_or_default();
        Self {
            store,
            plan: Plan::read(&asked),
            passed: Mutex::default(),
        }
    }

    /// The store itself: calls of it are not counted.
    pub(crate) const fn calm(&self) -> &S {
        &self.store
    }

    /// One call, which is counted, and perhaps the last.
    async fn pass<T>(&self, call: &'static str, work: impl Future<Output = T>) -> T {
        let number = self.number(call);
        self.die_if(call, Side::Before, number);
        let answer = work.await;
        self.die_if(call, Side::After, number);
        answer
    }

    fn number(&self, call: &'static str) -> u64 {
        if matches!(self.plan, Plan::Record) {
            println!("passed {call}");
        }
        let Ok(mut passed) = self.passed.lock() else {
            return 0;
        };
        let number = passed.entry(call).or_default();
        *number += 1;
        *number
    }

    fn die_if(&self, passing: &str, here: Side, number: u64) {
        if let Plan::Die { call, side, count } = &self.plan
            && call == passing
            && *side == here
            && *count == number
        {
            std::process::abort();
        }
    }
}

impl Plan {
    fn read(text: &str) -> Self {
        let Some((name, count)) = text.split_once(':') else {
            return if text == "record" {
                Self::Record
            } else {
                Self::Live
            };
        };
        let (call, side) = match name.strip_suffix('+') {
            Some(call) => (call, Side::After),
            None => (name, Side::Before),
        };
        Self::Die {
            call: call.to_owned(),
            side,
            count: count.parse().unwrap_or(0),
        }
    }
}

impl<S: JobStore> JobStore for Peril<S> {
    async fn submit(&self, batch: Batch) -> Answer<Submitted> {
        self.pass("submit", self.store.submit(batch)).await
    }

    async fn claim(&self, ask: ClaimAsk, gate: &mut dyn Gate) -> Answer<Claims> {
        self.pass("claim", self.store.claim(ask, gate)).await
    }

    async fn settle(&self, session: &Name, ends: Vec<Settlement>) -> Answer<Vec<Settled>> {
        self.pass("settle", self.store.settle(session, ends)).await
    }

    async fn debit(&self, start: &Start) -> Answer<Option<Duration>> {
        self.pass("debit", self.store.debit(start)).await
    }

    async fn refund(&self, start: &Start, at: Duration) -> Answer<()> {
        self.pass("refund", self.store.refund(start, at)).await
    }

    async fn beat(&self, session: &Name, lease: Duration) -> Answer<Beat> {
        self.pass("beat", self.store.beat(session, lease)).await
    }

    async fn reap(&self, most: usize, recoveries: u32) -> Answer<Reaped> {
        self.pass("reap", self.store.reap(most, recoveries)).await
    }

    async fn disown(&self, session: &Name, known: &[Token]) -> Answer<u64> {
        self.pass("disown", self.store.disown(session, known)).await
    }

    fn changed(&self) -> impl Future<Output = ()> + Send {
        self.store.changed()
    }

    async fn lanes(&self) -> Answer<Vec<Name>> {
        self.pass("lanes", self.store.lanes()).await
    }

    async fn set_usual(&self, rule: TenantRule) -> Answer<()> {
        self.pass("set_usual", self.store.set_usual(rule)).await
    }

    async fn set_rule(&self, tenant: &Name, rule: TenantRule) -> Answer<()> {
        self.pass("set_rule", self.store.set_rule(tenant, rule))
            .await
    }

    async fn unset_rule(&self, tenant: &Name) -> Answer<()> {
        self.pass("unset_rule", self.store.unset_rule(tenant)).await
    }

    async fn pause(&self, scope: &Scope) -> Answer<()> {
        self.pass("pause", self.store.pause(scope)).await
    }

    async fn resume(&self, scope: &Scope) -> Answer<()> {
        self.pass("resume", self.store.resume(scope)).await
    }

    async fn cancel(&self, scope: &Scope) -> Answer<u64> {
        self.pass("cancel", self.store.cancel(scope)).await
    }

    async fn release(&self, tenant: &Name, most: u64) -> Answer<u64> {
        self.pass("release", self.store.release(tenant, most)).await
    }

    async fn open(&self, spec: ActionSpec) -> Answer<()> {
        self.pass("open", self.store.open(spec)).await
    }

    async fn close(&self, action: &Name) -> Answer<()> {
        self.pass("close", self.store.close(action)).await
    }

    async fn action(&self, id: &Name) -> Answer<Option<ActionReport>> {
        self.pass("action", self.store.action(id)).await
    }

    async fn left(&self, action: &Name) -> Answer<Left> {
        self.pass("left", self.store.left(action)).await
    }

    async fn actions(&self, page: Page) -> Answer<Vec<ActionReport>> {
        self.pass("actions", self.store.actions(page)).await
    }

    async fn ripe(&self, ask: RipeAsk<'_>) -> Answer<Vec<ActionReport>> {
        self.pass("ripe", self.store.ripe(ask)).await
    }

    async fn told(&self, action: &Name) -> Answer<()> {
        self.pass("told", self.store.told(action)).await
    }

    async fn outcomes(&self, action: &Name, after: u64, most: usize) -> Answer<Vec<Outcome>> {
        let outcomes = self.store.outcomes(action, after, most);
        self.pass("outcomes", outcomes).await
    }

    async fn tally(&self) -> Answer<Tally> {
        self.pass("tally", self.store.tally()).await
    }

    async fn active(&self) -> Answer<u64> {
        self.pass("active", self.store.active()).await
    }

    async fn tenant(&self, name: &Name) -> Answer<Option<TenantReport>> {
        self.pass("tenant", self.store.tenant(name)).await
    }

    async fn tenants(&self, page: Page) -> Answer<Vec<TenantReport>> {
        self.pass("tenants", self.store.tenants(page)).await
    }

    async fn snapshot(&self, keep: Duration) -> Answer<()> {
        self.pass("snapshot", self.store.snapshot(keep)).await
    }

    async fn history(&self, tenant: &Name, most: usize) -> Answer<Vec<Snapshot>> {
        self.pass("history", self.store.history(tenant, most)).await
    }

    async fn reset(&self, tenant: &Name) -> Answer<()> {
        self.pass("reset", self.store.reset(tenant)).await
    }

    async fn dead(&self, after: u64, most: usize) -> Answer<Vec<DeadLetter>> {
        self.pass("dead", self.store.dead(after, most)).await
    }

    async fn revive(&self, pick: &DeadPick) -> Answer<u64> {
        self.pass("revive", self.store.revive(pick)).await
    }

    async fn purge(&self, pick: &DeadPick) -> Answer<u64> {
        self.pass("purge", self.store.purge(pick)).await
    }

    async fn tidy(&self, dead_before: WallTime) -> Answer<u64> {
        self.pass("tidy", self.store.tidy(dead_before)).await
    }

    async fn recount(&self) -> Answer<u64> {
        self.pass("recount", self.store.recount()).await
    }

    fn warning(&self) -> Option<String> {
        self.store.warning()
    }
}
