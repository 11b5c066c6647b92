//! One virtual time for the product's clock, its timers and the runtime's own timers.
//!
//! It reads the runtime's clock instead of a number of its own. Under `#[tokio::test(start_paused =
//! true)]` that clock stands still while any task can run and jumps to the next timer when none
//! can. So a month passes in a second and all parts of a test agree on the time. In a runtime that
//! is not paused the values follow real time.
//!
//! All callbacks wait in one ordered map, driven by one task. The runtime's timers tick in whole
//! milliseconds, so callbacks are stored by the millisecond too. Repeated registration of one
//! callback holds at most one entry per future millisecond, and none fires before its instant. No
//! callback fires inside of [`Timer::fire_at`], whose caller may hold the lock that the callback
//! needs.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use outflow_core::{Clock, ClockPair, Nanos, Timer, TimerCallback, WallTime};
use outflow_sync::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::Background;

/// The runtime's time as a clock with timers; clones show one time.
///
/// Monotonic time starts at zero when it is made; civil time starts in November 2023 and can be
/// stepped.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
/// use std::time::Duration;
/// use outflow_core::{Clock, Nanos};
/// use outflow_testkit::VirtualTime;
///
/// let time = VirtualTime::new();
/// tokio::time::sleep(Duration::from_secs(3_600)).await;
/// assert_eq!(time.now(), Nanos::from_secs(3_600));
/// # }
/// ```
#[derive(Clone)]
pub struct VirtualTime {
    shared: Arc<TimeShared>,
    _driver: Arc<Background<()>>,
}

impl VirtualTime {
    /// Builds the time of the current runtime, zero from now on.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub fn new() -> Self {
        let shared = Arc::new(TimeShared {
            runtime: Handle::current(),
            origin: Instant::now(),
            stepped: Mutex::new(FIRST),
            callbacks: Mutex::default(),
            sooner: Notify::new(),
        });
        let driver = Background::start(drive(Arc::clone(&shared)));
        Self {
            shared,
            _driver: Arc::new(driver),
        }
    }

    /// Steps the civil time to this point, forwards or backwards, as an operator or NTP does; it
    /// continues from there. Monotonic time is not affected.
    pub fn set_wall(&self, wall: WallTime) {
        let now = self.now();
        *self.shared.stepped.lock() = ClockPair { now, wall };
    }

    /// Waits until the clock shows this instant, or the millisecond after it.
    pub async fn reaches(&self, at: Nanos) {
        sleep_until(self.shared.instant(at)).await;
    }

    /// Returns the number of registered callbacks that have not fired.
    pub fn pending(&self) -> usize {
        self.shared.callbacks.lock().waiting.len()
    }
}

impl Default for VirtualTime {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for VirtualTime {
    fn now(&self) -> Nanos {
        self.shared.now()
    }

    fn wall(&self) -> WallTime {
        let stepped = *self.shared.stepped.lock();
        stepped.wall.saturating_add(self.now().since(stepped.now))
    }
}

impl Timer for VirtualTime {
    fn fire_at(&self, at: Nanos, callback: Weak<dyn TimerCallback>) {
        if self.shared.callbacks.lock().insert(at, callback) {
            self.shared.sooner.notify_one();
        }
    }
}

struct TimeShared {
    /// Entered for every reading: on a thread outside the runtime, its clock would return real
    /// time.
    runtime: Handle,
    origin: Instant,
    /// Time and value of the last civil time step.
    stepped: Mutex<ClockPair>,
    callbacks: Mutex<CallbackQueue>,
    /// Notified when a callback is registered before all others.
    sooner: Notify,
}

impl TimeShared {
    fn now(&self) -> Nanos {
        let _inside = self.runtime.enter();
        Nanos::ZERO.saturating_add(self.origin.elapsed())
    }

    /// An instant out of range counts as never.
    fn instant(&self, at: Nanos) -> Instant {
        let far = || self.origin + MAX_WAIT;
        self.origin.checked_add(at.since(Nanos::ZERO)).unwrap_or_else(far)
    }

    /// Fires due callbacks, with no lock held, and returns the time of the next.
    fn fire_due(&self) -> Option<Nanos> {
        let due = self.callbacks.lock().take_due(self.now());
        due.iter()
            .filter_map(Weak::upgrade)
            .for_each(|callback| callback.fire());
        self.callbacks.lock().next()
    }
}

/// One batch at a time: a callback that registers for now does not delay the others.
async fn drive(shared: Arc<TimeShared>) {
    loop {
        let Some(next) = shared.fire_due() else {
            shared.sooner.notified().await;
            continue;
        };
        tokio::select! {
            () = sleep_until(shared.instant(next)) => {}
            () = shared.sooner.notified() => {}
        }
    }
}

/// Waiting callbacks, by millisecond and by address: a weak reference keeps its address.
#[derive(Default)]
struct CallbackQueue {
    waiting: BTreeMap<(u64, usize), Weak<dyn TimerCallback>>,
    /// Number of entries after the last removal of dropped callbacks.
    swept: usize,
}

impl CallbackQueue {
    /// Returns true if the callback is before all others.
    fn insert(&mut self, at: Nanos, callback: Weak<dyn TimerCallback>) -> bool {
        self.sweep();
        let tick = at.as_nanos().div_ceil(NANOS_PER_TICK);
        let first = self.waiting.first_key_value().map(|(key, _)| key.0);
        self.waiting.insert((tick, address(&callback)), callback);
        first.is_none_or(|first| first > tick)
    }

    fn take_due(&mut self, now: Nanos) -> Vec<Weak<dyn TimerCallback>> {
        let passed = now.as_nanos() / NANOS_PER_TICK;
        let later = self.waiting.split_off(&(passed + 1, 0));
        let due = std::mem::replace(&mut self.waiting, later);
        due.into_values().collect()
    }

    fn next(&self) -> Option<Nanos> {
        let ((tick, _), _) = self.waiting.first_key_value()?;
        Some(Nanos::from_millis(*tick))
    }

    /// Runs each time their number has doubled, so that a registration costs amortised constant
    /// time.
    fn sweep(&mut self) {
        if self.waiting.len() > self.swept.saturating_mul(2).max(FEW) {
            self.waiting.retain(|_, callback| callback.strong_count() > 0);
            self.swept = self.waiting.len();
        }
    }
}

fn address(callback: &Weak<dyn TimerCallback>) -> usize {
    callback.as_ptr().addr()
}

/// Interval of the runtime's timer ticks.
const NANOS_PER_TICK: u64 = 1_000_000;

/// Longer than any test's time, and short enough for the runtime to count to.
const MAX_WAIT: Duration = Duration::from_hours(100 * 365 * 24);

/// Below this number a sweep is not worth it.
const FEW: usize = 1_024;

/// A date whose every part has two digits, so that an error in formatting is visible.
const FIRST: ClockPair = ClockPair {
    now: Nanos::ZERO,
    wall: WallTime::from_unix_secs(1_700_000_000),
};
