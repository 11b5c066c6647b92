//! Jobs in Redis or Valkey, for many machines.
//!
//! Every step is one script: it happens entirely or not at all, by the server's own clock, and costs one
//! round trip however many jobs it moves; small submissions that come together share one. The order of tenants, the counts and the slots of limits are
//! kept beside the jobs and change with them.
//!
//! # What is kept where
//! All keys begin with the queue's name in braces, so a cluster keeps them on one node. A job that waits
//! is an element of a list of its lane, tenant and class, and nothing else: what is not a number is not
//! copied. A job that is claimed lies in a hash of its session; one that waits for its time, in a sorted
//! set of its lane.
//!
//! # What it refuses
//! It does not run on a server that may throw keys away (`maxmemory-policy` other than `noeviction`), does
//! not trust the machines' clocks, does not send anything twice by itself, and does not take an emptied
//! server for one whose work is done.

mod actions;
mod call;
mod claim;
mod connection;
mod dead;
mod ear;
mod fault;
mod gather;
mod left;
mod limit;
mod lives;
mod loss;
mod options;
mod pages;
mod record;
mod recount;
mod reply;
mod scripts;
mod server;
mod settle;
mod submit;
mod sweep;
mod takeover;
mod tenants;
mod tls;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use outflow_core::WallTime;

use self::call::Caller;
use self::ear::Ear;
use self::gather::Counter;
pub use self::options::{RedisOptions, Replicas};
use crate::action::{ActionReport, ActionSpec, Left, RipeAsk, Tally};
use crate::claim::{Beat, ClaimAsk, Claims, Gate, Reaped, Token};
use crate::dead::{DeadLetter, DeadPick};
use crate::job::{Batch, Submitted};
use crate::jobs::{Answer, JobStore};
use crate::name::Name;
use crate::plan::Start;
use crate::settle::{Outcome, Settled, Settlement};
use crate::tenant::{Page, Scope, Snapshot, TenantReport, TenantRule};

/// A job store that many machines share.
///
/// ```no_run
/// use bytes::Bytes;
/// use outflow_store::{Batch, JobStore, NewJob, Redis, RedisOptions};
///
/// # async fn submit() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Redis::connect(RedisOptions::new("redis://127.0.0.1:6379/")).await?;
/// let job = NewJob::new("customer-A".parse()?, "api".parse()?, Bytes::from("GET /"));
/// let submitted = store.submit(Batch::of(vec![job])).await?;
/// println!("{} jobs wait", submitted.queued);
/// # Ok(())
/// # }
/// ```
pub struct Redis {
    caller: Arc<Caller>,
    ear: Ear,
    counter: Arc<Counter>,
    lives: lives::Lives,
}

impl Redis {
    /// Connects, looks whether the server can be trusted with jobs, and makes the queue if there is none.
    ///
    /// # Errors
    /// If it cannot be reached, does not take the password, is older than 6.2, may throw keys away, is
    /// another node of its cluster, or holds something else under the queue's name.
    pub async fn connect(options: RedisOptions) -> Answer<Self> {
        options.check()?;
        let client = options.client()?;
        let channel = format!("{{{}}}:bell", options.queue);
        let ear = Ear::new(&client, channel, options.timeout)?;
        let caller = Arc::new(Caller::new(client, &options));
        caller.reach().await?;
        Ok(Self {
            counter: Arc::new(Counter::new(Arc::clone(&caller))),
            lives: lives::Lives::default(),
            caller,
            ear,
        })
    }

    /// Whether the queue was lost while it was in use: the server was emptied, or replaced by one that
    /// does not know it. Every call fails for two seconds, so that nobody takes it for the end of the work;
    /// the first call after that [begins anew](Self::begin_anew), and is the last one to fail.
    pub fn lost(&self) -> bool {
        self.caller.lost()
    }

    /// Goes on with an empty queue after a loss, without waiting any longer. Claims of the lost queue are
    /// fenced in the new one, and its actions are unknown. Jobs under a [plan](crate::SharedPlan) are not given out
    /// before the longest of its windows is over: what was used of it is not known any more.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub async fn begin_anew(&self) -> Answer<()> {
        self.caller.begin_anew().await
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis")
            .field("queue", &self.caller.prefix())
            .field("lost", &self.lost())
            .finish_non_exhaustive()
    }
}

impl JobStore for Redis {
    async fn submit(&self, batch: Batch) -> Answer<Submitted> {
        self.counter.submit(batch).await
    }

    async fn claim(&self, ask: ClaimAsk, gate: &mut dyn Gate) -> Answer<Claims> {
        claim::claim(&self.caller, ask, gate).await
    }

    async fn settle(&self, session: &Name, ends: Vec<Settlement>) -> Answer<Vec<Settled>> {
        settle::settle(&self.caller, session, ends).await
    }

