//! The upstream, with manual time and manually polled callers: admission, order, waits, refunds
//! and events.

#![allow(
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may stop at the first surprise, in its helpers too"
)]

mod cancel;
mod chaos;
mod conservation;
mod count_by;
mod events;
mod exact_limits;
mod fork;
mod health;
mod reconfigure;
mod server_hints;
mod sharing;
mod support;
mod take;
mod wait_queue;
mod wrong_limit;
mod zero429;
