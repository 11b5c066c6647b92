//! Observers of events.
//!
//! Observers run inside the request and must not block; a slow one drops or hands over. There is no
//! queue in between: it would have to drop or to wait, and only the observer knows which is right.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use outflow_sync::Mutex;

use super::Event;

/// Receiver of events.
pub trait Observer: Send + Sync {
    /// Handles an event. It must not block: it runs inside a request. If it panics, the request
    /// continues.
    fn observe(&self, event: &Event);
}

/// Distributor of events. Clones share the observers.
#[derive(Clone, Default)]
pub struct Events {
    inner: Arc<ObserverList>,
}

#[derive(Default)]
struct ObserverList {
    has_observers: AtomicBool,
    observers: ArcSwap<ObserverVec>,
    /// Held while the list changes, so that `has_observers` matches the last change.
    changing: Mutex<()>,
}

type ObserverVec = Vec<Arc<dyn Observer>>;

impl Events {
    /// Returns a distributor without observers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an observer for all events from now on.
    pub fn subscribe(&self, observer: Arc<dyn Observer>) {
        self.change(|observers| observers.push(observer));
    }

    /// Removes an observer. Without observers, events cost nothing.
    pub fn unsubscribe(&self, observer: &Arc<dyn Observer>) {
        self.change(|observers| observers.retain(|one| !Arc::ptr_eq(one, observer)));
    }

    /// Removes all observers.
    pub(crate) fn clear(&self) {
        self.change(Vec::clear);
    }

    /// Changes the list. A removed observer is dropped after the lock is released, because its drop
    /// may run anything.
    fn change(&self, change: impl FnOnce(&mut ObserverVec)) {
        let inner = &self.inner;
        let changing = inner.changing.lock();
        let previous = inner.observers.load_full();
        let mut observers = ObserverVec::clone(&previous);
        change(&mut observers);
        let has_observers = !observers.is_empty();
        inner.observers.store(Arc::new(observers));
        inner.has_observers.store(has_observers, Ordering::Release);
        drop(changing);
        drop(previous);
    }

    /// Returns true if there is an observer.
    #[inline]
    pub fn has_observers(&self) -> bool {
        self.inner.has_observers.load(Ordering::Acquire)
    }

    /// Builds and distributes an event, if there is an observer.
    #[inline]
    pub fn emit(&self, event: impl FnOnce() -> Event) {
        if self.has_observers() {
            self.notify(&event());
        }
    }

    /// Distributes an event. A panic of an observer costs it that event; the call and other
    /// observers continue. The program's panic hook reports it.
    pub fn notify(&self, event: &Event) {
        for observer in self.inner.observers.load().iter() {
            let _unread = catch_unwind(AssertUnwindSafe(|| observer.observe(event)));
        }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let observers = self.inner.observers.load().len();
        f.debug_struct("Events").field("observers", &observers).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use outflow_core::Nanos;
    use smol_str::SmolStr;

    use super::*;
    use crate::event::EventKind;

    #[derive(Default)]
    struct Counter(AtomicU32);

    impl Observer for Counter {
        fn observe(&self, _: &Event) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns true if an event was built.
    fn is_built(events: &Events) -> bool {
        let mut built = false;
        events.emit(|| {
            built = true;
            Event {
                api: SmolStr::new_static("api"),
                at: Nanos::ZERO,
                trace: crate::trace::TraceId::NONE,
                what: EventKind::Malformed { headers: 1 },
            }
        });
        built
    }

    // Two observers, one of them subscribed twice: events are built until the last one is gone.
    #[test]
    fn an_event_is_built_only_while_there_are_observers() {
        let events = Events::new();
        assert!(!is_built(&events));
        let counted = Arc::new(Counter::default());
        let (one, other): (Arc<dyn Observer>, Arc<dyn Observer>) = (counted.clone(), Arc::new(Counter::default()));
        events.subscribe(Arc::clone(&one));
        events.subscribe(Arc::clone(&one));
        events.subscribe(Arc::clone(&other));
        assert!(is_built(&events));
        events.unsubscribe(&one);
        assert!(is_built(&events), "the other one is still subscribed");
        assert_eq!(counted.0.load(Ordering::Relaxed), 2);
        events.unsubscribe(&one);
        assert!(is_built(&events), "an unsubscribed observer cannot leave");
        events.unsubscribe(&other);
        assert!(!is_built(&events) && !events.has_observers());
        events.subscribe(one);
        assert!(is_built(&events), "and again");
    }

    /// Unsubscribes on drop, like the owner of a subscription.
    struct UnsubscribeOnDrop(Events);

    impl Observer for UnsubscribeOnDrop {
        fn observe(&self, _: &Event) {}
    }

    impl Drop for UnsubscribeOnDrop {
        fn drop(&mut self) {
            self.0.clear();
        }
    }

    #[test]
    fn an_observer_may_change_the_list_while_it_is_dropped() {
        let events = Events::new();
        events.subscribe(Arc::new(UnsubscribeOnDrop(events.clone())));
        events.clear();
        assert!(!events.has_observers());
    }

    // Four threads subscribe and unsubscribe a thousand times each; no observer is left.
    #[test]
    fn concurrent_subscriptions_leave_no_observer() {
        let events = Events::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        let observer: Arc<dyn Observer> = Arc::new(Counter::default());
                        events.subscribe(Arc::clone(&observer));
                        assert!(events.has_observers());
                        events.unsubscribe(&observer);
                    }
                });
            }
        });
        assert!(!events.has_observers());
    }
}
