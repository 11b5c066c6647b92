//! Times of the admin API: whole milliseconds.
//!
//! Past times are rounded down. Waits are rounded up, so that a client that waits so long is never early.

use std::time::Duration;

use outflow_core::WallTime;

/// Converts a past duration, rounded down.
pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Converts a wait, rounded up.
pub(crate) fn millis_up(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Converts a wall-clock time to milliseconds since 1970.
pub(crate) fn stamp(at: WallTime) -> u64 {
    millis(at.as_duration())
}

#[cfg(test)]
mod tests {
    use super::*;

    // One nanosecond above a whole unit: rounded down, the wait would be too short.
    #[test]
    fn a_wait_is_never_rounded_down() {
        let span = Duration::new(2, 1);
        assert_eq!((millis(span), millis_up(span)), (2_000, 2_001));
        let whole = Duration::from_secs(2);
        assert_eq!((millis(whole), millis_up(whole)), (2_000, 2_000));
    }
}
