//! HTTP forms of a refusal, which the sidecar and the admin API share.

use std::time::Duration;

use super::{RefusalReason, WaitReason};
use http::StatusCode;

/// Returns 429 for a reason that only costs time, and 503 for one that the state, the queue or shutdown causes.
pub const fn status_code(reason: &RefusalReason) -> StatusCode {
    match reason {
        RefusalReason::Never { .. } => StatusCode::UNPROCESSABLE_ENTITY,
        RefusalReason::UnknownGroup(_) => StatusCode::BAD_REQUEST,
        RefusalReason::TooLate(WaitReason::State(_)) | RefusalReason::Busy(WaitReason::State(_)) => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        RefusalReason::TooLate(_) | RefusalReason::Busy(_) => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// Returns the value of `Retry-After`: rounded up, so that a call at that second passes, and at least 1.
pub fn retry_after_seconds(span: Duration) -> u64 {
    ceil_seconds(span).max(1)
}

/// Returns a span in whole seconds, rounded up.
pub fn ceil_seconds(span: Duration) -> u64 {
    span.as_secs().saturating_add(u64::from(span.subsec_nanos() > 0))
}

#[cfg(test)]
mod tests {
    use outflow_core::HealthState;

    use super::super::StateCause;
    use super::*;

    #[test]
    fn a_wait_is_429_and_a_state_is_503() {
        assert_eq!(status_code(&RefusalReason::Busy(WaitReason::Turn)), 429);
        assert_eq!(status_code(&RefusalReason::TooLate(WaitReason::Cooldown)), 429);
        for reason in [
            RefusalReason::Busy(WaitReason::State(Box::new(StateCause::new(HealthState::Sleep)))),
            RefusalReason::QueueFull,
            RefusalReason::Removed,
            RefusalReason::ShuttingDown,
        ] {
            assert_eq!(status_code(&reason), 503, "{reason}");
        }
    }

    // 1.001 s is more than one second.
    #[test]
    fn retry_after_is_never_too_early() {
        for (millis, seconds) in [(0, 1), (1, 1), (1_000, 1), (1_001, 2), (60_000, 60)] {
            assert_eq!(retry_after_seconds(Duration::from_millis(millis)), seconds);
        }
    }
}
