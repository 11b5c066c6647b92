//! The contract of a job store.
//!
//! A job moves by four steps and no other: it is *submitted*, *claimed*, *settled* or *reaped*. Each is
//! atomic, each changes the job and everything that is counted of it together, and the last three are
//! fenced: whoever lost a claim cannot change the job any more. Whatever a store is made of, it passes
//! one suite of tests (`tests/contract`).
//!
//! # Order
//! Tenants that have work in a lane are served in fair order ([`FairOrder`](outflow_core::FairOrder)):
//! by weight, no credit saved up, nobody starved. A tenant's claim is its weight and its priority times
//! the class of the best job that it has waiting. Among its own jobs, classes share 16 : 4 : 1, and
//! within one the order is that of submission: a job that comes back, from a refusal, a failure or a
//! dead worker, stands before all that were submitted after it.
//!
//! # Time
//! Leases, retries and parking are spans by the store's own clock: the process's, or the server's.
//! Civil time is used only for what people wrote (start, deadline) and for what is told to them.

use std::future::Future;
use std::time::Duration;

use outflow_core::WallTime;

use crate::action::{ActionReport, ActionSpec, FinishedQuery, JobCounts, RemainingWork};
use crate::claim::{
    ClaimBatch, ClaimFilter, ClaimRequest, FencingToken, HeartbeatResult, ReapResult,
};
use crate::dead_letter::{DeadLetter, DeadLetterFilter};
use crate::error::StoreError;
use crate::job::{SubmitBatch, SubmitResult};
use crate::name::Name;
use crate::settle::{JobOutcome, SettleResult, Settlement};
use crate::shared_limits::StartDebit;
use crate::tenant::{CongestionSample, ControlScope, PageRequest, TenantReport, TenantRule};

/// What a store answers, some time later.
pub type StoreResult<T> = Result<T, StoreError>;

