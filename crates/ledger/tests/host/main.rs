//! Accounts of a host, with real files, threads and processes.

mod kills;
mod sharing;
