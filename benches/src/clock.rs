//! The clocks of the measurements.
//!
//! A measurement needs real time, so the OS clock is read here, and nowhere else in the benchmarks. Ours gets
//! `now` from the library's own clock; the peers read theirs.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Reads the wall clock.
#[expect(
    clippy::disallowed_methods,
    reason = "the only place of the benchmarks that reads the OS clock, which they measure"
)]
#[inline]
pub(crate) fn read() -> Instant {
    Instant::now()
}

/// Returns the time since its first call.
pub(crate) fn since_begin() -> Duration {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    read().duration_since(*BEGIN.get_or_init(read))
}

/// Waits for another program without using the processor.
#[expect(
    clippy::disallowed_methods,
    reason = "a program does not announce that it has started, so it is polled"
)]
pub(crate) fn nap() {
    std::thread::sleep(Duration::from_millis(1));
}

/// Returns the processor time of this thread.
pub(crate) fn processor_time() -> Duration {
    cpu(ClockId::ThreadCPUTime)
}

/// Returns the processor time of all threads of this process.
pub(crate) fn process_time() -> Duration {
    cpu(ClockId::ProcessCPUTime)
}

#[expect(clippy::disallowed_methods, reason = "the benchmarks measure processor time")]
fn cpu(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let secs = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(secs, u32::try_from(time.tv_nsec).unwrap_or(0))
}
