//! The clock of the runtime.
//!
//! The mock stamps arrivals by the clock of its delays: tokio's. So a test that pauses the
//! runtime's time has a server in virtual time too, without further setup. This is the only file of
//! the crate that reads a clock.

use std::time::{SystemTime, UNIX_EPOCH};

use outflow_core::{Clock, Nanos, WallTime};
use tokio::time::Instant;

/// Time of tokio's runtime; civil time advances with it from its start.
///
/// ```
/// use outflow_core::{Clock, WallTime};
/// use outflow_mock::TokioClock;
///
/// let skewed = TokioClock::starting_at(WallTime::from_unix_secs(1_700_000_000));
/// assert!(skewed.wall() >= WallTime::from_unix_secs(1_700_000_000));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    origin: Instant,
    wall_at_origin: WallTime,
}

impl TokioClock {
    /// Builds a clock that begins now, at the civil time of this machine.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one file of the crate that reads the clock"
    )]
    pub fn new() -> Self {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(WallTime::EPOCH, WallTime::since_epoch);
        Self::starting_at(wall)
    }

    /// Builds a clock that begins now at the given civil time: for servers with a wrong date, and
    /// for tests that must not depend on the day.
    pub fn starting_at(wall: WallTime) -> Self {
        Self {
            origin: Instant::now(),
            wall_at_origin: wall,
        }
    }
}

impl Default for TokioClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Nanos {
        Nanos::ZERO.saturating_add(self.origin.elapsed())
    }

    fn wall(&self) -> WallTime {
        self.wall_at_origin.saturating_add(self.origin.elapsed())
    }

    /// One reading for both, so that the two never disagree about an instant.
    fn moment(&self) -> outflow_core::ClockPair {
        let passed = self.origin.elapsed();
        outflow_core::ClockPair {
            now: Nanos::ZERO.saturating_add(passed),
            wall: self.wall_at_origin.saturating_add(passed),
        }
    }
}
