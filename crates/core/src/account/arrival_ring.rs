//! Arrivals in a sliding window, in buckets of one 256th of it.
//!
//! A log of entries is exact to the nanosecond and needs one entry per call. An account is written to
//! a file or a server at each renewal, so its size must not depend on the limit. An entry counts
//! until the end of its bucket plus one window: never too short, and at most one 256th too long.

use alloc::vec;
use alloc::vec::Vec;

/// Units by the bucket of their arrival.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ArrivalRing {
    window: u64,
    /// Number of the oldest bucket that counts; bucket `n` spans `n * width` to `(n + 1) * width`.
    pub(super) first: u64,
    /// Units of bucket `n` at index `n % BUCKETS`.
    pub(super) units: Vec<u64>,
    total: u128,
}

/// The current bucket, and all that ended less than one window ago: `SLICES + 1` can count at once.
pub(super) const BUCKETS: usize = 257;
const SLICES: u64 = 256;

impl ArrivalRing {
    pub(super) fn new(window: u64) -> Self {
        Self {
            window,
            first: 0,
            units: vec![0; BUCKETS],
            total: 0,
        }
    }

    /// Builds a ring from its stored numbers.
    pub(super) fn from_units(window: u64, first: u64, units: Vec<u64>) -> Self {
        let total = units.iter().map(|units| u128::from(*units)).sum();
        Self {
            window,
            first,
            units,
            total,
        }
    }

    /// Drops the buckets that ended a window ago.
    pub(super) fn advance(&mut self, now: u64) {
        let first = now.saturating_sub(self.window) / self.width();
        let gone = first.saturating_sub(self.first).min(SLICES + 1);
        for number in self.first..self.first.saturating_add(gone) {
            if let Some(units) = self.units.get_mut(index_of(number)) {
                self.total -= u128::from(core::mem::take(units));
            }
        }
        self.first = self.first.max(first);
    }

    /// Counts units that arrived at `at`, which is not after the time of the last advance.
    pub(super) fn count(&mut self, at: u64, units: u64) {
        let number = at / self.width();
        if number < self.first {
            return;
        }
        if let Some(bucket) = self.units.get_mut(index_of(number)) {
            let before = core::mem::replace(bucket, bucket.saturating_add(units));
            self.total += u128::from(*bucket - before);
        }
    }

    pub(super) const fn total(&self) -> u128 {
        self.total
    }

    /// Returns the time at which `units` of those that count now are gone; `None` if there are fewer.
    pub(super) fn time_of(&self, units: u128) -> Option<u64> {
        let mut rest = units;
        self.buckets().find_map(|(end, units)| {
            rest = rest.saturating_sub(u128::from(units));
            (rest == 0).then(|| end.saturating_add(self.window))
        })
    }

    /// Counts what another ring of a window at least as long knows, each bucket at its latest
    /// possible moment.
    pub(super) fn inherit(&mut self, longer: &Self, now: u64) {
        self.advance(now);
        for (end, units) in longer.buckets() {
            self.count(end.min(now), units);
        }
    }

    /// Returns the end and the units of each bucket, oldest first.
    pub(super) fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let width = self.width();
        (self.first..=self.first.saturating_add(SLICES)).filter_map(move |number| {
            let units = self.units.get(index_of(number)).copied().filter(|units| *units > 0)?;
            Some((number.saturating_add(1).saturating_mul(width), units))
        })
    }

    pub(super) const fn window(&self) -> u64 {
        self.window
    }

    const fn width(&self) -> u64 {
        self.window.div_ceil(SLICES)
    }
}

fn index_of(number: u64) -> usize {
    usize::try_from(number % (SLICES + 1)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    // 1 s has buckets of 3.90625 ms. An arrival at 1 ms counts until the end of the first one plus a
    // second, and the oldest and the newest bucket have places of their own.
    #[test]
    fn an_arrival_counts_until_its_bucket_ended_a_window_ago() {
        let (second, width) = (1_000_000_000, 3_906_250);
        let mut ring = ArrivalRing::new(second);
        ring.count(1_000_000, 5);
        assert_eq!(ring.time_of(5), Some(second + width));
        assert_eq!(ring.time_of(6), None);
        ring.advance(second + width - 1);
        ring.count(second + width - 1, 2);
        assert_eq!(ring.total(), 7);
        ring.advance(second + width);
        assert_eq!(ring.total(), 2);
        ring.advance(u64::MAX);
        assert_eq!(ring.total(), 0);
    }

    #[test]
    fn a_short_window_is_exact() {
        let mut ring = ArrivalRing::new(20);
        ring.count(7, 1);
        assert_eq!(ring.time_of(1), Some(28), "the nanosecond after 7 + 20");
    }

    // A minute's bucket is a quarter of a second, so the shorter ring counts at most that much more.
    #[test]
    fn a_shorter_ring_starts_with_what_a_longer_one_knows() {
        let mut minute = ArrivalRing::new(60_000_000_000);
        minute.advance(10_000_000_000);
        minute.count(8_000_000_000, 3);
        minute.count(9_900_000_000, 4);
        let mut second = ArrivalRing::new(1_000_000_000);
        second.inherit(&minute, 10_000_000_000);
        assert_eq!(second.total(), 4);
    }
}
