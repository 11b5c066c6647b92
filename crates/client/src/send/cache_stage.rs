//! Cache stage of a call.
//!
//! Before the permit, the stage serves a usable stored response. After the permit, it offers the
//! server's response to the cache. If the server fails or may not be called, it looks for a stale
//! response that is better than none. Equal concurrent calls are one call and share the server's response; a
//! substitute for it is each call's own. A redirected response is not stored: it belongs to another
//! address.
//!
//! This stage reads no file: another thread loads a response from disk, and a slow disk counts as a
//! miss.

mod explain;
mod shared_result;

pub(crate) use self::explain::explain;
pub(super) use self::shared_result::Lead;

use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode};
use outflow_core::{HealthState, Nanos, WallTime};
use secrecy::ExposeSecret;

use super::CallState;
use super::prepared::{CacheRequest, CallStart};
use crate::cache::{Cache, CacheLookup, CacheStatus, CacheableResponse, FlightKey, ForwardReason};
use crate::cache::{CacheQuery, CachedResponse, StoreDecision};
use crate::client::{ApiClient, Body, CacheDirective, Response, ResponseShape, ResponseStats, SharedCall};
use crate::error::{CacheMissCause, Error, ErrorKind};
use crate::event::{CacheLabel, EventKind};
use crate::http::AttemptFailure;
use crate::refusal::{Refusal, RefusalReason};

/// Returns a response from the cache or the server.
pub(super) async fn respond(call: &mut CallState<'_>) -> Result<Response, Error> {
    let client = call.client;
    match (&client.cache, call.request.cache_request.take()) {
        (Some(cache), Some(cache_request)) => {
            let mut stage = CacheStage {
                cache,
                client,
                cache_request,
                flight_key: None,
            };
            stage.flight_key = cache.flight_key(&stage.query());
            // On the heap: calls without a cache must not carry this future.
            Box::pin(stage.response(call)).await
        }
        _ if call.request.spec.cache == CacheDirective::Only => {
            Err(Error::new(ErrorKind::CacheMiss(CacheMissCause::Option)))
        }
        _ => call.fetch(call.started).await,
    }
}

/// Cache, and the request to it.
struct CacheStage<'a> {
    cache: &'a Cache,
    client: &'a ApiClient,
    cache_request: Box<CacheRequest>,
    /// Flight key when the call started.
    flight_key: Option<FlightKey>,
}

/// Stored response that needs revalidation.
struct StaleEntry {
    stored: CachedResponse,
    conditions: HeaderMap,
    usable_on_error: bool,
}

impl StaleEntry {
    /// Returns true if it is better than a response with this status.
    fn is_better_than(&self, status: StatusCode) -> bool {
        status.is_server_error() && self.usable_on_error
    }
}

