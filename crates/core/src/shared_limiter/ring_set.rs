//! Several rings under one lock: all of them pass, or none changes.

use alloc::boxed::Box;

#[cfg(not(loom))]
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::ring::SharedRing;
use super::spin_lock::SpinLock;
use crate::{Decision, Nanos, Receipt};

#[derive(Debug)]
pub(crate) struct SharedRings {
    rings: Box<[SharedRing]>,
    /// Time before which not even one unit passes all of them; read without the lock, as in one
    /// ring.
    closed_until: AtomicU64,
}

impl SharedRings {
    pub(crate) fn new(rings: Box<[SharedRing]>) -> Self {
        Self {
            rings,
            closed_until: AtomicU64::new(0),
        }
    }

    /// Takes `cost`; returns the recorded time, equal in all rings.
    #[inline]
    pub(crate) fn take(&self, lock: &SpinLock, now: u64, cost: u64) -> Decision<u64> {
        let closed_until = self.closed_until.load(Relaxed);
        if cost == 1 && now < closed_until {
            return Decision::WaitUntil(Nanos::from_nanos(closed_until));
        }
        match u32::try_from(cost) {
            Ok(cost) => lock.with(|| self.take_held(now, cost)),
            Err(_) => Decision::Never,
        }
    }

    /// Refunds in all rings; returns true if any of them still counted it.
    pub(crate) fn refund(&self, lock: &SpinLock, now: u64, receipt: &Receipt) -> bool {
        lock.with(|| {
            self.closed_until.store(0, Relaxed);
            let removed = self.rings.iter().filter(|ring| ring.remove(now, receipt)).count();
            removed > 0
        })
    }

    pub(crate) fn remaining(&self, lock: &SpinLock, now: u64) -> u64 {
        lock.with(|| {
            self.rings
                .iter()
                .map(|ring| ring.free_units(now))
                .min()
                .unwrap_or(u64::MAX)
        })
    }

    fn take_held(&self, now: u64, cost: u32) -> Decision<u64> {
        let now = self.rings.iter().fold(now, |now, ring| ring.clamp(now));
        let each = self.rings.iter().map(|ring| ring.check(now, cost));
        let all = each.fold(Decision::Allow(()), |sum, one| sum.and(one).map(drop));
        match all {
            Decision::Allow(()) => self.rings.iter().for_each(|ring| ring.commit(now, cost)),
            Decision::WaitUntil(at) if cost == 1 => self.closed_until.store(at.as_nanos(), Relaxed),
            Decision::WaitUntil(_) | Decision::Never => {}
        }
        all.map(|()| now)
    }
}
