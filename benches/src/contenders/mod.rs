//! Who runs against whom: each file makes one library answer the same questions.

pub(crate) mod breakers;
pub(crate) mod designs;
pub(crate) mod door;
pub(crate) mod governor;
pub(crate) mod health;
pub(crate) mod ours;
pub(crate) mod throttle_net;
pub(crate) mod tower_resilience;
