//! Requests sent and not finished.
//!
//! When a limit counts arrivals, a request in flight may reach the server at any moment, so it
//! counts all the time. A request that was given up may still arrive. It stays in flight until the
//! last moment at which it can, and is charged to that moment.

use alloc::collections::VecDeque;
use core::mem::size_of;

#[derive(Debug, Clone, Default)]
pub(crate) struct InFlight {
    held: u128,
    requests: usize,
    /// Requests that were given up, by the last moment at which each can arrive. Most have equal
    /// timeouts, so a new one belongs at or near the end.
    lost: VecDeque<(u64, u64)>,
    lost_weight: u128,
}

impl InFlight {
    /// Returns the weight of all that may still arrive.
    #[inline]
    pub(crate) const fn weight(&self) -> u128 {
        self.held + self.lost_weight
    }

    /// Returns the number of these requests.
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

    /// Drops requests that another meter will settle.
    pub(crate) const fn forget_held(&mut self) {
        (self.held, self.requests) = (0, 0);
    }

    /// Records a given-up request that can arrive until `by`.
    pub(crate) fn lose(&mut self, by: u64, cost: u64) {
        self.lost_weight += u128::from(cost);
        let place = self.lost.partition_point(|(other, _)| *other <= by);
        self.lost.insert(place, (by, cost));
    }

    /// Returns the next given-up request whose last moment is not after `now`, oldest first.
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

    /// Returns the time at which `weight` of the requests in flight will have landed; `None` if
    /// that needs a request without a known end.
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

    // Held requests are assumed to finish first; then the given-up ones by their last moment, in
    // any order of giving up.
    #[test]
    fn lost_requests_land_by_their_last_moment() {
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
