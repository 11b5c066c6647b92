//! Whether a failed attempt is repeated, and when.
//!
//! "Worth another attempt" is the door's word; leave to make one is given here, where it is known
//! whether doing it twice is doing it once. The questions that cost nothing come first and the budget
//! last, so that nothing is withdrawn for a repetition that is not made.
//!
//! A refusal that lowered one of our limits is our own mistake and no sign of an outage: its call keeps
//! its turn and goes again when the lowered limit lets it, without using up a repetition or the budget.
//! That cannot multiply anything: it goes no faster than the limit, and a limit is only lowered so far.

use std::time::Duration;

use outflow_core::Retryability;

use super::CallState;
use super::attempt::FinishedAttempt;
use crate::client::RetryMode;
use crate::http::BytesSent;
use crate::rules::WaitMode;
use crate::upstream::LimitFeedback;

/// How an attempt is repeated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RetryPlan {
    /// As one of the repetitions that are allowed, after so long.
    After(Duration),
    /// In its turn, which it keeps: the door knows when.
    InTurn,
}

impl RetryPlan {
    /// How long before the door is asked.
    pub(super) const fn delay(self) -> Duration {
        match self {
            Self::After(delay) => delay,
            Self::InTurn => Duration::ZERO,
        }
    }
}

impl CallState<'_> {
    /// How the next attempt is made; nothing if there is none.
    pub(super) fn again(&self, ended: &FinishedAttempt) -> Option<RetryPlan> {
        let count = match self.order.wish.tries {
            RetryMode::Configured => self.outlet.api.retry.count,
            RetryMode::One => 0,
        };
        let wanted = ended.verdict.retry == Retryability::Worthwhile && count > 0;
        let harmless = ended.left != BytesSent::Something || self.order.can_be_repeated();
        if !wanted || !harmless || !self.order.wish.payload.can_be_sent() {
            return None;
        }
        if self.keeps_its_turn(ended) {
            return Some(RetryPlan::InTurn);
        }
        let delay = self.delay(ended);
        let allowed = self.tally.retries < count && self.is_timely(delay);
        (allowed && self.outlet.spend(self.outlet.upstream.now()))
            .then_some(RetryPlan::After(delay))
    }

    /// Whether it was refused for a limit of ours that was too high. Whoever does not wait for turns
    /// has none to keep.
    fn keeps_its_turn(&self, ended: &FinishedAttempt) -> bool {
        let mode = self.order.wish.mode.unwrap_or(self.outlet.api.rules.mode);
        let asked = ended.verdict.retry_after.unwrap_or_default();
        ended.verdict.lesson == LimitFeedback::Lowered
            && self.tally.returns < MOST_RETURNS
            && mode == WaitMode::Wait
            && self.is_timely(asked)
    }

    fn is_timely(&self, delay: Duration) -> bool {
        delay <= self.order.max_wait && self.time_left().is_none_or(|left| delay < left)
    }

    /// Our own backoff, or the server's word where that is longer.
    fn delay(&self, ended: &FinishedAttempt) -> Duration {
        let retry = self.tally.retries.saturating_add(1);
        let own = self
            .outlet
            .api
            .retry
            .backoff
            .delay(retry, fastrand::u64(..));
        ended
            .verdict
            .retry_after
            .map_or(own, |asked| asked.max(own))
    }

    /// How much of the caller's time is left, if it is limited.
    pub(super) fn time_left(&self) -> Option<Duration> {
        let end = self.order.end?;
        Some(end.since(self.outlet.upstream.now()))
    }
}

/// A limit is found within a few waves, and who is first in line is seldom in two of them. Beyond that it
/// is repeated as anything else is.
const MOST_RETURNS: u32 = 8;
