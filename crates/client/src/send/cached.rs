//! Where the cache stands on the way of a call.
//!
//! Before the door: what it has and may give is given, and no permit is taken. Behind it: what the
//! server says is offered to it, and where the server says nothing it is asked once more, for an
//! answer that is stale but better than none. Equal calls at one time are one call, and share what the
//! server said; what is given in its place is each call's own affair. An answer that was redirected is
//! not kept: it belongs to another address than the one that was asked for.
//!
//! No file is read here: what is only on disk is brought into memory elsewhere, and a disk that takes
//! too long has nothing.

mod share;

pub(super) use self::share::Lead;

use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode};
use outflow_core::{Nanos, State, WallTime};
use secrecy::ExposeSecret;

use super::Trip;
use super::order::{Asked, Start};
use crate::cache::{Answer, Cache, CacheStatus, FlightKey, Forward, Found};
use crate::cache::{Kept, Query, Stored};
use crate::client::{Body, CacheUse, Facts, Outlet, Response, Shape, Shared};
use crate::error::{Error, Kind};
use crate::event::{Lookup, What};
use crate::refusal::Cause;

/// An answer from the cache, or from the server.
pub(super) async fn answered_or_fetched(trip: &mut Trip<'_>) -> Result<Response, Error> {
    let outlet = trip.outlet;
    match (&outlet.cache, trip.order.asked.take()) {
        (Some(cache), Some(asked)) => {
            let mut desk = Desk {
                cache,
                outlet,
                asked,
                began: None,
            };
            desk.began = cache.flight_key(&desk.query());
            // On the heap: those who have no cache would carry the whole of it along.
            Box::pin(desk.answer(trip)).await
        }
        _ if trip.order.wish.cache == CacheUse::Only => Err(Error::new(Kind::CacheMiss)),
        _ => trip.fetched(trip.begun).await,
    }
}

/// The cache, and what is asked of it.
struct Desk<'a> {
    cache: &'a Cache,
    outlet: &'a Outlet,
    asked: Box<Asked>,
    /// What the call had in common with its equals when it began.
    began: Option<FlightKey>,
}

/// What the cache had, and may not give unasked.
struct Old {
    stored: Stored,
    conditions: HeaderMap,
    usable_on_error: bool,
}

impl Old {
    /// Whether it is better than an answer with this status.
    fn beats(&self, status: StatusCode) -> bool {
        status.is_server_error() && self.usable_on_error
    }
}

