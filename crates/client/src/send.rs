//! The one way out: route, cache, admit, send, classify, settle, and again or answer.
//!
//! Every call passes these rooms in this order, and the only way back is a repetition, which passes
//! them again with a permit of its own. Nothing here decides about limits or health; it carries facts
//! to the door and obeys its verdict. Whatever is known about the answer's meaning to the caller, such
//! as its type, stays outside: a body that cannot be decoded was still delivered.

mod attempt;
mod cached;
mod order;
mod redirect;
mod report;
mod retry;
mod steady;

use outflow_core::Nanos;

use self::attempt::Ended;
use self::order::Order;
pub(crate) use self::steady::Steady;
use crate::client::{Outlet, Response, Shape, Wish};
use crate::error::{Error, Kind, Wandered};
use crate::event::What;
use crate::http::Left;
use crate::refusal::Refusal;

/// Makes a call.
pub(crate) async fn make(outlet: &Outlet, wish: Wish, shape: Shape) -> Result<Response, Error> {
    let begun = outlet.upstream.now();
    let order = Order::of(outlet, wish, begun)?;
    let mut trip = Trip {
        outlet,
        order,
        shape,
        begun,
        tally: Tally::default(),
    };
    let ended = cached::answered_or_fetched(&mut trip).await;
    let ended = ended.map_err(|error| error.after(trip.tally.attempts));
    report::finished(&trip, &ended);
    ended
}

/// A call under way.
struct Trip<'a> {
    outlet: &'a Outlet,
    order: Order,
    shape: Shape,
    begun: Nanos,
    tally: Tally,
}

/// What a call has taken so far.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    attempts: u32,
    retries: u32,
    hops: u8,
    sent: Nanos,
    waited: std::time::Duration,
}

impl Trip<'_> {
    /// Gets an answer from the server, by as many attempts as are allowed.
    async fn fetched(&mut self) -> Result<Response, Error> {
        let mut before: Option<Result<Response, Error>> = None;
        let mut earned = false;
        loop {
            let ended = match self.attempt().await {
                Ok(ended) => ended,
                Err(refusal) => return turned_away(before, refusal),
            };
            if !std::mem::replace(&mut earned, true) {
                // Not before the door has opened: whoever is turned away loads no server, and must
                // not pay for the repetitions of others.
                self.outlet.earn(self.tally.sent);
            }
            if self.follow(&ended)? {
                before = None;
                continue;
            }
            if ended.left != Left::Something {
                self.order.payload.take_back();
            }
            let Some(delay) = self.again(&ended) else {
                return ended.result;
            };
            self.tell_retry(&ended, delay);
            self.tally.retries = self.tally.retries.saturating_add(1);
            before = Some(ended.result);
            tokio::time::sleep(delay).await;
        }
    }

    /// Turns to where the answer leads, if it leads anywhere and may be followed.
    fn follow(&mut self, ended: &Ended) -> Result<bool, Error> {
        let Ok(answer) = &ended.result else {
            return Ok(false);
        };
        let order = &self.order;
        let Some(to) = redirect::next(&order.uri, &order.method, answer.status, &answer.headers)
        else {
            return Ok(false);
        };
        if self.outlet.api.redirects == 0 || !order.payload.can_be_sent() {
            return Ok(false);
        }
        let to = order.led(to.map_err(wandered)?, self.outlet);
        if order.uri == to || order.visited.contains(&to) {
            return Err(wandered(Wandered::Loop));
        }
        if self.tally.hops >= self.outlet.api.redirects {
            return Err(wandered(Wandered::TooMany));
        }
        self.tally.hops = self.tally.hops.saturating_add(1);
        self.order.turn_to(to, self.outlet);
        Ok(true)
    }

    fn tell_retry(&self, ended: &Ended, delay: std::time::Duration) {
        let Some(reason) = ended.reason() else {
            return;
        };
        self.tell(|| What::Retrying {
            attempt: self.tally.attempts,
            delay,
            reason,
        });
    }

    fn tell(&self, what: impl FnOnce() -> What) {
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
    before: Option<Result<Response, Error>>,
    refusal: Refusal,
) -> Result<Response, Error> {
    before.unwrap_or_else(|| Err(Error::new(Kind::Refused(refusal))))
}

fn wandered(how: Wandered) -> Error {
    Error::new(Kind::Wandered(how))
}
