//! Why a client could not be made from its configuration.

use std::fmt;

use crate::cache::CacheError;
use crate::client::InvalidClient;
use crate::log::InvalidRolling;
use crate::tasks::SpawnError;

/// Why a client could not be made from its configuration.
#[derive(Debug)]
#[non_exhaustive]
pub enum InitError {
    /// APIs that cannot be called as they are configured.
    Client(InvalidClient),
    /// The cache's directory cannot be used.
    Cache(CacheError),
    /// A log file cannot be written as configured.
    Log(InvalidRolling),
    /// Nothing can run beside the client.
    Tasks(SpawnError),
}

impl fmt::Display for InitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(why) => why.fmt(f),
            Self::Cache(why) => why.fmt(f),
            Self::Log(why) => why.fmt(f),
            Self::Tasks(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for InitError {}
