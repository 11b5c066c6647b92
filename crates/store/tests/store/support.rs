//! What several suites need.

pub(crate) mod job_ends;
pub(crate) mod store_dir;
