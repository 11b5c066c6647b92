//! One attempt: permit, request, response and verdict.

use http::response::Parts;
use outflow_core::{Decision, Fault, Nanos, Retryability};

use super::CallState;
use super::prepared::RequestOrigin;
use crate::client::{Body, BoundedBody, BrokenBody, Response, ResponseShape, ResponseStats, RetryMode};
use crate::client::{collect_body, collect_within};
use crate::error::Error;
use crate::event::{EventKind, FailureLabel};
use crate::http::{AttemptDeadline, AttemptFailure, BytesSent, FailureKind, IncomingBody, SendHook};
use crate::refusal::{Refusal, RefusalReason, WaitReason};
use crate::rules::WhenAsleep;
use crate::upstream::{AcquireOptions, AttemptResult, PendingBody, Permit, Verdict};

/// Finished attempt.
pub(super) struct FinishedAttempt {
    pub(super) result: Result<Response, Error>,
    pub(super) verdict: Verdict,
    pub(super) sent: BytesSent,
}

impl FinishedAttempt {
    /// Returns the failure label, if it failed.
    pub(super) fn reason(&self) -> Option<FailureLabel> {
        match &self.result {
            Ok(response) => reason_of_code(response.status.as_u16()),
            Err(error) => error.reason(),
        }
    }
}

/// Returns the failure label of a status, if it is a failure.
pub(super) const fn reason_of_code(code: u16) -> Option<FailureLabel> {
    match code {
        429 => Some(FailureLabel::TooMany),
        500..=599 => Some(FailureLabel::ServerError),
        _ => None,
    }
}

