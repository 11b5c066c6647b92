//! The name under which this process claims, until its lease is lost.
//!
//! A process that was stopped for longer than its lease finds that others have its jobs. It goes on
//! under a new name: under the old one it would keep alive what it has lost.

use std::sync::{PoisonError, RwLock};

use outflow_store::Name;

use crate::error::BulkError;

/// The name that is used now.
#[derive(Debug)]
pub(crate) struct Session {
    now: RwLock<Name>,
}

impl Session {
    pub(crate) fn new() -> Result<Self, BulkError> {
        Ok(Self {
            now: RwLock::new(fresh()?),
        })
    }

    /// The name for the next claim.
    pub(crate) fn name(&self) -> Name {
        let now = self.now.read();
        now.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Its lease ran out. Whoever says so of an earlier name is late.
    pub(crate) fn lost(&self, lost: &Name) {
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        if *now == *lost
            && let Ok(name) = fresh()
        {
            *now = name;
        }
    }
}

/// A name that no other process has or had: by its number two of one machine at one time differ, and by
/// chance all others.
fn fresh() -> Result<Name, BulkError> {
    let name = format!("{}-{:016x}", std::process::id(), fastrand::u64(..));
    Name::new(&name).map_err(|wrong| BulkError::invalid(wrong.to_string()))
}
