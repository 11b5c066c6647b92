//! How jobs are kept and worked on: the section of the bulk engine.
//!
//! Plain values. The engine is above this library and makes its own settings of them; they are read here
//! because one text configures everything, and a mistake in any line of it is told with all the others.

mod diff;
mod read;
mod redis;
mod tenants;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use outflow_core::{Backoff, CongestionRule, Priority, Rate, Weight};
use secrecy::{ExposeSecret, SecretString};
use smol_str::SmolStr;

pub(super) use read::read;

/// How jobs are kept and worked on.
///
/// ```
/// use outflow::config::{BulkScheduler, Config, Environment, Source};
///
/// let text = "[bulk]\nscheduler = \"backoff\"\n[bulk.tenants.acme]\nweight = 3\n";
/// let config = Config::read(&[Source::new("outflow.toml", text)], &Environment::empty())?;
/// assert_eq!(config.bulk.scheduler, BulkScheduler::Backoff);
/// assert_eq!(config.bulk.tenants["acme"].weight.as_u32(), 3);
/// assert_eq!(config.bulk.tenant.weight.as_u32(), 1);
/// # Ok::<(), outflow::config::Mistakes>(())
/// ```
#[derive(Clone, Debug)]
pub struct BulkConfig {
    /// How a job gets its turn; with congestion control switched off never by the formula.
    pub scheduler: BulkScheduler,
    /// Where jobs are kept.
    pub store: BulkStore,
    /// The directory of the embedded store; none leaves it to the program.
    pub dir: Option<PathBuf>,
    /// How many jobs are worked on at once.
    pub workers: BulkWorkers,
    /// How long a worker is believed to live without a word of it.
    pub lease: Duration,
    /// How often it gives that word.
    pub heartbeat: Duration,
    /// How often a job may take its worker down with it before it is buried.
    pub recoveries: u32,
    /// How long one attempt may take, unless the job says otherwise.
    pub timeout: Duration,
    /// How long an action may take, unless it says otherwise.
    pub action_timeout: Duration,
    /// How long a shutdown waits for jobs under way.
    pub grace: Duration,
    /// How long a failed job waits before it is tried again.
    pub retry: Backoff,
    /// How many jobs at most are told to be ready.
    pub ready_queue_max: u64,
    /// How many jobs wait at most.
    pub queue_max: u64,
    /// The rate of all tenants together, a second, that speeds are told by.
    pub global_rate: u64,
    /// The formula's shortest and longest wait.
    pub congestion: CongestionRule,
    /// How often the congestion of each tenant is written down.
    pub snapshot_interval: Duration,
    /// How long what was written down is kept.
    pub stats_retention: Duration,
    /// What a tenant may that is not named below.
    pub tenant: BulkTenant,
    /// Tenants with a rule of their own.
    pub tenants: BTreeMap<SmolStr, BulkTenant>,
    /// How long things are kept.
    pub retention: BulkRetention,
    /// How limits are kept with other machines, where the store is shared.
    pub shared: BulkShared,
    /// What webhooks are signed with.
    pub webhook_secret: Option<SecretString>,
}

impl Default for BulkConfig {
    /// As the engine works if nothing is said.
    fn default() -> Self {
        Self {
            scheduler: BulkScheduler::default(),
            store: BulkStore::default(),
            dir: None,
            workers: BulkWorkers::default(),
            lease: Duration::from_secs(10),
            heartbeat: Duration::from_secs(3),
            recoveries: 2,
            timeout: Duration::from_secs(30),
            action_timeout: Duration::from_hours(1),
            grace: Duration::from_secs(30),
            retry: Backoff::default(),
            ready_queue_max: 10_000,
            queue_max: 10_000_000,
            global_rate: 10_000,
            congestion: CongestionRule::default(),
            snapshot_interval: Duration::from_secs(1),
            stats_retention: Duration::from_hours(1),
            tenant: BulkTenant::default(),
            tenants: BTreeMap::new(),
            retention: BulkRetention::default(),
            shared: BulkShared::default(),
            webhook_secret: None,
        }
    }
}

