//! Location of the job store, from the configuration.

use std::path::PathBuf;

use super::{BulkConfig, BulkRedis, BulkStore};
use outflow_store::{RedisOptions, ReplicaWait};
use secrecy::ExposeSecret;

/// Location of a job store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreLocation {
    /// A directory of this machine, for one process.
    Dir(PathBuf),
    /// A Redis server, for many machines.
    Server(RedisOptions),
}

impl StoreLocation {
    /// Returns the location that a section configures.
    pub fn from_section(section: &BulkConfig) -> Self {
        match &section.store {
            BulkStore::Embedded => {
                let default = || data_dir().join("bulk");
                Self::Dir(section.dir.clone().unwrap_or_else(default))
            }
            BulkStore::Redis(redis) => Self::Server(options(redis)),
        }
    }
}

/// Converts the section. The wait for replicas gets half of the timeout, so that its failure can be reported
/// in time.
fn options(redis: &BulkRedis) -> RedisOptions {
    let replicas = |count| ReplicaWait {
        count,
        timeout: redis.timeout / 2,
    };
    RedisOptions {
        url: redis.url.expose_secret().to_owned(),
        ca_file: redis.ca_file.clone(),
        queue: redis.queue.to_string(),
        timeout: redis.timeout,
        wait_replicas: Some(redis.wait_replicas).filter(|count| *count > 0).map(replicas),
    }
}

/// Returns the default directory for data: the user's state directory, or a local one if there is none.
pub fn data_dir() -> PathBuf {
    let named = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let state = named("XDG_STATE_HOME").map(PathBuf::from);
    let state = state.or_else(|| named("HOME").map(|home| PathBuf::from(home).join(".local/state")));
    state.map_or_else(|| PathBuf::from(".outflow"), |state| state.join("outflow"))
}
