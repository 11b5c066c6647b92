//! The health machine: every edge, the seeds' scenarios, and the laws that no history breaks.

#![expect(
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise, its helpers too"
)]

mod adaptive_profile;
mod adaptive_ramps;
mod api;
mod edges;
mod history;
mod laws;
mod operator_override;
mod probes;
mod profiles;
mod recovery;
mod scenarios;
mod soak;
