//! The accounts that a client shares with other processes of its host.

use std::sync::Arc;

use outflow_ledger::{HostLedger, LedgerDir, OpenLedgerError};

use crate::clock::SystemClock;
use crate::config::{SharedLimits, SharedSection};

/// Opens the ledger that a configuration asks for. A client that should share where possible works alone with a
/// warning.
///
/// # Errors
/// If the client must share and cannot.
pub(super) fn open_ledger(section: &SharedSection) -> Result<Option<HostLedger>, OpenLedgerError> {
    match section.limits {
        None | Some(SharedLimits::Off) => Ok(None),
        Some(SharedLimits::Host) => open(section).map(Some),
        Some(SharedLimits::Auto) => Ok(open(section)
            .inspect_err(|error| tracing::warn!("{error}; limits count this process alone, from its start"))
            .ok()),
    }
}

fn open(section: &SharedSection) -> Result<HostLedger, OpenLedgerError> {
    let path = section.ledger_dir().ok_or_else(OpenLedgerError::nameless)?;
    HostLedger::open(LedgerDir::open(path)?, Arc::new(SystemClock::new()))
}
