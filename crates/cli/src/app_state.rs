//! State that all parts of the running program share.

use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use outflow::config::RuntimeOverrides;
use outflow::{Outflow, ReloadChanges, Tasks};
use outflow_admin::{AdminSettings, ProgramState, ReloadFailure};
use outflow_bulk::RunningEngine;
use outflow_listener::DescriptorLimit;
use outflow_sidecar::{RejectionCounts, Sidecar};
use outflow_sync::Mutex;
use serde_json::Value;

use crate::commands::{EffectiveValue, effective_values};
use crate::config::ProgramConfig;
use crate::config_sources::ConfigSources;
use crate::public_listener_token::ProgramExposure;
use crate::reload::{LastReload, ReloadError};
use crate::sd_notify::ServiceManager;

/// State of the running program: client, configuration in effect, tasks and bulk engine.
pub struct AppState {
    pub(crate) client: Outflow,
    pub(crate) config: ArcSwap<ProgramConfig>,
    /// The program's own sections at the start; a reload compares them with the new ones.
    pub(crate) started: ProgramConfig,
    pub(crate) sources: ConfigSources,
    pub(crate) tasks: Tasks,
    pub(crate) sidecar: Arc<Sidecar>,
    /// Values set at run time. Its lock serializes all changes of the configuration.
    pub(crate) overrides: Mutex<RuntimeOverrides>,
    pub(crate) last_reload: ArcSwapOption<LastReload>,
    pub(crate) service_manager: ServiceManager,
    pub(crate) exposure: ProgramExposure,
    pub(crate) bulk: Option<RunningEngine>,
}

impl AppState {
    pub(crate) fn new(client: Outflow, config: ProgramConfig, sources: ConfigSources, tasks: Tasks) -> Self {
        let sidecar = Sidecar::new(client.clone(), tasks.clone(), config.server.clone());
        let sidecar = sidecar.with_descriptors(DescriptorLimit::raise());
        Self {
            client,
            started: config.own_sections(),
            config: ArcSwap::from_pointee(config),
            sources,
            tasks,
            sidecar: Arc::new(sidecar),
            overrides: Mutex::default(),
            last_reload: ArcSwapOption::empty(),
            service_manager: ServiceManager::of_process(),
            exposure: ProgramExposure::default(),
            bulk: None,
        }
    }

    /// Returns the client that sends all calls.
    pub const fn client(&self) -> &Outflow {
        &self.client
    }

    /// Returns the configuration in effect.
    pub fn config(&self) -> Arc<ProgramConfig> {
        self.config.load_full()
    }

    /// Returns the sources of the configuration.
    pub const fn sources(&self) -> &ConfigSources {
        &self.sources
    }

    /// Returns the background tasks.
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
            max_connections: config.server.max_connections.min(ADMIN_CONNECTIONS),
            header_timeout: config.server.header_timeout,
            max_headers: config.server.max_headers,
        }
    }

    fn effective_values(&self) -> Option<Vec<Value>> {
        let values = effective_values(&self.config.load().client).ok()?;
        Some(values.iter().map(EffectiveValue::to_json).collect())
    }

    fn reload(&self) -> Result<ReloadChanges, ReloadFailure> {
        self.reload().map_err(ReloadError::into_failure)
    }

    fn set_variable(&self, api: &str, variable: &str, value: &str) -> Result<ReloadChanges, ReloadFailure> {
        let set = self.set(api, variable, value);
        set.map_err(ReloadError::into_failure)
    }
}

/// Connections of operators: the limit of open files has a reserve for as many.
const ADMIN_CONNECTIONS: u32 = 128;
