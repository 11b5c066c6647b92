//! Embedded store: its contract, its files, and its state after a crash.

mod contract;
mod crash;
mod durability;
mod growth;
mod poison_isolation;
