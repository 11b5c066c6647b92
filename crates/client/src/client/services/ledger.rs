//! The accounts that a client shares with other processes of its host.

use std::sync::Arc;

use outflow_core::QuotaLedger;
use outflow_ledger::{HostLedger, LedgerDir, OpenLedgerError};
use smol_str::{SmolStr, format_smolstr};

use super::init_error::InitError;
use crate::clock::SystemClock;
use crate::config::{SharedLimits, SharedSection};

/// A ledger, or the reason why the client works alone.
type OpenedLedger = (Option<Arc<dyn QuotaLedger>>, Option<SmolStr>);

/// Opens the ledger that a configuration asks for. A client that should share where possible works alone otherwise,
/// for this reason.
///
/// # Errors
/// If the client must share and cannot.
pub(super) fn open_ledger(section: &SharedSection) -> Result<OpenedLedger, InitError> {
    match section.limits {
        None | Some(SharedLimits::Off) => Ok((None, None)),
        Some(SharedLimits::Host) => Ok((Some(open(section).map_err(InitError::Ledger)?), None)),
        Some(SharedLimits::Redis) => Err(InitError::NoLedger),
        Some(SharedLimits::Auto) => Ok(match open(section) {
            Ok(ledger) => (Some(ledger), None),
            Err(error) => (None, Some(alone(&error))),
        }),
    }
}

fn alone(error: &OpenLedgerError) -> SmolStr {
    format_smolstr!("{error}; limits count this process alone, from its start")
}

fn open(section: &SharedSection) -> Result<Arc<dyn QuotaLedger>, OpenLedgerError> {
    let path = section.ledger_dir().ok_or_else(OpenLedgerError::nameless)?;
    let ledger = HostLedger::open(LedgerDir::open(path)?, Arc::new(SystemClock::new()))?;
    Ok(Arc::new(ledger))
}
