//! The cache's laws from the outside: stored responses, their owners, lifetimes and remains.

mod disk;
mod disk_reads;
mod freshness;
mod secrets;
mod single_flight;
mod size;
mod stale;
mod support;
mod visibility;
