//! The clock of the runtime.
//!
//! The strict API stamps arrivals by the same clock that its delays run on: tokio's. So a test that
//! pauses the runtime's time has a server in virtual time too, and nothing else has to be told.
//! This is the one file of the crate that reads a clock.

use std::time::{SystemTime, UNIX_EPOCH};

use outflow_core::{Clock, Nanos, WallTime};
use tokio::time::Instant;

/// The time of tokio's runtime; civil time runs along with it from where it was started.
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
    /// A clock that begins now, at the civil time of this machine.
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

    /// A clock that begins now and calls this instant so: for servers whose date is wrong, and for
    /// tests that must not depend on the day they run.
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
