//! What equal calls have of one another: an answer, or that there is none.
//!
//! A failure is shared like an answer, for whoever waited would only wait as long again to learn the
//! same. What is the leader's own is not: its time, and what the door told it. Then the lead passes to
//! the next, which asks the door itself with what is left of its own patience; so one who came as early
//! and is no more patient is refused in the same instant, and nobody waits behind one refusal after
//! another. A follower whose patience ends while the leader still waits at the door asks by itself.

use std::time::Duration;

use http::header::{HeaderName, HeaderValue};

use super::{CACHE_STATUS, mark, tell};
use crate::cache::{CacheStatus, Flight, FlightKey, FollowFuture, Followed, Forward, LeadGuard};
use crate::client::{Body, Facts, Response, Shared};
use crate::error::{Error, Kind};
use crate::event::Lookup;
use crate::send::Trip;

/// What a flight ends with.
type Landing = Result<Shared, Kind>;

/// The duty to tell the others.
pub(in crate::send) type Lead = LeadGuard<Landing>;

/// Waits for an equal call, if there is one; `None` if this one goes itself.
pub(super) async fn joined(trip: &mut Trip<'_>, key: FlightKey) -> Result<Option<Landing>, Error> {
    let followed = match trip.outlet.flights.join(key) {
        Flight::Lead(lead) => Followed::Lead(lead),
        Flight::Alone => Followed::Alone,
        Flight::Follow(other) => followed(trip, other).await?,
    };
    match followed {
        Followed::Shared(landing) => return Ok(Some(landing)),
        Followed::Lead(lead) => trip.lead = Some(lead),
        Followed::Alone => {}
    }
    Ok(None)
}

/// Waits for an equal call, as long as the caller's time allows, and for its turn no longer than the
/// caller would wait for its own.
async fn followed(
    trip: &Trip<'_>,
    mut other: FollowFuture<Landing>,
) -> Result<Followed<Landing>, Error> {
    let now = trip.outlet.upstream.now();
    let patience = trip.patient_until(now).since(now);
    if let Ok(followed) = tokio::time::timeout(patience, &mut other).await {
        return Ok(followed);
    }
    let left = trip.time_left().unwrap_or(Duration::MAX);
    if left > Duration::ZERO && !other.has_departed() {
        return Ok(Followed::Alone);
    }
    let followed = tokio::time::timeout(left, other).await;
    followed.map_err(|_| Error::new(Kind::Deadline))
}

/// Tells the followers how it ended, as far as it is theirs too.
pub(super) fn landed(
    trip: &mut Trip<'_>,
    ended: &Result<Response, Error>,
    may_share: impl FnOnce(&Response) -> bool,
) {
    let Some(lead) = trip.lead.take() else {
        return;
    };
    match ended {
        Ok(answer) => match answer.body.here() {
            Some(body) if may_share(answer) => lead.share(Ok(Shared {
                status: answer.status,
                headers: answer.headers.clone(),
                body: body.clone(),
            })),
            _ => lead.keep(),
        },
        Err(error) => match error.kind() {
            // The next one may have more time left, or more patience.
            Kind::Deadline | Kind::Refused(_) => drop(lead),
            kind => lead.share(Err(kind.clone())),
        },
    }
}

/// The answer to an equal call.
pub(super) fn shared(trip: &Trip<'_>, answer: Shared) -> Response {
    tell(trip, Lookup::Coalesced);
    let mut headers = answer.headers;
    let name = HeaderName::from_static(CACHE_STATUS);
    let mut said: Vec<HeaderValue> = headers.get_all(&name).iter().cloned().collect();
    // The last is our own, about the other call; those before it are the server's.
    said.pop();
    headers.remove(&name);
    for value in said {
        headers.append(&name, value);
    }
    let status = CacheStatus::forwarded(Forward::Miss).collapsed();
    mark(&mut headers, status);
    Response {
        status: answer.status,
        headers,
        body: Body::whole(answer.body),
        facts: Facts {
            from_cache: Some(Lookup::Coalesced),
            ..trip.facts()
        },
    }
}
