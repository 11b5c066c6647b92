//! The operating system's clock, which no other file of this crate reads.
//!
//! It is the monotonic clock of the system, not a counter of the processor: a counter is a few
//! nanoseconds faster, but can step backwards between cores, which a limit must never see. On Unix the
//! system is called directly: the standard library hides the number of its instant, and getting it costs
//! a fifth of each reading. The clock makes no decision and never waits.

use std::sync::{Arc, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwapOption;
use outflow_core::{Clock, Nanos, Timer, TimerCallback, WallTime};

use crate::timer_thread::TimerThread;

/// The system's monotonic time and wall-clock time.
///
/// All clocks of one process share an origin, so that their instants are comparable. On Unix it is the
/// system's own, which all processes share.
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
    /// Creates the clock of this system.
    pub const fn new() -> Self {
        Self { _read_only_here: () }
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
        to_wall_time(SystemTime::now())
    }
}

impl Timer for SystemClock {
    fn fire_at(&self, at: Nanos, callback: Weak<dyn TimerCallback>) {
        process_timer().thread.fire_at(at, callback);
    }

    /// Returns the number of the process: a forked child has no timer thread until it requests a callback.
    fn epoch(&self) -> u64 {
        std::process::id().into()
    }
}

/// The timer thread of one process.
struct ProcessTimer {
    process: u32,
    thread: TimerThread,
}

/// Returns the timer thread of this process. It starts with the first callback and ends with the process,
/// because it holds nothing to release.
///
/// A forked child has only the thread that forked, so it starts another. It touches no lock of its parent's
/// timer: a thread that does not exist in the child may hold it.
fn process_timer() -> Arc<ProcessTimer> {
    static TIMER: ArcSwapOption<ProcessTimer> = ArcSwapOption::const_empty();
    let process = std::process::id();
    loop {
        let known = TIMER.load_full();
        if let Some(timer) = known.as_ref().filter(|timer| timer.process == process) {
            return Arc::clone(timer);
        }
        let timer = Arc::new(ProcessTimer {
            process,
            thread: TimerThread::default(),
        });
        let previous = TIMER.compare_and_swap(&known, Some(Arc::clone(&timer)));
        if previous.as_ref().map(Arc::as_ptr) == known.as_ref().map(Arc::as_ptr) {
            start_thread(Arc::clone(&timer));
            return timer;
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the timer thread serves the whole process and is never drained"
)]
fn start_thread(timer: Arc<ProcessTimer>) {
    let thread = std::thread::Builder::new().name("outflow-timer".to_owned());
    let started = thread.spawn(move || {
        disable_timer_slack();
        timer.thread.run(&SystemClock::new())
    });
    if started.is_err() {
        tracing::error!("cannot start the timer thread: waiting calls start only when others end");
    }
}

/// Disables the slack of up to fifty microseconds with which the system groups wake-ups.
fn disable_timer_slack() {
    #[cfg(target_os = "linux")]
    if rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1)).is_err() {
        tracing::debug!("cannot disable the timer slack");
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

    /// Converts a time since the system's start, which is never negative, up to 584 years.
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

/// Converts the system's date. A date before 1970 counts as 1970: dates of servers are then in the future,
/// and waits are too long instead of too short.
fn to_wall_time(now: SystemTime) -> WallTime {
    now.duration_since(UNIX_EPOCH)
        .map_or(WallTime::EPOCH, WallTime::since_epoch)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    // A thousand readings are faster than the ticks of most clocks: equal ones are valid, lower ones not.
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

    // The standard library reads the same clock, so both advance equally.
    #[expect(clippy::disallowed_methods, reason = "compares with the clock that it replaces")]
    #[test]
    fn it_runs_as_fast_as_the_standard_library() {
        let clock = SystemClock::new();
        let (outer, start) = (std::time::Instant::now(), clock.now());
        while clock.now().since(start) < Duration::from_millis(2) {}
        assert!(outer.elapsed() >= Duration::from_millis(2));
    }

    #[cfg(unix)]
    #[test]
    fn seconds_and_nanoseconds_add_up_and_saturate() {
        let nanos = |tv_sec, tv_nsec| monotonic::nanos(rustix::time::Timespec { tv_sec, tv_nsec });
        assert_eq!(nanos(3, 7), Nanos::from_nanos(3_000_000_007));
        assert_eq!(nanos(i64::MAX, 999_999_999), Nanos::MAX);
    }

    // The date of this test's writing: an earlier one would be the reading of another clock.
    #[test]
    fn wall_clock_time_counts_from_1970() {
        let written = WallTime::from_unix_secs(1_760_000_000);
        assert!(SystemClock::new().wall() > written);
        assert_eq!(
            to_wall_time(UNIX_EPOCH + Duration::from_secs(5)),
            WallTime::from_unix_secs(5)
        );
        assert_eq!(to_wall_time(UNIX_EPOCH - Duration::from_secs(5)), WallTime::EPOCH);
    }
}
