//! Short notation for a request and a response. All times are seconds after one instant.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use outflow::CacheMode;
use outflow::cache::{Cache, CacheLookup, CacheQuery, CacheSettings, CacheableResponse, CachedResponse, StoreDecision};
use outflow::core::WallTime;

/// Returns Tue, 14 Nov 2023 22:13:20 GMT plus this many seconds.
pub(crate) fn at(secs: u64) -> WallTime {
    WallTime::from_unix_secs(1_700_000_000 + secs)
}

/// A request that the cache can borrow.
#[derive(Clone)]
pub(crate) struct TestRequest {
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    pub credential: Option<&'static [u8]>,
    pub mode: CacheMode,
}

impl TestRequest {
    /// Builds a GET with a key.
    pub(crate) fn get(uri: &str) -> Self {
        Self {
            method: Method::GET,
            uri: uri.parse().expect("a URI"),
            headers: HeaderMap::new(),
            credential: Some(b"the-key-of-alice"),
            mode: CacheMode::Standard,
        }
    }

    /// Builds the default request.
    pub(crate) fn page() -> Self {
        Self::get("https://api.example.com/page")
    }

    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        let value = HeaderValue::from_str(value).expect("a value");
        self.headers.append(HeaderName::from_static(name), value);
        self
    }

    pub(crate) fn with_credential(self, credential: Option<&'static [u8]>) -> Self {
        Self { credential, ..self }
    }

    pub(crate) fn method(self, method: Method) -> Self {
        Self { method, ..self }
    }

    pub(crate) fn mode(self, mode: CacheMode) -> Self {
        Self { mode, ..self }
    }

    pub(crate) fn query(&self) -> CacheQuery<'_> {
        CacheQuery {
            api: "example",
            method: &self.method,
            uri: &self.uri,
            headers: &self.headers,
            credential: self.credential,
            mode: self.mode,
        }
    }
}

/// Parses headers from `name: value` lines.
pub(crate) fn headers_from(lines: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').expect("a colon");
        let name: HeaderName = name.parse().expect("a name");
        headers.append(name, value.trim().parse().expect("a value"));
    }
    headers
}

pub(crate) fn response<'a>(status: u16, headers: &'a HeaderMap, body: &'static str) -> CacheableResponse<'a> {
    CacheableResponse {
        status: StatusCode::from_u16(status).expect("a status"),
        headers,
        body: Bytes::from_static(body.as_bytes()),
        delay: Duration::ZERO,
    }
}

/// Opens a cache in memory.
pub(crate) fn memory() -> Cache {
    Cache::open(CacheSettings::default()).expect("a cache")
}

/// Opens a cache in a directory.
pub(crate) fn on_disk(dir: &Path) -> Cache {
    Cache::open(CacheSettings {
        dir: Some(dir.to_owned()),
        ..CacheSettings::default()
    })
    .expect("a cache")
}

/// Offers a 200 at second 0.
pub(crate) fn offer(cache: &Cache, request: &TestRequest, lines: &str, body: &'static str) -> StoreDecision {
    cache.offer(&request.query(), response(200, &headers_from(lines), body), at(0))
}

/// Returns the fresh response's body, if there is one.
pub(crate) fn fresh(cache: &Cache, request: &TestRequest, secs: u64) -> Option<Bytes> {
    match cache.lookup(&request.query(), at(secs)) {
        CacheLookup::Fresh(stored) => Some(stored.body),
        _ => None,
    }
}

/// Returns the stale response, its validators, and true if it may serve an error.
pub(crate) fn stale(cache: &Cache, request: &TestRequest, secs: u64) -> Option<(CachedResponse, HeaderMap, bool)> {
    match cache.lookup(&request.query(), at(secs)) {
        CacheLookup::Stale {
            stored,
            revalidate,
            usable_on_error,
        } => Some((stored, revalidate, usable_on_error)),
        _ => None,
    }
}

/// Names the lookup's result.
pub(crate) fn lookup(cache: &Cache, request: &TestRequest, secs: u64) -> &'static str {
    match cache.lookup(&request.query(), at(secs)) {
        CacheLookup::Fresh(_) => "fresh",
        CacheLookup::Stale { .. } => "stale",
        CacheLookup::Missing => "missing",
        CacheLookup::NotCacheable(_) => "not cacheable",
    }
}
