//! Accounts of limits through faults of their server: no window ever has more arrivals than the limit allows.
//!
//! After each fault service is back within five seconds of the server's return without a restart of a process,
//! apart from the closing that a lost or replaced server needs.

mod clocks;
mod failover;
mod fleet;
mod location;
mod network;
mod refusals;
mod restarts;
