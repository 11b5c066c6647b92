//! Results of the cache.
//!
//! Each result gives its reason and the age of the response; a stale response is never served
//! unmarked.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use outflow_core::WallTime;

use super::cache_status::{CacheStatus, ForwardReason};
use super::entry::CacheEntry;
use super::freshness::{Freshness, FreshnessCheck};
use super::query::{BypassReason, CacheQuery};

/// Result of a lookup.
#[derive(Clone, Debug)]
pub enum CacheLookup {
    /// Response that may be served at once.
    Fresh(CachedResponse),
    /// Response that the server must confirm.
    Stale {
        /// The response.
        stored: CachedResponse,
        /// Headers of the conditional request; empty without a validator.
        revalidate: HeaderMap,
        /// True if it may be served while the server fails.
        usable_on_error: bool,
    },
    /// No stored response.
    Missing,
    /// No stored response, and the new one will not be stored either.
    NotCacheable(BypassReason),
}

impl CacheLookup {
    /// Returns the `Cache-Status` of the result.
    pub fn cache_status(&self) -> CacheStatus {
        match self {
            Self::Fresh(stored) => stored.cache_status(),
            Self::Stale { .. } => CacheStatus::forwarded(ForwardReason::Stale),
            Self::Missing => CacheStatus::forwarded(ForwardReason::Miss),
            Self::NotCacheable(BypassReason::Off) => CacheStatus::forwarded(ForwardReason::Bypass),
            Self::NotCacheable(BypassReason::Method) => CacheStatus::forwarded(ForwardReason::Method),
            Self::NotCacheable(BypassReason::Request) => CacheStatus::forwarded(ForwardReason::Request),
        }
    }
}

/// Stored response as of its lookup.
#[derive(Clone)]
pub struct CachedResponse {
    /// Status.
    pub status: StatusCode,
    /// Headers, with `Age`.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
    /// Time since the server created it.
    pub age: Duration,
    /// Remaining freshness, or time since it ended.
    pub freshness: Freshness,
    pub(super) entry: Arc<CacheEntry>,
}

impl CachedResponse {
    /// Returns a stored response for this request as of now.
    pub(super) fn new(query: &CacheQuery<'_>, entry: &Arc<CacheEntry>, now: WallTime) -> Self {
        Self::from_check(entry, &FreshnessCheck::new(query, entry), now)
    }

    /// Returns a stored response with a finished check.
    pub(super) fn from_check(entry: &Arc<CacheEntry>, check: &FreshnessCheck<'_>, now: WallTime) -> Self {
        let age = entry.age(now).unwrap_or(entry.initial_age);
        let mut headers = entry.headers.clone();
        headers.insert(header::AGE, HeaderValue::from(age.as_secs()));
        Self {
            status: entry.status,
            headers,
            body: entry.body.clone(),
            age,
            freshness: check.freshness(now),
            entry: Arc::clone(entry),
        }
    }

    /// Returns true if it is stale and served for want of a better one.
    pub fn is_stale(&self) -> bool {
        matches!(self.freshness, Freshness::StaleFor(_))
    }

    /// Returns the `Cache-Status` of serving it: a hit with the remaining lifetime, negative if
    /// stale.
    pub fn cache_status(&self) -> CacheStatus {
        CacheStatus::hit(self.freshness)
    }

    /// Converts it to a response.
    pub fn into_response(self) -> Response<Bytes> {
        let mut response = Response::new(self.body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

/// Hides headers and body, which are the caller's.
impl fmt::Debug for CachedResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedResponse")
            .field("status", &self.status)
            .field("bytes", &self.body.len())
            .field("age", &self.age)
            .field("freshness", &self.freshness)
            .finish_non_exhaustive()
    }
}

/// Complete response of the server, offered to the cache.
#[derive(Clone)]
pub struct CacheableResponse<'a> {
    /// Status.
    pub status: StatusCode,
    /// Headers.
    pub headers: &'a HeaderMap,
    /// Complete body.
    pub body: Bytes,
    /// Time between request and response; the response may be older by this.
    pub delay: Duration,
}

/// Result of an offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreDecision {
    /// The response is stored.
    Stored,
    /// The response is not stored.
    Not(NotStored),
}

/// Reason for not storing a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NotStored {
    /// The request bypasses the cache.
    Bypassed(BypassReason),
    /// The status is not storable.
    Status,
    /// It sets a cookie, which is meant for one caller.
    SetCookie,
    /// The response forbids it or does not allow it.
    Forbidden,
    /// It depends on more than the request.
    VaryAny,
    /// The body does not have the stated length.
    Incomplete,
    /// It exceeds a sixteenth of the cache, or 8 MiB.
    TooLarge,
    /// It repeats a secret of the request.
    RepeatsSecret,
}
