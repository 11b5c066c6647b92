//! Support of several suites.

pub(crate) mod job_ends;
pub(crate) mod store_dir;
