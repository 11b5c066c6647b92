//! Spans of time counted by their length, without a lock.
//!
//! The library's own histogram takes a mutex for each value, on the way of every request, and cannot
//! be read back for the line of NDJSON. This one is an array of atomics. A reading is not a snapshot:
//! a value that is being counted may be in its bucket and not yet in the sum, and the next reading
//! has both. Sums are kept in whole microseconds, which 64 bits hold for half a million years.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Spans, counted by length.
///
/// ```
/// use std::time::Duration;
/// use outflow::metrics::{Histogram, Unit};
///
/// let waits = Histogram::new();
/// waits.observe(Duration::from_millis(3));
/// assert_eq!(waits.read(Unit::Millis).count, 1);
/// ```
#[derive(Debug)]
pub struct Histogram {
    /// One for each bound, and one for what is longer than all of them.
    buckets: [AtomicU64; BOUNDS_MS.len() + 1],
    sum_micros: AtomicU64,
}

/// What a histogram holds: upper bounds, and how many values lie between each and the one before.
#[derive(Clone, PartialEq, Debug)]
pub struct HistogramSnapshot {
    /// All values together.
    pub sum: f64,
    /// How many there are.
    pub count: u64,
    /// Upper bounds and counts, the last bound being infinite.
    pub buckets: Vec<(f64, u64)>,
}

/// In what a histogram is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HistogramUnit {
    /// In seconds.
    Seconds,
    /// In thousandths of them.
    Millis,
}

impl Histogram {
    /// Nothing was counted yet.
    pub const fn new() -> Self {
        Self {
            buckets: [const { AtomicU64::new(0) }; BOUNDS_MS.len() + 1],
            sum_micros: AtomicU64::new(0),
        }
    }

    /// Counts a span.
    pub fn observe(&self, span: Duration) {
        let place = BOUNDS_MS.partition_point(|bound| Duration::from_millis(*bound) < span);
        if let Some(bucket) = self.buckets.get(place) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        self.sum_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// What it holds now. The count is that of the buckets, so that the two always agree.
    pub fn read(&self, unit: HistogramUnit) -> HistogramSnapshot {
        let bounds = BOUNDS_MS
            .iter()
            .map(|bound| unit.apply(Duration::from_millis(*bound)))
            .chain([f64::INFINITY]);
        let counts = self
            .buckets
            .iter()
            .map(|bucket| bucket.load(Ordering::Relaxed));
        let buckets: Vec<_> = bounds.zip(counts).collect();
        HistogramSnapshot {
            sum: unit.apply(Duration::from_micros(
                self.sum_micros.load(Ordering::Relaxed),
            )),
            count: buckets.iter().map(|(_, count)| count).sum(),
            buckets,
        }
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl HistogramUnit {
    fn apply(self, span: Duration) -> f64 {
        match self {
            Self::Seconds => span.as_secs_f64(),
            Self::Millis => span.as_secs_f64() * 1_000.0,
        }
    }
}

/// From a loopback answer to the longest that a call waits by default, a factor of two to two and a
/// half apart; and five minutes, the longest that a state sleeps by itself.
const BOUNDS_MS: [u64; 16] = [
    1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000,
];

#[cfg(test)]
mod tests {
    use super::*;

    // 10 ms is a bound: a bound belongs to the bucket that it ends.
    #[test]
    fn a_value_on_a_bound_is_below_it() {
        let histogram = Histogram::new();
        for micros in [10_000, 10_001] {
            histogram.observe(Duration::from_micros(micros));
        }
        let filled = histogram.read(HistogramUnit::Millis);
        assert_eq!(filled.buckets[3], (10.0, 1));
        assert_eq!(filled.buckets[4], (25.0, 1));
        assert_eq!((filled.count, filled.sum), (2, 20.001));
    }

    #[test]
    fn nothing_is_too_long_to_be_counted() {
        let histogram = Histogram::new();
        histogram.observe(Duration::MAX);
        histogram.observe(Duration::ZERO);
        let filled = histogram.read(HistogramUnit::Seconds);
        assert_eq!(filled.buckets[0], (0.001, 1));
        assert_eq!(filled.buckets.last(), Some(&(f64::INFINITY, 1)));
    }
}
