//! What every room of the running program shares.

use std::sync::{Arc, Mutex};

use arc_swap::{ArcSwap, ArcSwapOption};
use outflow::config::RuntimeOverrides;
use outflow::{Outflow, ReloadChanges, Tasks};
use outflow_admin::{AdminSettings, ProgramState, ReloadFailure};
use outflow_bulk::RunningEngine;
use outflow_listener::ListenAddr;
use outflow_sidecar::{RejectionCounts, Sidecar};
use serde_json::Value;

use crate::commands::{Effective, effective};
use crate::config::ProgramConfig;
use crate::config_sources::ConfigSources;
use crate::reload::{LastReload, ReloadError};
use crate::sd_notify::ServiceManager;

/// The running program, as its rooms see it: the client that governs, the configuration in effect and
/// the work beside it.
pub struct AppState {
    pub(crate) client: Outflow,
    pub(crate) config: ArcSwap<ProgramConfig>,
    /// The program's own sections at the start, with which a reload compares them.
    pub(crate) started: ProgramConfig,
    pub(crate) sources: ConfigSources,
    pub(crate) tasks: Tasks,
    sidecar: Arc<Sidecar>,
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
        let sidecar = Sidecar::new(client.clone(), tasks.clone(), config.server.clone());
        Self {
            client,
            started: config.own_sections(),
            config: ArcSwap::from_pointee(config),
            sources,
            tasks,
            sidecar: Arc::new(sidecar),
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

    /// Returns the sidecar.
    pub const fn sidecar(&self) -> &Arc<Sidecar> {
        &self.sidecar
    }

    /// Returns the counts of connections and requests that the sidecar rejected.
    pub fn rejections(&self) -> &RejectionCounts {
        self.sidecar.rejections()
    }
}

impl ProgramState for AppState {
    fn client(&self) -> &Outflow {
        &self.client
    }

    fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    fn engine(&self) -> Option<&RunningEngine> {
        self.bulk.as_ref()
    }

    fn admin_settings(&self) -> AdminSettings {
        let config = self.config.load();
        AdminSettings {
            token: config.admin.token.clone(),
            max_connections: config.server.max_connections,
            header_timeout: config.server.header_timeout,
            max_headers: config.server.max_headers,
        }
    }

    fn effective_values(&self) -> Option<Vec<Value>> {
        let values = effective(&self.config.load().client).ok()?;
        Some(values.iter().map(Effective::json).collect())
    }

    fn reload(&self) -> Result<ReloadChanges, ReloadFailure> {
        self.reload().map_err(ReloadError::into_failure)
    }

    fn set_variable(
        &self,
        api: &str,
        variable: &str,
        value: &str,
    ) -> Result<ReloadChanges, ReloadFailure> {
        let set = self.set(api, variable, value);
        set.map_err(ReloadError::into_failure)
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
            calls_from_outside: !calls.is_local(),
            operators_from_outside: !admin.is_local(),
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
