//! What several suites need.

pub(crate) mod own_process;
pub(crate) mod sample_events;
