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

mod shared_result;

pub(super) use self::shared_result::Lead;

use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode};
use outflow_core::{HealthState, Nanos, WallTime};
use secrecy::ExposeSecret;

use super::CallState;
use super::prepared::{CacheRequest, CallStart};
use crate::cache::{Cache, CacheLookup, CacheStatus, CacheableResponse, FlightKey, ForwardReason};
use crate::cache::{CacheQuery, CachedResponse, StoreDecision};
use crate::client::{
    ApiClient, Body, CacheDirective, Response, ResponseShape, ResponseStats, SharedCall,
};
use crate::error::{Error, ErrorKind};
use crate::event::{CacheLabel, EventKind};
use crate::refusal::RefusalReason;

/// An answer from the cache, or from the server.
pub(super) async fn answered_or_fetched(trip: &mut CallState<'_>) -> Result<Response, Error> {
    let outlet = trip.outlet;
    match (&outlet.cache, trip.order.asked.take()) {
        (Some(cache), Some(asked)) => {
            let mut desk = CacheStage {
                cache,
                outlet,
                asked,
                began: None,
            };
            desk.began = cache.flight_key(&desk.query());
            // On the heap: those who have no cache would carry the whole of it along.
            Box::pin(desk.answer(trip)).await
        }
        _ if trip.order.wish.cache == CacheDirective::Only => Err(Error::new(ErrorKind::CacheMiss)),
        _ => trip.fetched(trip.begun).await,
    }
}

/// The cache, and what is asked of it.
struct CacheStage<'a> {
    cache: &'a Cache,
    outlet: &'a ApiClient,
    asked: Box<CacheRequest>,
    /// What the call had in common with its equals when it began.
    began: Option<FlightKey>,
}

/// What the cache had, and may not give unasked.
struct StaleEntry {
    stored: CachedResponse,
    conditions: HeaderMap,
    usable_on_error: bool,
}

impl StaleEntry {
    /// Whether it is better than an answer with this status.
    fn beats(&self, status: StatusCode) -> bool {
        status.is_server_error() && self.usable_on_error
    }
}