/// Keeps jobs until they are done.
pub trait JobStore: Send + Sync + 'static {
    /// Takes jobs, and opens their action if need be. They outlive any crash from the moment this
    /// answers. One step: of a batch that failed nothing was taken and nothing opened, except as
    /// [`StoreError::is_doubtful`] says.
    fn submit(&self, batch: SubmitBatch) -> impl Future<Output = StoreResult<SubmitResult>> + Send;

    /// Gives out jobs of a lane in fair order, as the gate or the plan allows, under the session's
    /// lease, which this renews. A job whose deadline has passed ends as expired instead.
    fn claim(
        &self,
        ask: ClaimRequest,
        gate: &mut dyn ClaimFilter,
    ) -> impl Future<Output = StoreResult<ClaimBatch>> + Send;

    /// Debits limits that machines share for a start outside of a claim, now and all of them, or says how
    /// long there is no room. A store of one process debits nothing.
    fn debit(
        &self,
        start: &StartDebit,
    ) -> impl Future<Output = StoreResult<Option<Duration>>> + Send;

    /// Gives back what was debited for a start at this instant, by the clock of the server, that nobody
    /// used.
    fn refund(
        &self,
        start: &StartDebit,
        at: Duration,
    ) -> impl Future<Output = StoreResult<()>> + Send;

    /// Ends claims of a session, one answer for each in their order. A claim that is not the session's
    /// any more is left alone.
    fn settle(
        &self,
        session: &Name,
        ends: Vec<Settlement>,
    ) -> impl Future<Output = StoreResult<Vec<SettleResult>>> + Send;

    /// Renews a session's lease.
    fn heartbeat(
        &self,
        session: &Name,
        lease: Duration,
    ) -> impl Future<Output = StoreResult<HeartbeatResult>> + Send;

    /// Takes back what sessions held whose lease ran out, at most so many jobs at once; one that was
    /// taken back more than `recoveries` times is buried.
    fn reap(
        &self,
        most: usize,
        recoveries: u32,
    ) -> impl Future<Output = StoreResult<ReapResult>> + Send;

    /// Gives back what a session holds besides these claims, as if it had not been claimed: whoever has the
    /// session never heard of it, because the answer was lost, and so did not begin it. Counts as no
    /// recovery. It stands in line again when somebody reaps, at the latest; answers how many jobs that
    /// are. What was reaped before this came is counted already.
    fn release_unknown(
        &self,
        session: &Name,
        known: &[FencingToken],
    ) -> impl Future<Output = StoreResult<u64>> + Send;

    /// Waits until something happened that a claim may answer to: a submission, a settlement that put a
    /// job back or ended what others waited for, a resumption, a release. May return without a reason, never misses one that happened
    /// after the future was made.
    fn changed(&self) -> impl Future<Output = ()> + Send;

    /// The lanes that have work.
    fn lanes(&self) -> impl Future<Output = StoreResult<Vec<Name>>> + Send;

    /// Sets the claim of every tenant that has no rule of its own, for all lanes and for jobs that wait
    /// already, from the next turn on. A store that is shared keeps it until it is set anew; one of this
    /// process begins with [`TenantRule::default`] and is told at every start.
    fn set_default_rule(&self, rule: TenantRule) -> impl Future<Output = StoreResult<()>> + Send;

    /// Gives a tenant a rule of its own, in the same way. It is kept until it is set anew or taken away,
    /// whether or not the tenant has work.
    fn set_rule(
        &self,
        tenant: &Name,
        rule: TenantRule,
    ) -> impl Future<Output = StoreResult<()>> + Send;

    /// Takes a tenant's own rule away: it is served as all others. One that has none stays as it is.
    fn remove_rule(&self, tenant: &Name) -> impl Future<Output = StoreResult<()>> + Send;

    /// Stops giving out jobs of a tenant or an action. What is under way goes on.
    fn pause(&self, scope: &ControlScope) -> impl Future<Output = StoreResult<()>> + Send;

    /// Ends a pause.
    fn resume(&self, scope: &ControlScope) -> impl Future<Output = StoreResult<()>> + Send;

    /// Ends all jobs that have not begun as cancelled, and answers how many those were. What is under way ends
    /// as it ends, done or failed, with what is kept of it; if it would begin again, as cancelled. An action
    /// whose jobs are all over stays as it is, told or not.
    fn cancel(&self, scope: &ControlScope) -> impl Future<Output = StoreResult<u64>> + Send;

    /// Lets jobs of a tenant that were put off stand in line again at once, those that are due first, at
    /// most so many. Answers how many are still put off.
    fn release_deferred(
        &self,
        tenant: &Name,
        most: u64,
    ) -> impl Future<Output = StoreResult<u64>> + Send;

    /// Opens an action, or changes the spec of one that is open. One that is over begins anew, and what
    /// came of it before is forgotten.
    fn open(&self, spec: ActionSpec) -> impl Future<Output = StoreResult<()>> + Send;

    /// Says that an action gets no more jobs. One that nobody opened is an error.
    fn close(&self, action: &Name) -> impl Future<Output = StoreResult<()>> + Send;

    /// An action as it stands.
    fn action(&self, id: &Name) -> impl Future<Output = StoreResult<Option<ActionReport>>> + Send;

    /// What an action's jobs that wait still want; nothing of one that is not known.
    fn remaining(&self, action: &Name) -> impl Future<Output = StoreResult<RemainingWork>> + Send;

    /// Actions by name.
    fn actions(
        &self,
        page: PageRequest,
    ) -> impl Future<Output = StoreResult<Vec<ActionReport>>> + Send;

    /// Takes ends of actions to tell: all jobs over and closed
    /// ([`ActionStage::Aggregating`](crate::ActionStage::Aggregating)), or out of time, which this ends: they are
    /// failed then, and their jobs that had not begun are cancelled; or cancelled. None of which a job is
    /// still under way: what is told would be wrong when it ends.
    ///
    /// Whoever takes an end has it to himself under a lease, and renews it by saying with the next question
    /// that he is still telling it.
    fn take_finished(
        &self,
        ask: FinishedQuery<'_>,
    ) -> impl Future<Output = StoreResult<Vec<ActionReport>>> + Send;

    /// The end of an action was told. Until this is called it is ripe again after each lease, whoever
    /// crashed in between.
    fn mark_notified(&self, action: &Name) -> impl Future<Output = StoreResult<()>> + Send;

    /// Outcomes of an action after a place, in the order in which they came.
    fn outcomes(
        &self,
        action: &Name,
        after: u64,
        most: usize,
    ) -> impl Future<Output = StoreResult<Vec<JobOutcome>>> + Send;

    /// All jobs together.
    fn job_counts(&self) -> impl Future<Output = StoreResult<JobCounts>> + Send;

    /// How many tenants have work.
    fn active_tenants(&self) -> impl Future<Output = StoreResult<u64>> + Send;

    /// One tenant as it stands, nothing if it is not known.
    fn tenant(&self, name: &Name)
    -> impl Future<Output = StoreResult<Option<TenantReport>>> + Send;

    /// Tenants by name.
    fn tenants(
        &self,
        page: PageRequest,
    ) -> impl Future<Output = StoreResult<Vec<TenantReport>>> + Send;

    /// Remembers how congested each tenant with work is, and forgets what is older than `keep`.
    fn sample_congestion(&self, keep: Duration) -> impl Future<Output = StoreResult<()>> + Send;

    /// The last snapshots of a tenant, the oldest first.
    fn congestion_history(
        &self,
        tenant: &Name,
        most: usize,
    ) -> impl Future<Output = StoreResult<Vec<CongestionSample>>> + Send;

    /// Forgets a tenant's statistics and history. Refused while jobs of it are put off.
    fn reset_congestion(&self, tenant: &Name) -> impl Future<Output = StoreResult<()>> + Send;

    /// Dead letters after a place, the oldest first.
    fn dead_letters(
        &self,
        after: u64,
        most: usize,
    ) -> impl Future<Output = StoreResult<Vec<DeadLetter>>> + Send;

    /// Lets dead letters stand in line again, as if they had never been tried; answers how many. In an action
    /// that goes on, the outcome that each had is forgotten: a job has one, that of its last time. An action
    /// whose jobs were all over stays as it was, with its outcomes.
    fn requeue(&self, pick: &DeadLetterFilter) -> impl Future<Output = StoreResult<u64>> + Send;

    /// Throws dead letters away; answers how many.
    fn purge(&self, pick: &DeadLetterFilter) -> impl Future<Output = StoreResult<u64>> + Send;

    /// Forgets what is too old: outcomes, names, actions, tenants without work, dead letters buried
    /// before that instant. A bounded piece of work; answers how many things went.
    fn collect_garbage(
        &self,
        dead_before: WallTime,
    ) -> impl Future<Output = StoreResult<u64>> + Send;

    /// Counts all jobs anew, from the jobs themselves, and answers the difference to what was counted
    /// as they moved: 0, or there is a mistake in the store. Changes nothing.
    fn audit(&self) -> impl Future<Output = StoreResult<u64>> + Send;

    /// What befell the store though no call failed, in words for people, once: another server took over, or
    /// the journal was found broken, and less may be known than was answered. Nothing, as a rule.
    fn take_warning(&self) -> Option<String>;
}
