//! A token bucket in a few atomics, changed under a lock.
//!
//! Its only time is that at which it is full. Asked with an earlier time than before, it sees more
//! missing tokens and refuses; takes come from the same backlog.

use alloc::boxed::Box;

#[cfg(not(loom))]
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::spin_lock::SpinLock;
use crate::gcra::{BucketLevel, Gcra};
use crate::{Decision, Nanos, Rate, Receipt};

#[derive(Debug)]
pub(crate) struct SharedBucket {
    /// Boxed: it never changes, and the rest then fits the cache line of the lock.
    rule: Box<Gcra>,
    /// Time before which not even one token is there. Read without the lock, as in the ring.
    closed_until: AtomicU64,
    full_at: [AtomicU64; 2],
    taken: AtomicU64,
}

impl SharedBucket {
    pub(crate) fn new(rate: Rate, burst: u64) -> Self {
        Self {
            rule: Box::new(Gcra::new(rate, burst)),
            closed_until: AtomicU64::new(0),
            full_at: [AtomicU64::new(0), AtomicU64::new(0)],
            taken: AtomicU64::new(0),
        }
    }

    /// Takes `cost`; returns the recorded time and the position in the refill order.
    #[inline]
    pub(crate) fn take(&self, lock: &SpinLock, now: u64, cost: u64) -> Decision<(u64, u64)> {
        let closed_until = self.closed_until.load(Relaxed);
        if cost == 1 && now < closed_until {
            return Decision::WaitUntil(Nanos::from_nanos(closed_until));
        }
        lock.with(|| self.take_held(now, cost))
    }

    /// Refunds the part that has not refilled yet. In the order of taking or in reverse nothing is
    /// lost. In a mixed order it may keep some until that has refilled, and never returns too much.
    pub(crate) fn refund(&self, lock: &SpinLock, now: u64, receipt: &Receipt) -> bool {
        lock.with(|| {
            let (cost, taken) = (receipt.cost().units(), self.taken.load(Relaxed));
            let end = receipt.mark().saturating_add(cost);
            // After 2^64 tokens positions are lost.
            let Some(behind) = taken.checked_sub(end).filter(|_| taken < u64::MAX) else {
                return false;
            };
            if behind == 0 {
                self.taken.store(receipt.mark(), Relaxed);
            }
            let rest = self.rule.unfilled(self.backlog(now), behind, cost);
            self.fill(self.full_at() - rest);
            self.closed_until.store(0, Relaxed);
            rest > 0
        })
    }

    pub(crate) fn remaining(&self, lock: &SpinLock, now: u64) -> u64 {
        lock.with(|| {
            let backlog = self.full_at().saturating_sub(self.rule.scale(now));
            let missing = backlog.div_ceil(u128::from(self.rule.per));
            self.rule
                .burst
                .saturating_sub(u64::try_from(missing).unwrap_or(u64::MAX))
        })
    }

    fn take_held(&self, now: u64, cost: u64) -> Decision<(u64, u64)> {
        match self.rule.level(self.full_at(), now, cost) {
            BucketLevel::Enough { full_at } => {
                self.fill(full_at);
                let taken = self.taken.load(Relaxed);
                self.taken.store(taken.saturating_add(cost), Relaxed);
                Decision::Allow((now, taken))
            }
            BucketLevel::WaitUntil(at) => {
                if cost == 1 {
                    self.closed_until.store(at, Relaxed);
                }
                Decision::WaitUntil(Nanos::from_nanos(at))
            }
            BucketLevel::Never => Decision::Never,
        }
    }

    fn backlog(&self, now: u64) -> u128 {
        self.full_at().saturating_sub(self.rule.scale(now))
    }

    fn full_at(&self) -> u128 {
        let [high, low] = &self.full_at;
        u128::from(high.load(Relaxed)) << 64 | u128::from(low.load(Relaxed))
    }

    #[expect(
        clippy::as_conversions,
        clippy::cast_possible_truncation,
        reason = "takes the two halves"
    )]
    fn fill(&self, full_at: u128) {
        let [high, low] = &self.full_at;
        high.store((full_at >> 64) as u64, Relaxed);
        low.store(full_at as u64, Relaxed);
    }
}
