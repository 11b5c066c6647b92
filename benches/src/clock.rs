//! The operating system's monotonic clock, as every contender reads it.
//!
//! A measurement needs real time twice: as the argument of our decisions and as the stopwatch. Both
//! are read here and nowhere else. The peers read the same clock through their own code.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use outflow_core::Nanos;
use rustix::time::{ClockId, clock_gettime};

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

/// How long the program has been measuring: since this was first asked.
pub(crate) fn since_begin() -> Duration {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    read().duration_since(*BEGIN.get_or_init(read))
}

/// The processor time that this thread has had.
pub(crate) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let secs = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(secs, u32::try_from(time.tv_nsec).unwrap_or(0))
}
