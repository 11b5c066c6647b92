//! What equal calls have of one another: an answer, or that there is none.
//!
//! A failure is shared like an answer, for whoever waited would only wait as long again to learn the
//! same. What is the leader's own is not: its time, and what the door told it. Then the lead passes to
//! the next, which asks the door itself with what is left of its own patience; so one who came as early
//! and is no more patient is refused in the same instant, and nobody waits behind one refusal after
//! another. A follower whose patience ends while the leader still waits at the door asks by itself.

use std::time::Duration;

use http::header::{HeaderName, HeaderValue};

use super::{CACHE_STATUS, emit_lookup, mark};
use crate::cache::{
    CacheStatus, FlightKey, FlightRole, FollowFuture, FollowResult, ForwardReason, LeadGuard,
};
use crate::client::{Body, Response, ResponseStats, SharedCall};
use crate::error::{Error, ErrorKind};
use crate::event::CacheLabel;
use crate::send::CallState;

/// What a flight ends with.
type SharedResult = Result<SharedCall, ErrorKind>;

/// The duty to tell the others.
pub(in crate::send) type Lead = LeadGuard<SharedResult>;

/// Waits for an equal call, if there is one; `None` if this one goes itself.
pub(super) async fn joined(
    trip: &mut CallState<'_>,
    key: FlightKey,
) -> Result<Option<SharedResult>, Error> {
    let followed = match trip.outlet.flights.join(key) {
        FlightRole::Lead(lead) => FollowResult::Lead(lead),
        FlightRole::Alone => FollowResult::Alone,
        FlightRole::Follow(other) => followed(trip, other).await?,
    };
    match followed {
        FollowResult::Shared(landing) => return Ok(Some(landing)),
        FollowResult::Lead(lead) => trip.lead = Some(lead),
        FollowResult::Alone => {}
    }
    Ok(None)
}

/// Waits for an equal call, as long as the caller's time allows, and for its turn no longer than the
/// caller would wait for its own.
async fn followed(
    trip: &CallState<'_>,
    mut other: FollowFuture<SharedResult>,
) -> Result<FollowResult<SharedResult>, Error> {
    let now = trip.outlet.upstream.now();
    let patience = trip.patient_until(now).since(now);
    if let Ok(followed) = tokio::time::timeout(patience, &mut other).await {
        return Ok(followed);
    }
    let left = trip.time_left().unwrap_or(Duration::MAX);
    if left > Duration::ZERO && !other.has_departed() {
        return Ok(FollowResult::Alone);
    }
    let followed = tokio::time::timeout(left, other).await;
    followed.map_err(|_| Error::new(ErrorKind::Deadline))
}

/// Tells the followers how it ended, as far as it is theirs too.
pub(super) fn landed(
    trip: &mut CallState<'_>,
    ended: &Result<Response, Error>,
    may_share: impl FnOnce(&Response) -> bool,
) {
    let Some(lead) = trip.lead.take() else {
        return;
    };
    match ended {
        Ok(answer) => match answer.body.here() {
            Some(body) if may_share(answer) => lead.share(Ok(SharedCall {
                status: answer.status,
                headers: answer.headers.clone(),
                body: body.clone(),
            })),
            _ => lead.keep(),
        },
        Err(error) => match error.kind() {
            // The next one may have more time left, or more patience.
            ErrorKind::Deadline | ErrorKind::Refused(_) => drop(lead),
            kind => lead.share(Err(kind.clone())),
        },
    }
}

/// The answer to an equal call.
pub(super) fn shared(trip: &CallState<'_>, answer: SharedCall) -> Response {
    emit_lookup(trip, CacheLabel::Coalesced);
    let mut headers = answer.headers;
    let name = HeaderName::from_static(CACHE_STATUS);
    let mut said: Vec<HeaderValue> = headers.get_all(&name).iter().cloned().collect();
    // The last is our own, about the other call; those before it are the server's.
    said.pop();
    headers.remove(&name);
    for value in said {
        headers.append(&name, value);
    }
    let status = CacheStatus::forwarded(ForwardReason::Miss).collapsed();
    mark(&mut headers, status);
    Response {
        status: answer.status,
        headers,
        body: Body::full(answer.body),
        facts: ResponseStats {
            from_cache: Some(CacheLabel::Coalesced),
            ..trip.facts()
        },
    }
}
