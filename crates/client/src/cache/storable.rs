//! Rules for storing a response, and the stored form.

use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName};
use http::{Method, StatusCode};
use outflow_core::WallTime;

use super::cache_control::CacheControl;
use super::entry::{CacheEntry, StorageScope, without_hop_by_hop};
use super::freshness::{FreshnessCheck, initial_age};
use super::key::{Digest, is_noise};
use super::lookup::{CacheableResponse, NotStored};
use super::packed_head::pack_headers;
use super::query::CacheQuery;
use super::secret_leak::{self, EchoedSecret};
use super::store::CacheStore;

/// Returns true if a response is not for one request alone: by its directives, its lifetime, its cookies and the
/// headers that it varies by.
pub(super) fn is_shareable(query: &CacheQuery<'_>, headers: &HeaderMap, now: WallTime) -> bool {
    let Some(control) = CacheControl::from_headers(headers) else {
        return false;
    };
    let is_personal = control.has("no-store") || control.has("private") || sets_cookie(headers);
    let varies = selectors(headers).is_none_or(|names| names.iter().any(is_noise));
    let response = CacheEntry {
        // Only the lifetime counts, and the library knows none of a failure.
        status: StatusCode::OK,
        headers: headers.clone(),
        received: now,
        initial_age: initial_age(headers, now, Duration::ZERO),
        selected: Digest::default(),
        vary: Vec::new(),
        body: Bytes::new(),
        scope: StorageScope::Memory,
    };
    !is_personal && !varies && FreshnessCheck::new(query, &response).may_share(now)
}

/// Builds the entry of a response, or returns why it is not stored.
pub(super) fn build_entry(
    store: &CacheStore,
    query: &CacheQuery<'_>,
    response: CacheableResponse<'_>,
    now: WallTime,
) -> Result<CacheEntry, NotStored> {
    if let Some(bypass) = query.bypass() {
        return Err(NotStored::Bypassed(bypass));
    }
    if !STORABLE.contains(&response.status.as_u16()) {
        return Err(NotStored::Status);
    }
    if sets_cookie(response.headers) {
        return Err(NotStored::SetCookie);
    }
    if !is_complete(query, &response) {
        return Err(NotStored::Incomplete);
    }
    let vary = selectors(response.headers).ok_or(NotStored::VaryAny)?;
    let entry = CacheEntry {
        status: response.status,
        headers: without_hop_by_hop(response.headers),
        received: now,
        initial_age: initial_age(response.headers, now, response.delay),
        selected: store.selection(&vary, query),
        vary,
        body: response.body,
        scope: StorageScope::Disk,
    };
    if !FreshnessCheck::new(query, &entry).is_storable(query) {
        return Err(NotStored::Forbidden);
    }
    if entry.weight() > store.max_response {
        return Err(NotStored::TooLarge);
    }
    set_scope(query, entry).map(|entry| CacheEntry {
        headers: pack_headers(&entry.headers),
        // It keeps a read buffer alive, or one that grew beyond its length.
        body: Bytes::copy_from_slice(&entry.body),
        ..entry
    })
}

/// Sets the storage of an entry by the secrets that it repeats.
pub(super) fn set_scope(query: &CacheQuery<'_>, entry: CacheEntry) -> Result<CacheEntry, NotStored> {
    let scope = match secret_leak::find_echo(query, &entry.headers, &entry.body) {
        EchoedSecret::Secret => return Err(NotStored::RepeatsSecret),
        EchoedSecret::Doubtful => StorageScope::Memory,
        EchoedSecret::Nothing => entry.scope,
    };
    Ok(CacheEntry { scope, ..entry })
}

