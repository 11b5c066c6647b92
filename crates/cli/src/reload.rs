//! Reading the configuration again while calls go on.
//!
//! The same sources as at the start, through the same checks, all of it or nothing: with one mistake the
//! configuration before stays in effect, and that is told in the log, in the metrics and to whoever asks.
//! A file that is half written or empty is such a mistake: no API at all is never what a reload means,
//! though it may be what a new program starts with.
//!
//! A variable that is set by hand takes the same way, as one more text over the files.

mod file_watch;

use std::fmt;
use std::sync::{Arc, PoisonError};

use outflow::config::{Diagnostics, RuntimeOverrides, SectionChanges, retain_apis, set_variable};
use outflow::core::{Clock, WallTime};
use outflow::event::{Event, EventKind, ReloadEvent};
use outflow::{InvalidClient, ReloadChanges, SystemClock};
use outflow_admin::ReloadFailure;

pub(crate) use file_watch::{on_change, on_hangup};

use crate::app_state::AppState;
use crate::config::ProgramConfig;
use crate::program::hold_asleep;

/// How the last reload went.
#[derive(Debug)]
pub struct LastReload {
    /// When.
    pub at: WallTime,
    /// What it changed, or why it changed nothing.
    pub result: Result<ReloadChanges, ReloadError>,
}

impl AppState {
    /// Reads the configuration again and puts it into effect.
    ///
    /// # Errors
    /// If it cannot be read or has mistakes. Everything is as before then.
    pub fn reload(&self) -> Result<ReloadChanges, ReloadError> {
        let mut runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner);
        self.log_reload(|| self.go_on_with(&mut runtime))
    }

    /// Sets a variable of an API until the program ends: an operating variable by its name alone,
    /// anything else by its key below the API.
    ///
    /// # Errors
    /// If there is no such API, variable or value, or the value contradicts another. Everything is as
    /// before then.
    pub fn set(
        &self,
        api: &str,
        variable: &str,
        value: &str,
    ) -> Result<ReloadChanges, ReloadError> {
        let mut runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner);
        if self.config.load().client.api(api).is_none() {
            return Err(ReloadError::UnknownApi(api.to_owned()));
        }
        self.log_reload(|| {
            let mut next = runtime.clone();
            set_variable(&mut next, api, variable, value);
            let changes = self.go_on_with(&mut next)?;
            *runtime = next;
            Ok(changes)
        })
    }

    /// How the last reload went, if there was one.
    pub fn last_reload(&self) -> Option<Arc<LastReload>> {
        self.last_reload.load_full()
    }

    fn go_on_with(&self, runtime: &mut RuntimeOverrides) -> Result<ReloadChanges, ReloadError> {
        let config = self.read(runtime)?;
        if config.client.apis.is_empty() {
            return Err(ReloadError::NoApis);
        }
        if let Some(section) = self.doors.missing_token(&config) {
            return Err(ReloadError::Unguarded(section));
        }
        let others = SectionChanges {
            changed: self.config.load().bulk.changed_keys(&config.bulk),
            restart: self.started.restart_keys(&config),
        };
        let changes = self.client.reload_with(config.client.clone(), others);
        let changes = changes.map_err(|why| ReloadError::Client(Arc::new(why)))?;
        if self.sources.is_offline() {
            // What was told to call nobody calls nobody new either.
            let added = changes.added.iter();
            hold_asleep(added.filter_map(|api| self.client.upstream(api)));
        }
        if let Some(bulk) = &self.bulk {
            bulk.reconfigure(&config.bulk, &self.tasks);
        }
        self.sidecar().reconfigure(config.server.clone());
        self.config.store(Arc::new(config));
        Ok(changes)
    }

    /// What was set by hand for an API that the files no longer know would be a mistake for ever.
    fn read(&self, runtime: &mut RuntimeOverrides) -> Result<ProgramConfig, ReloadError> {
        let written = self.sources.read().map_err(ReloadError::Config)?;
        retain_apis(runtime, |api| written.client.api(api).is_some());
        if runtime.is_empty() {
            return Ok(written);
        }
        self.sources
            .read_under(runtime)
            .map_err(ReloadError::Config)
    }

    /// Tells the supervisor that a reload is under way, and everybody how it went.
    fn log_reload(
        &self,
        reload: impl FnOnce() -> Result<ReloadChanges, ReloadError>,
    ) -> Result<ReloadChanges, ReloadError> {
        self.supervisor.reloading();
        let result = reload();
        self.supervisor.ready();
        if let Err(why) = &result {
            self.log_refused(why);
        }
        let (at, told) = (SystemClock::new().wall(), result.clone());
        self.last_reload
            .store(Some(Arc::new(LastReload { at, result: told })));
        result
    }

    /// The client tells what it refuses itself; what never came to it is told here.
    fn log_refused(&self, why: &ReloadError) {
        let mistakes = match why {
            ReloadError::Client(_) => return,
            ReloadError::Config(mistakes) => mistakes.len(),
            ReloadError::NoApis | ReloadError::UnknownApi(_) | ReloadError::Unguarded(_) => 1,
        };
        self.client.events().emit(|| Event {
            api: "outflow".into(),
            at: SystemClock::new().now(),
            what: EventKind::Reloaded(ReloadEvent::Refused { errors: mistakes }),
        });
    }
}

/// Why the configuration before stays in effect.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ReloadError {
    /// The configuration has mistakes.
    Config(Diagnostics),
    /// It names no API at all.
    NoApis,
    /// An API cannot be called as it is configured.
    Client(Arc<InvalidClient>),
    /// There is no API of this name.
    UnknownApi(String),
    /// The door of this section is where others can reach it, and would ask for no token.
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
            Self::Config(mistakes) => mistakes.fmt(f),
            Self::NoApis => f.write_str(
                "the configuration names no API: if that is meant, stop the program instead",
            ),
            Self::Client(why) => why.fmt(f),
            Self::Unguarded(section) => write!(
                f,
                "others can still reach the address of `{section}`, and it would ask for no token: keep \
                 `{section}.token_env` or `{section}.token_file`, or start the program again"
            ),
            Self::UnknownApi(name) => write!(f, "there is no API `{name}`: add it to a file first"),
        }
    }
}

impl std::error::Error for ReloadError {}
