//! What the cache answers.
//!
//! Each answer says why, and how old what it gives is; a stale answer is never given unmarked.

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

/// What the cache has for a request.
#[derive(Clone, Debug)]
pub enum CacheLookup {
    /// An answer that may be given at once.
    Fresh(CachedResponse),
    /// An answer that the server must confirm.
    Stale {
        /// The answer.
        stored: CachedResponse,
        /// The headers to ask with; empty if nothing tells whether it is still the same.
        revalidate: HeaderMap,
        /// Whether it may be given if the server fails.
        usable_on_error: bool,
    },
    /// Nothing.
    Missing,
    /// Nothing, and the answer will not be kept either.
    NotCacheable(BypassReason),
}

impl CacheLookup {
    /// What `Cache-Status` says of it.
    pub fn cache_status(&self) -> CacheStatus {
        match self {
            Self::Fresh(stored) => stored.cache_status(),
            Self::Stale { .. } => CacheStatus::forwarded(ForwardReason::Stale),
            Self::Missing => CacheStatus::forwarded(ForwardReason::Miss),
            Self::NotCacheable(BypassReason::Off) => CacheStatus::forwarded(ForwardReason::Bypass),
            Self::NotCacheable(BypassReason::Method) => {
                CacheStatus::forwarded(ForwardReason::Method)
            }
            Self::NotCacheable(BypassReason::Request) => {
                CacheStatus::forwarded(ForwardReason::Request)
            }
        }
    }
}

/// A kept answer, as of the moment it was looked up.
#[derive(Clone)]
pub struct CachedResponse {
    /// Its status.
    pub status: StatusCode,
    /// Its headers, with its `ConnectionAge`.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
    /// How long ago the server made it.
    pub age: Duration,
    /// How long it stays fresh, or how long it has not been.
    pub freshness: Freshness,
    pub(super) entry: Arc<CacheEntry>,
}

impl CachedResponse {
    /// The answer to this request, as of now.
    pub(super) fn new(query: &CacheQuery<'_>, entry: &Arc<CacheEntry>, now: WallTime) -> Self {
        Self::judged(entry, &FreshnessCheck::new(query, entry), now)
    }

    /// An answer that was judged already.
    pub(super) fn judged(
        entry: &Arc<CacheEntry>,
        judgement: &FreshnessCheck<'_>,
        now: WallTime,
    ) -> Self {
        let age = entry.age(now).unwrap_or(entry.initial_age);
        let mut headers = entry.headers.clone();
        headers.insert(header::AGE, HeaderValue::from(age.as_secs()));
        Self {
            status: entry.status,
            headers,
            body: entry.body.clone(),
            age,
            freshness: judgement.freshness(now),
            entry: Arc::clone(entry),
        }
    }

    /// Whether it is stale, and only given because nothing better was to be had.
    pub fn is_stale(&self) -> bool {
        matches!(self.freshness, Freshness::GoneFor(_))
    }

    /// What `Cache-Status` says if it is given: a hit, with what is left of its time, less than
    /// nothing if it is stale.
    pub fn cache_status(&self) -> CacheStatus {
        CacheStatus::hit(self.freshness)
    }

    /// The answer as one that can be given.
    pub fn into_response(self) -> Response<Bytes> {
        let mut response = Response::new(self.body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

/// Shows no header and no body: they are the caller's.
impl fmt::Debug for CachedResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stored")
            .field("status", &self.status)
            .field("bytes", &self.body.len())
            .field("age", &self.age)
            .field("freshness", &self.freshness)
            .finish_non_exhaustive()
    }
}

/// A complete answer of the server, offered for keeping.
#[derive(Clone)]
pub struct CacheableResponse<'a> {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: &'a HeaderMap,
    /// Its whole body.
    pub body: Bytes,
    /// How long it was waited for; it may be so much older than it says.
    pub delay: Duration,
}

/// What became of an offered answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreDecision {
    /// It is kept.
    Stored,
    /// It is not.
    Not(NotStored),
}

/// Why an answer is not kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NotStored {
    /// The request was not one for the cache.
    Bypassed(BypassReason),
    /// Its status is not one that is kept.
    Status,
    /// It sets a cookie, which is meant for one caller, once.
    SetCookie,
    /// It says so, or does not say that it may be.
    Forbidden,
    /// It depends on more than the request says.
    VaryAny,
    /// Its body is not as long as it says.
    Incomplete,
    /// It is larger than a sixteenth of the cache, or than 8 MiB.
    TooLarge,
    /// It repeats a secret of the request.
    RepeatsSecret,
}
