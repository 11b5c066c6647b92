//! Histories, naive oracles, and a runner for the laws.
//!
//! An oracle keeps every entry for ever and answers by adding up, so that it has nothing to get
//! wrong; it is far too slow for anything but a test.

#![allow(
    unreachable_pub,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "each test file uses its part, and a test may stop at the first surprise"
)]

pub mod bucket;
pub mod fixed;
pub mod server;
pub mod sliding;

use std::time::Duration;

use outflow_core::{Accounting, Limit, Nanos, Rate};
use proptest::prelude::*;

/// One step of a history.
#[derive(Debug, Clone)]
pub enum Step {
    /// Pass this many nanoseconds, then ask for this cost.
    Take { after: u64, cost: u64 },
    /// Refund the n-th receipt still held, counted from the latest.
    Refund { after: u64, nth: usize },
    /// The clock steps back.
    Back { by: u64 },
    /// Another quantity and window.
    Reconfigure { after: u64, quantity: u64, window: u64 },
}

/// Histories in which windows are a few ticks long, so that every edge is met many times.
pub fn steps(reconfigure: bool) -> impl Strategy<Value = Vec<Step>> {
    let take = (0..8_u64, 0..6_u64).prop_map(|(after, cost)| Step::Take { after, cost });
    let refund = (0..4_u64, 0..4_usize).prop_map(|(after, nth)| Step::Refund { after, nth });
    let back = (0..20_u64).prop_map(|by| Step::Back { by });
    let change = (0..6_u64, 1..8_u64, 1..25_u64).prop_map(|(after, quantity, window)| Step::Reconfigure {
        after,
        quantity,
        window,
    });
    let rare = u32::from(reconfigure);
    let step = prop_oneof![12 => take, 3 => refund, 1 => back, rare => change];
    prop::collection::vec(step, 1..60)
}

/// Any 64-bit number, with its extremes and their neighbours often.
pub fn extreme() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0..4_u64,
        2 => Just(u64::MAX),
        2 => (0..4_u64).prop_map(|below| u64::MAX - below),
        1 => Just(u64::MAX / 2),
        2 => any::<u64>(),
    ]
}

pub fn rate(quantity: u64, window: u64) -> Rate {
    Rate::new(quantity, Duration::from_nanos(window)).expect("positive")
}

/// A sliding limit that counts sendings.
pub fn sliding(quantity: u64, window: u64) -> Limit {
    Limit::sliding(rate(quantity, window)).counted(Accounting::Send)
}

pub fn at(nanos: u64) -> Nanos {
    Nanos::from_nanos(nanos)
}
