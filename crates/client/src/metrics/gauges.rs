//! Values that are read at a scrape rather than counted from events.
//!
//! The number of waiters is a fact of the upstream: counted from events it would stay wrong after
//! one missed event. The owner of such a value implements [`GaugeSource`] and is read at each
//! scrape.

use outflow_core::{HealthState, OutcomeCounts};

/// Source of gauges.
pub trait GaugeSource: Send + Sync {
    /// Reports all its values. Called at each scrape; must not block.
    fn read(&self, report: &mut dyn FnMut(&str, GaugeSnapshot));

    /// Returns the number of dropped log lines.
    fn lines_dropped(&self) -> u64 {
        0
    }
}

/// Gauges of one API; the text passed along is its name.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct GaugeSnapshot {
    /// Health state; the worst one if each group has its own.
    pub state: HealthState,
    /// Content of the error window.
    pub counts: OutcomeCounts,
    /// Failures in that window, in parts per million.
    pub error_ppm: u32,
    /// Slowest rate in effect, in calls per second; 0 if nothing is limited.
    pub rate: f64,
    /// Maximum of attempts in flight.
    pub concurrency: u32,
    /// Waiting calls.
    pub waiting: u64,
    /// Permits in flight.
    pub in_flight: u64,
}
