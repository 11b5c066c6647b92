//! Number of jobs that run at once, and how it follows the work.
//!
//! By default the least number is what the limits of the APIs with jobs let be in flight, so that limits
//! bind and not workers; a free slot costs nothing. Between the bounds the signal is the number of queued jobs per
//! worker slot, sampled in a fixed interval. If it stays above the target for a few samples, the pool grows by
//! half; below half of the target it shrinks by a tenth. Fast growth and slow shrinking avoid oscillation.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::settings::WorkerBounds;

/// Pool of worker slots.
#[derive(Debug)]
pub(crate) struct WorkerPool {
    free: Arc<Semaphore>,
    size: AtomicUsize,
    /// Slots that have a job. A lane also takes slots while it waits for a permit, and those do no work.
    busy: AtomicUsize,
    /// Slots to remove as soon as they are free.
    surplus: AtomicUsize,
}

/// Worker slots, taken until they drop.
#[derive(Debug)]
pub(crate) struct WorkerSlots {
    permit: OwnedSemaphorePermit,
    pool: Arc<WorkerPool>,
    has_job: bool,
}

impl WorkerPool {
    pub(crate) fn new(size: usize) -> Arc<Self> {
        Arc::new(Self {
            free: Arc::new(Semaphore::new(size)),
            size: AtomicUsize::new(size),
            busy: AtomicUsize::new(0),
            surplus: AtomicUsize::new(0),
        })
    }

    /// Waits for a free slot, and takes further free ones up to this number.
    pub(crate) async fn take(self: &Arc<Self>, max: usize) -> Option<WorkerSlots> {
        let mut permit = Arc::clone(&self.free).acquire_owned().await.ok()?;
        let more = self.free.available_permits().min(max.saturating_sub(1));
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        if let Ok(rest) = Arc::clone(&self.free).try_acquire_many_owned(more) {
            permit.merge(rest);
        }
        Some(WorkerSlots {
            permit,
            pool: Arc::clone(self),
            has_job: false,
        })
    }

    /// Returns the number of slots.
    pub(crate) fn size(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }

    /// Returns the number of slots that have a job.
    pub(crate) fn busy(&self) -> usize {
        self.busy.load(Ordering::Relaxed)
    }

    /// Changes the number of slots. A taken slot is removed when it is free.
    pub(crate) fn resize(&self, size: usize) {
        let current = self.size.swap(size, Ordering::Relaxed);
        if size >= current {
            self.free.add_permits(self.cancel_surplus(size - current));
        } else {
            self.surplus.fetch_add(current - size, Ordering::Relaxed);
            self.remove_free();
        }
    }

    /// Keeps surplus slots instead of adding new ones, and returns the number that is still to add.
    fn cancel_surplus(&self, added: usize) -> usize {
        let kept = |surplus: usize| Some(surplus.saturating_sub(added));
        let surplus = self.surplus.fetch_update(Ordering::Relaxed, Ordering::Relaxed, kept);
        added.saturating_sub(surplus.unwrap_or(0))
    }

