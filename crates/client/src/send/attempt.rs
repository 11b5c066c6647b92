//! One attempt: a permit, a request, an answer or none, and the door's verdict on it.

use http::response::Parts;
use outflow_core::{Decision, Fault, Nanos, OutcomeClass, Retryability};

use super::prepared::RequestOrigin;
use super::{CallState, QueuePosition};
use crate::client::{Body, Response, ResponseShape, ResponseStats, RetryMode, gather};
use crate::error::Error;
use crate::event::{EventKind, FailureLabel};
use crate::http::{
    AttemptDeadline, AttemptFailure, BytesSent, FailureKind, IncomingBody, SendHook,
};
use crate::refusal::{Refusal, RefusalReason, WaitReason};
use crate::upstream::{AcquireOptions, AttemptResult, LimitFeedback, Permit, Verdict};

/// An attempt that is over.
pub(super) struct FinishedAttempt {
    pub(super) result: Result<Response, Error>,
    pub(super) verdict: Verdict,
    pub(super) left: BytesSent,
}

impl FinishedAttempt {
    /// Why it failed, as metrics tell it.
    pub(super) fn reason(&self) -> Option<FailureLabel> {
        match &self.result {
            Ok(answer) => reason_of_code(answer.status.as_u16()),
            Err(error) => error.reason(),
        }
    }
}

/// Why a status counts as a failure, if it does.
pub(super) const fn reason_of_code(code: u16) -> Option<FailureLabel> {
    match code {
        429 => Some(FailureLabel::TooMany),
        500..=599 => Some(FailureLabel::ServerError),
        _ => None,
    }
}

