//! The operating system's monotonic clock, as every contender reads it.
//!
//! A measurement needs real time twice: as the argument of our decisions and as the stopwatch. Both
//! are read here and nowhere else. The peers read the same clock through their own code.

use std::time::Instant;

use outflow_core::Nanos;

/// The time since it was made, on the OS clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OsClock {
    origin: Instant,
}

impl OsClock {
    /// A clock that begins now.
    pub(crate) fn start() -> Self {
        Self { origin: read() }
    }

    /// Now, as our decisions take it. It starts one second late, so that a window can look back.
    #[inline]
    pub(crate) fn now(&self) -> Nanos {
        let span = read().duration_since(self.origin);
        Nanos::from_nanos((span.as_secs() + 1) * 1_000_000_000 + u64::from(span.subsec_nanos()))
    }
}

/// The stopwatch.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place of the benchmarks that reads the OS clock: real time is what they measure"
)]
#[inline]
pub(crate) fn read() -> Instant {
    Instant::now()
}
