//! The accounts that a client shares with other processes of its host.

use std::sync::Arc;

use outflow_ledger::{HostLedger, LedgerDir, OpenLedgerError};
use smol_str::{SmolStr, format_smolstr};

use crate::clock::SystemClock;
use crate::config::{SharedLimits, SharedSection};

/// Opens the ledger that a configuration asks for. A client that should share where possible works alone otherwise,
/// for this reason.
///
/// # Errors
/// If the client must share and cannot.
pub(super) fn open_ledger(section: &SharedSection) -> Result<(Option<HostLedger>, Option<SmolStr>), OpenLedgerError> {
    match section.limits {
        None | Some(SharedLimits::Off) => Ok((None, None)),
        Some(SharedLimits::Host) => open(section).map(|ledger| (Some(ledger), None)),
        Some(SharedLimits::Auto) => Ok(match open(section) {
            Ok(ledger) => (Some(ledger), None),
            Err(error) => (None, Some(alone(&error))),
        }),
    }
}

fn alone(error: &OpenLedgerError) -> SmolStr {
    format_smolstr!("{error}; limits count this process alone, from its start")
}

fn open(section: &SharedSection) -> Result<HostLedger, OpenLedgerError> {
    let path = section.ledger_dir().ok_or_else(OpenLedgerError::nameless)?;
    HostLedger::open(LedgerDir::open(path)?, Arc::new(SystemClock::new()))
}