impl BulkConfig {
    /// The keys in which this differs from another and that an engine cannot change while it runs: it
    /// holds its store open, and what it signs with.
    pub(crate) fn rebuilt(&self, other: &Self) -> [(&'static str, bool); 3] {
        let secret = |bulk: &Self| {
            let secret = bulk.webhook_secret.as_ref();
            secret.map(|secret| secret.expose_secret().to_owned())
        };
        [
            ("bulk.store", !self.store.is(&other.store)),
            ("bulk.dir", self.dir != other.dir),
            ("bulk.webhook", secret(self) != secret(other)),
        ]
    }
}

/// How a job gets its turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BulkScheduler {
    /// A permit is taken first, then the job whose turn it is.
    #[default]
    Permit,
    /// A job is taken, and put off by the formula if there is no room for it.
    Backoff,
    /// A job is taken, and put off by the formula's shortest wait if there is no room for it.
    Fixed,
}

/// Where jobs are kept.
#[derive(Clone, Debug, Default)]
pub enum BulkStore {
    /// In a directory, for one process.
    #[default]
    Embedded,
    /// On a server, for many machines.
    Redis(BulkRedis),
}

impl BulkStore {
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Embedded, Self::Embedded) => true,
            (Self::Redis(one), Self::Redis(another)) => one.is(another),
            (Self::Embedded, Self::Redis(_)) | (Self::Redis(_), Self::Embedded) => false,
        }
    }
}

/// A Redis or Valkey that keeps jobs.
#[derive(Clone, Debug)]
pub struct BulkRedis {
    /// Where it is, with its password if it has one.
    pub url: SecretString,
    /// The file of the authorities that vouch for it over TLS; nothing for those of the machine.
    pub ca_file: Option<PathBuf>,
    /// What all keys begin with: those that share jobs use the same.
    pub queue: SmolStr,
    /// How many replicas must have a change before it is answered.
    pub wait_replicas: u32,
    /// How long a call of it may take.
    pub timeout: Duration,
}

impl BulkRedis {
    fn is(&self, other: &Self) -> bool {
        let told = |redis: &Self| (redis.queue.clone(), redis.wait_replicas, redis.timeout);
        self.url.expose_secret() == other.url.expose_secret()
            && self.ca_file == other.ca_file
            && told(self) == told(other)
    }
}

/// How many jobs are worked on at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BulkWorkers {
    /// At least so many.
    pub min: u32,
    /// At most so many.
    pub max: u32,
    /// How many jobs may wait for each before there are more.
    pub depth: u64,
}

impl Default for BulkWorkers {
    fn default() -> Self {
        Self {
            min: 10,
            max: 200,
            depth: 20,
        }
    }
}

/// What a tenant may.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BulkTenant {
    /// Its part, against the other tenants' weights.
    pub weight: Weight,
    /// Its class among tenants.
    pub priority: Priority,
    /// What it may use at most, if less than everybody.
    pub rate: Option<Rate>,
    /// How many of its jobs may be under way at once.
    pub in_flight: Option<u32>,
}

/// How long things are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BulkRetention {
    /// What came of jobs, and actions that are over.
    pub results: Duration,
    /// The names of finished jobs, by which one that is submitted again is known.
    pub names: Duration,
    /// Dead letters.
    pub dead: Duration,
}

impl Default for BulkRetention {
    fn default() -> Self {
        let day = Duration::from_hours(24);
        Self {
            results: day,
            names: day,
            dead: day * 30,
        }
    }
}

/// How limits are kept with other machines that use the same store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BulkShared {
    /// By how much windows are widened, for starts that are a little early or late.
    pub guard: Duration,
    /// How far ahead jobs are claimed.
    pub horizon: Duration,
}

impl Default for BulkShared {
    fn default() -> Self {
        Self {
            guard: Duration::from_millis(5),
            horizon: Duration::from_millis(250),
        }
    }
}
