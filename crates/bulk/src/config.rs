//! The section `[bulk]`: where jobs are stored, and how the engine runs them.

mod diff;
pub(crate) mod location;
mod read;
mod redis;
mod tenants;

use std::path::PathBuf;
use std::time::Duration;

use outflow_config::{Environment, Section, SectionChanges, TableReader};
use outflow_store::{RedisOptions, ReplicaWait};
use secrecy::{ExposeSecret, SecretString};
use smol_str::SmolStr;

use crate::settings::EngineSettings;

/// Configuration of the bulk engine.
///
/// ```
/// use outflow::config::{Environment, Source, load};
/// use outflow_bulk::SchedulerKind;
/// use outflow_bulk::config::BulkConfig;
///
/// let text = "[bulk]\nscheduler = \"backoff\"\n[bulk.tenants.acme]\nweight = 3\n";
/// let environment = Environment::empty();
/// let document = load(&[Source::new("outflow.toml", text)], &environment);
/// let bulk: BulkConfig = document.read(&environment);
/// document.close(&outflow::config::SECTIONS)?;
/// assert_eq!(bulk.engine.scheduler, SchedulerKind::Backoff);
/// assert_eq!(bulk.engine.tenants["acme"].weight.as_u32(), 3);
/// assert_eq!(bulk.engine.tenant.weight.as_u32(), 1);
/// # Ok::<(), outflow::config::Diagnostics>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct BulkConfig {
    /// Settings of the engine.
    pub engine: EngineSettings,
    /// Store of the jobs.
    pub store: BulkStore,
    /// Directory of the embedded store; `None` leaves it to the program.
    pub dir: Option<PathBuf>,
    /// Secret that signs webhooks.
    pub webhook_secret: Option<SecretString>,
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
            ("bulk.store", self.store.redis_options() != new.store.redis_options()),
            ("bulk.dir", self.dir != new.dir),
            ("bulk.webhook", secret(self) != secret(new)),
        ])
    }
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
    /// Returns the server's options. The wait for replicas gets half of the timeout, so that its failure can be
    /// reported in time.
    pub fn redis_options(&self) -> Option<RedisOptions> {
        let Self::Redis(redis) = self else {
            return None;
        };
        let replicas = ReplicaWait {
            count: redis.wait_replicas,
            timeout: redis.timeout / 2,
        };
        Some(RedisOptions {
            url: redis.url.expose_secret().to_owned(),
            ca_file: redis.ca_file.clone(),
            queue: redis.queue.to_string(),
            timeout: redis.timeout,
            wait_replicas: Some(replicas).filter(|wait| wait.count > 0),
        })
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