impl CacheStage<'_> {
    async fn response(&self, call: &mut CallState<'_>) -> Result<Response, Error> {
        if call.request.spec.cache == CacheDirective::Only {
            self.load_from_disk(call.time_left()).await;
            return self
                .serve_offline(call)
                .ok_or_else(|| cache_miss(call, CacheMissCause::Option));
        }
        match self.look_up(call.time_left()).await {
            CacheLookup::Fresh(stored) => Ok(serve(call, stored, CacheLabel::Hit)),
            _ if self.query().is_only_if_cached() => Err(cache_miss(call, CacheMissCause::Directive)),
            CacheLookup::NotCacheable(_) => self.fetch_uncached(call).await,
            CacheLookup::Missing => self.fetch(call, None).await,
            CacheLookup::Stale {
                stored,
                revalidate,
                usable_on_error,
            } => {
                if self.client.upstream.is_asleep(call.request.target)
                    && let Some(response) = self.serve_offline(call)
                {
                    return Ok(response);
                }
                call.has_substitute = self.find_offline().is_some();
                let old = StaleEntry {
                    stored,
                    conditions: revalidate,
                    usable_on_error,
                };
                self.fetch(call, Some(old)).await
            }
        }
    }

    /// Loads a response that is only on disk, if the disk is fast enough. Returns true if there was
    /// one.
    async fn load_from_disk(&self, time_left: Option<Duration>) -> bool {
        let Some(entry) = self.cache.find_on_disk(&self.query()) else {
            return false;
        };
        let remaining = time_left.unwrap_or(MAX_DISK_WAIT);
        entry.load(remaining.min(MAX_DISK_WAIT)).await;
        true
    }

    /// Looks for a stored response, in memory and then on disk.
    async fn look_up(&self, time_left: Option<Duration>) -> CacheLookup {
        let lookup = || self.cache.lookup_in_memory(&self.query(), self.wall_now());
        match lookup() {
            CacheLookup::Missing if self.load_from_disk(time_left).await => lookup(),
            found => found,
        }
    }

    /// Fetches the response in the shape that the caller wants.
    async fn fetch(&self, call: &mut CallState<'_>, old: Option<StaleEntry>) -> Result<Response, Error> {
        match call.shape {
            ResponseShape::Buffered => self.fetch_shared(call, old).await,
            ResponseShape::Streaming => self.fetch_streamed(call, old).await,
        }
    }

    /// Fetches a streamed response: it is neither stored nor shared, and so sent without
    /// conditions.
    async fn fetch_streamed(&self, call: &mut CallState<'_>, old: Option<StaleEntry>) -> Result<Response, Error> {
        let result = call.fetch(self.now()).await;
        if let Some(response) = self.serve_asleep(call, &result) {
            return Ok(response);
        }
        match (result, old) {
            (Ok(response), Some(old)) if old.is_better_than(response.status) => {
                Ok(serve(call, old.stored, CacheLabel::Stale))
            }
            (Ok(mut response), old) => {
                emit_lookup(call, CacheLabel::Miss);
                let status = CacheStatus::forwarded(forward_reason(old.as_ref()));
                let code = response.status.as_u16();
                append_status(&mut response.headers, status.with_status(code));
                Ok(response)
            }
            (Err(error), old) => self.substitute(call, error, old),
        }
    }

    /// Fetches a response outside the cache, which may still invalidate stored ones.
    async fn fetch_uncached(&self, call: &mut CallState<'_>) -> Result<Response, Error> {
        let response = call.fetch(self.now()).await?;
        let query = self.query();
        self.cache.invalidate(&query, response.status, &response.headers);
        Ok(response)
    }

    /// Fetches unless an equal call in flight does.
    async fn fetch_shared(&self, call: &mut CallState<'_>, old: Option<StaleEntry>) -> Result<Response, Error> {
        if let Some(key) = self.flight_key {
            match shared_result::join(call, key).await {
                Ok(None) => {}
                Ok(Some(Ok(response))) => return Ok(stale_response(call, response, old)),
                Ok(Some(Err(kind))) => return self.substitute(call, Error::new(kind), old),
                Err(error) => return self.substitute(call, error, old),
            }
        }
        let result = self.fetch_and_store(call, old.as_ref()).await;
        let may_share = |response: &Response| self.cache.may_share(&self.query(), &response.headers, self.wall_now());
        shared_result::share(call, &result, may_share);
        if let Some(response) = self.serve_asleep(call, &result) {
            return Ok(response);
        }
        match (result, old) {
            (Ok(response), Some(old)) if old.is_better_than(response.status) => {
                Ok(serve(call, old.stored, CacheLabel::Stale))
            }
            (Ok(response), _) => {
                emit_lookup(call, response.stats.from_cache.unwrap_or(CacheLabel::Miss));
                Ok(response)
            }
            (Err(error), old) => self.substitute(call, error, old),
        }
    }

    /// Fetches from the server, stores the response, or returns the stored one if the server
    /// confirms it.
    async fn fetch_and_store(&self, call: &mut CallState<'_>, old: Option<&StaleEntry>) -> Result<Response, Error> {
        let start = call.request.start();
        if let Some(old) = old {
            call.request.spec.headers.extend(old.conditions.clone());
        }
        let response = call.fetch(self.now()).await?;
        match old {
            Some(old) if response.status == StatusCode::NOT_MODIFIED => match self.confirm(call, &response, old) {
                Some(stored) => Ok(to_response(call, stored, CacheLabel::Revalidated)),
                None => self.fetch_again(call, start, old).await,
            },
            _ => Ok(self.store(call, response, old)),
        }
    }

    /// Returns the stored response if the 304 is about it. After a redirect, another address
    /// responds, perhaps for another origin: it confirms nothing.
    fn confirm(&self, call: &CallState<'_>, response: &Response, old: &StaleEntry) -> Option<CachedResponse> {
        if call.stats.hops > 0 || self.is_overtaken() {
            return None;
        }
        let offer = cacheable(call, response);
        self.cache
            .revalidate(&self.query(), &old.stored, &offer, self.wall_now())
    }

    /// Fetches without conditions from the original address: the headers there must not reach
    /// another origin. A 304 would then be a response to no request of this caller.
    async fn fetch_again(
        &self,
        call: &mut CallState<'_>,
        start: CallStart,
        old: &StaleEntry,
    ) -> Result<Response, Error> {
        call.request.restart(start);
        call.stats.hops = 0;
        let response = call.fetch(self.now()).await?;
        if response.status == StatusCode::NOT_MODIFIED {
            let failure = AttemptFailure::invalid_response("the server responded 304 to a request without a condition");
            return Err(Error::from_failure(failure));
        }
        Ok(self.store(call, response, Some(old)))
    }

    /// Offers the server's response to the cache, unless the stored one is better.
    fn store(&self, call: &CallState<'_>, mut response: Response, old: Option<&StaleEntry>) -> Response {
        let mut status = CacheStatus::forwarded(forward_reason(old)).with_status(response.status.as_u16());
        let is_worse = old.is_some_and(|old| old.is_better_than(response.status));
        if call.stats.hops == 0 && !is_worse && !self.is_overtaken() {
            if response.body.buffered().is_none() {
                self.cache.outdate(&self.query(), response.status);
            } else if self
                .cache
                .offer(&self.query(), cacheable(call, &response), self.wall_now())
                == StoreDecision::Stored
            {
                status = status.stored();
            }
        }
        append_status(&mut response.headers, status);
        response
    }

    /// Returns a substitute for a failed response.
    fn substitute(&self, call: &CallState<'_>, error: Error, old: Option<StaleEntry>) -> Result<Response, Error> {
        if let Some(refusal) = error.refusal().filter(|refusal| is_asleep(refusal)) {
            match self.serve_offline(call) {
                Some(response) => return Ok(response),
                None if is_cache_only(refusal) => {
                    return Err(cache_miss(call, CacheMissCause::Refused(refusal.clone())));
                }
                None => {}
            }
        }
        match old {
            Some(old) if old.usable_on_error => Ok(serve(call, old.stored, CacheLabel::Stale)),
            _ => Err(error),
        }
    }

    /// Returns the stored response that may be served while nothing may be sent, however stale.
    fn serve_offline(&self, call: &CallState<'_>) -> Option<Response> {
        let stored = self.find_offline()?;
        let lookup = label(&stored);
        Some(serve(call, stored, lookup))
    }

    fn find_offline(&self) -> Option<CachedResponse> {
        self.cache.lookup_any_in_memory(&self.query(), self.wall_now())
    }

    /// Returns the stored response for a call that failed while the API fell asleep.
    fn serve_asleep(&self, call: &CallState<'_>, result: &Result<Response, Error>) -> Option<Response> {
        let status = result.as_ref().ok().map(|response| response.status);
        let has_failed =
            status.is_none_or(|status| status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS);
        if !has_failed || !call.yields_to_cache() {
            return None;
        }
        self.serve_offline(call)
    }

    /// Returns true if a write happened since the call started: the response may be older than
    /// that.
    fn is_overtaken(&self) -> bool {
        self.cache.flight_key(&self.query()) != self.flight_key
    }

    fn query(&self) -> CacheQuery<'_> {
        let credential = self.client.api.credential.as_ref();
        CacheQuery {
            api: &self.client.api.name,
            method: &self.cache_request.method,
            uri: &self.cache_request.uri,
            headers: &self.cache_request.headers,
            credential: credential.map(|key| key.secret.expose_secret().as_bytes()),
            mode: self.client.api.cache,
        }
    }

    fn now(&self) -> Nanos {
        self.client.upstream.now()
    }

    fn wall_now(&self) -> WallTime {
        self.client.upstream.timer().wall()
    }
}

