//! What an answer must be like to be kept, and what is kept of it.

use http::header::{self, HeaderMap, HeaderName};
use http::{Method, StatusCode};
use outflow_core::WallTime;

use super::entry::{CacheEntry, StorageScope, end_to_end};
use super::freshness::{FreshnessCheck, initial_age};
use super::lookup::{CacheableResponse, NotStored};
use super::query::CacheQuery;
use super::secret_leak::{self, EchoedSecret};
use super::store::CacheStore;

/// The answer as it is kept, or why it is not.
pub(super) fn examined(
    store: &CacheStore,
    query: &CacheQuery<'_>,
    answer: CacheableResponse<'_>,
    now: WallTime,
) -> Result<CacheEntry, NotStored> {
    if let Some(bypass) = query.bypass() {
        return Err(NotStored::Bypassed(bypass));
    }
    if !KEPT.contains(&answer.status.as_u16()) {
        return Err(NotStored::Status);
    }
    if answer.headers.contains_key(header::SET_COOKIE) {
        return Err(NotStored::SetCookie);
    }
    if !is_complete(query, &answer) {
        return Err(NotStored::Incomplete);
    }
    let vary = selectors(answer.headers).ok_or(NotStored::VaryAny)?;
    let entry = CacheEntry {
        status: answer.status,
        headers: end_to_end(answer.headers),
        received: now,
        initial_age: initial_age(answer.headers, now, answer.delay),
        selected: store.selection(&vary, query),
        vary,
        body: answer.body,
        reach: StorageScope::Disk,
    };
    if !FreshnessCheck::new(query, &entry).is_storable(query) {
        return Err(NotStored::Forbidden);
    }
    if entry.weight() > store.largest() {
        return Err(NotStored::TooLarge);
    }
    placed(query, entry)
}

/// An answer with how far it may be kept, by what it repeats of the request.
pub(super) fn placed(query: &CacheQuery<'_>, entry: CacheEntry) -> Result<CacheEntry, NotStored> {
    let reach = match secret_leak::repeated(query, &entry.headers, &entry.body) {
        EchoedSecret::Secret => return Err(NotStored::RepeatsSecret),
        EchoedSecret::Doubtful => StorageScope::Memory,
        EchoedSecret::Nothing => entry.reach,
    };
    Ok(CacheEntry { reach, ..entry })
}

/// A kept answer with the headers of the 304 that confirmed it; `None` if it confirmed another one.
pub(super) fn renewed(
    old: &CacheEntry,
    answer: &CacheableResponse<'_>,
    now: WallTime,
) -> Option<CacheEntry> {
    if answer.status != StatusCode::NOT_MODIFIED || !confirms(old, answer.headers) {
        return None;
    }
    let mut headers = old.headers.clone();
    let said = end_to_end(answer.headers);
    for name in said.keys().filter(|name| !OF_THE_BODY.contains(name)) {
        headers.remove(name);
        for value in said.get_all(name) {
            headers.append(name, value.clone());
        }
    }
    Some(CacheEntry {
        headers,
        received: now,
        initial_age: initial_age(answer.headers, now, answer.delay),
        ..old.clone()
    })
}

/// Whether a 304's validators are those of the kept answer. One without any confirms what was asked
/// about, since the conditions were ours.
fn confirms(old: &CacheEntry, said: &HeaderMap) -> bool {
    if said.contains_key(header::SET_COOKIE) {
        return false;
    }
    let alike = |name: HeaderName| match (old.headers.get(&name), said.get(&name)) {
        (Some(old), Some(new)) => Some(opaque(old.as_bytes()) == opaque(new.as_bytes())),
        (None, Some(_)) => Some(false),
        (_, None) => None,
    };
    alike(header::ETAG)
        .or_else(|| alike(header::LAST_MODIFIED))
        .unwrap_or(true)
}

/// A validator without the mark of a weak one.
fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// The request headers that an answer depends on, sorted; `None` if it depends on more than those.
pub(super) fn selectors(headers: &HeaderMap) -> Option<Vec<HeaderName>> {
    let mut names = Vec::new();
    for value in headers.get_all(header::VARY) {
        for name in value.to_str().ok()?.split(',').map(str::trim) {
            if !name.is_empty() {
                names.push(
                    HeaderName::from_bytes(name.as_bytes())
                        .ok()
                        .filter(|_| name != "*")?,
                );
            }
        }
    }
    names.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
    names.dedup();
    Some(names)
}

/// Whether the body is as long as the headers say. To HEAD they speak of a body that is not sent.
fn is_complete(query: &CacheQuery<'_>, answer: &CacheableResponse<'_>) -> bool {
    if query.method == Method::HEAD {
        return answer.body.is_empty();
    }
    let mut lengths = answer.headers.get_all(header::CONTENT_LENGTH).iter();
    let whole = lengths.all(|length| {
        let told = length
            .to_str()
            .ok()
            .and_then(|text| text.trim().parse().ok());
        told == Some(answer.body.len())
    });
    whole && !answer.headers.contains_key(header::CONTENT_RANGE)
}

/// Statuses that speak of the resource and not of the moment, with a body that is whole.
const KEPT: [u16; 7] = [200, 203, 300, 301, 308, 404, 410];

/// A 304 has no body, so what it says of one is not about the kept one.
const OF_THE_BODY: [HeaderName; 4] = [
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
        Some(
            names
                .iter()
                .map(HeaderName::as_str)
                .collect::<Vec<_>>()
                .join(" "),
        )
    }

    // Whatever their order, case and number, the same names are the same variant.
    #[test]
    fn the_names_of_vary_are_a_set() {
        assert_eq!(
            read("Accept, accept-language"),
            read("accept-language,,accept , ACCEPT")
        );
        assert_eq!(read("b, a").as_deref(), Some("a b"));
        assert_eq!(read("a, *"), None);
        assert_eq!(read("no name"), None);
    }
}
