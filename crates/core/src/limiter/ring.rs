//! The last N sendings as a ring of atomics.
//!
//! A request of cost *c* passes if the *c* oldest slots are empty or have left the window, and then
//! overwrites them: one comparison decides, whatever the cost, and nothing ever has to be expired.

use alloc::boxed::Box;

#[cfg(not(loom))]
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::flag::Flag;
use crate::{Decision, Nanos, Receipt};

#[derive(Debug)]
pub(crate) struct SharedRing {
    window: u64,
    /// Until when not even one unit passes, as the last refusal found it. Read without the flag: a
    /// stale value was true a moment ago, which is all that a refusal claims.
    closed_until: AtomicU64,
    /// The oldest slot, which is the next to be overwritten. Slots are ordered by time from here.
    next: AtomicUsize,
    /// How many slots are empty. They are the oldest ones.
    empty: AtomicUsize,
    /// The latest time that was logged; an earlier one is logged as this one.
    latest: AtomicU64,
    slots: Box<[AtomicU64]>,
}

impl SharedRing {
    pub(crate) fn new(units: usize, window: u64) -> Self {
        Self {
            window,
            closed_until: AtomicU64::new(0),
            next: AtomicUsize::new(0),
            empty: AtomicUsize::new(units),
            latest: AtomicU64::new(0),
            slots: (0..units).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Answers the time that was logged: never before the newest one.
    #[inline]
    pub(crate) fn take(&self, flag: &Flag, now: u64, cost: u64) -> Decision<u64> {
        let closed_until = self.closed_until.load(Relaxed);
        if cost == 1 && now < closed_until {
            return Decision::WaitUntil(Nanos::from_nanos(closed_until));
        }
        match usize::try_from(cost) {
            Ok(cost) if cost <= self.slots.len() => flag.with(|| self.take_held(now, cost)),
            _ => Decision::Never,
        }
    }

    pub(crate) fn refund(&self, flag: &Flag, now: u64, receipt: &Receipt) -> bool {
        let at = receipt.at().as_nanos();
        let cost = usize::try_from(receipt.cost().units()).unwrap_or(usize::MAX);
        let counts = now.saturating_sub(at) < self.window;
        counts && flag.with(|| self.remove_held(at, cost))
    }

    pub(crate) fn remaining(&self, flag: &Flag, now: u64) -> u64 {
        flag.with(|| {
            let now = now.max(self.latest.load(Relaxed));
            let (mut left, mut taken) = (self.empty.load(Relaxed), self.slots.len());
            // Slots are ordered by time: bisect for the oldest that still counts.
            while left < taken {
                let middle = left.midpoint(taken);
                let counts = now - self.oldest(middle) < self.window;
                if counts {
                    taken = middle
                } else {
                    left = middle + 1
                }
            }
            u64::try_from(left).unwrap_or(u64::MAX)
        })
    }

    #[inline]
    fn take_held(&self, now: u64, cost: usize) -> Decision<u64> {
        let now = now.max(self.latest.load(Relaxed));
        let empty = self.empty.load(Relaxed);
        if cost > empty {
            let last = self.oldest(cost - 1);
            if now - last < self.window {
                return self.refuse(last, cost);
            }
        }
        let next = self.next.load(Relaxed);
        for offset in 0..cost {
            self.slot(next + offset).store(now, Relaxed);
        }
        self.next.store(self.wrap(next + cost), Relaxed);
        self.empty.store(empty.saturating_sub(cost), Relaxed);
        self.latest.store(now, Relaxed);
        Decision::Allow(now)
    }

    fn refuse(&self, last: u64, cost: usize) -> Decision<u64> {
        let Some(at) = last.checked_add(self.window) else {
            return Decision::Never;
        };
        if cost == 1 {
            self.closed_until.store(at, Relaxed);
        }
        Decision::WaitUntil(Nanos::from_nanos(at))
    }

    /// Removes `cost` slots that hold `at`, moving the newer ones up.
    fn remove_held(&self, at: u64, cost: usize) -> bool {
        let (len, empty) = (self.slots.len(), self.empty.load(Relaxed));
        let newer = (empty..len)
            .rev()
            .take_while(|&i| self.oldest(i) > at)
            .count();
        let Some(start) = (len - newer)
            .checked_sub(cost)
            .filter(|start| *start >= empty)
        else {
            return false;
        };
        if self.oldest(start) != at {
            return false;
        }
        let next = self.next.load(Relaxed);
        for index in start..start + newer {
            let moved = self.oldest(index + cost);
            self.slot(next + index).store(moved, Relaxed);
        }
        self.next.store(self.wrap(next + len - cost), Relaxed);
        self.empty.store(empty + cost, Relaxed);
        self.closed_until.store(0, Relaxed);
        true
    }

    /// The time in the `index`-th oldest slot.
    #[inline]
    fn oldest(&self, index: usize) -> u64 {
        self.slot(self.next.load(Relaxed) + index).load(Relaxed)
    }

    /// The slot at a position that may have run past the end once.
    #[expect(
        clippy::indexing_slicing,
        reason = "wrapped below the length; checked by every law"
    )]
    #[inline]
    fn slot(&self, position: usize) -> &AtomicU64 {
        &self.slots[self.wrap(position)]
    }

    /// A position below twice the length, brought below the length; a division would cost more
    /// than the rest of a take.
    #[inline]
    fn wrap(&self, position: usize) -> usize {
        if position >= self.slots.len() {
            position - self.slots.len()
        } else {
            position
        }
    }
}
