//! Times as the admin API writes them: whole milliseconds.
//!
//! What has happened is rounded down and what is waited for is rounded up: whoever comes back after
//! that many milliseconds is never early.

use std::time::Duration;

use outflow_core::WallTime;

/// A span that is over.
pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// A span that is to be waited for.
pub(crate) fn millis_up(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// A point in civil time, in milliseconds since 1970.
pub(crate) fn stamp(at: WallTime) -> u64 {
    millis(at.as_duration())
}

#[cfg(test)]
mod tests {
    use super::*;

    // One nanosecond more than a whole unit: rounded down it would promise too early.
    #[test]
    fn what_is_waited_for_is_never_promised_too_early() {
        let span = Duration::new(2, 1);
        assert_eq!((millis(span), millis_up(span)), (2_000, 2_001));
        let whole = Duration::from_secs(2);
        assert_eq!((millis(whole), millis_up(whole)), (2_000, 2_000));
    }
}
