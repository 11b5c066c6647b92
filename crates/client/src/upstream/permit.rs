//! Leave to send once, and what comes back of it.
//!
//! A permit is settled with what became of the call, or given back if the call never left. Dropped, it
//! does whichever is safe: unsent it is given back, sent it counts as if it arrived as late as it
//! could. So no path of a program, a cancelled one included, leaks a place or forgets a call that a
//! server may have counted.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use outflow_core::{AttemptEnd, AttemptReport, Fault, Nanos, OutcomeClass, Retryability};

use super::shared::SharedState;
use super::state::{CountsFrom, PermitParts, ResponseInProgress};

/// Leave to send one request.
#[derive(Debug)]
#[must_use = "a permit that is dropped unsent is given back at once"]
pub struct Permit {
    door: Option<Arc<SharedState>>,
    flight: usize,
    id: u64,
    waited: Duration,
    stamped: CountsFrom,
    sent: Option<Nanos>,
    /// It is called off after this instant.
    by: Option<Nanos>,
}

impl Permit {
    pub(super) fn new(door: Option<Arc<SharedState>>, pass: PermitParts) -> Self {
        Self {
            door,
            flight: pass.flight,
            id: pass.id,
            waited: pass.waited,
            stamped: pass.stamped,
            sent: None,
            by: None,
        }
    }

    /// Is to be used within this time from now: a moment later it is called off. For whoever has leave of
    /// somebody else too, for an instant and not for ever.
    pub fn expire_after(mut self, span: Duration) -> Self {
        let door = self.door.as_ref();
        self.by = door.map(|door| door.now().saturating_add(span));
        self
    }

    /// Its number, which events name.
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// How long it was waited for.
    pub const fn waited(&self) -> Duration {
        self.waited
    }

    /// Whether, after it was given, the server asked everybody to wait, the state began to let nobody
    /// go, or the [time](Self::expire_after) for it passed. Whoever took long to get ready, with a connection
    /// perhaps, looks at this before the first byte leaves, drops the permit if so and asks again. What
    /// was sent cannot be called off.
    pub fn is_revoked(&self) -> bool {
        let door = self.door.as_ref().filter(|_| self.sent.is_none());
        door.is_some_and(|door| {
            let late = self.by.is_some_and(|by| door.now() > by);
            late || door.is_called_off(self.id, self.flight)
        })
    }

    /// The first byte is about to leave. From here on the call counts, whatever becomes of it; where
    /// calls count from their sending, that is now.
    pub fn sending(&mut self) {
        if let (Some(door), None) = (&self.door, self.sent) {
            self.sent = Some(match self.stamped {
                CountsFrom::AtSending => door.sending(self.flight),
                // The gate has nothing to change: it need not be asked.
                CountsFrom::AtGrant => door.now(),
            });
        }
    }

    /// Nothing left after all: the connection had been closed. It is as it was before
    /// [`sending`](Self::sending), and may be called off again.
    pub(crate) const fn stayed(&mut self) {
        self.sent = None;
    }

    /// Tells how the whole attempt ended.
    pub fn settle(mut self, answer: AttemptResult<'_>) -> Verdict {
        let door = self.door.take();
        let settled = door.and_then(|door| door.settled(self.flight, self.sent, &answer));
        settled.unwrap_or(Verdict::NOTHING)
    }

    /// Tells how the attempt was answered, when its body is still to come. The call stays in flight
    /// until the [`PendingBody`] is over.
    pub fn settle_head(mut self, answer: AttemptResult<'_>) -> (Verdict, PendingBody) {
        let door = self.door.take();
        let settled = door
            .as_ref()
            .and_then(|door| door.answered(self.flight, self.sent, &answer));
        let (verdict, open) = settled.unzip();
        (
            verdict.unwrap_or(Verdict::NOTHING),
            PendingBody { door, open },
        )
    }

    /// Gives the permit back: the call provably never left.
    pub fn refund(mut self) {
        self.sent = None;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(door) = self.door.take() else {
            return;
        };
        if self.sent.is_none() {
            return door.refund(self.flight);
        }
        door.settled(self.flight, self.sent, &AttemptResult::cancelled());
    }
}

/// A response whose body is still coming in. Dropped, its reader has left, which says nothing bad of
/// the API.
#[derive(Debug)]
#[must_use = "the call is in flight until its tail is over"]
pub struct PendingBody {
    door: Option<Arc<SharedState>>,
    open: Option<ResponseInProgress>,
}

