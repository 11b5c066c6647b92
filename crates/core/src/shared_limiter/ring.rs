//! The last N sendings as a ring of atomics.
//!
//! A request of cost *c* passes if the *c* oldest slots are empty or have left the window, and then
//! overwrites them. One comparison decides for any cost, and nothing ever has to be expired.

use alloc::boxed::Box;

#[cfg(not(loom))]
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::spin_lock::SpinLock;
use crate::{Decision, Nanos, Receipt};

/// The fields fill the cache line next to the lock, so that a take touches this line and one of the
/// slots' lines only.
#[derive(Debug)]
pub(crate) struct SharedRing {
    window: u64,
    /// Time before which not even one unit passes, as the last refusal found it. Read without the
    /// lock: a stale value was true a moment ago, which is enough for a refusal.
    closed_until: AtomicU64,
    /// The oldest slot, which is overwritten next. Slots are ordered by time from here.
    next: AtomicU32,
    /// Number of empty slots. They are the oldest ones.
    empty: AtomicU32,
    slots: Box<[AtomicU64]>,
}

impl SharedRing {
    pub(crate) fn new(units: u32, window: u64) -> Self {
        Self {
            window,
            closed_until: AtomicU64::new(0),
            next: AtomicU32::new(0),
            empty: AtomicU32::new(units),
            slots: (0..units).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Takes `cost`; returns the recorded time, never before the newest one.
    #[inline]
    pub(crate) fn take(&self, lock: &SpinLock, now: u64, cost: u64) -> Decision<u64> {
        if cost == 1 {
            let closed_until = self.closed_until.load(Relaxed);
            if now < closed_until {
                return Decision::WaitUntil(Nanos::from_nanos(closed_until));
            }
            return lock.with(|| self.take_one(now));
        }
        match u32::try_from(cost) {
            Ok(cost) => lock.with(|| self.take_many(now, cost)),
            Err(_) => Decision::Never,
        }
    }

    pub(crate) fn refund(&self, lock: &SpinLock, now: u64, receipt: &Receipt) -> bool {
        lock.with(|| self.remove(now, receipt))
    }

    pub(crate) fn remaining(&self, lock: &SpinLock, now: u64) -> u64 {
        lock.with(|| self.free_units(now))
    }

    /// Under the lock: returns the number of returned units.
    pub(super) fn free_units(&self, now: u64) -> u64 {
        let now = self.clamp(now);
        let (mut left, mut taken) = (self.empty.load(Relaxed), self.len());
        // Slots are ordered by time: bisect for the oldest that still counts.
        while left < taken {
            let middle = left.midpoint(taken);
            let counts = now - self.oldest(middle) < self.window;
            if counts { taken = middle } else { left = middle + 1 }
        }
        u64::from(left)
    }

    /// Takes one unit: the path of nearly every request.
    #[inline]
    fn take_one(&self, now: u64) -> Decision<u64> {
        let now = self.clamp(now);
        let (next, empty) = (self.next.load(Relaxed), self.empty.load(Relaxed));
        let slot = self.slot(next);
        if empty > 0 {
            self.empty.store(empty - 1, Relaxed);
        } else {
            let oldest = slot.load(Relaxed);
            if now - oldest < self.window {
                return self.close(oldest);
            }
        }
        slot.store(now, Relaxed);
        self.next.store(self.wrap(next + 1), Relaxed);
        Decision::Allow(now)
    }

    fn take_many(&self, now: u64, cost: u32) -> Decision<u64> {
        let now = self.clamp(now);
        self.check(now, cost).map(|()| {
            self.commit(now, cost);
            now
        })
    }

    /// Under the lock: returns the time to decide at, never before the newest sending.
    #[inline]
    pub(super) fn clamp(&self, now: u64) -> u64 {
        now.max(self.newest())
    }

    /// Under the lock: checks if the oldest slots have left the window at a clamped time.
    pub(super) fn check(&self, now: u64, cost: u32) -> Decision {
        if cost > self.len() {
            return Decision::Never;
        }
        if cost <= self.empty.load(Relaxed) {
            return Decision::Allow(());
        }
        let last = self.oldest(cost - 1);
        if now - last >= self.window {
            return Decision::Allow(());
        }
        self.returns(last)
    }

    /// Under the lock: takes a cost that [`check`](Self::check) has just allowed.
    pub(super) fn commit(&self, now: u64, cost: u32) {
        let (next, empty) = (self.next.load(Relaxed), self.empty.load(Relaxed));
        for offset in 0..cost {
            self.slot(self.wrap(next + offset)).store(now, Relaxed);
        }
        self.next.store(self.wrap(next + cost), Relaxed);
        self.empty.store(empty.saturating_sub(cost), Relaxed);
    }

    fn close(&self, oldest: u64) -> Decision<u64> {
        let answer = self.returns(oldest);
        if let Decision::WaitUntil(at) = answer {
            self.closed_until.store(at.as_nanos(), Relaxed);
        }
        answer
    }

    fn returns<T>(&self, last: u64) -> Decision<T> {
        match last.checked_add(self.window) {
            Some(at) => Decision::WaitUntil(Nanos::from_nanos(at)),
            None => Decision::Never,
        }
    }

    /// Under the lock: removes the receipt's units if they still count, moving the newer slots up.
    pub(super) fn remove(&self, now: u64, receipt: &Receipt) -> bool {
        let at = receipt.at().as_nanos();
        let cost = u32::try_from(receipt.cost().units()).unwrap_or(u32::MAX);
        if now.saturating_sub(at) >= self.window {
            return false;
        }
        let (len, empty) = (self.len(), self.empty.load(Relaxed));
        let mut end = len;
        while end > empty && self.oldest(end - 1) > at {
            end -= 1;
        }
        let Some(start) = end.checked_sub(cost).filter(|start| *start >= empty) else {
            return false;
        };
        if self.oldest(start) != at {
            return false;
        }
        let next = self.next.load(Relaxed);
        for index in end..len {
            let moved = self.oldest(index);
            self.slot(self.wrap(next + index - cost)).store(moved, Relaxed);
        }
        self.next.store(self.wrap(next + len - cost), Relaxed);
        self.empty.store(empty + cost, Relaxed);
        self.closed_until.store(0, Relaxed);
        true
    }

    #[inline]
    fn newest(&self) -> u64 {
        if self.empty.load(Relaxed) == self.len() {
            0
        } else {
            self.oldest(self.len() - 1)
        }
    }

    /// Returns the time in the `index`-th oldest slot.
    #[inline]
    fn oldest(&self, index: u32) -> u64 {
        let position = self.next.load(Relaxed) + index;
        self.slot(self.wrap(position)).load(Relaxed)
    }

    #[expect(
        clippy::indexing_slicing,
        clippy::as_conversions,
        reason = "every position is wrapped below the length, which has 32 bits; checked by every law"
    )]
    #[inline]
    fn slot(&self, position: u32) -> &AtomicU64 {
        &self.slots[position as usize]
    }

    /// Wraps a position below twice the length; a division would cost more than the rest of a take.
    #[inline]
    fn wrap(&self, position: u32) -> u32 {
        if position >= self.len() {
            position - self.len()
        } else {
            position
        }
    }

    #[expect(
        clippy::as_conversions,
        clippy::cast_possible_truncation,
        reason = "the number of slots is a u32"
    )]
    #[inline]
    fn len(&self) -> u32 {
        self.slots.len() as u32
    }
}
