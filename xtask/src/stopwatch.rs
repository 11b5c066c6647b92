//! How long a step took, for people to read.
//!
//! The one place of the task runner that reads a clock; nothing is decided by what it shows.

use std::time::{Duration, Instant};

/// Runs since it was started.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    #[expect(
        clippy::disallowed_methods,
        reason = "a duration for people to read; no decision hangs on it"
    )]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// The span since the start.
    #[expect(
        clippy::disallowed_methods,
        reason = "a duration for people to read; no decision hangs on it"
    )]
    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}
