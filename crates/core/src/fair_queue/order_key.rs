//! The sort key of tenants: the place on the virtual clock, then the order of arrival there.
//!
//! The place is stored as two halves. One number of 128 bits would align every heap entry to 16
//! bytes and make it half as large again; most of a pick is the wait for that memory.

use core::cmp::Ordering;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct OrderKey {
    high: u64,
    low: u64,
    entry: u64,
}

impl OrderKey {
    pub(super) fn new(point: u128, entry: u64) -> Self {
        Self {
            high: u64::try_from(point >> 64).unwrap_or(u64::MAX),
            low: u64::try_from(point & u128::from(u64::MAX)).unwrap_or(u64::MAX),
            entry,
        }
    }

    /// Combines the low half and the entry into one number, which takes one comparison.
    const fn fine(self) -> u128 {
        join(self.low, self.entry)
    }

    pub(super) const fn point(self) -> u128 {
        join(self.high, self.low)
    }
}

impl Ord for OrderKey {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.point(), self.entry).cmp(&(other.point(), other.entry))
    }
}

impl PartialOrd for OrderKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }

    /// The order of two keys is close to random, so a branch on it would be mispredicted half of
    /// the time. Only the high halves are branched on: in practice they are equal.
    fn lt(&self, other: &Self) -> bool {
        if self.high != other.high {
            return self.high < other.high;
        }
        self.fine() < other.fine()
    }
}

#[expect(
    clippy::as_conversions,
    reason = "u64 to u128 in a const fn, where `From` cannot be called"
)]
const fn join(high: u64, low: u64) -> u128 {
    (high as u128) << 64 | low as u128
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;

    // Few values, and values around the seam of the two halves, so that ties and carries are
    // common.
    fn turns() -> impl Strategy<Value = OrderKey> {
        let half = u128::from(u64::MAX);
        let point = proptest::sample::select(vec![0, 1, half, half + 1, half + 2, u128::MAX]);
        (point, 0_u64..3).prop_map(|(point, entry)| OrderKey::new(point, entry))
    }

    proptest! {
        #[test]
        fn the_fast_comparison_agrees_with_the_order(a in turns(), b in turns()) {
            prop_assert_eq!(a < b, a.cmp(&b).is_lt());
            prop_assert_eq!((a.point(), a.entry) < (b.point(), b.entry), a < b);
        }
    }
}
