//! How the engine works and where it keeps its jobs, as the configuration says it.

use std::path::PathBuf;

use super::{BulkConfig, BulkRedis, BulkStore};
use outflow_store::{RedisOptions, ReplicaWait};
use secrecy::ExposeSecret;

/// Where jobs are kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreLocation {
    /// In a directory of this machine, for one process.
    Dir(PathBuf),
    /// On a server, for many machines.
    Server(RedisOptions),
}

impl StoreLocation {
    /// Where this section wants them.
    pub fn from_section(section: &BulkConfig) -> Self {
        match &section.store {
            BulkStore::Embedded => {
                let own = || data_dir().join("bulk");
                Self::Dir(section.dir.clone().unwrap_or_else(own))
            }
            BulkStore::Redis(redis) => Self::Server(options(redis)),
        }
    }
}

/// A copy that is waited for must be there while there is still time to say that it is not.
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
        wait_replicas: Some(redis.wait_replicas)
            .filter(|count| *count > 0)
            .map(replicas),
    }
}

/// Where the program keeps what nobody named a place for: in the user's own directory for such things,
/// or here if there is none.
pub fn data_dir() -> PathBuf {
    let named = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let state = named("XDG_STATE_HOME").map(PathBuf::from);
    let state =
        state.or_else(|| named("HOME").map(|home| PathBuf::from(home).join(".local/state")));
    state.map_or_else(|| PathBuf::from(".outflow"), |state| state.join("outflow"))
}
