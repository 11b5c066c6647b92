//! Permits, and the results of their attempts.
//!
//! A permit is settled with the result of its attempt, or refunded if the attempt was never sent. A
//! dropped permit does the safe one of both: unsent it is refunded, sent it counts as arrived as late as
//! possible. So no path of a program, cancellation included, leaks a permit or forgets a call that a
//! server may have counted.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use outflow_core::{AttemptReport, Fault, Nanos, OutcomeClass, Retryability};
use smol_str::SmolStr;

use super::endpoint::CallLabel;
use super::in_flight::ResponseInProgress;
use super::shared::SharedState;
use super::wait_queue::PermitParts;
use crate::trace::TraceId;

/// The right to send one request.
#[derive(Debug)]
#[must_use = "an unsent permit that is dropped is refunded at once"]
pub struct Permit {
    shared: Option<Arc<SharedState>>,
    attempt: usize,
    id: u64,
    label: CallLabel,
    waited: Duration,
    counts_sends: bool,
    sent: Option<Nanos>,
    /// The permit is revoked after this instant.
    expires: Option<Nanos>,
    /// The permit is revoked from this instant on, unless its lease was renewed.
    valid_until: Nanos,
}

impl Permit {
    pub(super) fn new(shared: Option<Arc<SharedState>>, parts: PermitParts) -> Self {
        Self {
            shared,
            attempt: parts.attempt,
            id: parts.id,
            label: parts.label,
            waited: parts.waited,
            counts_sends: parts.counts_sends,
            sent: None,
            expires: None,
            valid_until: parts.valid_until,
        }
    }

    /// Revokes the permit after this time. Use it if another permission for the same call expires.
    pub fn expire_after(mut self, span: Duration) -> Self {
        let shared = self.shared.as_ref();
        self.expires = shared.map(|shared| shared.now().saturating_add(span));
        self
    }

    /// Returns its number, which events name.
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// Returns the label of its [endpoint](super::Upstream::endpoint), which events name.
    pub fn endpoint(&self) -> Option<SmolStr> {
        self.shared.as_ref()?.endpoints.name(self.label.endpoint)
    }

    /// Sets the trace of the call that uses it, for events: a scheduler acquires before it knows the call.
    pub(crate) fn set_trace(&mut self, trace: TraceId) {
        let shared = self.shared.as_ref().filter(|_| trace != self.label.trace);
        if let Some(shared) = shared {
            self.label.trace = trace;
            shared.with(|state, _| state.set_trace(self.attempt, trace));
        }
    }

    /// Marks a call that failed before while the API served others: another failure of its server says nothing about
    /// the health of the API.
    pub fn expect_failure(&mut self) {
        if let Some(shared) = &self.shared {
            shared.with(|state, _| state.expect_failure(self.attempt));
        }
    }

    /// Returns the time that the call waited for it.
    pub const fn waited(&self) -> Duration {
        self.waited
    }

    /// Returns true if the permit must not be used any more: the API asked for a cooldown, the health
    /// state began to block calls, or its [time](Self::expire_after) passed. A sender that took long to
    /// get ready checks this before the first byte, drops a revoked permit and acquires another. A sent
    /// permit is never revoked.
    pub fn is_revoked(&self) -> bool {
        let shared = self.shared.as_ref().filter(|_| self.sent.is_none());
        shared.is_some_and(|shared| {
            let expired = self.expires.is_some_and(|expires| shared.now() > expires);
            let is_over = shared.now() >= self.valid_until && shared.is_lease_over(self.attempt);
            expired || is_over || shared.is_revoked(self.id, self.attempt)
        })
    }

    /// Marks the attempt as sent, right before its first byte. From here on the call counts, regardless
    /// of its result; limits that count from the sending count it now.
    pub fn sending(&mut self) {
        if let (Some(shared), None) = (&self.shared, self.sent) {
            self.sent = Some(if self.counts_sends {
                shared.mark_sent(self.attempt)
            } else {
                shared.now()
            });
        }
    }

    /// Undoes [`sending`](Self::sending): the connection was closed, and no byte was sent.
    pub(crate) const fn undo_sending(&mut self) {
        self.sent = None;
    }

    /// Settles the permit with the result of the whole attempt.
    pub fn settle(mut self, result: AttemptResult<'_>) -> Verdict {
        let shared = self.shared.take();
        let settled = shared.and_then(|shared| shared.settle(self.attempt, self.sent, &result));
        settled.unwrap_or(Verdict::NOTHING)
    }

    /// Settles the permit with a response whose body is still to come. The call stays in flight until
    /// the [`PendingBody`] ends.
    pub fn settle_head(mut self, result: AttemptResult<'_>) -> (Verdict, PendingBody) {
        let shared = self.shared.take();
        let settled = shared.as_ref().and_then(|shared| {
            shared.with_result(&result, |state, now| {
                state.settle_head(self.attempt, self.sent, &result, now)
            })
        });
        let (verdict, response) = settled.unzip();
        (verdict.unwrap_or(Verdict::NOTHING), PendingBody { shared, response })
    }

    /// Counts the call at once, as if it were sent and arrived now. Use it where no component reports how the
    /// call ended: health and adaptive limits learn nothing from it.
    pub fn count(mut self) {
        self.sending();
        if let Some(shared) = self.shared.take() {
            shared.settle(self.attempt, self.sent, &AttemptResult::counted());
        }
    }

