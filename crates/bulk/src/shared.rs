//! Starts against limits that several machines share through one store.

pub(crate) mod scheduled_start;
pub(crate) mod server_clock;
