//! Units that an API let pass in the last window.
//!
//! Units are counted in slices of the window, not call by call: the count is evidence for a lowered limit,
//! and an error of a few per cent is corrected as the limit grows back. Calls go in bursts a window apart,
//! and one burst makes all the difference. So there are two counts, with and without the slice that the
//! start of the window cuts.

use std::time::Duration;

use outflow_core::Nanos;

/// A count over the last window.
#[derive(Debug)]
pub(super) struct Throughput {
    slice: u64,
    newest: u64,
    /// The end of the current slice, before which no slice expires.
    slice_end: u64,
    sum: u64,
    counts: [u32; SLICES],
}

impl Throughput {
    pub(super) fn new(window: Duration) -> Self {
        let nanos = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
        Self {
            slice: (nanos / FULL_SLICES).max(1),
            newest: 0,
            slice_end: 0,
            sum: 0,
            counts: [0; SLICES],
        }
    }

    pub(super) fn add(&mut self, now: Nanos, units: u64) {
        self.advance(now);
        if let Some(count) = self.counts.get_mut(slot(self.newest)) {
            let free = u32::MAX - *count;
            let units = u32::try_from(units).unwrap_or(u32::MAX).min(free);
            *count += units;
            self.sum += u64::from(units);
        }
    }

    /// Returns the units of the window that ends now, and of a little before it.
    pub(super) fn within(&mut self, now: Nanos) -> u64 {
        self.advance(now);
        self.sum
    }

    /// Returns the units of the window that ends now, except a little at its start.
    pub(super) fn surely_within(&mut self, now: Nanos) -> u64 {
        self.advance(now);
        let oldest = self.counts.get(slot(self.newest.saturating_add(1)));
        self.sum - oldest.map_or(0, |count| u64::from(*count))
    }

    fn advance(&mut self, now: Nanos) {
        if now.as_nanos() < self.slice_end {
            return;
        }
        let newest = now.as_nanos() / self.slice;
        if newest - self.newest >= SLICE_COUNT {
            (self.sum, self.counts) = (0, [0; SLICES]);
        } else {
            for slice in self.newest.saturating_add(1)..=newest {
                if let Some(count) = self.counts.get_mut(slot(slice)) {
                    self.sum -= u64::from(std::mem::take(count));
                }
            }
        }
        self.newest = newest;
        self.slice_end = newest.saturating_add(1).saturating_mul(self.slice);
    }
}

fn slot(slice: u64) -> usize {
    usize::try_from(slice % SLICE_COUNT).unwrap_or(0)
}

/// A window has 32 full slices and the current one: the two counts of an even flow differ by three per
/// cent. More slices would cost memory for each limit of each group.
const SLICES: usize = 33;
const SLICE_COUNT: u64 = 33;
const FULL_SLICES: u64 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    // 32 slices of 50 ms: a unit leaves the sure count after a window, and the other one a slice later.
    #[test]
    fn units_expire_after_a_window() {
        let mut throughput = Throughput::new(Duration::from_millis(1_600));
        throughput.add(Nanos::from_millis(50), 3);
        throughput.add(Nanos::from_millis(1_000), 4);
        let mut counts = |millis| {
            let now = Nanos::from_millis(millis);
            (throughput.surely_within(now), throughput.within(now))
        };
        assert_eq!(counts(1_649), (7, 7));
        assert_eq!(counts(1_650), (4, 7));
        assert_eq!(counts(1_700), (4, 4));
        assert_eq!(throughput.within(Nanos::from_secs(1 << 40)), 0);
    }
}
