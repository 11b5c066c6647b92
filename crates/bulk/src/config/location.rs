//! Location of the job store, from the configuration.

use std::path::PathBuf;

use outflow_store::RedisOptions;

use super::BulkConfig;

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
        section.store.redis_options().map_or_else(
            || Self::Dir(section.dir.clone().unwrap_or_else(|| data_dir().join("bulk"))),
            Self::Server,
        )
    }
}

/// Returns the default directory for data: the user's state directory, or a local one if there is none.
pub fn data_dir() -> PathBuf {
    let named = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let state = named("XDG_STATE_HOME").map(PathBuf::from);
    let state = state.or_else(|| named("HOME").map(|home| PathBuf::from(home).join(".local/state")));
    state.map_or_else(|| PathBuf::from(".outflow"), |state| state.join("outflow"))
}
