//! The door, tested with time by hand and callers polled by hand: who may go, in which order, what
//! waits, what is given back, what is told.

#![allow(
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may stop at the first surprise, in its helpers too"
)]

#[path = "door/changing.rs"]
mod changing;
#[path = "door/chaos.rs"]
mod chaos;
#[path = "door/conserved.rs"]
mod conserved;
#[path = "door/departing.rs"]
mod departing;
#[path = "door/exact.rs"]
mod exact;
#[path = "door/health.rs"]
mod health;
#[path = "door/measures.rs"]
mod measures;
#[path = "door/telling.rs"]
mod telling;
#[path = "door/truth.rs"]
mod truth;
#[path = "door/waiting.rs"]
mod waiting;

mod support;