impl CallState<'_> {
    /// Makes one attempt, or is turned away.
    pub(super) async fn attempt(&mut self, now: Nanos) -> Result<FinishedAttempt, Refusal> {
        let mut ask = self.order.acquire_options(self.patient_until(now));
        if self.tally.turn == QueuePosition::Kept {
            ask = ask.with_return();
        }
        loop {
            let permit = match self.order.place {
                RequestOrigin::Here => Some(match self.order.wish.permit.take() {
                    Some(permit) => permit,
                    None => self.admitted(ask).await?,
                }),
                // Not this API's server any more: its limits say nothing about another's.
                RequestOrigin::Elsewhere => None,
            };
            // On the heap: of those who wait for a permit there are many, of those who have one few.
            if let Some(ended) = Box::pin(self.sent(permit)).await {
                return Ok(ended);
            }
            if !self.order.wish.payload.can_be_sent() || self.order.wish.tries == RetryMode::One {
                return Err(self.called_off(ask));
            }
        }
    }

    /// Sends, and hears the answer; nothing if its permit was called off before anything left.
    async fn sent(&mut self, mut permit: Option<Permit>) -> Option<FinishedAttempt> {
        if self.outlet.cache.is_some() {
            self.tally.sent = self.outlet.upstream.now();
        }
        let usual = self.outlet.api.timeouts.attempt;
        let end = AttemptDeadline::new(usual, self.order.wish.granted, self.time_left());
        let request = self.order.request();
        let sent = self.outlet.transport.send(request, end, &mut permit).await;
        if matches!(&sent, Err(failure) if failure.trouble == FailureKind::CalledOff) {
            return None;
        }
        self.tally.attempts = self.tally.attempts.saturating_add(1);
        Some(match sent {
            Ok(response) => self.answered(permit, response).await,
            Err(failure) => self.failed(permit, failure),
        })
    }

    fn failed(&self, permit: Option<Permit>, failure: AttemptFailure) -> FinishedAttempt {
        if let Some(why) = failure.unresolved() {
            self.emit(|| EventKind::Unresolved { why });
        }
        failed(permit, failure)
    }

    /// A stream that was handed over for sending does not come back, and who tries once has somebody
    /// behind who waits: neither call asks again.
    fn called_off(&self, ask: AcquireOptions) -> Refusal {
        let upstream = &self.outlet.upstream;
        let retry_after = match upstream.check_with(self.order.target, ask) {
            Decision::WaitUntil(at) => Some(at.since(upstream.now())),
            Decision::Allow(()) | Decision::Never => None,
        };
        Refusal {
            cause: RefusalReason::Busy(WaitReason::Cooldown),
            retry_after,
        }
    }

    async fn admitted(&mut self, ask: AcquireOptions) -> Result<Permit, Refusal> {
        let permit = self
            .outlet
            .upstream
            .acquire_with(self.order.target, ask)
            .await?;
        self.tally.waited = self.tally.waited.saturating_add(permit.waited());
        if let Some(lead) = &self.lead {
            lead.depart();
        }
        Ok(permit)
    }

    async fn answered(
        &self,
        permit: Option<Permit>,
        response: http::Response<IncomingBody>,
    ) -> FinishedAttempt {
        let (parts, incoming) = response.into_parts();
        let code = parts.status.as_u16();
        let (verdict, tail) = match permit {
            Some(permit) => {
                let (verdict, tail) =
                    permit.settle_head(AttemptResult::response(code, &parts.headers));
                (verdict, Some(tail))
            }
            None => (BEYOND, None),
        };
        if self.shape == ResponseShape::Flowing && verdict.retry == Retryability::Pointless {
            // It is bounded by silence and the caller's own deadline alone.
            let incoming = incoming.until(self.time_left().map(AttemptDeadline::callers));
            return self.ended(parts, Body::flowing(incoming, tail), verdict);
        }
        match gather(incoming, tail, self.outlet.api.largest_body).await {
            Ok(bytes) => self.ended(parts, Body::full(bytes), verdict),
            // It may be repeated, and if it is not, its caller wants the head all the same.
            Err(broken) if self.shape == ResponseShape::Flowing => {
                self.ended(parts, Body::lost(broken.error), verdict)
            }
            Err(broken) => FinishedAttempt {
                result: Err(broken.error),
                verdict: broken.verdict.unwrap_or(BEYOND),
                left: BytesSent::Something,
            },
        }
    }

    fn ended(&self, parts: Parts, body: Body, verdict: Verdict) -> FinishedAttempt {
        let retry_after = verdict.retry_after;
        FinishedAttempt {
            result: Ok(Response {
                status: parts.status,
                headers: parts.headers,
                body,
                facts: ResponseStats {
                    retry_after,
                    verdict: Some(verdict),
                    ..self.facts()
                },
            }),
            verdict,
            left: BytesSent::Something,
        }
    }

    /// What the call has taken so far, as its answer tells it.
    pub(super) fn facts(&self) -> ResponseStats {
        ResponseStats {
            attempts: self.tally.attempts,
            waited: self.tally.waited,
            from_cache: None,
            retry_after: None,
            verdict: None,
            largest: self.outlet.api.largest_body,
            target: self.order.target,
        }
    }
}

impl SendHook for Option<Permit> {
    fn is_taken_back(&self) -> bool {
        self.as_ref().is_some_and(Permit::is_revoked)
    }

    fn departing(&mut self) {
        if let Some(permit) = self {
            permit.sending();
        }
    }

    fn stayed(&mut self) {
        if let Some(permit) = self {
            permit.undo_sending();
        }
    }
}

/// Tells the door that no answer came.
fn failed(permit: Option<Permit>, failure: AttemptFailure) -> FinishedAttempt {
    let verdict = permit.map_or(BEYOND, |permit| match failure.trouble {
        FailureKind::Fault(fault) => permit.settle(answer(fault, failure.left)),
        // Sent, it counts as arrived; unsent, it is given back.
        FailureKind::Deadline
        | FailureKind::Forbidden
        | FailureKind::CalledOff
        | FailureKind::Caller => {
            drop(permit);
            BEYOND
        }
    });
    FinishedAttempt {
        result: Err(Error::from_failure(failure)),
        verdict,
        left: failure.left,
    }
}

fn answer(fault: Fault, left: BytesSent) -> AttemptResult<'static> {
    match left {
        BytesSent::Nothing => AttemptResult::fault(fault).unsent(),
        BytesSent::Something | BytesSent::Untouched => AttemptResult::fault(fault),
    }
}

/// What is said of an attempt that no door was asked about, or that its caller gave up.
const BEYOND: Verdict = Verdict {
    effect: OutcomeClass::Neutral,
    retry: Retryability::Pointless,
    retry_after: None,
    lesson: LimitFeedback::None,
};
