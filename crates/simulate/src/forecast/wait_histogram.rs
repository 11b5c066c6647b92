//! Histogram of waits in constant memory: a year has more calls than fit.
//!
//! Steps grow with the wait, 32 to each doubling, so the error is at most a thirty-second.

use std::time::Duration;

/// Histogram of waits.
#[derive(Clone, Debug)]
pub struct WaitHistogram {
    counts: Vec<u64>,
    total: u64,
    sum: u128,
    longest: Duration,
}

impl Default for WaitHistogram {
    fn default() -> Self {
        Self {
            counts: vec![0; STEPS],
            total: 0,
            sum: 0,
            longest: Duration::ZERO,
        }
    }
}

impl WaitHistogram {
    /// Adds a wait.
    pub(crate) fn add(&mut self, wait: Duration) {
        let micros = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
        if let Some(count) = self.counts.get_mut(step(micros)) {
            *count += 1;
        }
        self.total += 1;
        self.sum += wait.as_nanos();
        self.longest = self.longest.max(wait);
    }

    /// Returns the number of waits.
    pub const fn count(&self) -> u64 {
        self.total
    }

    /// Returns the longest wait.
    pub const fn longest(&self) -> Duration {
        self.longest
    }

    /// Returns the mean wait.
    pub fn mean(&self) -> Duration {
        let mean = self.sum / u128::from(self.total.max(1));
        Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// Returns the wait that this percentage of waits does not exceed.
    pub fn percentile(&self, percent: u64) -> Duration {
        let rank = (u128::from(self.total) * u128::from(percent)).div_ceil(100);
        let mut seen = 0;
        for (step, count) in self.counts.iter().enumerate() {
            seen += u128::from(*count);
            if seen >= rank && seen > 0 {
                return Duration::from_micros(value(step)).min(self.longest);
            }
        }
        self.longest
    }
}

fn step(micros: u64) -> usize {
    if micros < FINE {
        return usize::try_from(micros).unwrap_or(usize::MAX);
    }
    let doublings = micros.ilog2() - FINE.ilog2();
    let within = (micros >> doublings) - FINE;
    usize::try_from(u64::from(doublings + 1) * FINE + within).unwrap_or(usize::MAX)
}

/// Returns the largest wait of a step, in microseconds.
fn value(step: usize) -> u64 {
    let step = u64::try_from(step).unwrap_or(u64::MAX);
    match step / FINE {
        0 => step,
        doublings => {
            let (shift, first) = (doublings - 1, FINE + step % FINE);
            let next = u128::from(first + 1) << shift;
            u64::try_from(next - 1).unwrap_or(u64::MAX)
        }
    }
}

/// Steps to each doubling.
const FINE: u64 = 32;

/// Enough steps for every number of microseconds.
const STEPS: usize = 32 * 60;

#[cfg(test)]
mod tests {
    use super::*;

    // 1 to 1,000 ms: the median is 500 and the 99th of a hundred 990, each to a thirty-second.
    #[test]
    fn percentiles_are_right_to_a_thirty_second() {
        let mut waits = WaitHistogram::default();
        (1..=1_000).for_each(|millis| waits.add(Duration::from_millis(millis)));
        for (percent, expected) in [(50, 500), (99, 990), (100, 1_000)] {
            let found = waits.percentile(percent);
            let right = Duration::from_millis(expected);
            assert!(found >= right && found <= right + right / 32, "{percent}: {found:?}");
        }
        assert_eq!(waits.mean(), Duration::from_micros(500_500));
        assert_eq!(waits.longest(), Duration::from_secs(1));
        assert_eq!(WaitHistogram::default().percentile(99), Duration::ZERO);
    }

    #[test]
    fn no_wait_is_too_long_to_be_counted() {
        let mut waits = WaitHistogram::default();
        waits.add(Duration::MAX);
        assert_eq!(waits.count(), 1);
        assert!(waits.percentile(50) > Duration::from_hours(24));
    }
}
