//! Whether a failed attempt is repeated, and when.
//!
//! "Worth another attempt" is the door's word; leave to make one is given here, where it is known
//! whether doing it twice is doing it once. The questions that cost nothing come first and the budget
//! last, so that nothing is withdrawn for a repetition that is not made.

use std::time::Duration;

use outflow_core::Retry;

use super::Trip;
use super::attempt::Ended;
use crate::http::Left;

impl Trip<'_> {
    /// How long until the next attempt; nothing if there is none.
    pub(super) fn again(&self, ended: &Ended) -> Option<Duration> {
        let wanted = ended.verdict.retry == Retry::Worthwhile
            && self.tally.retries < self.outlet.api.retry.count;
        let harmless = ended.left == Left::Nothing || self.order.can_be_repeated();
        if !wanted || !harmless || !self.order.wish.payload.can_be_sent() {
            return None;
        }
        let delay = self.delay(ended);
        let timely =
            delay <= self.order.max_wait && self.time_left().is_none_or(|left| delay < left);
        (timely && self.outlet.spend(self.outlet.upstream.now())).then_some(delay)
    }

    /// Our own backoff, or the server's word where that is longer.
    fn delay(&self, ended: &Ended) -> Duration {
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
