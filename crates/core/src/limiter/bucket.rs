//! A token bucket in two atomics, changed under a flag.

#[cfg(not(loom))]
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::flag::Flag;
use crate::gcra::{Gcra, Level};
use crate::{Decision, Nanos, Rate, Receipt};

#[derive(Debug)]
pub(crate) struct SharedBucket {
    rule: Gcra,
    /// Until when not even one token is there. Read without the flag, as in the ring.
    closed_until: AtomicU64,
    /// The latest time seen: a step back must not refill a token twice.
    latest: AtomicU64,
    full_at: [AtomicU64; 2],
    taken: AtomicU64,
}

impl SharedBucket {
    pub(crate) fn new(rate: Rate, burst: u64) -> Self {
        Self {
            rule: Gcra::new(rate, burst),
            closed_until: AtomicU64::new(0),
            latest: AtomicU64::new(0),
            full_at: [AtomicU64::new(0), AtomicU64::new(0)],
            taken: AtomicU64::new(0),
        }
    }

    /// Answers the time that was logged and the place in the queue for refilling.
    #[inline]
    pub(crate) fn take(&self, flag: &Flag, now: u64, cost: u64) -> Decision<(u64, u128)> {
        let closed_until = self.closed_until.load(Relaxed);
        if cost == 1 && now < closed_until {
            return Decision::WaitUntil(Nanos::from_nanos(closed_until));
        }
        flag.with(|| self.take_held(now, cost))
    }

    /// Gives back what has not refilled of it yet.
    pub(crate) fn refund(&self, flag: &Flag, now: u64, receipt: &Receipt) -> bool {
        flag.with(|| {
            let (cost, taken) = (receipt.cost().units(), self.taken.load(Relaxed));
            let behind = u128::from(taken).saturating_sub(receipt.mark() + u128::from(cost));
            if behind == 0 {
                self.taken.store(taken.saturating_sub(cost), Relaxed);
            }
            let rest = self.rule.unfilled(self.backlog(now), behind, cost);
            self.fill(self.full_at() - rest);
            self.closed_until.store(0, Relaxed);
            rest > 0
        })
    }

    pub(crate) fn remaining(&self, flag: &Flag, now: u64) -> u64 {
        flag.with(|| {
            let backlog = self
                .full_at()
                .saturating_sub(self.rule.scale(self.clamp(now)));
            let missing = backlog.div_ceil(u128::from(self.rule.per));
            self.rule
                .burst
                .saturating_sub(u64::try_from(missing).unwrap_or(u64::MAX))
        })
    }

    fn take_held(&self, now: u64, cost: u64) -> Decision<(u64, u128)> {
        let now = self.clamp(now);
        match self.rule.level(self.full_at(), now, cost) {
            Level::Enough { full_at } => {
                self.fill(full_at);
                let taken = self.taken.load(Relaxed);
                self.taken.store(taken.saturating_add(cost), Relaxed);
                Decision::Allow((now, u128::from(taken)))
            }
            Level::WaitUntil(at) => {
                if cost == 1 {
                    self.closed_until.store(at, Relaxed);
                }
                Decision::WaitUntil(Nanos::from_nanos(at))
            }
            Level::Never => Decision::Never,
        }
    }

    fn backlog(&self, now: u64) -> u128 {
        self.full_at()
            .saturating_sub(self.rule.scale(self.clamp(now)))
    }

    fn clamp(&self, now: u64) -> u64 {
        let now = now.max(self.latest.load(Relaxed));
        self.latest.store(now, Relaxed);
        now
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