    /// Removes surplus slots that are free.
    fn remove_free(&self) {
        while self.surplus.load(Ordering::Relaxed) > 0
            && let Ok(free) = self.free.try_acquire()
        {
            free.forget();
            self.surplus.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl WorkerSlots {
    /// Returns the number of slots.
    pub(crate) fn count(&self) -> usize {
        self.permit.num_permits()
    }

    /// Removes one slot, for a job that starts.
    pub(crate) fn split_one(&mut self) -> Option<Self> {
        let permit = self.permit.split(1)?;
        self.pool.busy.fetch_add(1, Ordering::Relaxed);
        Some(Self {
            permit,
            pool: Arc::clone(&self.pool),
            has_job: true,
        })
    }
}

impl Drop for WorkerSlots {
    /// Removes surplus slots before a waiting lane gets them: otherwise a busy pool would never shrink.
    fn drop(&mut self) {
        if self.has_job {
            self.pool.busy.fetch_sub(1, Ordering::Relaxed);
        }
        let count = self.count();
        let less = |surplus: usize| Some(surplus.saturating_sub(count));
        let surplus = self
            .pool
            .surplus
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        let removed = surplus.map_or(0, |surplus| surplus.min(count));
        if let Some(removed) = self.permit.split(removed) {
            removed.forget();
        }
    }
}

/// Chooses the size of the pool by the queue depth.
#[derive(Debug, Default)]
pub(crate) struct Autoscaler {
    above: u32,
    below: u32,
}

impl Autoscaler {
    /// Takes a sample of queued jobs and slots, and returns the new number of slots.
    pub(crate) fn adjust(&mut self, bounds: WorkerBounds, queued: u64, slots: usize) -> usize {
        let depth = queued / u64::try_from(slots.max(1)).unwrap_or(u64::MAX);
        self.above = if depth > bounds.depth { self.above + 1 } else { 0 };
        self.below = if depth < bounds.depth / 2 { self.below + 1 } else { 0 };
        let size = if self.above >= SAMPLES {
            self.above = 0;
            slots + (slots / 2).max(1)
        } else if self.below >= SAMPLES {
            self.below = 0;
            slots - (slots / 10).max(1).min(slots)
        } else {
            slots
        };
        size.clamp(bounds.min, bounds.max)
    }
}

/// A burst that is over by the next sample needs no further workers.
const SAMPLES: u32 = 3;

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    const WORKERS: WorkerBounds = WorkerBounds {
        min: 10,
        max: 40,
        depth: 20,
    };

    // 10,000 are queued: 15, 22, 33 and no more than 40, a step each third sample.
    #[test]
    fn the_pool_grows_by_half_while_work_piles_up() {
        let (mut scaler, mut slots, mut seen) = (Autoscaler::default(), 10, Vec::new());
        for _ in 0..15 {
            slots = scaler.adjust(WORKERS, 10_000, slots);
            seen.push(slots);
        }
        assert_eq!(seen, [10, 10, 15, 15, 15, 22, 22, 22, 33, 33, 33, 40, 40, 40, 40]);
    }

    #[test]
    fn the_pool_shrinks_slowly_and_never_below_its_minimum() {
        let (mut scaler, mut slots) = (Autoscaler::default(), 40);
        for _ in 0..3 {
            slots = scaler.adjust(WORKERS, 0, slots);
        }
        assert_eq!(slots, 36);
        for _ in 0..100 {
            slots = scaler.adjust(WORKERS, 0, slots);
        }
        assert_eq!(slots, 10);
    }

    #[test]
    fn one_sample_changes_nothing() {
        let mut scaler = Autoscaler::default();
        for _ in 0..10 {
            assert_eq!(scaler.adjust(WORKERS, 10_000, 10), 10);
            assert_eq!(scaler.adjust(WORKERS, 200, 10), 10);
        }
    }

    #[tokio::test]
    async fn a_surplus_slot_is_removed_when_it_is_free() {
        let pool = WorkerPool::new(WORKERS.min);
        let mut taken = pool.take(100).await.expect("free slots");
        assert_eq!((taken.count(), pool.busy()), (10, 0), "none has a job yet");
        let working: Vec<_> = std::iter::from_fn(|| taken.split_one()).collect();
        pool.resize(4);
        assert_eq!((pool.size(), pool.busy()), (4, 10));
        drop((taken, working));
        assert_eq!(pool.busy(), 0);
        assert_eq!(pool.take(100).await.expect("free slots").count(), 4);
    }

    // A waiter wants each slot that becomes free, as a lane with work does.
    #[tokio::test]
    async fn a_surplus_slot_is_not_handed_to_a_waiter() {
        let pool = WorkerPool::new(WORKERS.min);
        let mut taken = pool.take(100).await.expect("free slots");
        pool.resize(4);
        let mut context = Context::from_waker(Waker::noop());
        let mut waiting = pin!(pool.take(100));
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        (0..6).for_each(|_| drop(taken.split_one()));
        let waits = waiting.as_mut().poll(&mut context).is_pending();
        assert!(waits, "six are surplus");
        drop(taken.split_one());
        assert!(waiting.as_mut().poll(&mut context).is_ready());
    }

    #[tokio::test]
    async fn a_surplus_slot_may_stay_after_all() {
        let pool = WorkerPool::new(WORKERS.min);
        let taken = pool.take(100).await;
        pool.resize(4);
        pool.resize(12);
        drop(taken);
        assert_eq!(pool.take(100).await.expect("free slots").count(), 12);
    }
}
