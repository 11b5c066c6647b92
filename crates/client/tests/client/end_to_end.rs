//! The whole client against the mock API: laws that need every module to do its part.
//!
//! Time is virtual and the network in memory, except where a test needs a real socket or thread.

mod background;
mod cancel;
mod deadlines;
mod memory;
mod offline;
mod outage;
mod retry_after;
mod secrets;
mod support;
mod thirty_days;
mod throttle_storms;
