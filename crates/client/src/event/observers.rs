//! Who listens, and how they are told.
//!
//! Observers are called where things happen and must not block; a slow one drops or hands over. There
//! is no queue in between: it would have to drop or to wait, and only the observer knows which is right.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use super::Event;

/// Somebody who listens.
pub trait Observer: Send + Sync {
    /// Is told of an event. It must not block: it is called on the way of a request. If it panics,
    /// the request goes on.
    fn observe(&self, event: &Event);
}

/// Where events are told. Clones tell the same observers.
#[derive(Clone, Default)]
pub struct Events {
    inner: Arc<ObserverList>,
}

#[derive(Default)]
struct ObserverList {
    heard: AtomicBool,
    observers: ArcSwap<All>,
    /// Held by whoever changes who listens, so that `heard` says what the last change made true.
    changing: Mutex<()>,
}

type All = Vec<Arc<dyn Observer>>;

impl Events {
    /// Nobody listens yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells an observer of everything from now on.
    pub fn subscribe(&self, observer: Arc<dyn Observer>) {
        self.change(|all| all.push(observer));
    }

    /// Tells an observer nothing any more. After the last of them events cost nothing again.
    pub fn unsubscribe(&self, observer: &Arc<dyn Observer>) {
        self.change(|all| all.retain(|one| !Arc::ptr_eq(one, observer)));
    }

    /// Lets go of all observers.
    pub(crate) fn silence(&self) {
        self.change(Vec::clear);
    }

    /// What an observer does when it is let go is its own: it is dropped once the lock is free.
    fn change(&self, change: impl FnOnce(&mut All)) {
        let inner = &self.inner;
        let changing = inner.changing.lock();
        let changing = changing.unwrap_or_else(PoisonError::into_inner);
        let before = inner.observers.load_full();
        let mut all = All::clone(&before);
        change(&mut all);
        let heard = !all.is_empty();
        inner.observers.store(Arc::new(all));
        inner.heard.store(heard, Ordering::Release);
        drop(changing);
        drop(before);
    }

    /// Whether anybody listens.
    #[inline]
    pub fn has_observers(&self) -> bool {
        self.inner.heard.load(Ordering::Acquire)
    }

    /// Tells what happened, if anybody listens.
    #[inline]
    pub fn emit(&self, event: impl FnOnce() -> Event) {
        if self.has_observers() {
            self.notify(&event());
        }
    }

    /// Tells what happened. An observer that panics loses that event and nothing else: neither the
    /// call it was told of nor the observers behind it. The program's panic hook has heard of it.
    pub fn notify(&self, event: &Event) {
        for observer in self.inner.observers.load().iter() {
            let _unread = catch_unwind(AssertUnwindSafe(|| observer.observe(event)));
        }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let observers = self.inner.observers.load().len();
        f.debug_struct("Events")
            .field("observers", &observers)
            .finish()
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
    struct Ear(AtomicU32);

    impl Observer for Ear {
        fn observe(&self, _: &Event) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether an event was built at all.
    fn is_built(events: &Events) -> bool {
        let mut built = false;
        events.emit(|| {
            built = true;
            Event {
                api: SmolStr::new_static("api"),
                at: Nanos::ZERO,
                what: EventKind::Malformed { headers: 1 },
            }
        });
        built
    }

    // Two observers, one of which listens twice: events are built until the last of them has gone.
    #[test]
    fn an_event_is_built_only_while_somebody_listens() {
        let events = Events::new();
        assert!(!is_built(&events));
        let counted = Arc::new(Ear::default());
        let (one, other): (Arc<dyn Observer>, Arc<dyn Observer>) =
            (counted.clone(), Arc::new(Ear::default()));
        events.subscribe(Arc::clone(&one));
        events.subscribe(Arc::clone(&one));
        events.subscribe(Arc::clone(&other));
        assert!(is_built(&events));
        events.unsubscribe(&one);
        assert!(is_built(&events), "the other one still listens");
        assert_eq!(counted.0.load(Ordering::Relaxed), 2);
        events.unsubscribe(&one);
        assert!(is_built(&events), "one who does not listen cannot leave");
        events.unsubscribe(&other);
        assert!(!is_built(&events) && !events.has_observers());
        events.subscribe(one);
        assert!(is_built(&events), "and again");
    }

    /// Leaves when it is dropped, as one that owns its subscription does.
    struct Parting(Events);

    impl Observer for Parting {
        fn observe(&self, _: &Event) {}
    }

    impl Drop for Parting {
        fn drop(&mut self) {
            self.0.silence();
        }
    }

    #[test]
    fn an_observer_may_change_who_listens_while_it_is_let_go() {
        let events = Events::new();
        events.subscribe(Arc::new(Parting(events.clone())));
        events.silence();
        assert!(!events.has_observers());
    }

    // Four threads come and go a thousand times each, and the last word is that nobody listens.
    #[test]
    fn whoever_comes_and_goes_at_once_leaves_it_silent() {
        let events = Events::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        let ear: Arc<dyn Observer> = Arc::new(Ear::default());
                        events.subscribe(Arc::clone(&ear));
                        assert!(events.has_observers());
                        events.unsubscribe(&ear);
                    }
                });
            }
        });
        assert!(!events.has_observers());
    }
}
