//! One virtual time for the product's clock, its alarms and the runtime's own timers.
//!
//! It reads the runtime's clock rather than keeping a number of its own: under
//! `#[tokio::test(start_paused = true)]` that clock stands still while anything can run and jumps to
//! the next timer when nothing can, so a month passes in a second and no two parts of a test ever
//! disagree on the time. In a runtime that is not paused the same values follow real time.
//!
//! All alarms wait in one ordered map, driven by one task. The runtime's timers tick in whole
//! milliseconds, so alarms are kept by the millisecond too: asking for the same alarm again and
//! again holds at most one entry for each millisecond ahead, and no ring comes before its instant.
//! Nothing rings inside of [`Timer::ring_at`], whose caller may hold the lock that the alarm wants.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use outflow_core::{Clock, ClockPair, Nanos, Timer, TimerCallback, WallTime};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::Background;

/// The runtime's time as a clock that can be waited for; clones tell the same time.
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
    shared: Arc<Shared>,
    _driver: Arc<Background<()>>,
}

impl VirtualTime {
    /// The time of the current runtime, zero from now on.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub fn new() -> Self {
        let shared = Arc::new(Shared {
            runtime: Handle::current(),
            origin: Instant::now(),
            stepped: Mutex::new(FIRST),
            alarms: Mutex::default(),
            sooner: Notify::new(),
        });
        let driver = Background::start(drive(Arc::clone(&shared)));
        Self {
            shared,
            _driver: Arc::new(driver),
        }
    }

    /// Steps the civil time to this point, forwards or backwards, as an operator or NTP does; it
    /// runs on from there. Monotonic time takes no notice.
    pub fn set_wall(&self, wall: WallTime) {
        let now = self.now();
        *lock(&self.shared.stepped) = ClockPair { now, wall };
    }

    /// Waits until the clock shows this instant, or the millisecond after it.
    pub async fn reaches(&self, at: Nanos) {
        sleep_until(self.shared.instant(at)).await;
    }

    /// How many rings are asked for and have not come.
    pub fn pending(&self) -> usize {
        lock(&self.shared.alarms).waiting.len()
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
        let stepped = *lock(&self.shared.stepped);
        stepped.wall.saturating_add(self.now().since(stepped.now))
    }
}

impl Timer for VirtualTime {
    fn ring_at(&self, at: Nanos, alarm: Weak<dyn TimerCallback>) {
        if lock(&self.shared.alarms).insert(at, alarm) == Place::First {
            self.shared.sooner.notify_one();
        }
    }
}

impl fmt::Debug for VirtualTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VirtualTime")
            .field("now", &self.now())
            .field("pending", &self.pending())
            .finish()
    }
}

struct Shared {
    /// Entered for every reading: on a thread that is not the runtime's, its clock would answer
    /// with real time.
    runtime: Handle,
    origin: Instant,
    /// When civil time was last set, and to what.
    stepped: Mutex<ClockPair>,
    alarms: Mutex<Alarms>,
    /// Told when an alarm is asked for that comes before all others.
    sooner: Notify,
}

impl Shared {
    fn now(&self) -> Nanos {
        let _inside = self.runtime.enter();
        Nanos::ZERO.saturating_add(self.origin.elapsed())
    }

    /// What cannot be told is as good as never.
    fn instant(&self, at: Nanos) -> Instant {
        let far = || self.origin + A_LIFETIME;
        self.origin
            .checked_add(at.since(Nanos::ZERO))
            .unwrap_or_else(far)
    }

    /// Rings what is due, with no lock held, and tells when the next is.
    fn ring_due(&self) -> Option<Nanos> {
        let due = lock(&self.alarms).take_due(self.now());
        due.iter()
            .filter_map(Weak::upgrade)
            .for_each(|alarm| alarm.fire());
        lock(&self.alarms).next()
    }
}

/// One batch at a time: an alarm that asks to be rung at once does not keep the others waiting.
async fn drive(shared: Arc<Shared>) {
    loop {
        let Some(next) = shared.ring_due() else {
            shared.sooner.notified().await;
            continue;
        };
        tokio::select! {
            () = sleep_until(shared.instant(next)) => {}
            () = shared.sooner.notified() => {}
        }
    }
}

/// The alarms that wait, by millisecond and by address: what is held weakly keeps its address.
#[derive(Default)]
struct Alarms {
    waiting: BTreeMap<(u64, usize), Weak<dyn TimerCallback>>,
    /// How many there were when the dead were last removed.
    swept: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    First,
    Later,
}

impl Alarms {
    fn insert(&mut self, at: Nanos, alarm: Weak<dyn TimerCallback>) -> Place {
        self.sweep();
        let tick = at.as_nanos().div_ceil(NANOS_PER_TICK);
        let first = self.waiting.first_key_value().map(|(key, _)| key.0);
        self.waiting.insert((tick, address(&alarm)), alarm);
        match first {
            Some(first) if first <= tick => Place::Later,
            _ => Place::First,
        }
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

    /// Each time their number has doubled, so that a ring costs the same however many there are.
    fn sweep(&mut self) {
        if self.waiting.len() > self.swept.saturating_mul(2).max(FEW) {
            self.waiting.retain(|_, alarm| alarm.strong_count() > 0);
            self.swept = self.waiting.len();
        }
    }
}

fn address(alarm: &Weak<dyn TimerCallback>) -> usize {
    alarm.as_ptr().addr()
}

/// A test that panicked with the lock in hand has failed already.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How often the runtime's timers tick.
const NANOS_PER_TICK: u64 = 1_000_000;

/// Longer than any test's time, and short enough for the runtime to count to.
const A_LIFETIME: Duration = Duration::from_hours(100 * 365 * 24);

/// So few that looking for the dead is not worth it.
const FEW: usize = 1_024;

/// A date whose every part has two digits, so that a mistake in writing it is seen.
const FIRST: ClockPair = ClockPair {
    now: Nanos::ZERO,
    wall: WallTime::from_unix_secs(1_700_000_000),
};
