//! Where a redirect leads, and whether it is followed.
//!
//! Only what repeats the same question elsewhere is followed: GET and HEAD, and with 307 and 308 any
//! method whose body can be sent again. A POST is never turned into a GET: the caller asked for
//! neither. A place is read strictly; what it names is still checked when it is connected to.

use http::uri::{PathAndQuery, Scheme};
use http::{HeaderMap, Method, StatusCode, Uri, header};

use crate::error::RedirectError;

/// Where a response leads, if it leads anywhere and is to be followed.
pub(super) fn next(
    from: &Uri,
    method: &Method,
    status: StatusCode,
    headers: &HeaderMap,
) -> Option<Result<Uri, RedirectError>> {
    let asks_the_same = *method == Method::GET || *method == Method::HEAD;
    let follows = match status {
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND | StatusCode::SEE_OTHER => asks_the_same,
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => true,
        _ => false,
    };
    let location = headers.get(header::LOCATION).filter(|_| follows)?;
    let written = location.to_str().ok();
    Some(
        written
            .and_then(|to| resolved(from, to))
            .ok_or(RedirectError::Unreadable),
    )
}

/// Whether two places are of one origin: scheme, host and port.
pub(super) fn same_origin(one: &Uri, other: &Uri) -> bool {
    let host = |uri: &Uri| uri.host().map(str::to_ascii_lowercase);
    one.scheme() == other.scheme() && host(one) == host(other) && port(one) == port(other)
}

fn port(uri: &Uri) -> Option<u16> {
    uri.port_u16().or_else(|| match uri.scheme() {
        Some(scheme) if *scheme == Scheme::HTTP => Some(80),
        Some(scheme) if *scheme == Scheme::HTTPS => Some(443),
        _ => None,
    })
}

/// A reference as RFC 3986 resolves it, as far as it is a place of HTTP without a user's name.
fn resolved(from: &Uri, to: &str) -> Option<Uri> {
    let to = to.split('#').next().unwrap_or(to);
    if !to
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'\\')
    {
        return None;
    }
    let uri: Uri = if has_scheme(to) {
        to.parse().ok()?
    } else if to.starts_with("//") {
        format!("{}:{to}", from.scheme_str()?).parse().ok()?
    } else {
        let mut parts = from.clone().into_parts();
        parts.path_and_query = Some(PathAndQuery::try_from(merged(from, to)).ok()?);
        Uri::from_parts(parts).ok()?
    };
    let known = *uri.scheme()? == Scheme::HTTP || *uri.scheme()? == Scheme::HTTPS;
    let authority = uri.authority()?;
    let plain = !authority.as_str().contains('@') && !authority.host().is_empty();
    // A port that is no number would silently be the usual one.
    let sound = authority.as_str() == authority.host() || authority.port_u16().is_some();
    (known && plain && sound).then_some(uri)
}

/// Whether a reference begins with a scheme: a colon before any slash, question mark or end.
fn has_scheme(to: &str) -> bool {
    let end = to.find(['/', '?', ':']);
    end.is_some_and(|end| end > 0 && to.as_bytes().get(end) == Some(&b':'))
}

/// A path and query relative to where we are.
fn merged(from: &Uri, to: &str) -> String {
    if to.is_empty() {
        return from
            .path_and_query()
            .map_or("/", PathAndQuery::as_str)
            .to_owned();
    }
    if to.starts_with('?') {
        return format!("{}{to}", from.path());
    }
    let (path, query) = to.split_at(to.find('?').unwrap_or(to.len()));
    let whole = if path.starts_with('/') {
        path.to_owned()
    } else {
        let folder = from
            .path()
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder);
        format!("{folder}/{path}")
    };
    format!("{}{query}", without_dots(&whole))
}

