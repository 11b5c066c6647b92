//! What every room of the running program shares.

use std::sync::{Arc, Mutex};

use arc_swap::{ArcSwap, ArcSwapOption};
use outflow::config::RuntimeOverrides;
use outflow::{Outflow, Tasks};

use crate::config::ProgramConfig;
use crate::config_sources::ConfigSources;
use crate::listener::ListenAddr;
use crate::open::RunningEngine;
use crate::reload::LastReload;
use crate::sd_notify::ServiceManager;
use crate::sidecar::RejectionCounts;

/// The running program, as its rooms see it: the client that governs, the configuration in effect and
/// the work beside it.
pub struct AppState {
    pub(crate) client: Outflow,
    pub(crate) config: ArcSwap<ProgramConfig>,
    /// The program's own sections at the start, with which a reload compares them.
    pub(crate) started: ProgramConfig,
    pub(crate) sources: ConfigSources,
    pub(crate) tasks: Tasks,
    turned_away: Arc<RejectionCounts>,
    /// What was set while the program runs. Whoever holds it may change the configuration: one after
    /// the other.
    pub(crate) runtime: Mutex<RuntimeOverrides>,
    pub(crate) last_reload: ArcSwapOption<LastReload>,
    pub(crate) supervisor: ServiceManager,
    pub(crate) doors: Exposure,
    pub(crate) bulk: Option<RunningEngine>,
}

impl AppState {
    pub(crate) fn new(
        client: Outflow,
        config: ProgramConfig,
        sources: ConfigSources,
        tasks: Tasks,
    ) -> Self {
        Self {
            client,
            started: config.own_sections(),
            config: ArcSwap::from_pointee(config),
            sources,
            tasks,
            turned_away: Arc::default(),
            runtime: Mutex::default(),
            last_reload: ArcSwapOption::empty(),
            supervisor: ServiceManager::of_process(),
            doors: Exposure::default(),
            bulk: None,
        }
    }

    /// The same behind these doors.
    pub(crate) fn behind(mut self, doors: Exposure) -> Self {
        self.doors = doors;
        self
    }

    /// The same with this engine for jobs.
    pub(crate) fn working_on(mut self, bulk: Option<RunningEngine>) -> Self {
        self.bulk = bulk;
        self
    }

    /// What every call goes through.
    pub const fn client(&self) -> &Outflow {
        &self.client
    }

    /// The configuration in effect.
    pub fn config(&self) -> Arc<ProgramConfig> {
        self.config.load_full()
    }

    /// Where it came from and is read from again.
    pub const fn sources(&self) -> &ConfigSources {
        &self.sources
    }

    /// The work that runs beside the calls.
    pub const fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// How many were turned away at the sidecar's door.
    pub const fn turned_away(&self) -> &Arc<RejectionCounts> {
        &self.turned_away
    }
}

/// Which doors others than this machine's own programs can come to, as they are and not as they are
/// configured: a supervisor may have opened them, and a reload does not move them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Exposure {
    calls_from_outside: bool,
    operators_from_outside: bool,
}

impl Exposure {
    pub(crate) const fn new(calls: &ListenAddr, admin: &ListenAddr) -> Self {
        Self {
            calls_from_outside: !calls.is_this_machines_alone(),
            operators_from_outside: !admin.is_this_machines_alone(),
        }
    }

    /// The section whose door would be open to everybody with this configuration.
    pub(crate) const fn missing_token(self, config: &ProgramConfig) -> Option<&'static str> {
        if self.calls_from_outside && config.server.token.is_none() {
            return Some("server");
        }
        if self.operators_from_outside && config.admin.token.is_none() {
            return Some("admin");
        }
        None
    }
}
