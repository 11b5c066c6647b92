//! Accounts of limits in files of one host.
//!
//! A process that starts knows what others sent, and what was sent before a restart. An account is a file
//! of fixed size: a renewal locks it, reads, applies and writes it, and no call waits for that. A database
//! would do the same in more time, and mapped memory could end a process with a signal.
//!
//! The rules of an account are [`outflow_core::Account`]'s; this crate only stores it. It reads no clock.

mod account_copy;
mod account_file;
mod checkpoint;
mod file_access;
mod file_lock;
mod host_ledger;
mod host_timeline;
mod ledger_dir;
mod ledger_thread;

pub use account_file::StoredAccount;
pub use host_ledger::HostLedger;
pub use ledger_dir::{LedgerDir, OpenLedgerError};
