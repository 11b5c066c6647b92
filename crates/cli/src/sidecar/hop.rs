//! What belongs to one connection and is not handed on to the next.

use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HOST,
    PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue};

/// Takes out what was meant for the connection that brought these headers: the usual ones, and those
/// that `Connection` names. A sender cannot name what the other side relies on, though: a key that is
/// dropped on the way is a way around whoever checks it.
pub(super) fn strip(headers: &mut HeaderMap) {
    // Most messages carry none of them, and to look is cheaper than to remove what is not there.
    if !headers.keys().any(|name| THE_CONNECTIONS.contains(name)) {
        return;
    }
    for name in listed(headers) {
        headers.remove(name);
    }
    for name in &THE_CONNECTIONS {
        headers.remove(name);
    }
}

/// What `Connection` names and may.
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
pub(super) fn announced(headers: &HeaderMap) -> Option<HeaderValue> {
    let mut values = headers.get_all(TRAILER).into_iter();
    let (first, more) = (values.next()?, values.next());
    let text = first.to_str().ok().filter(|_| more.is_none())?;
    let fits = |name: &str| {
        let name = HeaderName::try_from(name.trim());
        name.is_ok_and(|name| !RELIED_ON.contains(&name) && !THE_CONNECTIONS.contains(&name))
    };
    text.split(',').all(fits).then(|| first.clone())
}

/// Whether a sender takes fields behind a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Trailers {
    /// It does.
    Welcome,
    /// It said nothing of the kind.
    Unasked,
}

/// What these headers say about trailers.
pub(super) fn trailers(headers: &HeaderMap) -> Trailers {
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

const THE_CONNECTIONS: [HeaderName; 10] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("http2-settings"),
];

const RELIED_ON: [HeaderName; 7] = [
    AUTHORIZATION,
    COOKIE,
    HOST,
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
                "close, X-Private,authorization, host ,content-length",
            ),
            ("x-private", "1"),
            ("x-public", "1"),
            ("authorization", "Bearer k"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("upgrade", "h2c"),
            ("proxy-authorization", "Basic k"),
        ]);
        strip(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["authorization", "x-public"]);
    }

    #[test]
    fn only_what_may_be_a_trailer_is_announced() {
        for (written, announced_again) in [
            ("x-sum", true),
            ("x-sum, x-other", true),
            ("authorization", false),
            ("x-sum, transfer-encoding", false),
            ("", false),
        ] {
            let headers = headers(&[("trailer", written)]);
            assert_eq!(announced(&headers).is_some(), announced_again, "{written}");
        }
    }
}
