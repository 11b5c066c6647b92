//! Error of building a client from a configuration.

use std::fmt;

use outflow_ledger::OpenLedgerError;

use crate::cache::CacheError;
use crate::client::InvalidClient;
use crate::log::InvalidRolling;
use crate::tasks::SpawnError;

/// Error of building a client from a configuration.
#[derive(Debug)]
#[non_exhaustive]
pub enum InitError {
    /// The process has a client already.
    AlreadyInitialized,
    /// APIs that cannot be called as configured.
    Client(InvalidClient),
    /// The cache directory cannot be used.
    Cache(CacheError),
    /// A log file cannot be written as configured.
    Log(InvalidRolling),
    /// Limits cannot be shared as configured.
    Ledger(OpenLedgerError),
    /// Limits are shared on a server, and the configuration has no ledger for it.
    NoLedger,
    /// Background tasks cannot be started.
    Tasks(SpawnError),
}

impl fmt::Display for InitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyInitialized => f.write_str(
                "`outflow::init` has run already: call it once, or build another client with `Outflow::init`",
            ),
            Self::Client(error) => error.fmt(f),
            Self::Cache(error) => error.fmt(f),
            Self::Log(error) => error.fmt(f),
            Self::Ledger(error) => error.fmt(f),
            Self::NoLedger => f.write_str(
                "`shared.limits` is \"redis\": set `Config::ledger` to an `outflow_store::RedisLedger`, as the program does",
            ),
            Self::Tasks(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for InitError {}
