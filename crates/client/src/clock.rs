//! The operating system's clock, read here and nowhere else in this crate.
//!
//! The monotonic clock of the system, not a counter of the processor: reading a counter is a few
//! nanoseconds faster and can step backwards between cores, which a limit must never see. It hands
//! out points in time and makes no decision with them; nothing here waits.

use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use outflow_core::{Clock, Nanos, WallTime};

/// The system's monotonic and civil time.
///
/// All clocks of one process share an origin, the moment the first of them was made, so that what
/// one of them stamped can be compared with what another tells.
///
/// ```
/// use outflow::SystemClock;
/// use outflow::core::Clock;
///
/// let clock = SystemClock::new();
/// let sent = clock.now();
/// assert!(clock.now() >= sent, "monotonic time never runs backwards");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// A clock whose monotonic time counts from the first call of this in the process.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one file of the crate that reads the clock"
    )]
    pub fn new() -> Self {
        static ORIGIN: OnceLock<Instant> = OnceLock::new();
        Self {
            origin: *ORIGIN.get_or_init(Instant::now),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one file of the crate that reads the clock"
    )]
    fn now(&self) -> Nanos {
        nanos_between(self.origin, Instant::now())
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one file of the crate that reads the clock"
    )]
    fn wall(&self) -> WallTime {
        civil(SystemTime::now())
    }
}

/// Zero where the clock claims to be before its own origin, the last instant after 584 years.
fn nanos_between(origin: Instant, now: Instant) -> Nanos {
    Nanos::ZERO.saturating_add(now.saturating_duration_since(origin))
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

    #[test]
    fn an_instant_before_the_origin_is_the_origin() {
        let origin = SystemClock::new().origin;
        let later = origin + Duration::from_nanos(7);
        assert_eq!(nanos_between(origin, later), Nanos::from_nanos(7));
        assert_eq!(nanos_between(later, origin), Nanos::ZERO);
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
