//! Hop-by-hop headers and trailers, which a proxy does not forward.

use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HOST, SET_COOKIE,
    TE, TRAILER, VIA,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::Frame;
use outflow::HOP_BY_HOP;

use super::control_headers::is_outflow_header;

/// Removes the headers of the previous connection: the standard ones and those that `Connection` names.
/// `Connection` cannot name a protected header: a sender could otherwise drop the key that a server checks.
pub(crate) fn strip(headers: &mut HeaderMap) {
    // Most messages have none, and a search is cheaper than the removals.
    if !headers.keys().any(is_hop_by_hop) {
        return;
    }
    for name in listed_headers(headers) {
        headers.remove(name);
    }
    for name in HOP_BY_HOP.iter().chain([&HTTP2_SETTINGS]) {
        headers.remove(name);
    }
}

/// Returns the names in `Connection` that are not protected.
fn listed_headers(headers: &HeaderMap) -> Vec<HeaderName> {
    let names = list_items(headers, CONNECTION).filter_map(|name| HeaderName::try_from(name).ok());
    names.filter(|name| !PROTECTED.contains(name)).collect()
}

/// Iterates over the items of a header that is a list.
fn list_items(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let values = headers.get_all(name).into_iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(',').map(str::trim))
}

/// Returns the `Trailer` header if it may be forwarded: each of its names is allowed as a trailer.
pub(crate) fn announced_trailers(headers: &HeaderMap) -> Option<HeaderValue> {
    let mut values = headers.get_all(TRAILER).into_iter();
    let (first, more) = (values.next()?, values.next());
    let text = first.to_str().ok().filter(|_| more.is_none())?;
    let is_allowed = |name: &str| HeaderName::try_from(name.trim()).is_ok_and(|name| is_trailer(&name));
    text.split(',').all(is_allowed).then(|| first.clone())
}

/// Removes forbidden trailers from a frame; `key` is the header of the API's key, which only the client sets.
pub(crate) fn filter_trailers(frame: Frame<Bytes>, key: Option<&HeaderName>) -> Frame<Bytes> {
    match frame.into_trailers() {
        Ok(fields) => {
            let allowed = |(name, value): (&HeaderName, &HeaderValue)| {
                let is_allowed = is_trailer(name) && Some(name) != key;
                is_allowed.then(|| (name.clone(), value.clone()))
            };
            Frame::trailers(fields.iter().filter_map(allowed).collect())
        }
        Err(frame) => frame,
    }
}

/// Returns true if a field is allowed as a trailer. Fields that frame or route the message, identify the
/// sender, or belong to Outflow are not.
fn is_trailer(name: &HeaderName) -> bool {
    !is_outflow_header(name) && !is_protected(name) && !HEAD_ONLY.contains(name)
}

/// Support of the receiver for trailers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TrailerSupport {
    /// `TE: trailers` was sent.
    Accepted,
    /// `TE: trailers` was not sent.
    Unsupported,
}

/// Reads the support for trailers from `TE`.
pub(crate) fn trailer_support(headers: &HeaderMap) -> TrailerSupport {
    if list_items(headers, TE).any(|coding| coding.eq_ignore_ascii_case("trailers")) {
        TrailerSupport::Accepted
    } else {
        TrailerSupport::Unsupported
    }
}

/// Returns true for a field that the receiver relies on or that belongs to a connection.
pub(super) fn is_protected(name: &HeaderName) -> bool {
    PROTECTED.contains(name) || is_hop_by_hop(name)
}

fn is_hop_by_hop(name: &HeaderName) -> bool {
    HOP_BY_HOP.contains(name) || name == HTTP2_SETTINGS
}

/// Part of an upgrade to HTTP/2, which the sidecar does not support.
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");

/// Fields that proxies and browsers read only in the head.
const HEAD_ONLY: [HeaderName; 4] = [
    CACHE_CONTROL,
    SET_COOKIE,
    HeaderName::from_static("cache-status"),
    HeaderName::from_static("proxy-status"),
];

/// Fields that the receiver relies on.
const PROTECTED: [HeaderName; 8] = [
    AUTHORIZATION,
    COOKIE,
    HOST,
    VIA,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    CONTENT_ENCODING,
    HeaderName::from_static("idempotency-key"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn connection_drops_the_headers_it_names_except_protected_ones() {
        let mut headers = headers(&[
            (
                "connection",
                "close, X-Private,authorization, host ,content-length, via",
            ),
            ("x-private", "1"),
            ("x-public", "1"),
            ("authorization", "Bearer k"),
            ("via", "1.1 a"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("upgrade", "h2c"),
            ("proxy-authorization", "Basic k"),
        ]);
        strip(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["authorization", "via", "x-public"]);
    }

    #[test]
    fn forbidden_trailers_are_removed() {
        let fields = headers(&[
            ("x-sum", "1"),
            ("x-key", "theirs"),
            ("outflow-state", "Normal"),
            ("content-length", "3"),
            ("connection", "close"),
            ("set-cookie", "a=b"),
            ("via", "1.1 me"),
        ]);
        let key = HeaderName::from_static("x-key");
        let left = filter_trailers(Frame::trailers(fields), Some(&key)).into_trailers();
        let left = left.expect("they are trailers");
        assert_eq!(left.keys().collect::<Vec<_>>(), ["x-sum"]);
        let data = filter_trailers(Frame::data(Bytes::from_static(b"a")), Some(&key));
        assert_eq!(data.into_data().expect("a piece"), "a");
    }

    #[test]
    fn only_allowed_trailers_are_announced() {
        for (value, is_announced) in [
            ("x-sum", true),
            ("x-sum, x-other", true),
            ("authorization", false),
            ("x-sum, transfer-encoding", false),
            ("x-sum, outflow-cost", false),
            ("", false),
        ] {
            let headers = headers(&[("trailer", value)]);
            let announced = announced_trailers(&headers);
            assert_eq!(announced.is_some(), is_announced, "{value}");
        }
    }
}
