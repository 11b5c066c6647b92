//! The embedded store: its contract, its files, and what a crash leaves of them.

mod contract;
mod crash;
mod durability;
mod growth;
mod poison_isolation;
