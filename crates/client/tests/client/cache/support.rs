//! A request and an answer in few words. All times are seconds after one instant.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use outflow::CacheMode;
use outflow::cache::{
    Cache, CacheLookup, CacheQuery, CacheSettings, CacheableResponse, CachedResponse, StoreDecision,
};
use outflow::core::WallTime;

/// Tue, 14 Nov 2023 22:13:20 GMT, and so many seconds.
pub(crate) fn at(secs: u64) -> WallTime {
    WallTime::from_unix_secs(1_700_000_000 + secs)
}

/// A request that can be lent to the cache.
#[derive(Clone)]
pub(crate) struct Ask {
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    pub credential: Option<&'static [u8]>,
    pub mode: CacheMode,
}

impl Ask {
    /// A GET with a key.
    pub(crate) fn get(uri: &str) -> Self {
        Self {
            method: Method::GET,
            uri: uri.parse().expect("a URI"),
            headers: HeaderMap::new(),
            credential: Some(b"the-key-of-alice"),
            mode: CacheMode::Standard,
        }
    }

    /// The usual one.
    pub(crate) fn page() -> Self {
        Self::get("https://api.example.com/page")
    }

    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        let value = HeaderValue::from_str(value).expect("a value");
        self.headers.append(HeaderName::from_static(name), value);
        self
    }

    pub(crate) fn by(self, credential: Option<&'static [u8]>) -> Self {
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

/// Headers from `name: value` lines.
pub(crate) fn said(lines: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').expect("a colon");
        let name: HeaderName = name.parse().expect("a name");
        headers.append(name, value.trim().parse().expect("a value"));
    }
    headers
}

pub(crate) fn answer<'a>(
    status: u16,
    headers: &'a HeaderMap,
    body: &'static str,
) -> CacheableResponse<'a> {
    CacheableResponse {
        status: StatusCode::from_u16(status).expect("a status"),
        headers,
        body: Bytes::from_static(body.as_bytes()),
        delay: Duration::ZERO,
    }
}

/// A cache in memory.
pub(crate) fn memory() -> Cache {
    Cache::open(CacheSettings::default()).expect("a cache")
}

/// A cache in a directory.
pub(crate) fn on_disk(dir: &Path) -> Cache {
    Cache::open(CacheSettings {
        dir: Some(dir.to_owned()),
        ..CacheSettings::default()
    })
    .expect("a cache")
}

/// Offers a 200 at second 0.
pub(crate) fn offer(cache: &Cache, ask: &Ask, lines: &str, body: &'static str) -> StoreDecision {
    cache.offer(&ask.query(), answer(200, &said(lines), body), at(0))
}

/// The fresh answer's body, if there is one.
pub(crate) fn fresh(cache: &Cache, ask: &Ask, secs: u64) -> Option<Bytes> {
    match cache.lookup(&ask.query(), at(secs)) {
        CacheLookup::Fresh(stored) => Some(stored.body),
        _ => None,
    }
}

/// The stale answer, what to ask with, and whether it may be given on an error.
pub(crate) fn stale(
    cache: &Cache,
    ask: &Ask,
    secs: u64,
) -> Option<(CachedResponse, HeaderMap, bool)> {
    match cache.lookup(&ask.query(), at(secs)) {
        CacheLookup::Stale {
            stored,
            revalidate,
            usable_on_error,
        } => Some((stored, revalidate, usable_on_error)),
        _ => None,
    }
}

/// What there is, in a word.
pub(crate) fn word(cache: &Cache, ask: &Ask, secs: u64) -> &'static str {
    match cache.lookup(&ask.query(), at(secs)) {
        CacheLookup::Fresh(_) => "fresh",
        CacheLookup::Stale { .. } => "stale",
        CacheLookup::Missing => "missing",
        CacheLookup::NotCacheable(_) => "not cacheable",
    }
}
