//! How the engine works and where it keeps its jobs, as the configuration says it.

use std::path::PathBuf;

use outflow::Config;
use outflow_bulk::Settings;

/// Where jobs are kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// In a directory of this machine, for one process.
    Dir(PathBuf),
}

/// How the engine works.
pub(crate) fn settings(_config: &Config) -> Settings {
    Settings::default()
}

/// Where its jobs are kept.
pub(crate) fn place(_config: &Config) -> Place {
    Place::Dir(data().join("bulk"))
}

/// Where the program keeps what nobody named a place for: in the user's own directory for such things,
/// or here if there is none.
pub(crate) fn data() -> PathBuf {
    let named = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let state = named("XDG_STATE_HOME").map(PathBuf::from);
    let state =
        state.or_else(|| named("HOME").map(|home| PathBuf::from(home).join(".local/state")));
    state.map_or_else(|| PathBuf::from(".outflow"), |state| state.join("outflow"))
}
