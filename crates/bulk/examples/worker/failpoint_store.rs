//! A store that can make the process die before or after each call.
//!
//! `OUTFLOW_FAILPOINT=claim:3` ends the process before it sends its third claim to the store, and `claim+:3`
//! after the reply arrived and before the caller sees it. With `record` it prints a line for each call, so that
//! a test can enumerate them. Deaths between the two belong to the store: the same variable names its own
//! failpoints, at its commits.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Mutex;
use std::time::Duration;

use outflow::core::WallTime;
use outflow_store::{
    ActionReport, ActionSpec, ActionStore, ClaimBatch, ClaimFilter, ClaimRequest, CongestionRecord, CongestionSample,
    ControlScope, DeadLetter, DeadLetterFilter, DeadLetterStore, FencingToken, FinishedQuery, HeartbeatResult,
    JobCounts, JobOutcome, JobQueue, JobStore, LaneLoad, Name, PageRequest, ReapResult, RemainingWork, SettleResult,
    Settlement, StoreControl, StoreLimits, StoreResult, SubmitBatch, SubmitResult, TenantReport, TenantRule,
    TenantStore,
};

/// A store, and the instant to die at.
pub(crate) struct FailpointStore<S> {
    store: S,
    plan: DeathPlan,
    passed: Mutex<HashMap<&'static str, u64>>,
}

enum DeathPlan {
    Live,
    Record,
    Die { call: String, side: CallSide, count: u64 },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CallSide {
    Before,
    After,
}

impl<S> FailpointStore<S> {
    /// Wraps a store with the failpoint that the environment names.
    pub(crate) fn new(store: S) -> Self {
        let text = std::env::var("OUTFLOW_FAILPOINT").unwrap_or_default();
        Self {
            store,
            plan: DeathPlan::parse(&text),
            passed: Mutex::default(),
        }
    }

    /// Returns the wrapped store, whose calls are not counted.
    pub(crate) const fn inner(&self) -> &S {
        &self.store
    }

    /// Counts one call, and dies before or after it if the plan says so.
    async fn count_call<T>(&self, call: &'static str, work: impl Future<Output = T>) -> T {
        let number = self.number(call);
        self.die_at(call, CallSide::Before, number);
        let reply = work.await;
        self.die_at(call, CallSide::After, number);
        reply
    }

    fn number(&self, call: &'static str) -> u64 {
        if matches!(self.plan, DeathPlan::Record) {
            println!("passed {call}");
        }
        let Ok(mut passed) = self.passed.lock() else {
            return 0;
        };
        let number = passed.entry(call).or_default();
        *number += 1;
        *number
    }

    fn die_at(&self, passing: &str, here: CallSide, number: u64) {
        if let DeathPlan::Die { call, side, count } = &self.plan
            && call == passing
            && *side == here
            && *count == number
        {
            std::process::abort();
        }
    }
}

impl DeathPlan {
    fn parse(text: &str) -> Self {
        let Some((name, count)) = text.split_once(':') else {
            return if text == "record" { Self::Record } else { Self::Live };
        };
        let (call, side) = match name.strip_suffix('+') {
            Some(call) => (call, CallSide::After),
            None => (name, CallSide::Before),
        };
        Self::Die {
            call: call.to_owned(),
            side,
            count: count.parse().unwrap_or(0),
        }
    }
}

impl<S: JobStore> JobQueue for FailpointStore<S> {
    async fn submit(&self, batch: SubmitBatch) -> StoreResult<SubmitResult> {
        self.count_call("submit", self.store.submit(batch)).await
    }

    async fn claim(&self, request: ClaimRequest, filter: &mut dyn ClaimFilter) -> StoreResult<ClaimBatch> {
        self.count_call("claim", self.store.claim(request, filter)).await
    }

    async fn settle(&self, session: &Name, ends: Vec<Settlement>) -> StoreResult<Vec<SettleResult>> {
        self.count_call("settle", self.store.settle(session, ends)).await
    }

    async fn count_start(
        &self,
        session: &Name,
        token: FencingToken,
        limits: StoreLimits,
    ) -> StoreResult<Option<Duration>> {
        let counted = self.store.count_start(session, token, limits);
        self.count_call("count_start", counted).await
    }

    async fn heartbeat(&self, session: &Name, lease: Duration) -> StoreResult<HeartbeatResult> {
        self.count_call("heartbeat", self.store.heartbeat(session, lease)).await
    }

    async fn reap(&self, limit: usize, recoveries: u32) -> StoreResult<ReapResult> {
        self.count_call("reap", self.store.reap(limit, recoveries)).await
    }

    async fn release_unknown(&self, session: &Name, known: &[FencingToken]) -> StoreResult<u64> {
        self.count_call("release_unknown", self.store.release_unknown(session, known))
            .await
    }

    fn changed(&self) -> impl Future<Output = ()> + Send {
        self.store.changed()
    }

    async fn lanes(&self) -> StoreResult<Vec<Name>> {
        self.count_call("lanes", self.store.lanes()).await
    }