impl Desk<'_> {
    async fn answer(&self, trip: &mut Trip<'_>) -> Result<Response, Error> {
        if trip.order.wish.cache == CacheUse::Only {
            self.warmed(trip).await;
            return self.whatever(trip);
        }
        let look = || self.cache.lookup_in_memory(&self.query(), self.wall());
        let found = match look() {
            Found::Missing if self.warmed(trip).await => look(),
            found => found,
        };
        match found {
            Found::Fresh(stored) => Ok(given(trip, stored, Lookup::Hit)),
            _ if self.query().is_only_if_cached() => Err(missed(trip)),
            Found::NotCacheable(_) => self.passed(trip).await,
            Found::Missing => self.asked(trip, None).await,
            Found::Stale {
                stored,
                revalidate,
                usable_on_error,
            } => {
                let old = Old {
                    stored,
                    conditions: revalidate,
                    usable_on_error,
                };
                self.asked(trip, Some(old)).await
            }
        }
    }

    /// Brings what is kept on disk alone into memory, if the disk is in time. Says whether there was
    /// something to bring.
    async fn warmed(&self, trip: &Trip<'_>) -> bool {
        let Some(cold) = self.cache.cold(&self.query()) else {
            return false;
        };
        let left = trip.time_left().unwrap_or(SLOWEST_DISK);
        cold.warm(left.min(SLOWEST_DISK)).await;
        true
    }

    /// Asks the server, in the shape that the caller wants.
    async fn asked(&self, trip: &mut Trip<'_>, old: Option<Old>) -> Result<Response, Error> {
        match trip.shape {
            Shape::Whole => self.together(trip, old).await,
            Shape::Flowing => self.flowed(trip, old).await,
        }
    }

    /// Fetches what flows by: it is neither kept nor shared, and so not asked about with conditions.
    async fn flowed(&self, trip: &mut Trip<'_>, old: Option<Old>) -> Result<Response, Error> {
        match (trip.fetched(self.now()).await, old) {
            (Ok(answer), Some(old)) if old.beats(answer.status) => {
                Ok(given(trip, old.stored, Lookup::Stale))
            }
            (Ok(mut answer), old) => {
                tell(trip, Lookup::Miss);
                let status = CacheStatus::forwarded(why(old.as_ref()));
                let code = answer.status.as_u16();
                mark(&mut answer.headers, status.answered(code));
                Ok(answer)
            }
            (Err(error), old) => self.instead(trip, error, old),
        }
    }

    /// Fetches what the cache has no part in, but may learn from: a write makes answers obsolete.
    async fn passed(&self, trip: &mut Trip<'_>) -> Result<Response, Error> {
        let answer = trip.fetched(self.now()).await?;
        let query = self.query();
        self.cache
            .invalidate(&query, answer.status, &answer.headers);
        Ok(answer)
    }

    /// Fetches, unless an equal call already does.
    async fn together(&self, trip: &mut Trip<'_>, old: Option<Old>) -> Result<Response, Error> {
        if let Some(key) = self.began {
            match share::joined(trip, key).await {
                Ok(None) => {}
                Ok(Some(Ok(answer))) => return Ok(instead_of(trip, answer, old)),
                Ok(Some(Err(kind))) => return self.instead(trip, Error::new(kind), old),
                Err(late) => return self.instead(trip, late, old),
            }
        }
        let ended = self.fetched(trip, old.as_ref()).await;
        let may = |answer: &Response| self.cache.may_share(&self.query(), &answer.headers);
        share::landed(trip, &ended, may);
        match (ended, old) {
            (Ok(answer), Some(old)) if old.beats(answer.status) => {
                Ok(given(trip, old.stored, Lookup::Stale))
            }
            (Ok(answer), _) => {
                tell(trip, answer.facts.from_cache.unwrap_or(Lookup::Miss));
                Ok(answer)
            }
            (Err(error), old) => self.instead(trip, error, old),
        }
    }

    /// What the server says, kept if it may be, and with the kept answer if it confirms that.
    async fn fetched(&self, trip: &mut Trip<'_>, old: Option<&Old>) -> Result<Response, Error> {
        let start = trip.order.start();
        if let Some(old) = old {
            trip.order.wish.headers.extend(old.conditions.clone());
        }
        let answer = trip.fetched(self.now()).await?;
        match old {
            Some(old) if answer.status == StatusCode::NOT_MODIFIED => {
                match self.confirmed(trip, &answer, old) {
                    Some(stored) => Ok(as_given(trip, stored, Lookup::Revalidated)),
                    None => self.asked_again(trip, start, old).await,
                }
            }
            _ => Ok(self.kept(trip, answer, old)),
        }
    }

    /// The kept answer, if the server's "nothing has changed" is about it. Who was asked after a
    /// redirect speaks of another address, and perhaps for another origin: it confirms nothing.
    fn confirmed(&self, trip: &Trip<'_>, answer: &Response, old: &Old) -> Option<Stored> {
        if trip.tally.hops > 0 || self.is_overtaken() {
            return None;
        }
        let said = offered(trip, answer);
        self.cache
            .revalidated(&self.query(), &old.stored, &said, self.wall())
    }

    /// Asks without conditions, and from where the call began: headers that another origin must not
    /// see were put there for the first address and for no other.
    async fn asked_again(
        &self,
        trip: &mut Trip<'_>,
        start: Start,
        old: &Old,
    ) -> Result<Response, Error> {
        trip.order.return_to(start);
        trip.tally.hops = 0;
        let answer = trip.fetched(self.now()).await?;
        Ok(self.kept(trip, answer, Some(old)))
    }

    /// Offers the cache what the server said, unless that is worse than what it has.
    fn kept(&self, trip: &Trip<'_>, mut answer: Response, old: Option<&Old>) -> Response {
        let mut status = CacheStatus::forwarded(why(old)).answered(answer.status.as_u16());
        let worse = old.is_some_and(|old| old.beats(answer.status));
        if trip.tally.hops == 0 && !worse && !self.is_overtaken() {
            let said = offered(trip, &answer);
            if self.cache.offer(&self.query(), said, self.wall()) == Kept::Stored {
                status = status.stored();
            }
        }
        mark(&mut answer.headers, status);
        answer
    }

    /// What is given where the server gave nothing.
    fn instead(&self, trip: &Trip<'_>, error: Error, old: Option<Old>) -> Result<Response, Error> {
        if leaves_all_to_the_cache(&error) {
            return self.whatever(trip);
        }
        match old {
            Some(old) if old.usable_on_error => Ok(given(trip, old.stored, Lookup::Stale)),
            _ => Err(error),
        }
    }

    /// The kept answer however stale it is; a clear error if there is none.
    fn whatever(&self, trip: &Trip<'_>) -> Result<Response, Error> {
        let Some(stored) = self.cache.any_in_memory(&self.query(), self.wall()) else {
            return Err(missed(trip));
        };
        let stale = stored.is_stale();
        let lookup = if stale { Lookup::Stale } else { Lookup::Hit };
        Ok(given(trip, stored, lookup))
    }

    /// Whether something was written there since the call began: its answer may be from before that.
    fn is_overtaken(&self) -> bool {
        self.cache.flight_key(&self.query()) != self.began
    }

    fn query(&self) -> Query<'_> {
        let credential = self.outlet.api.credential.as_ref();
        Query {
            api: &self.outlet.api.name,
            method: &self.asked.method,
            uri: &self.asked.uri,
            headers: &self.asked.headers,
            credential: credential.map(|key| key.secret.expose_secret().as_bytes()),
            mode: self.outlet.api.cache,
        }
    }

    fn now(&self) -> Nanos {
        self.outlet.upstream.now()
    }

    fn wall(&self) -> WallTime {
        self.outlet.upstream.timer().wall()
    }
}

