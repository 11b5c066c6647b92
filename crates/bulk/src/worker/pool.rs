//! How many jobs are worked on at once, and how that number follows the work.
//!
//! Depth per worker is the signal: how many jobs wait for each place. It is looked at in a steady rhythm.
//! Above the mark for a few looks in a row the crew grows by half of itself, below half of the mark for
//! as many it shrinks by a tenth: quick to help, slow to leave, so that it does not sway.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::settings::WorkerSettings;

/// The places of those who work.
#[derive(Debug)]
pub(crate) struct WorkerPool {
    free: Arc<Semaphore>,
    all: AtomicUsize,
    /// Places that are to go as soon as they are free.
    owed: AtomicUsize,
}

/// One place, taken until it is dropped.
#[derive(Debug)]
pub(crate) struct WorkerSlot {
    permit: Option<OwnedSemaphorePermit>,
    places: Arc<WorkerPool>,
}

impl WorkerPool {
    pub(crate) fn new(crew: WorkerSettings) -> Arc<Self> {
        let least = crew.least.max(1);
        Arc::new(Self {
            free: Arc::new(Semaphore::new(least)),
            all: AtomicUsize::new(least),
            owed: AtomicUsize::new(0),
        })
    }

    /// Waits for a place, and takes those that are free beside it, up to so many.
    pub(crate) async fn take(self: &Arc<Self>, most: usize) -> Vec<WorkerSlot> {
        let Ok(first) = Arc::clone(&self.free).acquire_owned().await else {
            return Vec::new();
        };
        let mut taken = vec![self.place(first)];
        while taken.len() < most
            && let Ok(next) = Arc::clone(&self.free).try_acquire_owned()
        {
            taken.push(self.place(next));
        }
        taken
    }

    fn place(self: &Arc<Self>, permit: OwnedSemaphorePermit) -> WorkerSlot {
        WorkerSlot {
            permit: Some(permit),
            places: Arc::clone(self),
        }
    }

    /// How many there are.
    pub(crate) fn all(&self) -> usize {
        self.all.load(Ordering::Relaxed)
    }

    /// How many are taken.
    pub(crate) fn busy(&self) -> usize {
        let owed = self.owed.load(Ordering::Relaxed);
        (self.all() + owed).saturating_sub(self.free.available_permits())
    }

    /// Has so many from now on. Nobody is sent away from work: places go when they are free.
    pub(crate) fn resize(&self, wanted: usize) {
        let now = self.all.swap(wanted, Ordering::Relaxed);
        if wanted >= now {
            self.free.add_permits(self.keep_some_owed(wanted - now));
        } else {
            self.owed.fetch_add(now - wanted, Ordering::Relaxed);
            self.pay();
        }
    }

    /// Of places that are added, those that were still to go need not be.
    fn keep_some_owed(&self, added: usize) -> usize {
        let paid = |owed: usize| Some(owed.saturating_sub(added));
        let owed = self
            .owed
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, paid);
        added.saturating_sub(owed.unwrap_or(0))
    }

    /// Lets free places go that are to go.
    fn pay(&self) {
        while self.owed.load(Ordering::Relaxed) > 0
            && let Ok(free) = self.free.try_acquire()
        {
            free.forget();
            self.owed.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for WorkerSlot {
    /// A place that is to go goes before anybody else can have it: whoever waits for one would be handed it at
    /// once, and a busy crew would never shrink.
    fn drop(&mut self) {
        let owed = &self.places.owed;
        let pays = |owed: usize| owed.checked_sub(1);
        let goes = owed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, pays);
        if let (Ok(_), Some(permit)) = (goes, self.permit.take()) {
            permit.forget();
        }
    }
}

/// Watches the depth, and says how many places there should be.
#[derive(Debug, Default)]
pub(crate) struct Autoscaler {
    above: u32,
    below: u32,
}

impl Autoscaler {
    /// A look: so many jobs wait, and there are so many places.
    pub(crate) fn adjust(&mut self, crew: WorkerSettings, waiting: u64, places: usize) -> usize {
        let each = waiting / u64::try_from(places.max(1)).unwrap_or(u64::MAX);
        self.above = if each > crew.depth { self.above + 1 } else { 0 };
        self.below = if each < crew.depth / 2 {
            self.below + 1
        } else {
            0
        };
        let wanted = if self.above >= LOOKS {
            self.above = 0;
            places + (places / 2).max(1)
        } else if self.below >= LOOKS {
            self.below = 0;
            places - (places / 10).max(1).min(places)
        } else {
            places
        };
        wanted.clamp(crew.least.max(1), crew.most.max(crew.least).max(1))
    }
}

/// A burst that is over at the next look needs no crew of its own.
const LOOKS: u32 = 3;

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    const CREW: WorkerSettings = WorkerSettings {
        least: 10,
        most: 40,
        depth: 20,
    };

    // 10,000 wait: 15, 22, 33 and no more than 40, a step each third look.
    #[test]
    fn the_crew_grows_by_half_while_work_piles_up() {
        let (mut scale, mut places, mut seen) = (Autoscaler::default(), 10, Vec::new());
        for _ in 0..15 {
            places = scale.adjust(CREW, 10_000, places);
            seen.push(places);
        }
        assert_eq!(
            seen,
            [10, 10, 15, 15, 15, 22, 22, 22, 33, 33, 33, 40, 40, 40, 40]
        );
    }

    #[test]
    fn the_crew_shrinks_slowly_and_never_below_its_least() {
        let (mut scale, mut places) = (Autoscaler::default(), 40);
        for _ in 0..3 {
            places = scale.adjust(CREW, 0, places);
        }
        assert_eq!(places, 36);
        for _ in 0..100 {
            places = scale.adjust(CREW, 0, places);
        }
        assert_eq!(places, 10);
    }

    #[test]
    fn one_look_moves_nothing() {
        let mut scale = Autoscaler::default();
        for _ in 0..10 {
            assert_eq!(scale.adjust(CREW, 10_000, 10), 10);
            assert_eq!(scale.adjust(CREW, 200, 10), 10);
        }
    }

    #[tokio::test]
    async fn a_place_that_is_to_go_goes_when_it_is_free() {
        let places = WorkerPool::new(CREW);
        let taken = places.take(100).await;
        assert_eq!((taken.len(), places.busy()), (10, 10));
        places.resize(4);
        assert_eq!((places.all(), places.busy()), (4, 10));
        drop(taken);
        assert_eq!(places.busy(), 0);
        assert_eq!(places.take(100).await.len(), 4);
    }

    // Somebody waits for each place that becomes free, as a lane with work does.
    #[tokio::test]
    async fn a_place_that_is_to_go_is_not_handed_on() {
        let places = WorkerPool::new(CREW);
        let taken = places.take(100).await;
        places.resize(4);
        let mut context = Context::from_waker(Waker::noop());
        let mut waiting = pin!(places.take(100));
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        let mut taken = taken.into_iter();
        taken.by_ref().take(6).for_each(drop);
        let waits = waiting.as_mut().poll(&mut context).is_pending();
        assert!(waits, "six were to go");
        drop(taken.next());
        assert!(waiting.as_mut().poll(&mut context).is_ready());
    }

    #[tokio::test]
    async fn a_place_that_was_to_go_may_stay_after_all() {
        let places = WorkerPool::new(CREW);
        let taken = places.take(100).await;
        places.resize(4);
        places.resize(12);
        drop(taken);
        assert_eq!(places.take(100).await.len(), 12);
    }
}
