//! Jobs in Redis or Valkey, for many machines.
//!
//! Every operation is one script. It applies completely or not at all, uses the server's clock, and
//! costs one round trip for any number of jobs. Concurrent small submissions share one script call.
//! The tenant order, the counters and the scheduled starts of limits are stored with the jobs and
//! change with them.
//!
//! # Layout
//! All keys begin with the queue's name in braces, so a cluster keeps them on one node. A waiting
//! job is only an element of a list of its lane, tenant and class: no second copy exists. A claimed
//! job is in a hash of its session; a delayed job is in a sorted set of its lane.
//!
//! # Limits of use
//! The store refuses a server that may evict keys (`maxmemory-policy` other than `noeviction`). It
//! does not trust the machines' clocks and never sends a command twice by itself. It does not take
//! an emptied server for a finished queue.

mod action_epoch;
mod actions;
mod audit;
mod claim;
mod connection;
mod data_loss;
mod dead_letters;
mod error_map;
mod failover;
mod job_codec;
mod options;
mod paging;
mod remaining;
mod reply;
mod scope_ops;
mod script_call;
mod scripts;
mod server_info;
mod settle;
mod shared_limits;
mod submit;
mod submit_batcher;
mod subscriber;
mod tenants;
mod tls;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use outflow_core::WallTime;

pub use self::options::{RedisOptions, ReplicaWait};
use self::script_call::ScriptRunner;
use self::submit_batcher::SubmitBatcher;
use self::subscriber::Subscriber;
use crate::action::{ActionReport, ActionSpec, FinishedQuery, JobCounts, RemainingWork};
use crate::claim::{ClaimBatch, ClaimFilter, ClaimRequest, FencingToken, HeartbeatResult, ReapResult};
use crate::contract::{ActionStore, DeadLetterStore, JobQueue, StoreControl, StoreResult, TenantStore};
use crate::dead_letter::{DeadLetter, DeadLetterFilter};
use crate::job::{SubmitBatch, SubmitResult};
use crate::name::Name;
use crate::settle::{JobOutcome, SettleResult, Settlement};
use crate::shared_limits::StartDebit;
use crate::tenant::{CongestionSample, ControlScope, PageRequest, TenantReport, TenantRule};

/// Job store that many machines share.
///
/// ```no_run
/// use bytes::Bytes;
/// use outflow_store::{JobQueue, NewJob, RedisOptions, RedisStore, SubmitBatch};
///
/// # async fn submit() -> Result<(), Box<dyn std::error::Error>> {
/// let store = RedisStore::connect(RedisOptions::new("redis://127.0.0.1:6379/")).await?;
/// let job = NewJob::new("customer-A".parse()?, "api".parse()?, Bytes::from("GET /"));
/// let submitted = store.submit(SubmitBatch::from_jobs(vec![job])).await?;
/// println!("{} jobs wait", submitted.queued);
/// # Ok(())
/// # }
/// ```
pub struct RedisStore {
    runner: Arc<ScriptRunner>,
    subscriber: Subscriber,
    submit_batcher: Arc<SubmitBatcher>,
    action_epochs: action_epoch::ActionEpochs,
}

impl RedisStore {
    /// Connects, checks that the server is safe for jobs, and creates the queue if it does not
    /// exist.
    ///
    /// # Errors
    /// Fails if the server cannot be reached, rejects the password, is older than 6.2, may evict
    /// keys, is another node of its cluster, or holds other data under the queue's name.
    pub async fn connect(options: RedisOptions) -> StoreResult<Self> {
        options.check()?;
        let client = options.client()?;
        let channel = format!("{{{}}}:bell", options.queue);
        let ear = Subscriber::new(&client, channel, options.timeout)?;
        let caller = Arc::new(ScriptRunner::new(client, &options));
        caller.ensure_connected().await?;
        Ok(Self {
            submit_batcher: Arc::new(SubmitBatcher::new(Arc::clone(&caller))),
            action_epochs: action_epoch::ActionEpochs::default(),
            runner: caller,
            subscriber: ear,
        })
    }

    /// Returns `true` if the queue was lost while in use: the server was emptied, or replaced by
    /// one without the queue. Every call fails for two seconds, so that no caller takes the loss
    /// for the end of the work. The first call after that [reinitializes](Self::reinitialize) the
    /// queue, and is the last one to fail.
    pub fn lost(&self) -> bool {
        self.runner.lost()
    }

    /// Continues with an empty queue after a loss, without waiting any longer. Claims of the lost
    /// queue are fenced in the new one, and its actions are unknown. Jobs under [shared
    /// limits](crate::SharedLimits) stay unclaimed until the longest window has passed, because the
    /// earlier usage is unknown.
    ///
    /// # Errors
    /// Fails if the server cannot be reached.
    pub async fn reinitialize(&self) -> StoreResult<()> {
        self.runner.reinitialize().await
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis")
            .field("queue", &self.runner.prefix())
            .field("lost", &self.lost())
            .finish_non_exhaustive()
    }
}

impl JobQueue for RedisStore {
    async fn submit(&self, batch: SubmitBatch) -> StoreResult<SubmitResult> {
        self.submit_batcher.submit(batch).await
    }

    async fn claim(&self, ask: ClaimRequest, gate: &mut dyn ClaimFilter) -> StoreResult<ClaimBatch> {
        claim::claim(&self.runner, ask, gate).await
    }

    async fn settle(&self, session: &Name, ends: Vec<Settlement>) -> StoreResult<Vec<SettleResult>> {
        settle::settle(&self.runner, session, ends).await
    }

