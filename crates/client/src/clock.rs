//! The operating system's clock, read here and nowhere else in this crate.
//!
//! The monotonic clock of the system, not a counter of the processor: reading a counter is a few
//! nanoseconds faster and can step backwards between cores, which a limit must never see. On Unix
//! the system is asked directly: the standard library's instant hides its number, and getting it
//! out again costs a fifth of the whole reading, for every call that is ever admitted. It hands out
//! points in time and makes no decision with them; nothing here waits.

use std::sync::{Once, OnceLock, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use outflow_core::{Clock, Nanos, Timer, TimerCallback, WallTime};

use crate::timer_thread::TimerThread;

/// The system's monotonic and civil time.
///
/// All clocks of one process share an origin (on Unix it is the system's own, so those of all
/// processes do), so that what one of them stamped can be compared with what another tells.
///
/// ```
/// use outflow::SystemClock;
/// use outflow::core::Clock;
///
/// let clock = SystemClock::new();
/// let sent = clock.now();
/// assert!(clock.now() >= sent, "monotonic time never runs backwards");
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock {
    _read_only_here: (),
}

impl SystemClock {
    /// The clock of this system.
    pub const fn new() -> Self {
        Self {
            _read_only_here: (),
        }
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Nanos {
        monotonic::now()
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one file of the crate that reads the clock"
    )]
    fn wall(&self) -> WallTime {
        civil(SystemTime::now())
    }
}

impl Timer for SystemClock {
    fn ring_at(&self, at: Nanos, alarm: Weak<dyn TimerCallback>) {
        bell().ring_at(at, alarm);
    }
}

/// The bell of this process. Its thread is started with the first alarm and ends with the process:
/// it holds nothing that would have to be given back.
fn bell() -> &'static TimerThread {
    static BELL: OnceLock<TimerThread> = OnceLock::new();
    static STARTED: Once = Once::new();
    let bell = BELL.get_or_init(TimerThread::default);
    STARTED.call_once(|| start(bell));
    bell
}

#[expect(
    clippy::disallowed_methods,
    reason = "the clock's own thread, which rings for the whole process and is never drained"
)]
fn start(bell: &'static TimerThread) {
    let thread = std::thread::Builder::new().name("outflow-bell".to_owned());
    let started = thread.spawn(|| {
        precise();
        bell.run(&SystemClock::new())
    });
    if started.is_err() {
        tracing::error!("no thread for the timer: calls that wait will only go when others end");
    }
}

/// The system may wake a thread fifty microseconds late to save a wake-up; this one may not be.
fn precise() {
    #[cfg(target_os = "linux")]
    if rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1)).is_err() {
        tracing::debug!("the timer's slack stays as it is");
    }
}

#[cfg(unix)]
mod monotonic {
    use outflow_core::Nanos;
    use rustix::time::{ClockId, Timespec, clock_gettime};

    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one file of the crate that reads the clock"
    )]
    #[inline]
    pub(super) fn now() -> Nanos {
        nanos(clock_gettime(ClockId::Monotonic))
    }

    /// The system counts from its start, so neither part is negative; 584 years are the end.
    #[inline]
    pub(super) fn nanos(time: Timespec) -> Nanos {
        let (secs, rest) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
        Nanos::from_nanos(secs.saturating_mul(1_000_000_000).saturating_add(rest))
    }
}

#[cfg(not(unix))]
mod monotonic {
    use std::sync::OnceLock;
    use std::time::Instant;

    use outflow_core::Nanos;

    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one file of the crate that reads the clock"
    )]
    pub(super) fn now() -> Nanos {
        static ORIGIN: OnceLock<Instant> = OnceLock::new();
        let origin = *ORIGIN.get_or_init(Instant::now);
        Nanos::ZERO.saturating_add(Instant::now().saturating_duration_since(origin))
    }
}

/// A machine whose date is before 1970 is told as 1970: dates from servers then lie in the future,
/// which waits too long rather than too short.
fn civil(now: SystemTime) -> WallTime {
    now.duration_since(UNIX_EPOCH)
        .map_or(WallTime::EPOCH, WallTime::since_epoch)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    // A thousand readings are taken faster than most clocks tick: equal ones are fine, less is not.
    #[test]
    fn the_monotonic_time_never_runs_backwards() {
        let clock = SystemClock::new();
        let mut last = clock.now();
        for _ in 0..1_000 {
            let now = clock.now();
            assert!(now >= last, "{now:?} after {last:?}");
            last = now;
        }
    }

    #[test]
    fn two_clocks_of_one_process_share_a_timeline() {
        let first = SystemClock::new();
        let before = first.now();
        let between = SystemClock::new().now();
        let after = first.now();
        assert!(
            before <= between && between <= after,
            "{before:?} {between:?} {after:?}"
        );
    }

    // The standard library reads the same clock: what passes on one passes on the other.
    #[expect(clippy::disallowed_methods, reason = "compares with what it replaces")]
    #[test]
    fn it_runs_as_fast_as_the_standard_library() {
        let clock = SystemClock::new();
        let (outer, start) = (std::time::Instant::now(), clock.now());
        while clock.now().since(start) < Duration::from_millis(2) {}
        assert!(outer.elapsed() >= Duration::from_millis(2));
    }

    #[cfg(unix)]
    #[test]
    fn seconds_and_their_rest_add_up_and_end_with_the_timeline() {
        let told = |tv_sec, tv_nsec| monotonic::nanos(rustix::time::Timespec { tv_sec, tv_nsec });
        assert_eq!(told(3, 7), Nanos::from_nanos(3_000_000_007));
        assert_eq!(told(i64::MAX, 999_999_999), Nanos::MAX);
    }

    // The date of this test's writing: a clock that answers an earlier one reads something else.
    #[test]
    fn civil_time_is_counted_from_1970() {
        let written = WallTime::from_unix_secs(1_760_000_000);
        assert!(SystemClock::new().wall() > written);
        assert_eq!(
            civil(UNIX_EPOCH + Duration::from_secs(5)),
            WallTime::from_unix_secs(5)
        );
        assert_eq!(civil(UNIX_EPOCH - Duration::from_secs(5)), WallTime::EPOCH);
    }
}
