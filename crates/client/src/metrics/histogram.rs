//! Lock-free histogram of durations.
//!
//! The library's histogram locks a mutex for each value of every request and cannot be read back
//! for NDJSON. This one is an array of atomics. A reading is not atomic: a value may be in its
//! bucket and not yet in the sum. Sums are whole microseconds, which 64 bits hold for half a
//! million years.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Histogram of durations.
///
/// ```
/// use std::time::Duration;
/// use outflow::metrics::{Histogram, HistogramUnit};
///
/// let waits = Histogram::new();
/// waits.observe(Duration::from_millis(3));
/// assert_eq!(waits.read(HistogramUnit::Millis).count, 1);
/// ```
#[derive(Debug)]
pub struct Histogram {
    /// One per bound, and one for longer values.
    buckets: [AtomicU64; BOUNDS_MS.len() + 1],
    sum_micros: AtomicU64,
}

/// Content of a histogram: upper bounds, and the number of values between each and the one before.
#[derive(Clone, PartialEq, Debug)]
pub struct HistogramSnapshot {
    /// Sum of all values.
    pub sum: f64,
    /// Number of values.
    pub count: u64,
    /// Upper bounds and counts; the last bound is infinite.
    pub buckets: Vec<(f64, u64)>,
}

/// Unit of a histogram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HistogramUnit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Millis,
}

impl Histogram {
    /// Returns an empty histogram.
    pub const fn new() -> Self {
        Self {
            buckets: [const { AtomicU64::new(0) }; BOUNDS_MS.len() + 1],
            sum_micros: AtomicU64::new(0),
        }
    }

    /// Counts a duration.
    pub fn observe(&self, duration: Duration) {
        let index = BOUNDS_MS.partition_point(|bound| Duration::from_millis(*bound) < duration);
        if let Some(bucket) = self.buckets.get(index) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.sum_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Returns the content. The count is the sum of the buckets, so that both always agree.
    pub fn read(&self, unit: HistogramUnit) -> HistogramSnapshot {
        let bounds = BOUNDS_MS
            .iter()
            .map(|bound| unit.apply(Duration::from_millis(*bound)))
            .chain([f64::INFINITY]);
        let counts = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed));
        let buckets: Vec<_> = bounds.zip(counts).collect();
        HistogramSnapshot {
            sum: unit.apply(Duration::from_micros(self.sum_micros.load(Ordering::Relaxed))),
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
    fn apply(self, duration: Duration) -> f64 {
        match self {
            Self::Seconds => duration.as_secs_f64(),
            Self::Millis => duration.as_secs_f64() * 1_000.0,
        }
    }
}

/// From a loopback response to the longest default wait, in steps of two to two and a half; and
/// five minutes, the longest automatic sleep.
const BOUNDS_MS: [u64; 16] = [
    1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000,
];

#[cfg(test)]
mod tests {
    use super::*;

    // 10 ms is a bound: it belongs to the bucket that it ends.
    #[test]
    fn a_value_on_a_bound_is_below_it() {
        let histogram = Histogram::new();
        for micros in [10_000, 10_001] {
            histogram.observe(Duration::from_micros(micros));
        }
        let snapshot = histogram.read(HistogramUnit::Millis);
        assert_eq!(snapshot.buckets[3], (10.0, 1));
        assert_eq!(snapshot.buckets[4], (25.0, 1));
        assert_eq!((snapshot.count, snapshot.sum), (2, 20.001));
    }

    #[test]
    fn any_duration_is_counted() {
        let histogram = Histogram::new();
        histogram.observe(Duration::MAX);
        histogram.observe(Duration::ZERO);
        let snapshot = histogram.read(HistogramUnit::Seconds);
        assert_eq!(snapshot.buckets[0], (0.001, 1));
        assert_eq!(snapshot.buckets.last(), Some(&(f64::INFINITY, 1)));
    }
}