    /// Refunds the permit: the call was provably never sent.
    pub fn refund(mut self) {
        self.sent = None;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(shared) = self.shared.take() else {
            return;
        };
        if self.sent.is_none() {
            return shared.with(|state, now| state.refund(self.attempt, now));
        }
        shared.settle(self.attempt, self.sent, &AttemptResult::cancelled());
    }
}

/// The body of a response that is still in progress. Dropping it means that its reader left, which is no
/// failure of the API.
#[derive(Debug)]
#[must_use = "the call is in flight until its body ends"]
pub struct PendingBody {
    shared: Option<Arc<SharedState>>,
    response: Option<ResponseInProgress>,
}

impl PendingBody {
    /// Completes the body.
    pub fn finished(mut self) {
        self.end();
    }

    /// Fails the body: it broke off.
    pub fn fail(mut self, fault: Fault) -> Verdict {
        match (&self.shared, self.response.take()) {
            (Some(shared), Some(response)) => {
                shared.with(|state, now| state.fail_body(response, &AttemptResult::fault(fault), now))
            }
            _ => Verdict::NOTHING,
        }
    }

    /// Records that a body without an end, such as an event stream, has begun. Without this a probe that
    /// reads such a stream would time out.
    pub fn mark_alive(&mut self) {
        if let (Some(shared), Some(response)) = (&self.shared, &mut self.response) {
            shared.with(|state, now| state.mark_alive(response, now));
        }
    }

    fn end(&mut self) {
        if let (Some(shared), Some(response)) = (&self.shared, self.response.take()) {
            shared.with(|state, now| state.finish_body(response, now));
        }
    }
}

impl Drop for PendingBody {
    fn drop(&mut self) {
        self.end();
    }
}

/// Result of an attempt, as its sender reports it.
#[derive(Clone, Copy, Debug)]
pub struct AttemptResult<'a> {
    pub(super) attempt: AttemptReport,
    pub(super) headers: Option<&'a HeaderMap>,
    pub(super) unsent: bool,
    /// True if the call counts from its sending, and its end is not reported.
    pub(super) counted: bool,
    pub(super) names_limit: bool,
    pub(super) path: Option<&'a str>,
}

impl<'a> AttemptResult<'a> {
    /// Reports a response with its headers, which are read for rate-limit hints.
    pub const fn response(status: u16, headers: &'a HeaderMap) -> Self {
        Self::new(AttemptReport::status(status), Some(headers))
    }

    /// Reports a response of which only the status is known.
    pub const fn status(status: u16) -> Self {
        Self::new(AttemptReport::status(status), None)
    }

    /// Reports that there was no complete response.
    pub const fn fault(fault: Fault) -> Self {
        Self::new(AttemptReport::fault(fault), None)
    }

    /// Reports that the caller cancelled.
    pub const fn cancelled() -> Self {
        Self::new(AttemptReport::cancelled(), None)
    }

    /// Adds that the call was provably never sent: a refused connection, a name that does not resolve.
    /// Its quota is refunded.
    #[must_use]
    pub const fn unsent(mut self) -> Self {
        self.unsent = true;
        self
    }

    /// Adds that the body of the response names an exceeded limit, regardless of its status.
    #[must_use]
    pub const fn with_limit_signal(mut self) -> Self {
        self.names_limit = true;
        self
    }

    /// Adds the path of the call. A path that the API throttles again while it lets other calls pass lowers no
    /// limit, and counts as no failure.
    #[must_use]
    pub const fn with_path(mut self, path: &'a str) -> Self {
        self.path = Some(path);
        self
    }

    /// Reports nothing: the call counts from its sending.
    pub(super) const fn counted() -> Self {
        let mut result = Self::cancelled();
        result.counted = true;
        result
    }

    const fn new(attempt: AttemptReport, headers: Option<&'a HeaderMap>) -> Self {
        Self {
            attempt,
            headers,
            unsent: false,
            counted: false,
            names_limit: false,
            path: None,
        }
    }
}

/// Judgement of an attempt by the policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// The class of its outcome.
    pub effect: OutcomeClass,
    /// The chance of another attempt. The caller decides on a retry: it knows if the call is idempotent.
    pub retry: Retryability,
    /// The wait that the server asked for.
    pub retry_after: Option<Duration>,
    /// The effect on the limits.
    pub limit_feedback: LimitFeedback,
    /// True if the attempt was a probe of the health machine.
    pub was_probe: bool,
}

/// Effect of an attempt on the limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LimitFeedback {
    /// None.
    None,
    /// A local limit was too high and is lower now, because of this call or one sent with it. The call
    /// can be repeated as soon as the limits allow it; the API is not at fault.
    Lowered,
    /// The API throttles the path of this call while it lets others pass. Repeating it uses quota of theirs.
    PathThrottled,
}

impl Verdict {
    /// Returns true if the policy says that another attempt could succeed.
    pub fn is_worth_a_retry(&self) -> bool {
        self.retry == Retryability::Worthwhile
    }

    /// The verdict of an attempt that is unknown, outside the upstream, or given up by its caller.
    pub(crate) const NOTHING: Self = Self {
        effect: OutcomeClass::Neutral,
        retry: Retryability::Pointless,
        retry_after: None,
        limit_feedback: LimitFeedback::None,
        was_probe: false,
    };
}
