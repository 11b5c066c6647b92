//! What equal calls have of one another: an answer, or that there is none.
//!
//! A failure is shared like an answer, for whoever waited would only wait as long again to learn the
//! same. What is the leader's own is not: its time, its patience at the door. Then the lead passes on.

use http::header::{HeaderName, HeaderValue};

use super::{CACHE_STATUS, mark, tell};
use crate::cache::{CacheStatus, FollowFuture, Followed, Forward, LeadGuard};
use crate::client::{Body, Facts, Response, Shared};
use crate::error::{Error, Kind};
use crate::event::Lookup;
use crate::send::Trip;

/// What a flight ends with.
pub(super) type Landing = Result<Shared, Kind>;

/// Waits for an equal call, as long as the caller's time allows.
pub(super) async fn followed(
    trip: &Trip<'_>,
    other: FollowFuture<Landing>,
) -> Result<Followed<Landing>, Error> {
    match trip.time_left() {
        None => Ok(other.await),
        Some(left) => tokio::time::timeout(left, other)
            .await
            .map_err(|_| Error::new(Kind::Deadline)),
    }
}

/// Tells the followers how it ended, as far as it is theirs too.
pub(super) fn landed(
    lead: LeadGuard<Landing>,
    ended: &Result<Response, Error>,
    may_share: impl FnOnce(&Response) -> bool,
) {
    match ended {
        Ok(answer) => match answer.body.here() {
            Some(body) if may_share(answer) => lead.share(Ok(Shared {
                status: answer.status,
                headers: answer.headers.clone(),
                body: body.clone(),
                from_cache: answer.facts.from_cache,
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
    let mut headers = answer.headers;
    // What is stale is so for all who get it, and says so to all.
    let stale = answer.from_cache == Some(Lookup::Stale);
    let lookup = if stale {
        Lookup::Stale
    } else {
        Lookup::Coalesced
    };
    tell(trip, lookup);
    if !stale {
        let name = HeaderName::from_static(CACHE_STATUS);
        let mut said: Vec<HeaderValue> = headers.get_all(&name).iter().cloned().collect();
        // The last is our own, about the other call; those before it are the server's.
        said.pop();
        headers.remove(&name);
        for value in said {
            headers.append(&name, value);
        }
        mark(
            &mut headers,
            CacheStatus::forwarded(Forward::Miss).collapsed(),
        );
    }
    Response {
        status: answer.status,
        headers,
        body: Body::whole(answer.body),
        facts: Facts {
            from_cache: Some(lookup),
            ..trip.facts()
        },
    }
}
