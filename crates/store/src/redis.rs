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

mod actions;
mod audit;
mod claim;
mod cluster_slots;
mod connection;
mod data_loss;
mod dead_letters;
mod error_map;
mod failover;
mod job_codec;
mod ledger;
mod options;
mod paging;
mod reply;
mod scope_ops;
mod script_call;
mod script_transport;
mod scripts;
mod server_address;
mod server_info;
mod server_locator;
mod settle;
mod submit;
mod submit_batcher;
mod subscriber;
mod tenants;
mod tls;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use outflow_sync::Mutex;

pub use self::ledger::{RedisAccount, RedisLedger};
pub use self::options::{RedisOptions, ReplicaWait};
use self::script_call::ScriptRunner;
use self::server_locator::ServerLocator;
use self::submit_batcher::SubmitBatcher;
use self::subscriber::Subscriber;
use crate::contract::StoreResult;
use crate::name::Name;

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
    /// Opening times in microseconds of the actions whose ends this process took for notification. A name may
    /// belong to a new action by the time the notification of the old one is done, and the end of the new
    /// action must still be notified.
    opened_at: Mutex<HashMap<Name, u64>>,
}

impl RedisStore {
    /// Connects, checks that the server is safe for jobs, and creates the queue if it does not
    /// exist.
    ///
    /// # Errors
    /// Fails if the server cannot be reached, rejects the password, is older than 6.2, may evict keys, or holds other
    /// data under the queue's name.
    pub async fn connect(options: RedisOptions) -> StoreResult<Self> {
        options.check()?;
        let channel = format!("{{{}}}:bell", options.queue);
        let ear = Subscriber::new(ServerLocator::new(&options)?, channel, options.timeout);
        let locator = Arc::new(ServerLocator::new(&options)?);
        let caller = Arc::new(ScriptRunner::new(&locator, &options));
        caller.ensure_connected().await?;
        Ok(Self {
            submit_batcher: Arc::new(SubmitBatcher::new(Arc::clone(&caller))),
            opened_at: Mutex::default(),
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
    /// queue are fenced in the new one, and its actions are unknown. Jobs of tenants with
    /// a rate of their own stay unclaimed until its window has passed, because the earlier usage is
    /// unknown.
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
