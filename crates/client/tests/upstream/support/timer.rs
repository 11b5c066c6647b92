//! A manual clock whose timers fire when the test moves it past them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, Weak};
use std::time::Duration;

use outflow::core::{Clock, ManualClock, Nanos, Timer, TimerCallback, WallTime};

/// Manual time. Timers fire in the order of their instants, and then of their requests.
pub(crate) struct ManualTimer {
    pub(crate) clock: ManualClock,
    alarms: Mutex<BTreeMap<(Nanos, u64), Weak<dyn TimerCallback>>>,
    asked: AtomicU64,
    broken: AtomicBool,
    epoch: AtomicU64,
}

impl Default for ManualTimer {
    fn default() -> Self {
        Self {
            clock: ManualClock::new(Nanos::from_secs(1_000), START),
            alarms: Mutex::default(),
            asked: AtomicU64::new(0),
            broken: AtomicBool::new(false),
            epoch: AtomicU64::new(0),
        }
    }
}

impl ManualTimer {
    /// Lets time pass and fires the timers on the way.
    pub(crate) fn pass(&self, span: Duration) {
        let end = self.clock.now().saturating_add(span);
        while let Some((at, alarm)) = self.next(end) {
            self.clock.advance(at.since(self.clock.now()));
            if let Some(alarm) = alarm.upgrade() {
                alarm.fire();
            }
        }
        self.clock.advance(end.since(self.clock.now()));
    }

    /// Lets time pass without firing: the timer thread is late. Due timers fire with the next
    /// step.
    pub(crate) fn lag(&self, span: Duration) {
        self.clock.advance(span);
    }

    /// Stops all timers for ever.
    pub(crate) fn stop_firing(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }

    /// Loses all requested timers, as in a forked child.
    pub(crate) fn lose_all(&self) {
        self.alarms.lock().expect("no alarm panics").clear();
        self.epoch.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of pending timers.
    pub(crate) fn pending(&self) -> usize {
        self.alarms.lock().expect("no alarm panics").len()
    }

    /// Returns the instant of the next timer.
    pub(crate) fn next_at(&self) -> Option<Nanos> {
        let alarms = self.alarms.lock().expect("no alarm panics");
        alarms.keys().next().map(|(at, _)| *at)
    }

    /// Returns the number of timers ever requested.
    pub(crate) fn requested(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    fn next(&self, end: Nanos) -> Option<(Nanos, Weak<dyn TimerCallback>)> {
        let mut alarms = self.alarms.lock().expect("no alarm panics");
        let first = alarms.first_entry()?;
        if first.key().0 > end || self.broken.load(Ordering::Relaxed) {
            return None;
        }
        let ((at, _), alarm) = first.remove_entry();
        Some((at, alarm))
    }
}

impl Clock for ManualTimer {
    fn now(&self) -> Nanos {
        self.clock.now()
    }

    fn wall(&self) -> WallTime {
        self.clock.wall()
    }
}

impl Timer for ManualTimer {
    fn fire_at(&self, at: Nanos, alarm: Weak<dyn TimerCallback>) {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        let mut alarms = self.alarms.lock().expect("no alarm panics");
        alarms.insert((at, number), alarm);
    }

    fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }
}

/// A full minute: 14 November 2023, 22:13:00 UTC.
pub(crate) const START: WallTime = WallTime::from_unix_secs(1_699_999_980);