/// Whether the door lets nothing go and nobody knows until when: then the cache answers for the API.
fn leaves_all_to_the_cache(error: &Error) -> bool {
    error.refusal().is_some_and(|refusal| match refusal.cause {
        Cause::Blocked { state } => {
            state == State::CacheOnly || (state == State::Sleep && refusal.retry_after.is_none())
        }
        _ => false,
    })
}

/// Why the server was asked.
fn why(old: Option<&Old>) -> Forward {
    old.map_or(Forward::Miss, |_| Forward::Stale)
}

/// Nothing is kept that may be given, and nothing may be sent.
fn missed(trip: &Trip<'_>) -> Error {
    tell(trip, Lookup::Miss);
    Error::new(Kind::CacheMiss)
}

fn offered<'a>(trip: &Trip<'_>, answer: &'a Response) -> Answer<'a> {
    Answer {
        status: answer.status,
        headers: &answer.headers,
        body: answer.body.here().cloned().unwrap_or_default(),
        delay: trip.outlet.upstream.now().since(trip.tally.sent),
    }
}

/// The answer to an equal call, or what is better than it.
fn instead_of(trip: &Trip<'_>, answer: Shared, old: Option<Old>) -> Response {
    match old {
        Some(old) if old.beats(answer.status) => given(trip, old.stored, Lookup::Stale),
        _ => share::shared(trip, answer),
    }
}

/// A kept answer as the caller gets it, told.
fn given(trip: &Trip<'_>, stored: Stored, lookup: Lookup) -> Response {
    tell(trip, lookup);
    as_given(trip, stored, lookup)
}

/// A kept answer as the caller gets it.
fn as_given(trip: &Trip<'_>, stored: Stored, lookup: Lookup) -> Response {
    let status = stored.cache_status();
    let (parts, body) = stored.into_response().into_parts();
    let mut headers = parts.headers;
    mark(&mut headers, status);
    Response {
        status: parts.status,
        headers,
        body: Body::whole(body),
        facts: Facts {
            from_cache: Some(lookup),
            ..trip.facts()
        },
    }
}

fn mark(headers: &mut HeaderMap, status: CacheStatus) {
    let value: HeaderValue = status.header_value();
    headers.append(CACHE_STATUS, value);
}

fn tell(trip: &Trip<'_>, lookup: Lookup) {
    trip.tell(|| What::Cache { lookup });
}

const CACHE_STATUS: &str = "cache-status";

/// A disk that takes longer for a few kilobytes is no help: the server is asked instead.
const SLOWEST_DISK: Duration = Duration::from_secs(1);
