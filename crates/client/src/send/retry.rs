//! Decision to retry an attempt, and its delay.
//!
//! The upstream's verdict says if a retry is worthwhile; this module knows if it is safe. Checks
//! that cost nothing come first and the budget last, so that nothing is withdrawn for a retry that
//! is not made.
//!
//! A throttled call was not executed, and a failed probe tested the API for all callers. Where calls
//! wait while the API sleeps, both keep their queue position and go again without using a retry or
//! the budget. That cannot multiply load: they go no faster than the limits and the health machine
//! allow.

use std::time::Duration;

use outflow_core::{Decision, Nanos, OutcomeClass, Retryability};

use super::CallState;
use super::attempt::FinishedAttempt;
use crate::api::ThrottledRetry;
use crate::client::RetryMode;
use crate::http::BytesSent;
use crate::rules::{WaitMode, WhenAsleep};
use crate::upstream::LimitFeedback;

/// Kind of a retry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RetryPlan {
    /// Counted retry after a delay.
    After(Duration),
    /// Retry in the kept queue position after a delay: the upstream sets the time.
    KeepPosition(Duration),
}

impl RetryPlan {
    /// Returns the delay before acquiring.
    pub(super) const fn delay(self) -> Duration {
        match self {
            Self::After(delay) | Self::KeepPosition(delay) => delay,
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
        let is_safe = attempt.sent != BytesSent::Something || self.request.is_idempotent() || self.is_undone(attempt);
        if !is_wanted || !is_safe || !self.request.spec.payload.is_sendable() || self.yields_to_cache() {
            return None;
        }
        if let Some(delay) = self.kept_position(attempt) {
            return Some(RetryPlan::KeepPosition(delay));
        }
        let delay = self.delay(attempt);
        let is_allowed = self.stats.retries < count && self.is_timely(delay);
        let now = self.client.upstream.now();
        (is_allowed && self.client.retries.lock().withdraw(now)).then_some(RetryPlan::After(delay))
    }

    /// Returns true if the server throttled the call, which may then be repeated with any method.
    fn is_undone(&self, attempt: &FinishedAttempt) -> bool {
        attempt.verdict.effect == OutcomeClass::Throttled && self.client.api.retry.throttled == ThrottledRetry::Any
    }

    /// Returns the delay of a call that keeps its queue position. A call that does not wait has none to
    /// keep. Throttles without a cause or a time that we know of are repeated after a backoff.
    fn kept_position(&self, attempt: &FinishedAttempt) -> Option<Duration> {
        let verdict = &attempt.verdict;
        let rules = &self.client.api.rules;
        let waits = rules.when_asleep == WhenAsleep::Wait;
        let lowered = verdict.limit_feedback == LimitFeedback::Lowered;
        let is_path = verdict.limit_feedback == LimitFeedback::PathThrottled;
        let throttled = verdict.effect == OutcomeClass::Throttled && waits && !is_path && !self.is_unprotected();
        let has_returns = self.stats.returns < MAX_RETURNS;
        let keeps = (verdict.was_probe && waits) || ((lowered || throttled) && has_returns);
        if !keeps || self.mode() != WaitMode::Wait || !self.is_in_first_wait(verdict.retry_after.unwrap_or_default()) {
            return None;
        }
        if lowered || verdict.was_probe || verdict.retry_after.is_some() {
            return Some(Duration::ZERO);
        }
        let backoff = &self.client.api.retry.backoff;
        let delay = backoff.delay(self.stats.returns.saturating_add(1), fastrand::u64(..));
        self.is_in_first_wait(delay).then_some(delay)
    }

    /// Returns true if an operator's override keeps the health machine from stopping a storm of throttles:
    /// only the budget bounds retries then.
    fn is_unprotected(&self) -> bool {
        self.client.upstream.is_forced(self.request.target)
    }

    /// Returns true if a delay ends within the wait that began with the call.
    fn is_in_first_wait(&self, delay: Duration) -> bool {
        let now = self.client.upstream.now();
        self.is_timely(delay) && now.saturating_add(delay) < self.request.wait_end(self.started)
    }

    fn is_timely(&self, delay: Duration) -> bool {
        let waits_on = self.request.max_wait.saturating_sub(self.stats.paused());
        delay <= waits_on && self.time_left().is_none_or(|remaining| delay < remaining)
    }

    /// Returns our backoff, or the server's wait if that is longer. A call that does not wait for its permit sleeps
    /// until it can start: the first starts after a wait are spread, and it would be refused some milliseconds too early.
    fn delay(&self, attempt: &FinishedAttempt) -> Duration {
        let retry = self.stats.retries.saturating_add(1);
        let backoff = self.client.api.retry.backoff.delay(retry, fastrand::u64(..));
        let Some(requested) = attempt.verdict.retry_after else {
            return backoff;
        };
        let upstream = &self.client.upstream;
        let start = match upstream.check(self.request.target) {
            Decision::WaitUntil(at) if self.mode() == WaitMode::Reject && at < Nanos::MAX => at.since(upstream.now()),
            Decision::WaitUntil(_) | Decision::Allow(()) | Decision::Never => Duration::ZERO,
        };
        requested.max(backoff).max(start)
    }

    fn mode(&self) -> WaitMode {
        self.request.spec.mode.unwrap_or(self.client.api.rules.mode)
    }

    /// Returns the caller's remaining time, if it is limited.
    pub(super) fn time_left(&self) -> Option<Duration> {
        let deadline = self.request.deadline?;
        Some(deadline.since(self.client.upstream.now()))
    }
}

/// A limit is found within a few bursts, and a call is seldom first in the queue in two of them.
/// Further retries after a throttle count as usual.
const MAX_RETURNS: u32 = 8;
