//! What was sent and has not come back.
//!
//! When a limit counts arrivals, a request in flight may reach the server at any moment, so it
//! counts all the time. A request that was given up may still be under way: it stays in flight
//! until the last moment at which it can arrive, and is charged to that moment.

use alloc::collections::VecDeque;
use core::mem::size_of;

#[derive(Debug, Clone, Default)]
pub(crate) struct InFlight {
    held: u128,
    requests: usize,
    /// Given up, by the last moment at which each can arrive. Most are given up after the same
    /// time, so a new one belongs at the end or close to it.
    lost: VecDeque<(u64, u64)>,
    lost_weight: u128,
}

impl InFlight {
    /// The weight of all that may still arrive.
    #[inline]
    pub(crate) const fn weight(&self) -> u128 {
        self.held + self.lost_weight
    }

    /// How many requests that is.
    pub(crate) fn requests(&self) -> usize {
        self.requests + self.lost.len()
    }

    #[inline]
    pub(crate) fn hold(&mut self, cost: u64) {
        self.held += u128::from(cost);
        self.requests += 1;
    }

    #[inline]
    pub(crate) fn release(&mut self, cost: u64) {
        self.held = self.held.saturating_sub(u128::from(cost));
        self.requests = self.requests.saturating_sub(1);
    }

    /// Forgets those that somebody else will see come back.
    pub(crate) const fn forget_held(&mut self) {
        (self.held, self.requests) = (0, 0);
    }

    /// A released request that can arrive until `by`.
    pub(crate) fn lose(&mut self, by: u64, cost: u64) {
        self.lost_weight += u128::from(cost);
        let place = self.lost.partition_point(|(other, _)| *other <= by);
        self.lost.insert(place, (by, cost));
    }

    /// The next lost request whose last moment is not after `now`, oldest first.
    #[inline]
    pub(crate) fn overdue(&mut self, now: u64) -> Option<(u64, u64)> {
        let (by, cost) = *self.lost.front()?;
        if by > now {
            return None;
        }
        self.lost.pop_front();
        self.lost_weight -= u128::from(cost);
        Some((by, cost))
    }

    /// When `weight` of what is in flight will have landed: `None` if that needs a request of which
    /// nobody knows when it comes back.
    pub(crate) fn landed_by(&self, weight: u128) -> Option<u64> {
        let mut rest = weight.checked_sub(self.held).filter(|rest| *rest > 0)?;
        self.lost.iter().find_map(|(by, cost)| {
            rest = rest.saturating_sub(u128::from(*cost));
            (rest == 0).then_some(*by)
        })
    }

    pub(crate) fn shrink(&mut self) {
        self.lost.shrink_to_fit();
    }

    pub(crate) fn memory(&self) -> usize {
        self.lost.capacity() * size_of::<(u64, u64)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Held requests come back first as far as anyone knows; then the lost ones by their last moment,
    // whatever the order in which they were given up.
    #[test]
    fn lost_requests_land_in_the_order_of_their_last_moments() {
        let mut in_flight = InFlight::default();
        in_flight.hold(2);
        for (by, cost) in [(50, 1), (20, 3), (90, 1)] {
            in_flight.lose(by, cost);
        }
        assert_eq!((in_flight.weight(), in_flight.requests()), (7, 4));
        let by: [Option<u64>; 5] = [2, 3, 5, 6, 7].map(|weight| in_flight.landed_by(weight));
        assert_eq!(by, [None, Some(20), Some(20), Some(50), Some(90)]);
        assert_eq!(in_flight.landed_by(8), None, "there is not so much");
        assert_eq!(in_flight.overdue(19), None);
        assert_eq!(in_flight.overdue(60), Some((20, 3)));
        assert_eq!(in_flight.overdue(60), Some((50, 1)));
        assert_eq!((in_flight.overdue(60), in_flight.weight()), (None, 3));
    }
}