    async fn debit(&self, start: &StartDebit) -> StoreResult<Option<Duration>> {
        shared_limits::debit(&self.runner, start).await
    }

    async fn refund(&self, start: &StartDebit, at: Duration) -> StoreResult<()> {
        shared_limits::refund(&self.runner, start, at).await
    }

    async fn heartbeat(&self, session: &Name, lease: Duration) -> StoreResult<HeartbeatResult> {
        claim::heartbeat(&self.runner, session, lease).await
    }

    async fn reap(&self, max: usize, recoveries: u32) -> StoreResult<ReapResult> {
        claim::reap(&self.runner, max, recoveries).await
    }

    async fn release_unknown(&self, session: &Name, known: &[FencingToken]) -> StoreResult<u64> {
        claim::release_unknown(&self.runner, session, known).await
    }

    fn changed(&self) -> impl Future<Output = ()> + Send {
        self.subscriber.wait(self.subscriber.listen())
    }

    async fn lanes(&self) -> StoreResult<Vec<Name>> {
        tenants::lanes(&self.runner).await
    }
}

impl TenantStore for RedisStore {
    async fn set_default_rule(&self, rule: TenantRule) -> StoreResult<()> {
        tenants::set_default_rule(&self.runner, &rule).await
    }

    async fn set_rule(&self, tenant: &Name, rule: TenantRule) -> StoreResult<()> {
        tenants::set_rule(&self.runner, tenant, &rule).await
    }

    async fn remove_rule(&self, tenant: &Name) -> StoreResult<()> {
        tenants::unset_rule(&self.runner, tenant).await
    }

    async fn release_deferred(&self, tenant: &Name, max: u64) -> StoreResult<u64> {
        scope_ops::release(&self.runner, tenant, max).await
    }

    async fn active_tenants(&self) -> StoreResult<u64> {
        tenants::active(&self.runner).await
    }

    async fn tenant(&self, name: &Name) -> StoreResult<Option<TenantReport>> {
        tenants::tenant(&self.runner, name).await
    }

    async fn tenants(&self, page: PageRequest) -> StoreResult<Vec<TenantReport>> {
        tenants::tenants(&self.runner, &page).await
    }

    async fn sample_congestion(&self, keep: Duration) -> StoreResult<()> {
        tenants::snapshot(&self.runner, keep).await
    }

    async fn congestion_history(&self, tenant: &Name, max: usize) -> StoreResult<Vec<CongestionSample>> {
        tenants::history(&self.runner, tenant, max).await
    }

    async fn reset_congestion(&self, tenant: &Name) -> StoreResult<()> {
        tenants::reset(&self.runner, tenant).await
    }
}

impl ActionStore for RedisStore {
    async fn open(&self, spec: ActionSpec) -> StoreResult<()> {
        actions::open(&self.runner, spec).await
    }

    async fn close(&self, action: &Name) -> StoreResult<()> {
        actions::close(&self.runner, action).await
    }

    async fn action(&self, id: &Name) -> StoreResult<Option<ActionReport>> {
        actions::action(&self.runner, id).await
    }

    async fn remaining(&self, action: &Name) -> StoreResult<RemainingWork> {
        remaining::remaining(&self.runner, action).await
    }

    async fn actions(&self, page: PageRequest) -> StoreResult<Vec<ActionReport>> {
        actions::actions(&self.runner, &page).await
    }

    async fn take_finished(&self, ask: FinishedQuery<'_>) -> StoreResult<Vec<ActionReport>> {
        let ripe = actions::ripe(&self.runner, ask).await?;
        self.action_epochs.note(&ripe);
        Ok(ripe)
    }

    async fn mark_notified(&self, action: &Name) -> StoreResult<()> {
        actions::mark_notified(&self.runner, &self.action_epochs, action).await
    }

    async fn outcomes(&self, action: &Name, after: u64, max: usize) -> StoreResult<Vec<JobOutcome>> {
        actions::outcomes(&self.runner, action, after, max).await
    }
}

impl DeadLetterStore for RedisStore {
    async fn dead_letters(&self, after: u64, max: usize) -> StoreResult<Vec<DeadLetter>> {
        dead_letters::list(&self.runner, after, max).await
    }

    async fn requeue(&self, pick: &DeadLetterFilter) -> StoreResult<u64> {
        dead_letters::each(&self.runner, dead_letters::DeadLetterOp::Revive, pick).await
    }

    async fn purge(&self, pick: &DeadLetterFilter) -> StoreResult<u64> {
        dead_letters::each(&self.runner, dead_letters::DeadLetterOp::Purge, pick).await
    }
}

impl StoreControl for RedisStore {
    async fn pause(&self, scope: &ControlScope) -> StoreResult<()> {
        scope_ops::pause(&self.runner, scope).await
    }

    async fn resume(&self, scope: &ControlScope) -> StoreResult<()> {
        scope_ops::resume(&self.runner, scope).await
    }

    async fn cancel(&self, scope: &ControlScope) -> StoreResult<u64> {
        scope_ops::cancel(&self.runner, scope).await
    }

    async fn job_counts(&self) -> StoreResult<JobCounts> {
        tenants::counts(&self.runner).await
    }

    async fn collect_garbage(&self, dead_before: WallTime) -> StoreResult<u64> {
        dead_letters::collect_garbage(&self.runner, dead_before).await
    }

    async fn audit(&self) -> StoreResult<u64> {
        audit::recount(&self.runner).await
    }

    fn take_warning(&self) -> Option<String> {
        self.runner.warning()
    }
}
