//! Reload of the configuration while calls go on.
//!
//! A reload reads the sources of the start through all checks and applies all or nothing. With one error the
//! old configuration stays in effect, and the log, the metrics and the admin API report it.
//!
//! An empty or half-written file is such an error: a new program may start without an API, but a reload never
//! removes the last one.
//!
//! A variable that an operator sets is one more text over the files.

mod file_watch;

use std::fmt;
use std::sync::Arc;

use outflow::config::{Diagnostics, RuntimeOverrides, SectionChanges, retain_apis, set_variable};
use outflow::core::{Clock, WallTime};
use outflow::event::{Event, EventKind, ReloadEvent};
use outflow::{InvalidClient, ReloadChanges, SystemClock};
use outflow_admin::ReloadFailure;

pub(crate) use file_watch::{on_change, on_hangup};

use crate::app_state::AppState;
use crate::config::ProgramConfig;
use crate::program::force_sleep;

/// Result of the last reload.
#[derive(Debug)]
pub struct LastReload {
    /// Instant of the reload.
    pub at: WallTime,
    /// Changes, or the reason why nothing changed.
    pub result: Result<ReloadChanges, ReloadError>,
}

impl AppState {
    /// Reads the configuration again and applies it.
    ///
    /// # Errors
    /// If it cannot be read or has errors. Nothing changes then.
    pub fn reload(&self) -> Result<ReloadChanges, ReloadError> {
        let mut overrides = self.overrides.lock();
        self.log_reload(|| self.apply(&mut overrides))
    }

    /// Sets a variable of an API until the program ends. Operating variables have short names; all others are
    /// keys below the API.
    ///
    /// # Errors
    /// If the API, the variable or the value is invalid, or the value contradicts another. Nothing changes
    /// then.
    pub fn set(&self, api: &str, variable: &str, value: &str) -> Result<ReloadChanges, ReloadError> {
        let mut overrides = self.overrides.lock();
        if self.config.load().client.api(api).is_none() {
            return Err(ReloadError::UnknownApi(api.to_owned()));
        }
        self.log_reload(|| {
            let mut next = overrides.clone();
            set_variable(&mut next, api, variable, value);
            let changes = self.apply(&mut next)?;
            *overrides = next;
            Ok(changes)
        })
    }

    /// Returns the result of the last reload, if there was one.
    pub fn last_reload(&self) -> Option<Arc<LastReload>> {
        self.last_reload.load_full()
    }

    fn apply(&self, overrides: &mut RuntimeOverrides) -> Result<ReloadChanges, ReloadError> {
        let config = self.read(overrides)?;
        if config.client.apis.is_empty() {
            return Err(ReloadError::NoApis);
        }
        if let Some(section) = self.exposure.missing_token(&config) {
            return Err(ReloadError::Unguarded(section));
        }
        let others = SectionChanges {
            changed: self.config.load().bulk.changed_keys(&config.bulk),
            restart: self.started.restart_keys(&config),
        };
        let changes = self.client.reload_with(config.client.clone(), others);
        let changes = changes.map_err(|why| ReloadError::Client(Arc::new(why)))?;
        if self.sources.offline {
            // Offline mode also covers new APIs.
            let added = changes.added.iter();
            force_sleep(added.filter_map(|api| self.client.upstream(api)));
        }
        if let Some(bulk) = &self.bulk {
            bulk.reconfigure(&config.bulk, &self.tasks);
        }
        self.sidecar().reconfigure(config.server.clone());
        self.config.store(Arc::new(config));
        Ok(changes)
    }

    /// Reads the sources under the overrides. Overrides of removed APIs are dropped, since they would fail
    /// every later reload.
    fn read(&self, overrides: &mut RuntimeOverrides) -> Result<ProgramConfig, ReloadError> {
        let written = self.sources.read().map_err(ReloadError::Config)?;
        retain_apis(overrides, |api| written.client.api(api).is_some());
        if overrides.is_empty() {
            return Ok(written);
        }
        self.sources.read_with(overrides).map_err(ReloadError::Config)
    }

    /// Runs a reload, notifies the service manager and records the result.
    fn log_reload(
        &self,
        reload: impl FnOnce() -> Result<ReloadChanges, ReloadError>,
    ) -> Result<ReloadChanges, ReloadError> {
        self.service_manager.reloading();
        let result = reload();
        self.service_manager.ready();
        if let Err(why) = &result {
            self.log_refused(why);
        }
        let last = LastReload {
            at: SystemClock::new().wall(),
            result: result.clone(),
        };
        self.last_reload.store(Some(Arc::new(last)));
        result
    }

    /// Reports a refused reload. The client reports its own refusals.
    fn log_refused(&self, why: &ReloadError) {
        let errors = match why {
            ReloadError::Client(_) => return,
            ReloadError::Config(diagnostics) => diagnostics.len(),
            ReloadError::NoApis | ReloadError::UnknownApi(_) | ReloadError::Unguarded(_) => 1,
        };
        self.client.events().emit(|| Event {
            api: "outflow".into(),
            at: SystemClock::new().now(),
            trace: outflow::trace::TraceId::default(),
            what: EventKind::Reloaded(ReloadEvent::Refused { errors }),
        });
    }
}

/// Reason why the old configuration stays in effect.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ReloadError {
    /// The configuration has errors.
    Config(Diagnostics),
    /// The configuration names no API.
    NoApis,
    /// An API cannot be called as it is configured.
    Client(Arc<InvalidClient>),
    /// There is no API of this name.
    UnknownApi(String),
    /// Other machines can reach the listener of this section, and it would ask for no token.
    Unguarded(&'static str),
}

impl ReloadError {
    /// Converts it into the form that the admin API reports.
    pub(crate) fn into_failure(self) -> ReloadFailure {
        match self {
            Self::UnknownApi(_) => ReloadFailure::UnknownApi,
            Self::Config(diagnostics) => ReloadFailure::Config(diagnostics),
            refused => ReloadFailure::Refused(refused.to_string()),
        }
    }
}

impl fmt::Display for ReloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(diagnostics) => diagnostics.fmt(f),
            Self::NoApis => f.write_str("the configuration names no API: add one, or stop the program"),
            Self::Client(why) => why.fmt(f),
            Self::Unguarded(section) => write!(
                f,
                "other machines reach the address of `{section}`, and it would ask for no token: keep \
                 `{section}.token_env` or `{section}.token_file`, or restart the program"
            ),
            Self::UnknownApi(name) => write!(f, "there is no API `{name}`: add it to a file first"),
        }
    }
}

impl std::error::Error for ReloadError {}