/// Returns a stored entry with the headers of its 304; `None` if the 304 confirms another response, or if a head with
/// both would exceed the bounds of a head. Otherwise a server could let it grow with every 304.
pub(super) fn refresh_entry(old: &CacheEntry, response: &CacheableResponse<'_>, now: WallTime) -> Option<CacheEntry> {
    if response.status != StatusCode::NOT_MODIFIED || !confirms(old, response.headers) {
        return None;
    }
    let mut headers = old.headers.clone();
    let headers_304 = without_hop_by_hop(response.headers);
    for name in headers_304.keys().filter(|name| !BODY_HEADERS.contains(name)) {
        headers.remove(name);
        for value in headers_304.get_all(name) {
            headers.append(name, value.clone());
        }
    }
    let size: usize = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len())
        .sum();
    if headers.len() > MAX_HEADERS || size > MAX_HEAD_BYTES {
        return None;
    }
    Some(CacheEntry {
        headers: pack_headers(&headers),
        received: now,
        initial_age: initial_age(response.headers, now, response.delay),
        ..old.clone()
    })
}

/// More than servers send: a fresh head over HTTP/1 has at most a hundred.
const MAX_HEADERS: usize = 256;

/// Four times the head that most servers accept.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// Returns true if the validators of a 304 match the stored response. A 304 without any confirms
/// it, since the conditions came from this cache.
fn confirms(old: &CacheEntry, headers_304: &HeaderMap) -> bool {
    let is_equal = |name: HeaderName| match (old.headers.get(&name), headers_304.get(&name)) {
        (Some(old), Some(new)) => Some(opaque(old.as_bytes()) == opaque(new.as_bytes())),
        (None, Some(_)) => Some(false),
        (_, None) => None,
    };
    is_equal(header::ETAG)
        .or_else(|| is_equal(header::LAST_MODIFIED))
        .unwrap_or(true)
}

/// Returns true if a response sets a cookie, also in the form of RFC 2965: it belongs to one caller.
pub(super) fn sets_cookie(headers: &HeaderMap) -> bool {
    headers.contains_key(header::SET_COOKIE) || headers.contains_key("set-cookie2")
}

/// Returns a validator without the prefix of a weak one.
fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// Returns the request headers that a response varies by, sorted; `None` for `*`.
pub(super) fn selectors(headers: &HeaderMap) -> Option<Vec<HeaderName>> {
    let mut names = Vec::new();
    for value in headers.get_all(header::VARY) {
        for name in value.to_str().ok()?.split(',').map(str::trim) {
            if !name.is_empty() {
                names.push(HeaderName::from_bytes(name.as_bytes()).ok().filter(|_| name != "*")?);
            }
        }
    }
    names.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
    names.dedup();
    Some(names)
}

/// Returns true if the body has the stated length. For HEAD the headers describe a body that is not
/// sent.
fn is_complete(query: &CacheQuery<'_>, response: &CacheableResponse<'_>) -> bool {
    if query.method == Method::HEAD {
        return response.body.is_empty();
    }
    let mut lengths = response.headers.get_all(header::CONTENT_LENGTH).iter();
    let has_length = lengths.all(|length| {
        let stated = length.to_str().ok().and_then(|text| text.trim().parse().ok());
        stated == Some(response.body.len())
    });
    has_length && !response.headers.contains_key(header::CONTENT_RANGE)
}

/// Statuses that describe the resource rather than the moment, with a complete body.
const STORABLE: [u16; 7] = [200, 203, 300, 301, 308, 404, 410];

/// Headers that a 304, which has no body, cannot update.
const BODY_HEADERS: [HeaderName; 4] = [
    header::CONTENT_LENGTH,
    header::CONTENT_ENCODING,
    header::CONTENT_RANGE,
    header::CONTENT_TYPE,
];

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn read(text: &'static str) -> Option<String> {
        let headers = HeaderMap::from_iter([(header::VARY, HeaderValue::from_static(text))]);
        let names = selectors(&headers)?;
        Some(names.iter().map(HeaderName::as_str).collect::<Vec<_>>().join(" "))
    }

    // Order, case and repetition of the names do not matter.
    #[test]
    fn the_names_of_vary_form_a_set() {
        assert_eq!(
            read("Accept, accept-language"),
            read("accept-language,,accept , ACCEPT")
        );
        assert_eq!(read("b, a").as_deref(), Some("a b"));
        assert_eq!(read("a, *"), None);
        assert_eq!(read("no name"), None);
    }
}
