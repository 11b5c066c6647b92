//! The whole client against the strict API: laws that only hold if every room keeps its part.
//!
//! Time is virtual and the network in memory, except where a real socket or a background thread is
//! the point.

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
