//! The cache's laws, from the outside: what is kept, for whom, for how long, and what is left behind.

mod cold;
mod disk;
mod flights;
mod freshness;
mod secrets;
mod sharing;
mod size;
mod stale;
mod support;
