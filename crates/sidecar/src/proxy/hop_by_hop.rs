//! What belongs to one connection and is not handed on to the next.

use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE,
    COOKIE, HOST, SET_COOKIE, TE, TRAILER, VIA,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::Frame;
use outflow::HOP_BY_HOP;

use super::control_headers::is_ours;

/// Takes out what was meant for the connection that brought these headers: the usual ones, and those
/// that `InboundConnection` names. A sender cannot name what the other side relies on, though: a key that is
/// dropped on the way is a way around whoever checks it.
pub(crate) fn strip(headers: &mut HeaderMap) {
    // Most messages carry none of them, and to look is cheaper than to remove what is not there.
    if !headers.keys().any(is_hop_by_hop) {
        return;
    }
    for name in listed(headers) {
        headers.remove(name);
    }
    for name in HOP_BY_HOP.iter().chain([&HTTP2_SETTINGS]) {
        headers.remove(name);
    }
}

/// What `InboundConnection` names and may.
fn listed(headers: &HeaderMap) -> Vec<HeaderName> {
    let names = headers
        .get_all(CONNECTION)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| HeaderName::try_from(name.trim()).ok());
    names.filter(|name| !RELIED_ON.contains(name)).collect()
}

/// The announcement of trailers, to be made again: only names that may be trailers.
pub(crate) fn announced(headers: &HeaderMap) -> Option<HeaderValue> {
    let mut values = headers.get_all(TRAILER).into_iter();
    let (first, more) = (values.next()?, values.next());
    let text = first.to_str().ok().filter(|_| more.is_none())?;
    let fits = |name: &str| HeaderName::try_from(name.trim()).is_ok_and(|name| may_trail(&name));
    text.split(',').all(fits).then(|| first.clone())
}

/// A piece of a body, with only those of the fields behind it that may stand there and speak for their
/// sender alone; `key` is the header that only we may write.
pub(crate) fn trailing(frame: Frame<Bytes>, key: Option<&HeaderName>) -> Frame<Bytes> {
    match frame.into_trailers() {
        Ok(fields) => {
            let fits = |(name, value): (&HeaderName, &HeaderValue)| {
                let stays = may_trail(name) && Some(name) != key;
                stays.then(|| (name.clone(), value.clone()))
            };
            Frame::trailers(fields.iter().filter_map(fits).collect())
        }
        Err(frame) => frame,
    }
}

/// Whether a field may come behind a body: not if it frames or routes the message, says who sends it, or
/// is one of ours.
fn may_trail(name: &HeaderName) -> bool {
    let frames_or_routes = RELIED_ON.contains(name) || is_hop_by_hop(name);
    !is_ours(name) && !frames_or_routes && !OF_THE_HEAD.contains(name)
}

/// Whether a sender takes fields behind a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Trailers {
    /// It does.
    Welcome,
    /// It said nothing of the kind.
    Unasked,
}

/// What these headers say about trailers.
pub(crate) fn trailers(headers: &HeaderMap) -> Trailers {
    let asked = headers
        .get_all(TE)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|coding| coding.trim().eq_ignore_ascii_case("trailers"));
    if asked {
        Trailers::Welcome
    } else {
        Trailers::Unasked
    }
}

fn is_hop_by_hop(name: &HeaderName) -> bool {
    HOP_BY_HOP.contains(name) || name == HTTP2_SETTINGS
}

/// Part of a request to switch to HTTP/2, which the sidecar does not.
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");

/// What gateways and browsers act upon as soon as the head is there.
const OF_THE_HEAD: [HeaderName; 4] = [
    CACHE_CONTROL,
    SET_COOKIE,
    HeaderName::from_static("cache-status"),
    HeaderName::from_static("proxy-status"),
];

const RELIED_ON: [HeaderName; 8] = [
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
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn what_connection_names_is_dropped_but_not_what_others_rely_on() {
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
    fn fields_behind_a_body_speak_for_their_sender_alone() {
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
        let left = trailing(Frame::trailers(fields), Some(&key)).into_trailers();
        let left = left.expect("they are trailers");
        assert_eq!(left.keys().collect::<Vec<_>>(), ["x-sum"]);
        let data = trailing(Frame::data(Bytes::from_static(b"a")), Some(&key));
        assert_eq!(data.into_data().expect("a piece"), "a");
    }

    #[test]
    fn only_what_may_be_a_trailer_is_announced() {
        for (written, announced_again) in [
            ("x-sum", true),
            ("x-sum, x-other", true),
            ("authorization", false),
            ("x-sum, transfer-encoding", false),
            ("x-sum, outflow-cost", false),
            ("", false),
        ] {
            let headers = headers(&[("trailer", written)]);
            assert_eq!(announced(&headers).is_some(), announced_again, "{written}");
        }
    }
}
