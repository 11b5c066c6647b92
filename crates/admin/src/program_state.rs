//! The running program, as the admin API needs it.

use std::time::Duration;

use outflow::config::Diagnostics;
use outflow::{Outflow, ReloadChanges, Tasks};
use outflow_bulk::RunningEngine;
use secrecy::SecretString;
use serde_json::Value;

/// Interface of the running program.
pub trait ProgramState: Send + Sync + 'static {
    /// Returns the client that every call goes through.
    fn client(&self) -> &Outflow;

    /// Returns the background tasks of the program.
    fn tasks(&self) -> &Tasks;

    /// Returns the bulk engine, if the program runs one.
    fn engine(&self) -> Option<&RunningEngine>;

    /// Returns the settings of the admin port in effect.
    fn admin_settings(&self) -> AdminSettings;

    /// Returns every configuration value in effect with its origin, unless the defaults are unreadable.
    fn effective_values(&self) -> Option<Vec<Value>>;

    /// Reads the configuration again and applies it.
    ///
    /// # Errors
    /// If it is invalid. Nothing has changed then.
    fn reload(&self) -> Result<ReloadChanges, ReloadFailure>;

    /// Sets a variable of an API until the program ends.
    ///
    /// # Errors
    /// If the API, the variable or the value is invalid. Nothing has changed then.
    fn set_variable(&self, api: &str, variable: &str, value: &str) -> Result<ReloadChanges, ReloadFailure>;
}

/// Settings of the admin port.
#[derive(Clone, Debug)]
pub struct AdminSettings {
    /// The token that requests must carry, if any.
    pub token: Option<SecretString>,
    /// The maximum number of connections.
    pub max_connections: u32,
    /// The time in which the head of a request must arrive.
    pub header_timeout: Duration,
    /// The maximum number of headers.
    pub max_headers: u16,
}

/// Reason why a configuration was not applied.
#[derive(Clone, Debug)]
pub enum ReloadFailure {
    /// No API has this name.
    UnknownApi,
    /// The configuration has errors.
    Config(Diagnostics),
    /// The configuration cannot be applied, for this reason.
    Refused(String),
}