/// The path with its steps taken: `.` stays and `..` goes up, at most to the root.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    kept.pop();
                }
                if last {
                    kept.push("");
                }
            }
            name => kept.push(name),
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    const HERE: &str = "https://api.example.com/v1/films/17?page=2";

    fn led(to: &str) -> Option<String> {
        let here: Uri = HERE.parse().expect("a place");
        resolved(&here, to).map(|uri| uri.to_string())
    }

    #[test]
    fn references_are_resolved_as_browsers_do() {
        for (to, place) in [
            ("https://other.example/x#top", "https://other.example/x"),
            ("//other.example/x", "https://other.example/x"),
            ("/v2/films", "https://api.example.com/v2/films"),
            ("18", "https://api.example.com/v1/films/18"),
            (
                "./18?a=b/../c",
                "https://api.example.com/v1/films/18?a=b/../c",
            ),
            ("../actors/", "https://api.example.com/v1/actors/"),
            ("../../../../up", "https://api.example.com/up"),
            ("..", "https://api.example.com/v1/"),
            ("?page=3", "https://api.example.com/v1/films/17?page=3"),
            ("", HERE),
            ("#only", HERE),
            ("18:30", "never"),
        ] {
            let place = (place != "never").then(|| place.to_owned());
            assert_eq!(led(to), place, "{to}");
        }
    }

    #[test]
    fn what_is_no_place_of_http_is_not_followed() {
        for to in [
            "ftp://other.example/",
            "javascript:alert(1)",
            "file:///etc/passwd",
            "https://",
            "https://user:pw@other.example/",
            "//user@other.example/",
            "\\\\other.example",
            "/\\other.example",
            "/a b",
            "/caf\u{e9}",
            "https://other.example:99999/",
            "mailto:a@b.example",
            "https:other",
        ] {
            assert_eq!(led(to), None, "{to}");
        }
    }

    /// References made of what means something in one, and of anything.
    fn references() -> impl Strategy<Value = String> {
        let pieces = [
            "http://",
            "https:",
            "//",
            "/",
            "\\",
            ":",
            "@",
            "..",
            ".",
            "?",
            "#",
            "a",
            "B.example",
            ":80",
            ":99999",
            "[::1]",
            "[",
            "%2f",
            " ",
            "\u{e9}",
            "\t",
        ];
        let made = prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..10);
        prop_oneof![made.prop_map(|pieces| pieces.concat()), "\\PC{0,40}"]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(10_000))]

        // What has no authority of its own stays at the origin, whatever its path is made of.
        #[test]
        fn a_reference_leads_to_a_plain_place_of_http_or_nowhere(to in references()) {
            let here: Uri = HERE.parse().expect("a place");
            let Some(place) = resolved(&here, &to) else {
                return Ok(());
            };
            let authority = place.authority().expect("a host");
            prop_assert!(!authority.as_str().contains('@') && !authority.host().is_empty());
            let scheme = place.scheme().expect("a scheme");
            prop_assert!(*scheme == Scheme::HTTP || *scheme == Scheme::HTTPS);
            let climbs = place.path().split('/').any(|segment| segment == "..");
            if !has_scheme(&to) && !to.starts_with("//") {
                prop_assert!(same_origin(&here, &place) && !climbs, "{}", place);
            }
        }
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let same = |one: &str, other: &str| {
            same_origin(
                &one.parse().expect("a place"),
                &other.parse().expect("a place"),
            )
        };
        assert!(same("https://a.example/x", "https://A.example:443/y"));
        assert!(same("http://a.example:80/", "http://a.example/"));
        assert!(
            !same("https://a.example/", "http://a.example/"),
            "a downgrade"
        );
        assert!(!same("https://a.example/", "https://a.example:8443/"));
        assert!(!same("https://a.example/", "https://b.a.example/"));
    }

    // Each method that matters with each status that redirects.
    #[test]
    fn only_the_same_question_is_asked_elsewhere() {
        let mut headers = HeaderMap::new();
        headers.insert(header::LOCATION, HeaderValue::from_static("/elsewhere"));
        let here: Uri = HERE.parse().expect("a place");
        let follows = |method: &Method, status: u16, headers: &HeaderMap| {
            let status = StatusCode::from_u16(status).expect("a status");
            next(&here, method, status, headers).is_some()
        };
        for status in [301, 302, 303, 307, 308] {
            assert!(follows(&Method::GET, status, &headers));
            assert!(follows(&Method::HEAD, status, &headers));
            assert!(!follows(&Method::GET, status, &HeaderMap::new()));
            assert_eq!(follows(&Method::POST, status, &headers), status >= 307);
        }
        for status in [200, 300, 304, 305, 306, 404] {
            assert!(!follows(&Method::GET, status, &headers));
        }
    }
}
