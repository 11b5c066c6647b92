//! Facts of a response: its `Retry-After`, its rate-limit hints, its signs of a limit.

use http::header::{DATE, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, HeaderName};
use outflow_core::{AttemptEnd, AttemptReport, Dialects, Hints, ResponseTime, RetryAfter, WaitBounds, WallTime};

use super::super::permit::AttemptResult;

/// Reads the headers of a response.
#[derive(Clone, Copy, Debug)]
pub(in crate::upstream) struct ResponseReader {
    pub(in crate::upstream) dialects: Dialects,
    pub(in crate::upstream) wall: WallTime,
}

impl ResponseReader {
    /// Returns the facts of an attempt, its headers included.
    pub(super) fn read_attempt(self, result: &AttemptResult<'_>) -> AttemptReport {
        let attempt = result.attempt;
        let read = result.headers.and_then(|headers| self.read_retry_after(headers));
        let wait = read.and_then(|read| read.wait());
        if wait.is_none() && result.attempt.ended() == AttemptEnd::Status(403) {
            return self.read_forbidden(result);
        }
        let attempt = wait.map_or(attempt, |wait| attempt.with_retry_after(wait));
        if result.names_limit || wait.is_some() {
            return attempt.with_rate_limit_signs();
        }
        attempt
    }

    /// Reads a 403 without `Retry-After`. It is a ban if its headers say that nothing is left: some
    /// providers throttle like this and name the wait only as the reset of their window.
    fn read_forbidden(self, result: &AttemptResult<'_>) -> AttemptReport {
        let hints = result.headers.map(|headers| self.read_hints(headers));
        let empty = hints.as_ref().and_then(|hints| {
            let mut all = hints.iter();
            all.find(|hint| hint.remaining == Some(0))
        });
        let attempt = result.attempt;
        match (empty, result.names_limit) {
            (None, false) => attempt,
            (None, true) => attempt.with_rate_limit_signs(),
            (Some(hint), _) => {
                let longest = WaitBounds::default().max_honour();
                let wait = hint.resets_in.map(|span| span.min(longest));
                let attempt = wait.map_or(attempt, |wait| attempt.with_retry_after(wait));
                attempt.with_rate_limit_signs()
            }
        }
    }

    /// Reads the hints about limits.
    pub(in crate::upstream) fn read_hints(self, headers: &HeaderMap) -> Hints {
        let pairs = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        Hints::read(pairs, self.dialects, self.response_time(headers))
    }

    pub(in crate::upstream) fn read_retry_after(self, headers: &HeaderMap) -> Option<RetryAfter> {
        let (bounds, response_time) = (WaitBounds::default(), self.response_time(headers));
        let millis = headers.get_all(RETRY_AFTER_MS);
        let millis = RetryAfter::read_all_millis(millis.iter().map(HeaderValue::as_bytes), response_time, bounds);
        if millis.is_some_and(|read| read.wait().is_some()) || !headers.contains_key(RETRY_AFTER) {
            return millis;
        }
        let after = headers.get_all(RETRY_AFTER);
        let values = after.iter().map(HeaderValue::as_bytes);
        RetryAfter::read_all(values, response_time, bounds)
    }

    fn response_time(self, headers: &HeaderMap) -> ResponseTime<'_> {
        ResponseTime {
            date: headers.get(DATE).map(HeaderValue::as_bytes),
            wall: self.wall,
        }
    }
}

/// Milliseconds that some APIs send beside `Retry-After`, which knows only seconds.
const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");
