//! What was sent and has not come back.
//!
//! When a limit counts arrivals, a request in flight may reach the server at any moment, so it
//! counts all the time. A request that was given up may still be under way: it stays in flight
//! until the last moment at which it can arrive, and is charged to that moment.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

#[derive(Debug, Clone, Default)]
pub(crate) struct InFlight {
    held: u128,
    lost: BinaryHeap<Reverse<(u64, u64)>>,
    lost_weight: u128,
}

impl InFlight {
    /// The weight of all that may still arrive.
    pub(crate) const fn weight(&self) -> u128 {
        self.held + self.lost_weight
    }

    pub(crate) fn hold(&mut self, cost: u64) {
        self.held += u128::from(cost);
    }

    pub(crate) fn release(&mut self, cost: u64) {
        self.held = self.held.saturating_sub(u128::from(cost));
    }

    /// A released request that can arrive until `by`.
    pub(crate) fn lose(&mut self, by: u64, cost: u64) {
        self.lost_weight += u128::from(cost);
        self.lost.push(Reverse((by, cost)));
    }

    /// The next lost request whose last moment is not after `now`, oldest first.
    pub(crate) fn overdue(&mut self, now: u64) -> Option<(u64, u64)> {
        let Reverse((by, _)) = *self.lost.peek()?;
        if by > now {
            return None;
        }
        let Reverse((by, cost)) = self.lost.pop()?;
        self.lost_weight -= u128::from(cost);
        Some((by, cost))
    }

    /// The last moment of the lost request with which the lost ones weigh at least `weight`.
    pub(crate) fn lost_by(&self, weight: u128) -> Option<u64> {
        if weight > self.lost_weight {
            return None;
        }
        let mut lost: alloc::vec::Vec<_> = self.lost.iter().map(|Reverse(entry)| *entry).collect();
        lost.sort_unstable();
        let mut total = 0_u128;
        lost.into_iter().find_map(|(by, cost)| {
            total += u128::from(cost);
            (total >= weight).then_some(by)
        })
    }

    pub(crate) fn memory(&self) -> usize {
        self.lost.capacity() * size_of::<(u64, u64)>()
    }
}