impl CacheStage<'_> {
    async fn answer(&self, trip: &mut CallState<'_>) -> Result<Response, Error> {
        if trip.order.wish.cache == CacheDirective::Only {
            self.warmed(trip).await;
            return self.whatever(trip);
        }
        let look = || self.cache.lookup_in_memory(&self.query(), self.wall());
        let found = match look() {
            CacheLookup::Missing if self.warmed(trip).await => look(),
            found => found,
        };
        match found {
            CacheLookup::Fresh(stored) => Ok(given(trip, stored, CacheLabel::Hit)),
            _ if self.query().is_only_if_cached() => Err(missed(trip)),
            CacheLookup::NotCacheable(_) => self.passed(trip).await,
            CacheLookup::Missing => self.fetch(trip, None).await,
            CacheLookup::Stale {
                stored,
                revalidate,
                usable_on_error,
            } => {
                let old = StaleEntry {
                    stored,
                    conditions: revalidate,
                    usable_on_error,
                };
                self.fetch(trip, Some(old)).await
            }
        }
    }

    /// Brings what is kept on disk alone into memory, if the disk is in time. Says whether there was
    /// something to bring.
    async fn warmed(&self, trip: &CallState<'_>) -> bool {
        let Some(cold) = self.cache.cold(&self.query()) else {
            return false;
        };
        let left = trip.time_left().unwrap_or(SLOWEST_DISK);
        cold.load(left.min(SLOWEST_DISK)).await;
        true
    }

    /// Asks the server, in the shape that the caller wants.
    async fn fetch(
        &self,
        trip: &mut CallState<'_>,
        old: Option<StaleEntry>,
    ) -> Result<Response, Error> {
        match trip.shape {
            ResponseShape::Whole => self.together(trip, old).await,
            ResponseShape::Flowing => self.flowed(trip, old).await,
        }
    }

    /// Fetches what flows by: it is neither kept nor shared, and so not asked about with conditions.
    async fn flowed(
        &self,
        trip: &mut CallState<'_>,
        old: Option<StaleEntry>,
    ) -> Result<Response, Error> {
        match (trip.fetched(self.now()).await, old) {
            (Ok(answer), Some(old)) if old.beats(answer.status) => {
                Ok(given(trip, old.stored, CacheLabel::Stale))
            }
            (Ok(mut answer), old) => {
                emit_lookup(trip, CacheLabel::Miss);
                let status = CacheStatus::forwarded(why(old.as_ref()));
                let code = answer.status.as_u16();
                mark(&mut answer.headers, status.answered(code));
                Ok(answer)
            }
            (Err(error), old) => self.instead(trip, error, old),
        }
    }

    /// Fetches what the cache has no part in, but may learn from: a write makes answers obsolete.
    async fn passed(&self, trip: &mut CallState<'_>) -> Result<Response, Error> {
        let answer = trip.fetched(self.now()).await?;
        let query = self.query();
        self.cache
            .invalidate(&query, answer.status, &answer.headers);
        Ok(answer)
    }

    /// Fetches, unless an equal call already does.
    async fn together(
        &self,
        trip: &mut CallState<'_>,
        old: Option<StaleEntry>,
    ) -> Result<Response, Error> {
        if let Some(key) = self.began {
            match shared_result::joined(trip, key).await {
                Ok(None) => {}
                Ok(Some(Ok(answer))) => return Ok(stale_response(trip, answer, old)),
                Ok(Some(Err(kind))) => return self.instead(trip, Error::new(kind), old),
                Err(late) => return self.instead(trip, late, old),
            }
        }
        let ended = self.fetched(trip, old.as_ref()).await;
        let may = |answer: &Response| self.cache.may_share(&self.query(), &answer.headers);
        shared_result::landed(trip, &ended, may);
        match (ended, old) {
            (Ok(answer), Some(old)) if old.beats(answer.status) => {
                Ok(given(trip, old.stored, CacheLabel::Stale))
            }
            (Ok(answer), _) => {
                emit_lookup(trip, answer.facts.from_cache.unwrap_or(CacheLabel::Miss));
                Ok(answer)
            }
            (Err(error), old) => self.instead(trip, error, old),
        }
    }

    /// What the server says, kept if it may be, and with the kept answer if it confirms that.
    async fn fetched(
        &self,
        trip: &mut CallState<'_>,
        old: Option<&StaleEntry>,
    ) -> Result<Response, Error> {
        let start = trip.order.start();
        if let Some(old) = old {
            trip.order.wish.headers.extend(old.conditions.clone());
        }
        let answer = trip.fetched(self.now()).await?;
        match old {
            Some(old) if answer.status == StatusCode::NOT_MODIFIED => {
                match self.confirmed(trip, &answer, old) {
                    Some(stored) => Ok(as_given(trip, stored, CacheLabel::Revalidated)),
                    None => self.revalidate(trip, start, old).await,
                }
            }
            _ => Ok(self.store(trip, answer, old)),
        }
    }

    /// The kept answer, if the server's "nothing has changed" is about it. Who was asked after a
    /// redirect speaks of another address, and perhaps for another origin: it confirms nothing.
    fn confirmed(
        &self,
        trip: &CallState<'_>,
        answer: &Response,
        old: &StaleEntry,
    ) -> Option<CachedResponse> {
        if trip.tally.hops > 0 || self.is_overtaken() {
            return None;
        }
        let said = offered(trip, answer);
        self.cache
            .revalidated(&self.query(), &old.stored, &said, self.wall())
    }

    /// Asks without conditions, and from where the call began: headers that another origin must not
    /// see were put there for the first address and for no other.
    async fn revalidate(
        &self,
        trip: &mut CallState<'_>,
        start: CallStart,
        old: &StaleEntry,
    ) -> Result<Response, Error> {
        trip.order.return_to(start);
        trip.tally.hops = 0;
        let answer = trip.fetched(self.now()).await?;
        Ok(self.store(trip, answer, Some(old)))
    }

    /// Offers the cache what the server said, unless that is worse than what it has.
    fn store(
        &self,
        trip: &CallState<'_>,
        mut answer: Response,
        old: Option<&StaleEntry>,
    ) -> Response {
        let mut status = CacheStatus::forwarded(why(old)).answered(answer.status.as_u16());
        let worse = old.is_some_and(|old| old.beats(answer.status));
        if trip.tally.hops == 0 && !worse && !self.is_overtaken() {
            let said = offered(trip, &answer);
            if self.cache.offer(&self.query(), said, self.wall()) == StoreDecision::Stored {
                status = status.stored();
            }
        }
        mark(&mut answer.headers, status);
        answer
    }

    /// What is given where the server gave nothing.
    fn instead(
        &self,
        trip: &CallState<'_>,
        error: Error,
        old: Option<StaleEntry>,
    ) -> Result<Response, Error> {
        if leaves_all_to_the_cache(&error) {
            return self.whatever(trip);
        }
        match old {
            Some(old) if old.usable_on_error => Ok(given(trip, old.stored, CacheLabel::Stale)),
            _ => Err(error),
        }
    }

    /// The kept answer however stale it is; a clear error if there is none.
    fn whatever(&self, trip: &CallState<'_>) -> Result<Response, Error> {
        let Some(stored) = self.cache.any_in_memory(&self.query(), self.wall()) else {
            return Err(missed(trip));
        };
        let stale = stored.is_stale();
        let lookup = if stale {
            CacheLabel::Stale
        } else {
            CacheLabel::Hit
        };
        Ok(given(trip, stored, lookup))
    }

    /// Whether something was written there since the call began: its answer may be from before that.
    fn is_overtaken(&self) -> bool {
        self.cache.flight_key(&self.query()) != self.began
    }

    fn query(&self) -> CacheQuery<'_> {
        let credential = self.outlet.api.credential.as_ref();
        CacheQuery {
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
        RefusalReason::Blocked { state } => {
            state == HealthState::CacheOnly
                || (state == HealthState::Sleep && refusal.retry_after.is_none())
        }
        _ => false,
    })
}

