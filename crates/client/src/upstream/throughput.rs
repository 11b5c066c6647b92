//! How much a server let through in the last window.
//!
//! Counted in slices of the window rather than call by call: it is evidence for a lowered limit, not
//! the limit, and a slice more or less moves it by a few per cent, which growing back corrects. But calls
//! go in bursts a window apart, and one burst more or less is all the difference: so both counts are
//! told, with the slice that the window's beginning cuts and without it.

use std::time::Duration;

use outflow_core::Nanos;

/// A count over the last window.
#[derive(Debug)]
pub(super) struct Throughput {
    slice: u64,
    newest: u64,
    /// When the slice under way is over: before that nothing is divided and nothing forgotten.
    until: u64,
    sum: u64,
    counts: [u32; SLICES],
}

impl Throughput {
    pub(super) fn over(window: Duration) -> Self {
        let nanos = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
        Self {
            slice: (nanos / WHOLE_SLICES).max(1),
            newest: 0,
            until: 0,
            sum: 0,
            counts: [0; SLICES],
        }
    }

    pub(super) fn add(&mut self, now: Nanos, units: u64) {
        self.turn_to(now);
        if let Some(count) = self.counts.get_mut(place(self.newest)) {
            let room = u32::MAX - *count;
            let units = u32::try_from(units).unwrap_or(u32::MAX).min(room);
            *count += units;
            self.sum += u64::from(units);
        }
    }

    /// What passed in the window that ends now, and a little before it.
    pub(super) fn within(&mut self, now: Nanos) -> u64 {
        self.turn_to(now);
        self.sum
    }

    /// What passed in the window that ends now, but for a little at its beginning.
    pub(super) fn surely_within(&mut self, now: Nanos) -> u64 {
        self.turn_to(now);
        let oldest = self.counts.get(place(self.newest.saturating_add(1)));
        self.sum - oldest.map_or(0, |count| u64::from(*count))
    }

    fn turn_to(&mut self, now: Nanos) {
        if now.as_nanos() < self.until {
            return;
        }
        let newest = now.as_nanos() / self.slice;
        if newest - self.newest >= SLICE_COUNT {
            (self.sum, self.counts) = (0, [0; SLICES]);
        } else {
            for passed in self.newest.saturating_add(1)..=newest {
                if let Some(count) = self.counts.get_mut(place(passed)) {
                    self.sum -= u64::from(std::mem::take(count));
                }
            }
        }
        self.newest = newest;
        self.until = newest.saturating_add(1).saturating_mul(self.slice);
    }
}

fn place(slice: u64) -> usize {
    usize::try_from(slice % SLICE_COUNT).unwrap_or(0)
}

/// A window is cut in 32, and the one under way makes 33: the two counts of an even flow differ by three
/// per cent. More slices would cost memory for each limit of each group.
const SLICES: usize = 33;
const SLICE_COUNT: u64 = 33;
const WHOLE_SLICES: u64 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    // 32 slices of 50 ms: what passed a window ago surely counts no more, and a slice later not at all.
    #[test]
    fn a_window_later_it_counts_no_more() {
        let mut passed = Throughput::over(Duration::from_millis(1_600));
        passed.add(Nanos::from_millis(50), 3);
        passed.add(Nanos::from_millis(1_000), 4);
        let mut counts = |millis| {
            let now = Nanos::from_millis(millis);
            (passed.surely_within(now), passed.within(now))
        };
        assert_eq!(counts(1_649), (7, 7));
        assert_eq!(counts(1_650), (4, 7));
        assert_eq!(counts(1_700), (4, 4));
        assert_eq!(passed.within(Nanos::from_secs(1 << 40)), 0);
    }
}
