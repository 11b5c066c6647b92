//! Starts against limits that several machines share.

pub(crate) mod fleet_share;
pub(crate) mod scheduled_start;
pub(crate) mod server_clock;
