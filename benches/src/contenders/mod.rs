//! The contenders: each file adapts one library to the same operations.

pub(crate) mod breakers;
pub(crate) mod designs;
pub(crate) mod governor;
pub(crate) mod health;
pub(crate) mod ours;
pub(crate) mod throttle_net;
pub(crate) mod tower_resilience;
pub(crate) mod upstream;
