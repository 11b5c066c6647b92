//! The section `[bulk]`: where jobs are stored, and how the engine runs them.
//!
//! Plain values; the engine derives its own settings from them.

mod diff;
pub(crate) mod location;
mod read;
mod redis;
mod tenants;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use outflow_config::{Environment, Section, SectionChanges, TableReader};
use outflow_core::{Backoff, CongestionRule, Priority, Rate, Weight};
use secrecy::{ExposeSecret, SecretString};
use smol_str::SmolStr;

/// Configuration of the bulk engine.
///
/// ```
/// use outflow::config::{Environment, Source, load};
/// use outflow_bulk::config::{BulkConfig, BulkScheduler};
///
/// let text = "[bulk]\nscheduler = \"backoff\"\n[bulk.tenants.acme]\nweight = 3\n";
/// let environment = Environment::empty();
/// let document = load(&[Source::new("outflow.toml", text)], &environment);
/// let bulk: BulkConfig = document.read(&environment);
/// document.close(&outflow::config::SECTIONS)?;
/// assert_eq!(bulk.scheduler, BulkScheduler::Backoff);
/// assert_eq!(bulk.tenants["acme"].weight.as_u32(), 3);
/// assert_eq!(bulk.tenant.weight.as_u32(), 1);
/// # Ok::<(), outflow::config::Diagnostics>(())
/// ```
#[derive(Clone, Debug)]
pub struct BulkConfig {
    /// Order of starts; without congestion control the formula is not used.
    pub scheduler: BulkScheduler,
    /// Store of the jobs.
    pub store: BulkStore,
    /// Directory of the embedded store; `None` leaves it to the program.
    pub dir: Option<PathBuf>,
    /// Number of jobs that run at once.
    pub workers: BulkWorkers,
    /// Time without a heartbeat after which a worker counts as dead.
    pub lease: Duration,
    /// Time between two heartbeats.
    pub heartbeat: Duration,
    /// Number of dead workers after which their job becomes a dead letter.
    pub recoveries: u32,
    /// Timeout of one attempt, unless the job sets its own.
    pub timeout: Duration,
    /// Timeout of an action, unless it sets its own.
    pub action_timeout: Duration,
    /// Time that a shutdown waits for running jobs.
    pub grace: Duration,
    /// Wait before a retry of a failed job.
    pub retry: Backoff,
    /// Largest number of jobs that count as ready.
    pub ready_queue_max: u64,
    /// Largest number of waiting jobs.
    pub queue_max: u64,
    /// Rate per second of all tenants together, on which the levels of congestion are based.
    pub global_rate: u64,
    /// Shortest and longest wait of the formula.
    pub congestion: CongestionRule,
    /// Time between two samples of each tenant's congestion.
    pub snapshot_interval: Duration,
    /// Retention of these samples.
    pub stats_retention: Duration,
    /// Rule of every tenant without its own.
    pub tenant: BulkTenant,
    /// Rules of single tenants.
    pub tenants: BTreeMap<SmolStr, BulkTenant>,
    /// Retention of finished work.
    pub retention: BulkRetention,
    /// Limits in common with other machines, where the store is shared.
    pub shared: BulkShared,
    /// Secret that signs webhooks.
    pub webhook_secret: Option<SecretString>,
}

impl Default for BulkConfig {
    /// Ten to 200 workers on an embedded store.
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

impl Section for BulkConfig {
    const NAME: &'static str = "bulk";

    fn read(table: &TableReader<'_>, environment: &Environment) -> Self {
        read::read_bulk(table, environment)
    }

    /// An engine holds its store open, and keeps the secret that signs webhooks.
    fn restart_keys(&self, new: &Self) -> Vec<String> {
        let secret = |bulk: &Self| {
            let secret = bulk.webhook_secret.as_ref();
            secret.map(|secret| secret.expose_secret().to_owned())
        };
        SectionChanges::differing([
            ("bulk.store", !self.store.is_same(&new.store)),
            ("bulk.dir", self.dir != new.dir),
            ("bulk.webhook", secret(self) != secret(new)),
        ])
    }
}

/// Order in which jobs start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BulkScheduler {
    /// A permit is acquired first, then the next job is claimed.
    #[default]
    Permit,
    /// A job is claimed, and deferred by the formula without quota.
    Backoff,
    /// A job is claimed, and deferred by the formula's shortest wait without quota.
    Fixed,
}

/// Store of the jobs.
#[derive(Clone, Debug, Default)]
pub enum BulkStore {
    /// A directory, for one process.
    #[default]
    Embedded,
    /// A server, for many machines.
    Redis(BulkRedis),
}

impl BulkStore {
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Embedded, Self::Embedded) => true,
            (Self::Redis(one), Self::Redis(another)) => one.is_same(another),
            (Self::Embedded, Self::Redis(_)) | (Self::Redis(_), Self::Embedded) => false,
        }
    }
}

/// A Redis or Valkey server.
#[derive(Clone, Debug)]
pub struct BulkRedis {
    /// Its URL, which may contain its password.
    pub url: SecretString,
    /// File of trusted certificate authorities; `None` trusts the machine's.
    pub ca_file: Option<PathBuf>,
    /// Prefix of all keys: machines that share jobs use the same.
    pub queue: SmolStr,
    /// Number of replicas that must confirm a change.
    pub wait_replicas: u32,
    /// Timeout of a script call.
    pub timeout: Duration,
}

impl BulkRedis {
    fn is_same(&self, other: &Self) -> bool {
        self.url.expose_secret() == other.url.expose_secret()
            && self.ca_file == other.ca_file
            && self.queue == other.queue
            && self.wait_replicas == other.wait_replicas
            && self.timeout == other.timeout
    }
}

/// Size of the worker pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BulkWorkers {
    /// Smallest number.
    pub min: u32,
    /// Largest number.
    pub max: u32,
    /// Number of waiting jobs per worker above which the pool grows.
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

/// Rule of a tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BulkTenant {
    /// Its share, relative to the weights of other tenants.
    pub weight: Weight,
    /// Its priority among tenants.
    pub priority: Priority,
    /// Its own rate limit.
    pub rate: Option<Rate>,
    /// Largest number of its running jobs.
    pub in_flight: Option<u32>,
}

/// Retention of finished work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BulkRetention {
    /// Results of jobs, and finished actions.
    pub results: Duration,
    /// Names of finished jobs, which detect a repeated submission.
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

/// Limits in common with other machines that use the same store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BulkShared {
    /// Extension of windows, for starts that are early or late.
    pub guard: Duration,
    /// Time by which jobs are claimed in advance.
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
