//! Ringing at an instant, to within tens of microseconds.
//!
//! One thread for the whole process that sleeps until the next instant anybody asked for. The
//! runtime's own timers would do with less, but they turn in steps of a millisecond, which costs a
//! limit of ten milliseconds a tenth of its throughput; and a thread of its own serves programs on any
//! runtime. It only rings: a thread that dies in a ring is caught and goes on, and whoever missed a ring
//! is rung again when it next asks. Observers of what a ring leads to are called here, once those who
//! wait were woken: one that blocks makes the rings of all others late, which is why none may.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use outflow_core::{Clock, Nanos, TimerCallback};

/// All that is to be rung, and the thread's bed.
#[derive(Default)]
pub(crate) struct TimerThread {
    asked: Mutex<BinaryHeap<TimerEntry>>,
    sooner: Condvar,
}

type Waiting<'a> = MutexGuard<'a, BinaryHeap<TimerEntry>>;

struct TimerEntry {
    at: Nanos,
    alarm: Weak<dyn TimerCallback>,
}

impl TimerThread {
    /// Has an alarm rung at this instant or soon after.
    pub(crate) fn ring_at(&self, at: Nanos, alarm: Weak<dyn TimerCallback>) {
        let mut asked = self.lock();
        let first = asked.peek().is_none_or(|next| at < next.at);
        asked.push(TimerEntry { at, alarm });
        drop(asked);
        if first {
            self.sooner.notify_one();
        }
    }

    /// Rings for as long as the process lives.
    pub(crate) fn run(&self, clock: &dyn Clock) -> ! {
        loop {
            for alarm in self.wait_for_the_next(clock) {
                ring(alarm);
            }
        }
    }

    fn wait_for_the_next(&self, clock: &dyn Clock) -> Vec<Arc<dyn TimerCallback>> {
        let mut asked = self.lock();
        loop {
            let now = clock.now();
            let due = due(&mut asked, now);
            if !due.is_empty() {
                return due;
            }
            let span = asked.peek().map(|next| next.at.since(now));
            asked = self.sleep(asked, span);
        }
    }

    fn sleep<'a>(&self, asked: Waiting<'a>, span: Option<Duration>) -> Waiting<'a> {
        let Some(span) = span else {
            let woken = self.sooner.wait(asked);
            return woken.unwrap_or_else(PoisonError::into_inner);
        };
        let woken = self.sooner.wait_timeout(asked, span);
        woken.unwrap_or_else(PoisonError::into_inner).0
    }

    fn lock(&self) -> Waiting<'_> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Rings, and lets go of an alarm that nobody else may know any more. Whatever goes wrong in there was
/// told there; this thread serves others too.
fn ring(alarm: Arc<dyn TimerCallback>) {
    let _rung = catch_unwind(AssertUnwindSafe(|| alarm.fire()));
    let _ended = catch_unwind(AssertUnwindSafe(move || drop(alarm)));
}

/// Takes out those whose time has come and who are still there.
fn due(asked: &mut BinaryHeap<TimerEntry>, now: Nanos) -> Vec<Arc<dyn TimerCallback>> {
    let mut due = Vec::new();
    while asked.peek().is_some_and(|next| next.at <= now) {
        due.extend(asked.pop().and_then(|next| next.alarm.upgrade()));
    }
    due
}

/// The soonest is the greatest, for a heap gives out its greatest.
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

    /// Goes wrong when it is rung, and when it ends.
    struct Fragile;

    impl TimerCallback for Fragile {
        fn fire(&self) {
            panic!("rung badly");
        }
    }

    impl Drop for Fragile {
        fn drop(&mut self) {
            panic!("ended badly");
        }
    }

    // The last who knows a door may be the thread that rings it, and with the door its observers end.
    #[test]
    fn an_alarm_that_rings_and_ends_badly_takes_nobody_down() {
        ring(Arc::new(Fragile));
    }
}
