//! What is read when somebody looks, rather than counted when something happens.
//!
//! How many calls wait is a fact of the door, not of its events: counted from events it would be wrong
//! for ever after one was missed. Whoever owns such a fact is a [`GaugeSource`] and is asked at each
//! scrape.

use outflow_core::{HealthState, OutcomeCounts};

/// Somebody who knows how things stand.
pub trait GaugeSource: Send + Sync {
    /// Tells everything it knows. It is asked at each scrape and must not wait for anything.
    fn read(&self, tell: &mut dyn FnMut(&str, GaugeSnapshot));

    /// How many log lines it has dropped so far.
    fn lines_dropped(&self) -> u64 {
        0
    }
}

/// How one API stands; the text beside it is the API's name.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GaugeSnapshot {
    /// Its state; the worst of them where each group has one.
    pub state: HealthState,
    /// What its error window holds.
    pub counts: OutcomeCounts,
    /// The share of failures in that window, of a million.
    pub error_ppm: u32,
    /// The slowest rate in effect, in calls a second; 0 if nothing is limited.
    pub rate: f64,
    /// How many calls may be in flight.
    pub concurrency: u32,
    /// How many calls wait.
    pub waiting: u64,
    /// How many permits are out.
    pub in_flight: u64,
}

impl Default for GaugeSnapshot {
    /// An API that is well and that nobody calls.
    fn default() -> Self {
        Self {
            state: HealthState::Normal,
            counts: OutcomeCounts::default(),
            error_ppm: 0,
            rate: 0.0,
            concurrency: 0,
            waiting: 0,
            in_flight: 0,
        }
    }
}
