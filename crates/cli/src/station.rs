//! What every room of the running program shares.

use std::sync::{Arc, Mutex};

use arc_swap::{ArcSwap, ArcSwapOption};
use outflow::config::Runtime;
use outflow::{Config, Outflow, Tasks};

use crate::bulk::Bulk;
use crate::listener::Address;
use crate::reload::LastReload;
use crate::sidecar::TurnedAway;
use crate::sources::Sources;
use crate::supervisor::Supervisor;

/// The running program, as its rooms see it: the client that governs, the configuration in effect and
/// the work beside it.
pub struct Station {
    pub(crate) client: Outflow,
    pub(crate) config: ArcSwap<Config>,
    pub(crate) sources: Sources,
    pub(crate) tasks: Tasks,
    turned_away: Arc<TurnedAway>,
    /// What was set while the program runs. Whoever holds it may change the configuration: one after
    /// the other.
    pub(crate) runtime: Mutex<Runtime>,
    pub(crate) last_reload: ArcSwapOption<LastReload>,
    pub(crate) supervisor: Supervisor,
    pub(crate) doors: Doors,
    pub(crate) bulk: Option<Bulk>,
}

impl Station {
    pub(crate) fn new(client: Outflow, config: Config, sources: Sources, tasks: Tasks) -> Self {
        Self {
            client,
            config: ArcSwap::from_pointee(config),
            sources,
            tasks,
            turned_away: Arc::default(),
            runtime: Mutex::default(),
            last_reload: ArcSwapOption::empty(),
            supervisor: Supervisor::of_process(),
            doors: Doors::default(),
            bulk: None,
        }
    }

    /// The same behind these doors.
    pub(crate) fn behind(mut self, doors: Doors) -> Self {
        self.doors = doors;
        self
    }

    /// The same with this engine for jobs.
    pub(crate) fn working_on(mut self, bulk: Option<Bulk>) -> Self {
        self.bulk = bulk;
        self
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

/// Which doors others than this machine's own programs can come to, as they are and not as they are
/// configured: a supervisor may have opened them, and a reload does not move them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Doors {
    calls_from_outside: bool,
    operators_from_outside: bool,
}

impl Doors {
    pub(crate) const fn new(calls: &Address, admin: &Address) -> Self {
        Self {
            calls_from_outside: !calls.is_this_machines_alone(),
            operators_from_outside: !admin.is_this_machines_alone(),
        }
    }

    /// The section whose door would be open to everybody with this configuration.
    pub(crate) const fn unguarded(self, config: &Config) -> Option<&'static str> {
        if self.calls_from_outside && config.server.token.is_none() {
            return Some("server");
        }
        if self.operators_from_outside && config.admin.token.is_none() {
            return Some("admin");
        }
        None
    }
}