    async fn lane_loads(&self) -> StoreResult<Vec<LaneLoad>> {
        self.count_call("lane_loads", self.store.lane_loads()).await
    }
}

impl<S: JobStore> TenantStore for FailpointStore<S> {
    async fn set_default_rule(&self, rule: TenantRule) -> StoreResult<()> {
        self.count_call("set_default_rule", self.store.set_default_rule(rule))
            .await
    }

    async fn set_rule(&self, tenant: &Name, rule: TenantRule) -> StoreResult<()> {
        self.count_call("set_rule", self.store.set_rule(tenant, rule)).await
    }

    async fn remove_rule(&self, tenant: &Name) -> StoreResult<()> {
        self.count_call("remove_rule", self.store.remove_rule(tenant)).await
    }

    async fn release_deferred(&self, tenant: &Name, limit: u64) -> StoreResult<u64> {
        self.count_call("release_deferred", self.store.release_deferred(tenant, limit))
            .await
    }

    async fn active_tenants(&self) -> StoreResult<u64> {
        self.count_call("active_tenants", self.store.active_tenants()).await
    }

    async fn tenant(&self, name: &Name) -> StoreResult<Option<TenantReport>> {
        self.count_call("tenant", self.store.tenant(name)).await
    }

    async fn tenants(&self, page: PageRequest) -> StoreResult<Vec<TenantReport>> {
        self.count_call("tenants", self.store.tenants(page)).await
    }

    async fn begin_sampling(&self, every: Duration) -> StoreResult<bool> {
        self.count_call("begin_sampling", self.store.begin_sampling(every))
            .await
    }

    async fn record_congestion(&self, samples: Vec<CongestionRecord>, keep: Duration) -> StoreResult<()> {
        self.count_call("record_congestion", self.store.record_congestion(samples, keep))
            .await
    }

    async fn congestion_history(&self, tenant: &Name, limit: usize) -> StoreResult<Vec<CongestionSample>> {
        self.count_call("congestion_history", self.store.congestion_history(tenant, limit))
            .await
    }

    async fn reset_congestion(&self, tenant: &Name) -> StoreResult<()> {
        self.count_call("reset_congestion", self.store.reset_congestion(tenant))
            .await
    }
}

impl<S: JobStore> ActionStore for FailpointStore<S> {
    async fn open(&self, spec: ActionSpec) -> StoreResult<()> {
        self.count_call("open", self.store.open(spec)).await
    }

    async fn close(&self, action: &Name) -> StoreResult<()> {
        self.count_call("close", self.store.close(action)).await
    }

    async fn action(&self, id: &Name) -> StoreResult<Option<ActionReport>> {
        self.count_call("action", self.store.action(id)).await
    }

    async fn remaining(&self, action: &Name) -> StoreResult<RemainingWork> {
        self.count_call("remaining", self.store.remaining(action)).await
    }

    async fn actions(&self, page: PageRequest) -> StoreResult<Vec<ActionReport>> {
        self.count_call("actions", self.store.actions(page)).await
    }

    async fn take_finished(&self, request: FinishedQuery<'_>) -> StoreResult<Vec<ActionReport>> {
        self.count_call("take_finished", self.store.take_finished(request))
            .await
    }

    async fn mark_notified(&self, action: &Name) -> StoreResult<()> {
        self.count_call("mark_notified", self.store.mark_notified(action)).await
    }

    async fn outcomes(&self, action: &Name, after: u64, limit: usize) -> StoreResult<Vec<JobOutcome>> {
        let outcomes = self.store.outcomes(action, after, limit);
        self.count_call("outcomes", outcomes).await
    }
}

impl<S: JobStore> DeadLetterStore for FailpointStore<S> {
    async fn dead_letters(&self, after: u64, limit: usize) -> StoreResult<Vec<DeadLetter>> {
        self.count_call("dead_letters", self.store.dead_letters(after, limit))
            .await
    }

    async fn requeue(&self, pick: &DeadLetterFilter) -> StoreResult<u64> {
        self.count_call("requeue", self.store.requeue(pick)).await
    }

    async fn purge(&self, pick: &DeadLetterFilter) -> StoreResult<u64> {
        self.count_call("purge", self.store.purge(pick)).await
    }
}

impl<S: JobStore> StoreControl for FailpointStore<S> {
    async fn pause(&self, scope: &ControlScope) -> StoreResult<()> {
        self.count_call("pause", self.store.pause(scope)).await
    }

    async fn resume(&self, scope: &ControlScope) -> StoreResult<()> {
        self.count_call("resume", self.store.resume(scope)).await
    }

    async fn cancel(&self, scope: &ControlScope) -> StoreResult<u64> {
        self.count_call("cancel", self.store.cancel(scope)).await
    }

    async fn job_counts(&self) -> StoreResult<JobCounts> {
        self.count_call("job_counts", self.store.job_counts()).await
    }

    async fn collect_garbage(&self, dead_before: WallTime) -> StoreResult<u64> {
        self.count_call("collect_garbage", self.store.collect_garbage(dead_before))
            .await
    }

    async fn audit(&self) -> StoreResult<u64> {
        self.count_call("audit", self.store.audit()).await
    }

    fn take_warning(&self) -> Option<String> {
        self.store.take_warning()
    }
}
