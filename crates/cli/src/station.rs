//! What every room of the running program shares.

use std::sync::{Arc, Mutex};

use arc_swap::{ArcSwap, ArcSwapOption};
use outflow::config::Runtime;
use outflow::{Config, Outflow, Tasks};

use crate::reload::LastReload;
use crate::sources::Sources;
use crate::supervisor::Supervisor;

/// The running program, as its rooms see it: the client that governs, the configuration in effect and
/// the work beside it.
pub struct Station {
    pub(crate) client: Outflow,
    pub(crate) config: ArcSwap<Config>,
    pub(crate) sources: Sources,
    tasks: Tasks,
    /// What was set while the program runs. Whoever holds it may change the configuration: one after
    /// the other.
    pub(crate) runtime: Mutex<Runtime>,
    pub(crate) last_reload: ArcSwapOption<LastReload>,
    pub(crate) supervisor: Supervisor,
}

impl Station {
    pub(crate) fn new(client: Outflow, config: Config, sources: Sources, tasks: Tasks) -> Self {
        Self {
            client,
            config: ArcSwap::from_pointee(config),
            sources,
            tasks,
            runtime: Mutex::default(),
            last_reload: ArcSwapOption::empty(),
            supervisor: Supervisor::of_process(),
        }
    }

    /// What every call goes through.
    pub const fn client(&self) -> &Outflow {
        &self.client
    }

    /// The configuration in effect.
    pub fn config(&self) -> Arc<Config> {
        self.config.load_full()
    }

    /// Where it came from and is read from again.
    pub const fn sources(&self) -> &Sources {
        &self.sources
    }

    /// The work that runs beside the calls.
    pub const fn tasks(&self) -> &Tasks {
        &self.tasks
    }
}
