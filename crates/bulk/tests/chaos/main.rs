//! Processes that are killed at any moment: no job is lost or counted twice, and a repeated call is known by
//! its key.

#![expect(
    clippy::indexing_slicing,
    reason = "a test and its helpers stop at the first unexpected value"
)]

mod consistency;
mod embedded;
mod failpoints;
mod lost_replies;
mod orphans;
mod poison_jobs;
mod recovery;
mod shared_limits;
mod shared_redis;
mod submission;
mod worker_processes;
