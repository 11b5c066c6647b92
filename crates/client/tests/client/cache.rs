//! The cache's laws, from the outside: what is kept, for whom, for how long, and what is left behind.

mod disk;
mod disk_reads;
mod freshness;
mod secrets;
mod single_flight;
mod size;
mod stale;
mod support;
mod visibility;
