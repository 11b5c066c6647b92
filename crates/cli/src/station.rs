//! What every room of the running program shares.

use std::sync::Arc;

use arc_swap::ArcSwap;
use outflow::{Config, Outflow, Tasks};

use crate::sources::Sources;

/// The running program, as its rooms see it: the client that governs, the configuration in effect and
/// the work beside it.
pub struct Station {
    client: Outflow,
    config: ArcSwap<Config>,
    sources: Sources,
    tasks: Tasks,
}

impl Station {
    pub(crate) fn new(client: Outflow, config: Config, sources: Sources, tasks: Tasks) -> Self {
        Self {
            client,
            config: ArcSwap::from_pointee(config),
            sources,
            tasks,
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