impl CallState<'_> {
    /// Makes one attempt, or returns the refusal.
    pub(super) async fn attempt(&mut self, now: Nanos) -> Result<FinishedAttempt, Refusal> {
        let mut options = self.request.acquire_options(self.waits_since(now));
        if self.stats.keeps_position {
            options = options.with_return();
        } else if self.stats.attempts > 0 {
            options = options.with_retry();
        }
        loop {
            let permit = match self.request.origin {
                RequestOrigin::Api => Some(match self.request.spec.permit.take() {
                    Some(mut permit) => {
                        permit.set_trace(self.request.trace);
                        permit
                    }
                    None => self.acquire(options).await?,
                }),
                // Another server: this API's limits do not apply to it.
                RequestOrigin::Foreign => None,
            };
            // On the heap: many calls wait for a permit, few hold one.
            if let Some(finished) = Box::pin(self.send(permit)).await {
                return Ok(finished);
            }
            if !self.request.spec.payload.is_sendable() || self.request.spec.retry == RetryMode::Disabled {
                return Err(self.revoked_refusal(options));
            }
        }
    }

    /// Sends the request and reads the response. `None` if the permit was revoked before anything
    /// left.
    async fn send(&mut self, mut permit: Option<Permit>) -> Option<FinishedAttempt> {
        if self.client.cache.is_some() {
            self.stats.sent = self.client.upstream.now();
        }
        let default = self.client.api.timeouts.attempt;
        let deadline = AttemptDeadline::new(default, self.request.spec.attempt_timeout, self.time_left());
        let request = self.request.build();
        let sent = self.client.transport.send(request, deadline, &mut permit).await;
        if matches!(&sent, Err(failure) if failure.kind == FailureKind::Revoked) {
            return None;
        }
        self.stats.attempts = self.stats.attempts.saturating_add(1);
        Some(match sent {
            Ok(response) => self.read_response(permit, response).await,
            Err(failure) => self.failed(permit, failure),
        })
    }

    fn failed(&self, permit: Option<Permit>, failure: AttemptFailure) -> FinishedAttempt {
        if let Some(error) = failure.resolve_error() {
            self.emit(|| EventKind::Unresolved { error });
        }
        failed(permit, failure)
    }

    /// Returns the refusal of a revoked call that cannot acquire again: its stream is handed over,
    /// or it has a single attempt and its caller waits.
    fn revoked_refusal(&self, options: AcquireOptions) -> Refusal {
        let upstream = &self.client.upstream;
        let retry_after = match upstream.check_with(self.request.target, options) {
            Decision::WaitUntil(at) => Some(at.since(upstream.now())),
            Decision::Allow(()) | Decision::Never => None,
        };
        Refusal {
            reason: RefusalReason::Busy(WaitReason::Cooldown),
            retry_after,
        }
    }

    async fn acquire(&mut self, options: AcquireOptions) -> Result<Permit, Refusal> {
        let target = self.request.target;
        let permit = self.client.upstream.acquire_with(target, options).await?;
        self.stats.waited = self.stats.waited.saturating_add(permit.waited());
        if let Some(lead) = &self.lead {
            lead.mark_sent();
        }
        Ok(permit)
    }

    async fn read_response(&self, permit: Option<Permit>, response: http::Response<IncomingBody>) -> FinishedAttempt {
        let (parts, incoming) = response.into_parts();
        let code = parts.status.as_u16();
        let (verdict, pending_body) = match permit {
            Some(permit) => {
                let mut result = AttemptResult::response(code, &parts.headers);
                // Where callers fail fast, every throttle counts.
                if self.client.api.rules.when_asleep == WhenAsleep::Wait {
                    result = result.with_path(self.request.uri.path());
                }
                let (verdict, pending_body) = permit.settle_head(result);
                (verdict, Some(pending_body))
            }
            None => (Verdict::NOTHING, None),
        };
        if self.shape == ResponseShape::Streaming && verdict.retry == Retryability::Pointless {
            let incoming = incoming.with_deadline(self.stream_deadline());
            return self.finished(parts, Body::streaming(incoming, pending_body), verdict);
        }
        match self.read_body(incoming, pending_body, verdict).await {
            Ok(body) => self.finished(parts, body, verdict),
            // The attempt may be retried; otherwise the caller still wants the head.
            Err(failed) if self.shape == ResponseShape::Streaming => {
                self.finished(parts, Body::failed(failed.error), verdict)
            }
            Err(failed) => FinishedAttempt {
                result: Err(failed.error),
                verdict: failed.verdict.unwrap_or(Verdict::NOTHING),
                sent: BytesSent::Something,
            },
        }
    }

    /// Returns the deadline of a streamed body: only silence and the caller's deadline bound it.
    fn stream_deadline(&self) -> Option<AttemptDeadline> {
        self.time_left().map(AttemptDeadline::from_caller)
    }

    /// Reads the complete body, or as much of it as the memory budget of the call allows. The body of an attempt
    /// that may be retried must fit: its stream would stay in flight beside the retry.
    async fn read_body(
        &self,
        incoming: IncomingBody,
        pending_body: Option<PendingBody>,
        verdict: Verdict,
    ) -> Result<Body, BrokenBody> {
        let max_body = self.client.api.max_body;
        let Some(budget) = &self.request.spec.memory else {
            return collect_body(incoming, pending_body, max_body).await.map(Body::full);
        };
        match collect_within(incoming, pending_body, max_body, budget).await? {
            BoundedBody::Whole(body) => Ok(body),
            BoundedBody::Spilled(body) if verdict.retry == Retryability::Pointless => {
                Ok(body.into_body(self.stream_deadline()))
            }
            BoundedBody::Spilled(_) => Err(BrokenBody::memory_full()),
        }
    }

    fn finished(&self, parts: Parts, body: Body, verdict: Verdict) -> FinishedAttempt {
        let retry_after = verdict.retry_after;
        FinishedAttempt {
            result: Ok(Response {
                status: parts.status,
                headers: parts.headers,
                body,
                stats: ResponseStats {
                    retry_after,
                    verdict: Some(verdict),
                    ..self.response_stats()
                },
            }),
            verdict,
            sent: BytesSent::Something,
        }
    }

    /// Returns the counters so far for the response.
    pub(super) fn response_stats(&self) -> ResponseStats {
        ResponseStats {
            attempts: self.stats.attempts,
            waited: self.stats.waited,
            from_cache: None,
            retry_after: None,
            verdict: None,
            max_body: self.client.api.max_body,
            target: self.request.target,
        }
    }
}

impl SendHook for Option<Permit> {
    fn is_revoked(&self) -> bool {
        self.as_ref().is_some_and(Permit::is_revoked)
    }

    fn before_send(&mut self) {
        if let Some(permit) = self {
            permit.sending();
        }
    }

    fn on_unsent(&mut self) {
        if let Some(permit) = self {
            permit.undo_sending();
        }
    }
}

/// Settles the permit of an attempt without a response.
fn failed(permit: Option<Permit>, failure: AttemptFailure) -> FinishedAttempt {
    let verdict = permit.map_or(Verdict::NOTHING, |permit| match failure.kind {
        FailureKind::Fault(fault) => permit.settle(fault_result(fault, failure.sent)),
        // A sent permit counts as arrived; an unsent one is refunded.
        FailureKind::Deadline | FailureKind::Forbidden | FailureKind::Revoked | FailureKind::Caller => {
            drop(permit);
            Verdict::NOTHING
        }
    });
    FinishedAttempt {
        result: Err(Error::from_failure(failure)),
        verdict,
        sent: failure.sent,
    }
}

fn fault_result(fault: Fault, sent: BytesSent) -> AttemptResult<'static> {
    match sent {
        BytesSent::Nothing => AttemptResult::fault(fault).unsent(),
        BytesSent::Something | BytesSent::Unprocessed => AttemptResult::fault(fault),
    }
}
