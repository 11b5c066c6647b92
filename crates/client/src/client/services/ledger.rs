//! The accounts that a client shares with other processes of its host.

use std::sync::Arc;

use outflow_core::QuotaLedger;
use outflow_ledger::{HostLedger, LedgerDir, OpenLedgerError};

use super::init_error::InitError;
use crate::clock::SystemClock;
use crate::config::{SharedLimits, SharedSection};

/// Opens the ledger that a configuration asks for. A client that should share where possible works alone with a
/// warning.
///
/// # Errors
/// If the client must share and cannot.
pub(super) fn open_ledger(section: &SharedSection) -> Result<Option<Arc<dyn QuotaLedger>>, InitError> {
    match section.limits {
        None | Some(SharedLimits::Off) => Ok(None),
        Some(SharedLimits::Host) => Ok(Some(Arc::new(open(section)?))),
        Some(SharedLimits::Redis) => Err(InitError::NoLedger),
        Some(SharedLimits::Auto) => match open(section) {
            Ok(ledger) => Ok(Some(Arc::new(ledger))),
            Err(error) => {
                tracing::warn!("{error}; limits count this process alone, from its start");
                Ok(None)
            }
        },
    }
}

fn open(section: &SharedSection) -> Result<HostLedger, InitError> {
    let open = || {
        let path = section.ledger_dir().ok_or_else(OpenLedgerError::nameless)?;
        HostLedger::open(LedgerDir::open(path)?, Arc::new(SystemClock::new()))
    };
    open().map_err(InitError::Ledger)
}
