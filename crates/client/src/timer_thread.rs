//! Timer callbacks with a precision of tens of microseconds.
//!
//! One thread of the process sleeps until the next requested instant. Timers of async runtimes have
//! steps of a millisecond, which costs a limit of ten milliseconds a tenth of its throughput, and a
//! thread works with any runtime. It catches panics of callbacks. Observers run in callbacks, after the
//! waiters were woken: an observer that blocks delays all other callbacks, so none may.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use outflow_core::{Clock, Nanos, TimerCallback};
use outflow_sync::{Condvar, Mutex};

/// Requested callbacks, and the condition that wakes the thread.
#[derive(Default)]
pub(crate) struct TimerThread {
    entries: Mutex<BinaryHeap<TimerEntry>>,
    earlier: Condvar,
}

struct TimerEntry {
    at: Nanos,
    callback: Weak<dyn TimerCallback>,
}

impl TimerThread {
    /// Requests a callback at this instant or soon after.
    pub(crate) fn fire_at(&self, at: Nanos, callback: Weak<dyn TimerCallback>) {
        let mut entries = self.entries.lock();
        let is_first = entries.peek().is_none_or(|next| at < next.at);
        entries.push(TimerEntry { at, callback });
        drop(entries);
        if is_first {
            self.earlier.notify_one();
        }
    }

    /// Runs callbacks for the life of the process.
    pub(crate) fn run(&self, clock: &dyn Clock) -> ! {
        loop {
            for callback in self.wait_for_due(clock) {
                run_callback(callback);
            }
        }
    }

    fn wait_for_due(&self, clock: &dyn Clock) -> Vec<Arc<dyn TimerCallback>> {
        let mut entries = self.entries.lock();
        loop {
            let now = clock.now();
            let due = take_due(&mut entries, now);
            if !due.is_empty() {
                return due;
            }
            let span = entries.peek().map(|next| next.at.since(now));
            entries = match span {
                Some(span) => self.earlier.wait_for(entries, span),
                None => self.earlier.wait(entries),
            };
        }
    }
}

/// Runs and drops a callback, of which this may be the last reference. The panic hook reports its panics;
/// the thread serves other callbacks too.
fn run_callback(callback: Arc<dyn TimerCallback>) {
    let _fired = catch_unwind(AssertUnwindSafe(|| callback.fire()));
    let _dropped = catch_unwind(AssertUnwindSafe(move || drop(callback)));
}

/// Removes the due entries and returns the callbacks that still exist.
fn take_due(entries: &mut BinaryHeap<TimerEntry>, now: Nanos) -> Vec<Arc<dyn TimerCallback>> {
    let mut due = Vec::new();
    while entries.peek().is_some_and(|next| next.at <= now) {
        let next = entries.pop();
        due.extend(next.and_then(|next| next.callback.upgrade()));
    }
    due
}

/// The earliest entry is the greatest, because the heap pops its greatest.
impl Ord for TimerEntry {
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.cmp(&self.at)
    }
}

impl PartialOrd for TimerEntry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for TimerEntry {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for TimerEntry {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Panics when it fires and when it is dropped.
    struct PanickingCallback;

    impl TimerCallback for PanickingCallback {
        fn fire(&self) {
            panic!("panic in fire");
        }
    }

    impl Drop for PanickingCallback {
        fn drop(&mut self) {
            panic!("panic in drop");
        }
    }

    // The timer thread may hold the last reference to an upstream, and drop its observers with it.
    #[test]
    fn a_callback_that_panics_does_not_end_the_thread() {
        run_callback(Arc::new(PanickingCallback));
    }
}
