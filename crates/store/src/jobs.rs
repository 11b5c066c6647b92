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

use crate::action::{ActionReport, ActionSpec, Left, RipeAsk, Tally};
use crate::claim::{Beat, ClaimAsk, Claims, Gate, Reaped, Token};
use crate::dead::{DeadLetter, DeadPick};
use crate::error::StoreError;
use crate::job::{Batch, Submitted};
use crate::name::Name;
use crate::plan::Start;
use crate::settle::{Outcome, Settled, Settlement};
use crate::tenant::{Page, Scope, Snapshot, TenantReport, TenantRule};

/// What a store answers, some time later.
pub type Answer<T> = Result<T, StoreError>;

/// Keeps jobs until they are done.
pub trait JobStore: Send + Sync + 'static {
    /// Takes jobs, and opens their action if need be. They outlive any crash from the moment this
    /// answers. One step: of a batch that failed nothing was taken and nothing opened, except as
    /// [`StoreError::is_doubtful`] says.
    fn submit(&self, batch: Batch) -> impl Future<Output = Answer<Submitted>> + Send;

    /// Gives out jobs of a lane in fair order, as the gate or the plan allows, under the session's
    /// lease, which this renews. A job whose deadline has passed ends as expired instead.
    fn claim(
        &self,
        ask: ClaimAsk,
        gate: &mut dyn Gate,
    ) -> impl Future<Output = Answer<Claims>> + Send;

    /// Debits limits that machines share for a start outside of a claim, now and all of them, or says how
    /// long there is no room. A store of one process debits nothing.
    fn debit(&self, start: &Start) -> impl Future<Output = Answer<Option<Duration>>> + Send;

    /// Gives back what was debited for a start at this instant, by the clock of the server, that nobody
    /// used.
    fn refund(&self, start: &Start, at: Duration) -> impl Future<Output = Answer<()>> + Send;

    /// Ends claims of a session, one answer for each in their order. A claim that is not the session's
    /// any more is left alone.
    fn settle(
        &self,
        session: &Name,
        ends: Vec<Settlement>,
    ) -> impl Future<Output = Answer<Vec<Settled>>> + Send;

    /// Renews a session's lease.
    fn beat(&self, session: &Name, lease: Duration) -> impl Future<Output = Answer<Beat>> + Send;

    /// Takes back what sessions held whose lease ran out, at most so many jobs at once; one that was
    /// taken back more than `recoveries` times is buried.
    fn reap(&self, most: usize, recoveries: u32) -> impl Future<Output = Answer<Reaped>> + Send;

    /// Gives back what a session holds besides these claims, as if it had not been claimed: whoever has the
    /// session never heard of it, because the answer was lost, and so did not begin it. Counts as no
    /// recovery. It stands in line again when somebody reaps, at the latest; answers how many jobs that
    /// are. What was reaped before this came is counted already.
    fn disown(&self, session: &Name, known: &[Token]) -> impl Future<Output = Answer<u64>> + Send;

    /// Waits until something happened that a claim may answer to: a submission, a settlement that put a
    /// job back or ended what others waited for, a resumption, a release. May return without a reason, never misses one that happened
    /// after the future was made.
    fn changed(&self) -> impl Future<Output = ()> + Send;

    /// The lanes that have work.
    fn lanes(&self) -> impl Future<Output = Answer<Vec<Name>>> + Send;

    /// Sets the claim of every tenant that has no rule of its own, for all lanes and for jobs that wait
    /// already, from the next turn on. A store that is shared keeps it until it is set anew; one of this
    /// process begins with [`TenantRule::default`] and is told at every start.
    fn set_usual(&self, rule: TenantRule) -> impl Future<Output = Answer<()>> + Send;

    /// Gives a tenant a rule of its own, in the same way. It is kept until it is set anew or taken away,
    /// whether or not the tenant has work.
    fn set_rule(&self, tenant: &Name, rule: TenantRule) -> impl Future<Output = Answer<()>> + Send;

    /// Takes a tenant's own rule away: it is served as all others. One that has none stays as it is.
    fn unset_rule(&self, tenant: &Name) -> impl Future<Output = Answer<()>> + Send;

    /// Stops giving out jobs of a tenant or an action. What is under way goes on.
    fn pause(&self, scope: &Scope) -> impl Future<Output = Answer<()>> + Send;

    /// Ends a pause.
    fn resume(&self, scope: &Scope) -> impl Future<Output = Answer<()>> + Send;

    /// Ends all jobs that have not begun as cancelled, and answers how many those were. What is under way ends
    /// as it ends, done or failed, with what is kept of it; if it would begin again, as cancelled. An action
    /// whose jobs are all over stays as it is, told or not.
    fn cancel(&self, scope: &Scope) -> impl Future<Output = Answer<u64>> + Send;

    /// Lets jobs of a tenant that were put off stand in line again at once, those that are due first, at
    /// most so many. Answers how many are still put off.
    fn release(&self, tenant: &Name, most: u64) -> impl Future<Output = Answer<u64>> + Send;

    /// Opens an action, or changes the spec of one that is open. One that is over begins anew, and what
    /// came of it before is forgotten.
    fn open(&self, spec: ActionSpec) -> impl Future<Output = Answer<()>> + Send;

    /// Says that an action gets no more jobs. One that nobody opened is an error.
    fn close(&self, action: &Name) -> impl Future<Output = Answer<()>> + Send;

    /// An action as it stands.
    fn action(&self, id: &Name) -> impl Future<Output = Answer<Option<ActionReport>>> + Send;

    /// What an action's jobs that wait still want; nothing of one that is not known.
    fn left(&self, action: &Name) -> impl Future<Output = Answer<Left>> + Send;

    /// Actions by name.
    fn actions(&self, page: Page) -> impl Future<Output = Answer<Vec<ActionReport>>> + Send;

    /// Takes ends of actions to tell: all jobs over and closed
    /// ([`Stage::Aggregating`](crate::Stage::Aggregating)), or out of time, which this ends: they are
    /// failed then, and their jobs that had not begun are cancelled; or cancelled. None of which a job is
    /// still under way: what is told would be wrong when it ends.
    ///
    /// Whoever takes an end has it to himself under a lease, and renews it by saying with the next question
    /// that he is still telling it.
    fn ripe(&self, ask: RipeAsk<'_>) -> impl Future<Output = Answer<Vec<ActionReport>>> + Send;

    /// The end of an action was told. Until this is called it is ripe again after each lease, whoever
    /// crashed in between.
    fn told(&self, action: &Name) -> impl Future<Output = Answer<()>> + Send;

    /// Outcomes of an action after a place, in the order in which they came.
    fn outcomes(
        &self,
        action: &Name,
        after: u64,
        most: usize,
    ) -> impl Future<Output = Answer<Vec<Outcome>>> + Send;

    /// All jobs together.
    fn tally(&self) -> impl Future<Output = Answer<Tally>> + Send;

    /// How many tenants have work.
    fn active(&self) -> impl Future<Output = Answer<u64>> + Send;

    /// One tenant as it stands, nothing if it is not known.
    fn tenant(&self, name: &Name) -> impl Future<Output = Answer<Option<TenantReport>>> + Send;

    /// Tenants by name.
    fn tenants(&self, page: Page) -> impl Future<Output = Answer<Vec<TenantReport>>> + Send;

    /// Remembers how congested each tenant with work is, and forgets what is older than `keep`.
    fn snapshot(&self, keep: Duration) -> impl Future<Output = Answer<()>> + Send;

    /// The last snapshots of a tenant, the oldest first.
    fn history(
        &self,
        tenant: &Name,
        most: usize,
    ) -> impl Future<Output = Answer<Vec<Snapshot>>> + Send;

    /// Forgets a tenant's statistics and history. Refused while jobs of it are put off.
    fn reset(&self, tenant: &Name) -> impl Future<Output = Answer<()>> + Send;

    /// Dead letters after a place, the oldest first.
    fn dead(&self, after: u64, most: usize)
    -> impl Future<Output = Answer<Vec<DeadLetter>>> + Send;

    /// Lets dead letters stand in line again, as if they had never been tried; answers how many. In an action
    /// that goes on, the outcome that each had is forgotten: a job has one, that of its last time. An action
    /// whose jobs were all over stays as it was, with its outcomes.
    fn revive(&self, pick: &DeadPick) -> impl Future<Output = Answer<u64>> + Send;

    /// Throws dead letters away; answers how many.
    fn purge(&self, pick: &DeadPick) -> impl Future<Output = Answer<u64>> + Send;

    /// Forgets what is too old: outcomes, names, actions, tenants without work, dead letters buried
    /// before that instant. A bounded piece of work; answers how many things went.
    fn tidy(&self, dead_before: WallTime) -> impl Future<Output = Answer<u64>> + Send;

    /// Counts all jobs anew, from the jobs themselves, and answers the difference to what was counted
    /// as they moved: 0, or there is a mistake in the store. Changes nothing.
    fn recount(&self) -> impl Future<Output = Answer<u64>> + Send;

    /// What befell the store though no call failed, in words for people, once: another server took over, or
    /// the journal was found broken, and less may be known than was answered. Nothing, as a rule.
    fn warning(&self) -> Option<String>;
}
