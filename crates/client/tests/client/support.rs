//! Helpers of several suites.

pub(crate) mod own_process;
pub(crate) mod sample_events;