/// Returns true if the upstream lets nothing go: a stored response is better than the refusal.
fn is_asleep(refusal: &Refusal) -> bool {
    let cause = refusal.reason.state_cause();
    cause.is_some_and(|cause| matches!(cause.state, HealthState::Sleep | HealthState::CacheOnly))
}

/// Returns true if the upstream is blocked without a known end: only the cache answers for the API.
fn is_cache_only(refusal: &Refusal) -> bool {
    match &refusal.reason {
        RefusalReason::Blocked(cause) => {
            let is_endless = cause.state == HealthState::Sleep && refusal.retry_after.is_none();
            cause.state == HealthState::CacheOnly || is_endless
        }
        _ => false,
    }
}

/// Returns the label of a stored response that is served.
fn label(stored: &CachedResponse) -> CacheLabel {
    if stored.is_stale() {
        CacheLabel::Stale
    } else {
        CacheLabel::Hit
    }
}

/// Returns the reason to ask the server.
fn forward_reason(old: Option<&StaleEntry>) -> ForwardReason {
    old.map_or(ForwardReason::Miss, |_| ForwardReason::Stale)
}

/// Reports a miss where nothing may be sent.
fn cache_miss(call: &CallState<'_>, cause: CacheMissCause) -> Error {
    emit_lookup(call, CacheLabel::Miss);
    Error::new(ErrorKind::CacheMiss(cause))
}

