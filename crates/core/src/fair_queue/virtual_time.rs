//! Virtual time: the service of a tenant divided by its share.
//!
//! Whole units are so fine that every weight up to 16 divides them evenly, in every priority. Other
//! weights carry their remainder from charge to charge, so nothing drifts. With large numbers,
//! floating point would favour tenants that joined early.

use super::tenant::{Priority, Weight};

/// Share of a tenant: its weight multiplied by its priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TenantShare(u64);

impl TenantShare {
    pub(super) fn new(weight: Weight, priority: Priority) -> Self {
        Self(u64::from(weight.as_u32()) * priority.factor())
    }

    /// Rescales a distance that was measured for the share `other`.
    pub(super) fn rescale(self, distance: u128, other: Self) -> u128 {
        let (ours, theirs) = (u128::from(self.0), u128::from(other.0));
        match distance.checked_mul(theirs) {
            Some(product) => product / ours,
            None => (distance / ours).saturating_mul(theirs),
        }
    }

    /// Returns the distance that a service of `cost` moves this tenant.
    pub(super) fn span_for(self, cost: u64) -> VirtualSpan {
        let share = u128::from(self.0);
        let units = u128::from(cost) * UNIT;
        VirtualSpan {
            whole: units / share,
            parts: u64::try_from(units % share).unwrap_or(0),
            share: self.0,
        }
    }
}

/// Distance in virtual time: whole units and `parts` of a `share`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct VirtualSpan {
    pub(super) whole: u128,
    parts: u64,
    share: u64,
}

/// Point in virtual time. Ordered by whole units; the parts accumulate to one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct VirtualTime {
    pub(super) whole: u128,
    parts: u64,
}

impl VirtualTime {
    /// Start of every tenant: so far from both ends that neither a boost or a refund nor a billion
    /// years of service reaches them.
    pub(super) const ORIGIN: Self = Self::at(1 << 127);

    pub(super) const fn at(whole: u128) -> Self {
        Self { whole, parts: 0 }
    }

    pub(super) fn advance(&mut self, by: VirtualSpan) {
        self.whole = self.whole.saturating_add(by.whole);
        self.parts += by.parts;
        if self.parts >= by.share {
            self.parts -= by.share;
            self.whole = self.whole.saturating_add(1);
        }
    }

    /// Undoes an [`advance`](Self::advance).
    pub(super) fn retreat(&mut self, by: VirtualSpan) {
        self.whole = self.whole.saturating_sub(by.whole);
        if self.parts < by.parts {
            self.parts += by.share;
            self.whole = self.whole.saturating_sub(1);
        }
        self.parts -= by.parts;
    }
}

/// Virtual length of one unit of cost at a share of one. The first factor is the least common
/// multiple of 1 to 16. The second makes it longer than the largest share, so that every service
/// moves its tenant.
pub(super) const UNIT: u128 = 720_720 << 17;

#[cfg(test)]
mod tests {
    use super::*;

    fn share(weight: u32, priority: Priority) -> TenantShare {
        TenantShare::new(Weight::new(weight).expect("positive"), priority)
    }

    // 17 and 4,294,967,291 are primes that do not divide the unit: their remainders must add up.
    #[test]
    fn service_equal_to_the_weight_is_exactly_one_unit() {
        for weight in [1, 3, 16, 17, 1_000, 4_294_967_291_u32] {
            let mut point = VirtualTime::at(0);
            let one = share(weight, Priority::Low).span_for(1);
            for _ in 0..weight.min(1_000) {
                point.advance(one);
            }
            let rest = u64::from(weight - weight.min(1_000));
            point.advance(share(weight, Priority::Low).span_for(rest));
            assert_eq!(point, VirtualTime::at(UNIT), "weight {weight}");
        }
    }

    #[test]
    fn the_smallest_service_moves_the_largest_share() {
        let mut point = VirtualTime::at(0);
        point.advance(share(u32::MAX, Priority::High).span_for(1));
        assert!(point.whole > 0);
    }

    #[test]
    fn retreat_undoes_advances_in_any_order() {
        let seventeen = share(17, Priority::High);
        for (first, second) in (1..20).flat_map(|a| (1..20).map(move |b| (a, b))) {
            let (a, b) = (seventeen.span_for(first), seventeen.span_for(second));
            let mut point = VirtualTime::at(u128::MAX / 2);
            point.advance(a);
            point.advance(b);
            point.retreat(a);
            point.retreat(b);
            assert_eq!(point, VirtualTime::at(u128::MAX / 2), "{first} and {second}");
        }
    }

    #[test]
    fn the_largest_costs_saturate() {
        let mut point = VirtualTime::at(u128::MAX - 1);
        point.advance(share(1, Priority::Low).span_for(u64::MAX));
        assert_eq!(point.whole, u128::MAX);
        point.advance(share(17, Priority::Low).span_for(u64::MAX));
        point.retreat(share(17, Priority::Low).span_for(u64::MAX));
    }
}