/// Why the server was asked.
fn why(old: Option<&StaleEntry>) -> ForwardReason {
    old.map_or(ForwardReason::Miss, |_| ForwardReason::Stale)
}

/// Nothing is kept that may be given, and nothing may be sent.
fn missed(trip: &CallState<'_>) -> Error {
    emit_lookup(trip, CacheLabel::Miss);
    Error::new(ErrorKind::CacheMiss)
}

fn offered<'a>(trip: &CallState<'_>, answer: &'a Response) -> CacheableResponse<'a> {
    CacheableResponse {
        status: answer.status,
        headers: &answer.headers,
        body: answer.body.here().cloned().unwrap_or_default(),
        delay: trip.outlet.upstream.now().since(trip.tally.sent),
    }
}

/// The answer to an equal call, or what is better than it.
fn stale_response(trip: &CallState<'_>, answer: SharedCall, old: Option<StaleEntry>) -> Response {
    match old {
        Some(old) if old.beats(answer.status) => given(trip, old.stored, CacheLabel::Stale),
        _ => shared_result::shared(trip, answer),
    }
}

/// A kept answer as the caller gets it, told.
fn given(trip: &CallState<'_>, stored: CachedResponse, lookup: CacheLabel) -> Response {
    emit_lookup(trip, lookup);
    as_given(trip, stored, lookup)
}

/// A kept answer as the caller gets it.
fn as_given(trip: &CallState<'_>, stored: CachedResponse, lookup: CacheLabel) -> Response {
    let status = stored.cache_status();
    let (parts, body) = stored.into_response().into_parts();
    let mut headers = parts.headers;
    mark(&mut headers, status);
    Response {
        status: parts.status,
        headers,
        body: Body::full(body),
        facts: ResponseStats {
            from_cache: Some(lookup),
            ..trip.facts()
        },
    }
}

fn mark(headers: &mut HeaderMap, status: CacheStatus) {
    let value: HeaderValue = status.header_value();
    headers.append(CACHE_STATUS, value);
}

fn emit_lookup(trip: &CallState<'_>, lookup: CacheLabel) {
    trip.emit(|| EventKind::Cache { lookup });
}

const CACHE_STATUS: &str = "cache-status";

/// A disk that takes longer for a few kilobytes is no help: the server is asked instead.
const SLOWEST_DISK: Duration = Duration::from_secs(1);