fn cacheable<'a>(call: &CallState<'_>, response: &'a Response) -> CacheableResponse<'a> {
    CacheableResponse {
        status: response.status,
        headers: &response.headers,
        body: response.body.buffered().cloned().unwrap_or_default(),
        delay: call.client.upstream.now().since(call.stats.sent),
    }
}

/// Returns the response of an equal call, or a better stale one.
fn stale_response(call: &CallState<'_>, response: SharedCall, old: Option<StaleEntry>) -> Response {
    match old {
        Some(old) if old.is_better_than(response.status) => serve(call, old.stored, CacheLabel::Stale),
        _ => shared_result::respond_shared(call, response),
    }
}

/// Serves a stored response and reports it.
fn serve(call: &CallState<'_>, stored: CachedResponse, lookup: CacheLabel) -> Response {
    emit_lookup(call, lookup);
    to_response(call, stored, lookup)
}

/// Converts a stored response for the caller.
fn to_response(call: &CallState<'_>, stored: CachedResponse, lookup: CacheLabel) -> Response {
    let status = stored.cache_status();
    let mut headers = stored.headers;
    append_status(&mut headers, status);
    Response {
        status: stored.status,
        headers,
        body: Body::full(stored.body),
        stats: ResponseStats {
            from_cache: Some(lookup),
            ..call.response_stats()
        },
    }
}

fn append_status(headers: &mut HeaderMap, status: CacheStatus) {
    let value: HeaderValue = status.header_value();
    headers.append(CACHE_STATUS, value);
}

fn emit_lookup(call: &CallState<'_>, lookup: CacheLabel) {
    call.emit(|| EventKind::Cache { lookup });
}

const CACHE_STATUS: &str = "cache-status";

/// A disk that needs longer for a few kilobytes is no help: the server is asked instead.
const MAX_DISK_WAIT: Duration = Duration::from_secs(1);
