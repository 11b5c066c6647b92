//! Decision to retry an attempt, and its delay.
//!
//! The upstream's verdict says if a retry is worthwhile; this module knows if it is safe. Checks
//! that cost nothing come first and the budget last, so that nothing is withdrawn for a retry that
//! is not made.
//!
//! A throttle that lowered one of our limits is our own error and no sign of an outage. Its call
//! keeps its queue position and goes again when the lowered limit allows, without using a retry or
//! the budget. That cannot multiply load: it goes no faster than the limit, and a limit is only
//! lowered so far.

use std::time::Duration;

use outflow_core::Retryability;

use super::CallState;
use super::attempt::FinishedAttempt;
use crate::client::RetryMode;
use crate::http::BytesSent;
use crate::rules::WaitMode;
use crate::upstream::LimitFeedback;

/// Kind of a retry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RetryPlan {
    /// Counted retry after a delay.
    After(Duration),
    /// Retry in the kept queue position: the upstream sets the time.
    KeepPosition,
}

impl RetryPlan {
    /// Returns the delay before acquiring.
    pub(super) const fn delay(self) -> Duration {
        match self {
            Self::After(delay) => delay,
            Self::KeepPosition => Duration::ZERO,
        }
    }
}

impl CallState<'_> {
    /// Plans the next attempt; `None` if there is none.
    pub(super) fn plan_retry(&self, attempt: &FinishedAttempt) -> Option<RetryPlan> {
        let count = match self.request.spec.retry {
            RetryMode::Configured => self.client.api.retry.count,
            RetryMode::Disabled => 0,
        };
        let is_wanted = attempt.verdict.retry == Retryability::Worthwhile && count > 0;
        let is_safe = attempt.sent != BytesSent::Something || self.request.is_idempotent();
        if !is_wanted || !is_safe || !self.request.spec.payload.is_sendable() {
            return None;
        }
        if self.keeps_position(attempt) {
            return Some(RetryPlan::KeepPosition);
        }
        let delay = self.delay(attempt);
        let is_allowed = self.stats.retries < count && self.is_timely(delay);
        let now = self.client.upstream.now();
        (is_allowed && self.client.retries.lock().withdraw(now)).then_some(RetryPlan::After(delay))
    }

    /// Returns true if the API throttled the call because our limit was too high. A call that does
    /// not wait has no queue position to keep.
    fn keeps_position(&self, attempt: &FinishedAttempt) -> bool {
        let mode = self.request.spec.mode.unwrap_or(self.client.api.rules.mode);
        let requested = attempt.verdict.retry_after.unwrap_or_default();
        attempt.verdict.limit_feedback == LimitFeedback::Lowered
            && self.stats.returns < MAX_RETURNS
            && mode == WaitMode::Wait
            && self.is_timely(requested)
    }

    fn is_timely(&self, delay: Duration) -> bool {
        delay <= self.request.max_wait && self.time_left().is_none_or(|remaining| delay < remaining)
    }

    /// Returns our backoff, or the server's wait if that is longer.
    fn delay(&self, attempt: &FinishedAttempt) -> Duration {
        let retry = self.stats.retries.saturating_add(1);
        let backoff = self.client.api.retry.backoff.delay(retry, fastrand::u64(..));
        attempt
            .verdict
            .retry_after
            .map_or(backoff, |requested| requested.max(backoff))
    }

    /// Returns the caller's remaining time, if it is limited.
    pub(super) fn time_left(&self) -> Option<Duration> {
        let deadline = self.request.deadline?;
        Some(deadline.since(self.client.upstream.now()))
    }
}

/// A limit is found within a few bursts, and a call is seldom first in the queue in two of them.
/// Further retries count as usual.
const MAX_RETURNS: u32 = 8;
