//! Points in time.
//!
//! Every decision in this crate is a function of the time passed in. Nothing reads a clock, so a
//! test can use any instant, and a year passes in a loop. [`Nanos`] is a point on one monotonic
//! timeline with an arbitrary origin; [`WallTime`] is a point in civil time, needed only for dates
//! from servers. Spans are [`Duration`]s. Arithmetic saturates or returns `None`: no 64-bit time
//! overflows.

use alloc::sync::Weak;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// Point on a monotonic timeline, in whole nanoseconds since an origin that the clock chooses.
///
/// ```
/// use core::time::Duration;
/// use outflow_core::Nanos;
///
/// let start = Nanos::from_secs(5);
/// let later = start.saturating_add(Duration::from_millis(250));
/// assert_eq!(later.since(start), Duration::from_millis(250));
/// assert_eq!(start.since(later), Duration::ZERO, "time never runs backwards");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Nanos(u64);

impl Nanos {
    /// The origin of the timeline.
    pub const ZERO: Self = Self(0);
    /// The last point, 584 years after the origin.
    pub const MAX: Self = Self(u64::MAX);

    /// Builds a point from nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Builds a point from milliseconds after the origin; saturates at [`Nanos::MAX`].
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Builds a point from seconds after the origin; saturates at [`Nanos::MAX`].
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(NANOS_PER_SEC))
    }

    /// Returns the nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the span since `earlier`, zero if `earlier` is in fact later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns the point `span` later, or the end of the timeline.
    #[must_use]
    pub const fn saturating_add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span_nanos(span)))
    }

    /// Returns the point `span` later, or `None` beyond the end of the timeline.
    pub const fn checked_add(self, span: Duration) -> Option<Self> {
        match self.0.checked_add(span_nanos(span)) {
            Some(nanos) => Some(Self(nanos)),
            None => None,
        }
    }

    /// Returns the point `span` earlier, or the origin.
    #[must_use]
    pub const fn saturating_sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(span_nanos(span)))
    }
}

impl fmt::Debug for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", Duration::from_nanos(self.0))
    }
}

/// Point in civil time (UTC): the span since the Unix epoch. It cannot represent times before 1970.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct WallTime(Duration);

impl WallTime {
    /// 1970-01-01T00:00:00Z.
    pub const EPOCH: Self = Self(Duration::ZERO);

    /// Builds a point from the span since the Unix epoch.
    pub const fn since_epoch(span: Duration) -> Self {
        Self(span)
    }

    /// Builds a point from whole seconds since the Unix epoch.
    pub const fn from_unix_secs(secs: u64) -> Self {
        Self(Duration::from_secs(secs))
    }

    /// Returns the span since the Unix epoch.
    pub const fn as_duration(self) -> Duration {
        self.0
    }

    /// Returns the span since `earlier`, zero if `earlier` is in fact later.
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// Returns the point `span` later, or the last one.
    #[must_use]
    pub const fn saturating_add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span))
    }
}

/// Source of time. Programs provide one clock; this crate only sees its values.
pub trait Clock {
    /// Returns the monotonic time.
    fn now(&self) -> Nanos;
    /// Returns the civil time.
    fn wall(&self) -> WallTime;

    /// Returns both, read together.
    fn moment(&self) -> ClockPair {
        ClockPair {
            now: self.now(),
            wall: self.wall(),
        }
    }
}

/// Clock with timers. Programs use it next to their decisions; nothing in this crate calls it.
pub trait Timer: Clock {
    /// Fires the callback at this instant or soon after, unless it was dropped. It may fire early,
    /// late or more often than asked: the callback checks the clock.
    fn fire_at(&self, at: Nanos, alarm: Weak<dyn TimerCallback>);

    /// Returns a number that changes when the requested callbacks are lost, as in a forked child,
    /// which has no thread of its parent. A component that waits for a callback then requests it
    /// again.
    fn epoch(&self) -> u64 {
        0
    }
}

/// Callback of a timer.
pub trait TimerCallback: Send + Sync {
    /// Handles a timer that may be due. Called on the timer's thread, so it neither blocks nor
    /// waits.
    fn fire(&self);
}

/// One instant on both timelines: ties a server's dates to our own clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClockPair {
    /// The instant in monotonic time.
    pub now: Nanos,
    /// The instant in civil time.
    pub wall: WallTime,
}

/// Clock that stands still until a test moves it.
///
/// ```
/// use core::time::Duration;
/// use outflow_core::{Clock, ManualClock, Nanos, WallTime};
///
/// let clock = ManualClock::new(Nanos::ZERO, WallTime::from_unix_secs(1_700_000_000));
/// clock.advance(Duration::from_secs(2));
/// assert_eq!(clock.now(), Nanos::from_secs(2));
/// assert_eq!(clock.wall(), WallTime::from_unix_secs(1_700_000_002));
/// ```
#[derive(Debug, Default)]
pub struct ManualClock {
    now: AtomicU64,
    wall: AtomicU64,
}

impl ManualClock {
    /// Builds a clock that shows these two times. Civil time is stored in nanoseconds, up to the
    /// year 2554.
    pub const fn new(now: Nanos, wall: WallTime) -> Self {
        Self {
            now: AtomicU64::new(now.0),
            wall: AtomicU64::new(span_nanos(wall.0)),
        }
    }

    /// Moves both times forward.
    pub fn advance(&self, by: Duration) {
        self.now.store(self.now().saturating_add(by).0, Ordering::Release);
        self.set_wall(self.wall().saturating_add(by));
    }

    /// Sets the monotonic time, also backwards like a broken clock.
    pub fn set_now(&self, now: Nanos) {
        self.now.store(now.0, Ordering::Release);
    }

    /// Sets the civil time alone, as an operator or NTP does.
    pub fn set_wall(&self, wall: WallTime) {
        self.wall.store(span_nanos(wall.0), Ordering::Release);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Nanos {
        Nanos(self.now.load(Ordering::Acquire))
    }

    fn wall(&self) -> WallTime {
        WallTime(Duration::from_nanos(self.wall.load(Ordering::Acquire)))
    }
}

/// Converts a span to nanoseconds, saturating at 584 years.
pub(crate) const fn span_nanos(span: Duration) -> u64 {
    span.as_secs()
        .saturating_mul(NANOS_PER_SEC)
        .saturating_add(subsec(span))
}

#[expect(
    clippy::as_conversions,
    reason = "u32 to u64 in a const fn, where `From` cannot be called"
)]
const fn subsec(span: Duration) -> u64 {
    span.subsec_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Nanos::MAX.saturating_add(Duration::MAX), Nanos::MAX);
        assert_eq!(Nanos::ZERO.saturating_sub(Duration::MAX), Nanos::ZERO);
        assert_eq!(Nanos::MAX.checked_add(Duration::from_nanos(1)), None);
        assert_eq!(Nanos::from_secs(u64::MAX), Nanos::MAX);
        assert_eq!(span_nanos(Duration::MAX), u64::MAX);
    }

    #[test]
    fn civil_time_steps_without_monotonic_time() {
        let clock = ManualClock::new(Nanos::from_secs(9), WallTime::from_unix_secs(100));
        clock.set_wall(WallTime::from_unix_secs(40));
        assert_eq!(
            (clock.now(), clock.wall()),
            (Nanos::from_secs(9), WallTime::from_unix_secs(40))
        );
    }
}
