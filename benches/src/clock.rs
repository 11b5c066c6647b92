//! The stopwatches.
//!
//! A measurement needs real time, so the OS clock is read here, and nowhere else in the benchmarks.
//! What ours is handed as `now` comes from the library's own clock; the peers read theirs.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// The time on the wall.
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

/// Waits for another program without taking the processor from it.
#[expect(
    clippy::disallowed_methods,
    reason = "a program that starts tells nobody when it is done, so it is asked again and again"
)]
pub(crate) fn nap() {
    std::thread::sleep(Duration::from_millis(1));
}

/// The processor time that this thread has had.
pub(crate) fn processor_time() -> Duration {
    cpu(ClockId::ThreadCPUTime)
}

/// The processor time that all threads of this process have had.
pub(crate) fn process_time() -> Duration {
    cpu(ClockId::ProcessCPUTime)
}

#[expect(
    clippy::disallowed_methods,
    reason = "processor time is what is measured"
)]
fn cpu(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let secs = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(secs, u32::try_from(time.tv_nsec).unwrap_or(0))
}