    async fn debit(&self, start: &Start) -> Answer<Option<Duration>> {
        limit::debit(&self.caller, start).await
    }

    async fn refund(&self, start: &Start, at: Duration) -> Answer<()> {
        limit::refund(&self.caller, start, at).await
    }

    async fn beat(&self, session: &Name, lease: Duration) -> Answer<Beat> {
        claim::beat(&self.caller, session, lease).await
    }

    async fn reap(&self, most: usize, recoveries: u32) -> Answer<Reaped> {
        claim::reap(&self.caller, most, recoveries).await
    }

    async fn disown(&self, session: &Name, known: &[Token]) -> Answer<u64> {
        claim::disown(&self.caller, session, known).await
    }

    fn changed(&self) -> impl Future<Output = ()> + Send {
        self.ear.wait(self.ear.listen())
    }

    async fn lanes(&self) -> Answer<Vec<Name>> {
        tenants::lanes(&self.caller).await
    }

    async fn set_usual(&self, rule: TenantRule) -> Answer<()> {
        tenants::set_usual(&self.caller, &rule).await
    }

    async fn set_rule(&self, tenant: &Name, rule: TenantRule) -> Answer<()> {
        tenants::set_rule(&self.caller, tenant, &rule).await
    }

    async fn unset_rule(&self, tenant: &Name) -> Answer<()> {
        tenants::unset_rule(&self.caller, tenant).await
    }

    async fn pause(&self, scope: &Scope) -> Answer<()> {
        sweep::pause(&self.caller, scope).await
    }

    async fn resume(&self, scope: &Scope) -> Answer<()> {
        sweep::resume(&self.caller, scope).await
    }

    async fn cancel(&self, scope: &Scope) -> Answer<u64> {
        sweep::cancel(&self.caller, scope).await
    }

    async fn release(&self, tenant: &Name, most: u64) -> Answer<u64> {
        sweep::release(&self.caller, tenant, most).await
    }

    async fn open(&self, spec: ActionSpec) -> Answer<()> {
        actions::open(&self.caller, spec).await
    }

    async fn close(&self, action: &Name) -> Answer<()> {
        actions::close(&self.caller, action).await
    }

    async fn action(&self, id: &Name) -> Answer<Option<ActionReport>> {
        actions::action(&self.caller, id).await
    }

    async fn left(&self, action: &Name) -> Answer<Left> {
        left::left(&self.caller, action).await
    }

    async fn actions(&self, page: Page) -> Answer<Vec<ActionReport>> {
        actions::actions(&self.caller, &page).await
    }

    async fn ripe(&self, ask: RipeAsk<'_>) -> Answer<Vec<ActionReport>> {
        let ripe = actions::ripe(&self.caller, ask).await?;
        self.lives.note(&ripe);
        Ok(ripe)
    }

    async fn told(&self, action: &Name) -> Answer<()> {
        actions::told(&self.caller, &self.lives, action).await
    }

    async fn outcomes(&self, action: &Name, after: u64, most: usize) -> Answer<Vec<Outcome>> {
        actions::outcomes(&self.caller, action, after, most).await
    }

    async fn tally(&self) -> Answer<Tally> {
        tenants::tally(&self.caller).await
    }

    async fn active(&self) -> Answer<u64> {
        tenants::active(&self.caller).await
    }

    async fn tenant(&self, name: &Name) -> Answer<Option<TenantReport>> {
        tenants::tenant(&self.caller, name).await
    }

    async fn tenants(&self, page: Page) -> Answer<Vec<TenantReport>> {
        tenants::tenants(&self.caller, &page).await
    }

    async fn snapshot(&self, keep: Duration) -> Answer<()> {
        tenants::snapshot(&self.caller, keep).await
    }

    async fn history(&self, tenant: &Name, most: usize) -> Answer<Vec<Snapshot>> {
        tenants::history(&self.caller, tenant, most).await
    }

    async fn reset(&self, tenant: &Name) -> Answer<()> {
        tenants::reset(&self.caller, tenant).await
    }

    async fn dead(&self, after: u64, most: usize) -> Answer<Vec<DeadLetter>> {
        dead::list(&self.caller, after, most).await
    }

    async fn revive(&self, pick: &DeadPick) -> Answer<u64> {
        dead::each(&self.caller, dead::Deed::Revive, pick).await
    }

    async fn purge(&self, pick: &DeadPick) -> Answer<u64> {
        dead::each(&self.caller, dead::Deed::Purge, pick).await
    }

    async fn tidy(&self, dead_before: WallTime) -> Answer<u64> {
        dead::tidy(&self.caller, dead_before).await
    }

    async fn recount(&self) -> Answer<u64> {
        recount::recount(&self.caller).await
    }

    fn warning(&self) -> Option<String> {
        self.caller.warning()
    }
}
