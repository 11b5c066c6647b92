//! What every room of the running program shares.

use std::sync::Arc;

use arc_swap::ArcSwap;
use outflow::{Config, Outflow, Tasks};

use crate::sidecar::TurnedAway;
use crate::sources::Sources;

/// The running program, as its rooms see it: the client that governs, the configuration in effect and
/// the work beside it.
pub struct Station {
    client: Outflow,
    config: ArcSwap<Config>,
    sources: Sources,
    tasks: Tasks,
    turned_away: Arc<TurnedAway>,
}

impl Station {
    pub(crate) fn new(client: Outflow, config: Config, sources: Sources, tasks: Tasks) -> Self {
        Self {
            client,
            config: ArcSwap::from_pointee(config),
            sources,
            tasks,
            turned_away: Arc::default(),
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

    /// How many were turned away at the sidecar's door.
    pub const fn turned_away(&self) -> &Arc<TurnedAway> {
        &self.turned_away
    }
}
