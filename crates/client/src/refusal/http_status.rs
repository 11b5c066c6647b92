//! How a refusal at the door is told over HTTP, by the sidecar and by the admin API alike.

use std::time::Duration;

use http::StatusCode;
use outflow::{RefusalReason, WaitReason};

/// What only costs time is 429, what the state, the queue or the end of the program forbids 503.
pub(crate) const fn status(cause: &RefusalReason) -> StatusCode {
    match cause {
        RefusalReason::Never { .. } => StatusCode::UNPROCESSABLE_ENTITY,
        RefusalReason::UnknownGroup(_) => StatusCode::BAD_REQUEST,
        RefusalReason::TooLate(WaitReason::State(_))
        | RefusalReason::Busy(WaitReason::State(_)) => StatusCode::SERVICE_UNAVAILABLE,
        RefusalReason::TooLate(_) | RefusalReason::Busy(_) => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// As `Retry-After` wants it: whoever comes at the second that is named must be let in, and nobody is
/// asked to come back in no time.
pub(crate) fn retry_after(span: Duration) -> u64 {
    whole_seconds(span).max(1)
}

/// Rounded up.
pub(crate) fn whole_seconds(span: Duration) -> u64 {
    span.as_secs()
        .saturating_add(u64::from(span.subsec_nanos() > 0))
}

#[cfg(test)]
mod tests {
    use outflow_core::HealthState;

    use super::*;

    #[test]
    fn time_is_429_and_what_time_alone_does_not_end_is_503() {
        assert_eq!(status(&RefusalReason::Busy(WaitReason::Turn)), 429);
        assert_eq!(status(&RefusalReason::TooLate(WaitReason::Cooldown)), 429);
        for cause in [
            RefusalReason::Busy(WaitReason::State(HealthState::Sleep)),
            RefusalReason::QueueFull,
            RefusalReason::Removed,
            RefusalReason::ShuttingDown,
        ] {
            assert_eq!(status(&cause), 503, "{cause}");
        }
    }

    // 1.001 s is more than one second.
    #[test]
    fn nobody_is_called_back_too_early() {
        for (millis, seconds) in [(0, 1), (1, 1), (1_000, 1), (1_001, 2), (60_000, 60)] {
            assert_eq!(retry_after(Duration::from_millis(millis)), seconds);
        }
    }
}
