//! The whole client against the strict API: laws that only hold if every room keeps its part.
//!
//! Time is virtual and the network in memory, except where a real socket or a background thread is
//! the point.

#[path = "../support/alone.rs"]
mod alone;
mod background;
mod canary;
mod cancelling;
mod deadlines;
mod memory;
mod month;
mod offline;
mod outage;
mod retry_after;
mod storms;
mod support;
