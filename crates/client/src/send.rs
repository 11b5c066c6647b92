//! The one way out: route, cache, admit, send, classify, settle, and again or answer.
//!
//! Every call passes these rooms in this order, and the only way back is a repetition, which passes
//! them again with a permit of its own. Nothing here decides about limits or health; it carries facts
//! to the door and obeys its verdict. Whatever is known about the answer's meaning to the caller, such
//! as its type, stays outside: a body that cannot be decoded was still delivered.

mod attempt;
mod cache_stage;
mod prepared;
mod redirect;
mod report;
mod retry;
mod stream_liveness;

use std::time::Duration;

use outflow_core::Nanos;

use self::attempt::FinishedAttempt;
use self::cache_stage::Lead;
use self::prepared::PreparedRequest;
use self::retry::RetryPlan;
pub(crate) use self::stream_liveness::StreamLiveness;
use crate::client::{ApiClient, CallSpec, Response, ResponseShape};
use crate::error::{Error, ErrorKind, RedirectError};
use crate::event::EventKind;
use crate::http::BytesSent;
use crate::refusal::Refusal;

/// Makes a call.
pub(crate) async fn make(
    outlet: &ApiClient,
    wish: Box<CallSpec>,
    shape: ResponseShape,
) -> Result<Response, Error> {
    let begun = outlet.upstream.now();
    let order = PreparedRequest::new(outlet, wish, begun)?;
    let mut trip = CallState {
        outlet,
        order,
        shape,
        begun,
        tally: CallStats::default(),
        lead: None,
        end: Told::NotYet,
    };
    let ended = cache_stage::answered_or_fetched(&mut trip).await;
    let ended = ended.map_err(|error| error.after(trip.tally.attempts));
    report::finished(&trip, &ended);
    trip.end = Told::Already;
    ended
}

/// A call under way. Dropped before its end was told, its caller has left, and that is told.
struct CallState<'a> {
    outlet: &'a ApiClient,
    order: PreparedRequest,
    shape: ResponseShape,
    begun: Nanos,
    tally: CallStats,
    /// The duty to tell equal calls how this one ends, if any follow it.
    lead: Option<Lead>,
    end: Told,
}

/// Whether somebody was told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Told {
    NotYet,
    Already,
}

impl Drop for CallState<'_> {
    fn drop(&mut self) {
        if self.end == Told::NotYet {
            report::abandoned(self);
        }
    }
}

/// What a call has taken so far.
#[derive(Clone, Copy, Debug, Default)]
struct CallStats {
    attempts: u32,
    retries: u32,
    /// How often it went again because a limit had been too high.
    returns: u32,
    turn: QueuePosition,
    hops: u8,
    sent: Nanos,
    waited: Duration,
}

/// Whether the next attempt has its turn from the last one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum QueuePosition {
    #[default]
    New,
    Kept,
}

impl CallState<'_> {
    /// Gets an answer from the server, by as many attempts as are allowed, the first of them now.
    async fn fetched(&mut self, mut now: Nanos) -> Result<Response, Error> {
        let mut before: Option<Box<Result<Response, Error>>> = None;
        let mut earned = false;
        loop {
            let ended = match self.attempt(now).await {
                Ok(ended) => ended,
                Err(refusal) => return turned_away(before, refusal),
            };
            if !std::mem::replace(&mut earned, true) {
                // Not before the door has opened: whoever is turned away loads no server, and must
                // not pay for the repetitions of others.
                self.outlet.earn(now);
            }
            if self.follow(&ended)? {
                before = None;
            } else {
                if ended.left != BytesSent::Something {
                    self.order.wish.payload.take_back();
                }
                let Some(again) = self.again(&ended) else {
                    let verdict = ended.verdict;
                    return ended.result.map_err(|error| error.judged(verdict));
                };
                self.emit_retry(&ended, again.delay());
                self.count(again);
                before = Some(Box::new(ended.result));
                if let RetryPlan::After(delay) = again {
                    tokio::time::sleep(delay).await;
                }
            }
            now = self.outlet.upstream.now();
        }
    }

    /// Turns to where the answer leads, if it leads anywhere and may be followed.
    fn follow(&mut self, ended: &FinishedAttempt) -> Result<bool, Error> {
        let Ok(answer) = &ended.result else {
            return Ok(false);
        };
        let order = &self.order;
        let Some(to) = redirect::next(
            &order.uri,
            &order.wish.method,
            answer.status,
            &answer.headers,
        ) else {
            return Ok(false);
        };
        if order.redirects == 0 || !order.wish.payload.can_be_sent() {
            return Ok(false);
        }
        let to = order.led(to.map_err(wandered)?, self.outlet);
        if order.uri == to || order.visited.contains(&to) {
            return Err(wandered(RedirectError::Loop));
        }
        if self.tally.hops >= order.redirects {
            return Err(wandered(RedirectError::TooMany));
        }
        self.tally.hops = self.tally.hops.saturating_add(1);
        self.order.turn_to(to, self.outlet);
        Ok(true)
    }

    /// When the permit that is asked for now must have come. The first is waited for from when the call
    /// began, whomever it followed meanwhile: nobody's patience begins again because another's ended.
    fn patient_until(&self, now: Nanos) -> Nanos {
        let since = match self.tally.attempts {
            0 => self.begun,
            _ => now,
        };
        self.order.patient_until(since)
    }

    fn count(&mut self, again: RetryPlan) {
        let tally = &mut self.tally;
        match again {
            RetryPlan::InTurn => {
                tally.returns = tally.returns.saturating_add(1);
                tally.turn = QueuePosition::Kept;
            }
            RetryPlan::After(_) => {
                tally.retries = tally.retries.saturating_add(1);
                tally.turn = QueuePosition::New;
            }
        }
    }

    fn emit_retry(&self, ended: &FinishedAttempt, delay: Duration) {
        let Some(reason) = ended.reason() else {
            return;
        };
        self.emit(|| EventKind::Retrying {
            attempt: self.tally.attempts,
            delay,
            reason,
        });
    }

    fn emit(&self, what: impl FnOnce() -> EventKind) {
        let upstream = &self.outlet.upstream;
        upstream.events().emit(|| crate::event::Event {
            api: upstream.name().clone(),
            at: upstream.now(),
            what: what(),
        });
    }
}

/// The door did not open. To a repetition it says less than the answer that we already have.
fn turned_away(
    before: Option<Box<Result<Response, Error>>>,
    refusal: Refusal,
) -> Result<Response, Error> {
    match before {
        Some(answer) => *answer,
        None => Err(Error::new(ErrorKind::Refused(refusal))),
    }
}

fn wandered(how: RedirectError) -> Error {
    Error::new(ErrorKind::Wandered(how))
}
