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
    ActionReport, ActionSpec, ActionStore, ClaimBatch, ClaimFilter, ClaimRequest, CongestionSample,
    ControlScope, DeadLetter, DeadLetterFilter, DeadLetterStore, FencingToken, FinishedQuery,
    HeartbeatResult, JobCounts, JobOutcome, JobQueue, JobStore, Name, PageRequest, ReapResult,
    RemainingWork, SettleResult, Settlement, StartDebit, StoreControl, StoreResult, SubmitBatch,
    SubmitResult, TenantReport, TenantRule, TenantStore,
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

impl<S: JobStore> JobQueue for Peril<S> {
    async fn submit(&self, batch: SubmitBatch) -> StoreResult<SubmitResult> {
        self.pass("submit", self.store.submit(batch)).await
    }

    async fn claim(
        &self,
        ask: ClaimRequest,
        gate: &mut dyn ClaimFilter,
    ) -> StoreResult<ClaimBatch> {
        self.pass("claim", self.store.claim(ask, gate)).await
    }

    async fn settle(
        &self,
        session: &Name,
        ends: Vec<Settlement>,
    ) -> StoreResult<Vec<SettleResult>> {
        self.pass("settle", self.store.settle(session, ends)).await
    }

    async fn debit(&self, start: &StartDebit) -> StoreResult<Option<Duration>> {
        self.pass("debit", self.store.debit(start)).await
    }

    async fn refund(&self, start: &StartDebit, at: Duration) -> StoreResult<()> {
        self.pass("refund", self.store.refund(start, at)).await
    }

    async fn heartbeat(&self, session: &Name, lease: Duration) -> StoreResult<HeartbeatResult> {
        self.pass("beat", self.store.heartbeat(session, lease))
            .await
    }

    async fn reap(&self, most: usize, recoveries: u32) -> StoreResult<ReapResult> {
        self.pass("reap", self.store.reap(most, recoveries)).await
    }

    async fn release_unknown(&self, session: &Name, known: &[FencingToken]) -> StoreResult<u64> {
        self.pass("disown", self.store.release_unknown(session, known))
            .await
    }

    fn changed(&self) -> impl Future<Output = ()> + Send {
        self.store.changed()
    }

    async fn lanes(&self) -> StoreResult<Vec<Name>> {
        self.pass("lanes", self.store.lanes()).await
    }
}

impl<S: JobStore> TenantStore for Peril<S> {
    async fn set_default_rule(&self, rule: TenantRule) -> StoreResult<()> {
        self.pass("set_usual", self.store.set_default_rule(rule))
            .await
    }

    async fn set_rule(&self, tenant: &Name, rule: TenantRule) -> StoreResult<()> {
        self.pass("set_rule", self.store.set_rule(tenant, rule))
            .await
    }

    async fn remove_rule(&self, tenant: &Name) -> StoreResult<()> {
        self.pass("unset_rule", self.store.remove_rule(tenant))
            .await
    }

    async fn release_deferred(&self, tenant: &Name, most: u64) -> StoreResult<u64> {
        self.pass("release", self.store.release_deferred(tenant, most))
            .await
    }

    async fn active_tenants(&self) -> StoreResult<u64> {
        self.pass("active", self.store.active_tenants()).await
    }

    async fn tenant(&self, name: &Name) -> StoreResult<Option<TenantReport>> {
        self.pass("tenant", self.store.tenant(name)).await
    }

    async fn tenants(&self, page: PageRequest) -> StoreResult<Vec<TenantReport>> {
        self.pass("tenants", self.store.tenants(page)).await
    }

    async fn sample_congestion(&self, keep: Duration) -> StoreResult<()> {
        self.pass("snapshot", self.store.sample_congestion(keep))
            .await
    }

    async fn congestion_history(
        &self,
        tenant: &Name,
        most: usize,
    ) -> StoreResult<Vec<CongestionSample>> {
        self.pass("history", self.store.congestion_history(tenant, most))
            .await
    }

    async fn reset_congestion(&self, tenant: &Name) -> StoreResult<()> {
        self.pass("reset", self.store.reset_congestion(tenant))
            .await
    }
}

impl<S: JobStore> ActionStore for Peril<S> {
    async fn open(&self, spec: ActionSpec) -> StoreResult<()> {
        self.pass("open", self.store.open(spec)).await
    }

    async fn close(&self, action: &Name) -> StoreResult<()> {
        self.pass("close", self.store.close(action)).await
    }

    async fn action(&self, id: &Name) -> StoreResult<Option<ActionReport>> {
        self.pass("action", self.store.action(id)).await
    }

    async fn remaining(&self, action: &Name) -> StoreResult<RemainingWork> {
        self.pass("left", self.store.remaining(action)).await
    }

    async fn actions(&self, page: PageRequest) -> StoreResult<Vec<ActionReport>> {
        self.pass("actions", self.store.actions(page)).await
    }

    async fn take_finished(&self, ask: FinishedQuery<'_>) -> StoreResult<Vec<ActionReport>> {
        self.pass("ripe", self.store.take_finished(ask)).await
    }

    async fn mark_notified(&self, action: &Name) -> StoreResult<()> {
        self.pass("told", self.store.mark_notified(action)).await
    }

    async fn outcomes(
        &self,
        action: &Name,
        after: u64,
        most: usize,
    ) -> StoreResult<Vec<JobOutcome>> {
        let outcomes = self.store.outcomes(action, after, most);
        self.pass("outcomes", outcomes).await
    }
}

impl<S: JobStore> DeadLetterStore for Peril<S> {
    async fn dead_letters(&self, after: u64, most: usize) -> StoreResult<Vec<DeadLetter>> {
        self.pass("dead", self.store.dead_letters(after, most))
            .await
    }

    async fn requeue(&self, pick: &DeadLetterFilter) -> StoreResult<u64> {
        self.pass("revive", self.store.requeue(pick)).await
    }

    async fn purge(&self, pick: &DeadLetterFilter) -> StoreResult<u64> {
        self.pass("purge", self.store.purge(pick)).await
    }
}

impl<S: JobStore> StoreControl for Peril<S> {
    async fn pause(&self, scope: &ControlScope) -> StoreResult<()> {
        self.pass("pause", self.store.pause(scope)).await
    }

    async fn resume(&self, scope: &ControlScope) -> StoreResult<()> {
        self.pass("resume", self.store.resume(scope)).await
    }

    async fn cancel(&self, scope: &ControlScope) -> StoreResult<u64> {
        self.pass("cancel", self.store.cancel(scope)).await
    }

    async fn job_counts(&self) -> StoreResult<JobCounts> {
        self.pass("tally", self.store.job_counts()).await
    }

    async fn collect_garbage(&self, dead_before: WallTime) -> StoreResult<u64> {
        self.pass("tidy", self.store.collect_garbage(dead_before))
            .await
    }

    async fn audit(&self) -> StoreResult<u64> {
        self.pass("recount", self.store.audit()).await
    }

    fn take_warning(&self) -> Option<String> {
        self.store.take_warning()
    }
}