impl PendingBody {
    /// The body ended as it should.
    pub fn finished(mut self) {
        self.end();
    }

    /// The body broke off.
    pub fn fail(mut self, fault: Fault) -> Verdict {
        match (&self.door, self.open.take()) {
            (Some(door), Some(open)) => door.broke(open, &AttemptResult::fault(fault)),
            _ => Verdict::NOTHING,
        }
    }

    /// A body without an end, such as a stream of events, has begun to flow. Without this word a
    /// probe that reads such a stream would time out.
    pub fn mark_alive(&mut self) {
        if let (Some(door), Some(open)) = (&self.door, &mut self.open) {
            door.flowing(open);
        }
    }

    fn end(&mut self) {
        if let (Some(door), Some(open)) = (&self.door, self.open.take()) {
            door.ended(open);
        }
    }
}

impl Drop for PendingBody {
    fn drop(&mut self) {
        self.end();
    }
}

/// What became of an attempt, as its sender tells it.
#[derive(Clone, Copy, Debug)]
pub struct AttemptResult<'a> {
    attempt: AttemptReport,
    headers: Option<&'a HeaderMap>,
    sent: SendState,
    signs: LimitSigns,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SendState {
    Maybe,
    Never,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LimitSigns {
    None,
    Limit,
}

impl<'a> AttemptResult<'a> {
    /// A response of this status and these headers, which are read for what they say of limits.
    pub const fn response(status: u16, headers: &'a HeaderMap) -> Self {
        Self::new(AttemptReport::status(status), Some(headers))
    }

    /// A response of which only the status is known.
    pub const fn status(status: u16) -> Self {
        Self::new(AttemptReport::status(status), None)
    }

    /// No complete response.
    pub const fn fault(fault: Fault) -> Self {
        Self::new(AttemptReport::fault(fault), None)
    }

    /// The caller gave up.
    pub const fn cancelled() -> Self {
        Self::new(AttemptReport::cancelled(), None)
    }

    /// The same, of a call that provably never left: a connection that was refused, a name that does
    /// not resolve. It takes nothing from the limits.
    #[must_use]
    pub const fn unsent(mut self) -> Self {
        self.sent = SendState::Never;
        self
    }

    /// The same, whose body says that a limit was passed, whatever its status.
    #[must_use]
    pub const fn with_limit_signal(mut self) -> Self {
        self.signs = LimitSigns::Limit;
        self
    }

    const fn new(attempt: AttemptReport, headers: Option<&'a HeaderMap>) -> Self {
        Self {
            attempt,
            headers,
            sent: SendState::Maybe,
            signs: LimitSigns::None,
        }
    }

    pub(super) const fn attempt(&self) -> AttemptReport {
        self.attempt
    }

    pub(super) const fn ended(&self) -> AttemptEnd {
        self.attempt.ended()
    }

    pub(super) const fn headers(&self) -> Option<&'a HeaderMap> {
        self.headers
    }

    pub(super) fn is_unsent(&self) -> bool {
        self.sent == SendState::Never
    }

    pub(super) fn shows_a_limit(&self) -> bool {
        self.signs == LimitSigns::Limit
    }
}

/// What the one table makes of an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// What it counts as.
    pub effect: OutcomeClass,
    /// Whether another attempt could end better. Whether one may be made is for the caller to decide:
    /// it knows if the call can be repeated.
    pub retry: Retryability,
    /// How long the server wants us away, if it said so.
    pub retry_after: Option<Duration>,
    /// What it taught about the limits.
    pub lesson: LimitFeedback,
}

/// What a refusal taught about the limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LimitFeedback {
    /// Nothing.
    None,
    /// A limit of ours was too high: it was lowered because of this call, or of another that was sent
    /// before it was. The same call can go again as soon as the limits let it, and nothing is wrong
    /// with the API.
    Lowered,
}

impl Verdict {
    /// True if the table says that another attempt could end better.
    pub fn is_worth_a_retry(&self) -> bool {
        self.retry == Retryability::Worthwhile
    }

    /// Of a call that the gate does not know.
    const NOTHING: Self = Self {
        effect: OutcomeClass::Neutral,
        retry: Retryability::Pointless,
        retry_after: None,
        lesson: LimitFeedback::None,
    };
}
