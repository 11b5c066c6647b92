//! Redirect targets.
//!
//! Only redirects that repeat the request are followed: GET and HEAD, and with 307 and 308 any
//! method whose body can be sent again. A POST never becomes a GET: the caller asked for neither.
//! Locations are parsed strictly; the address check follows at the connection.

use http::uri::{PathAndQuery, Scheme};
use http::{HeaderMap, Method, StatusCode, Uri, header};

use crate::error::RedirectError;

/// Returns the target of a redirect that may be followed.
pub(super) fn next(
    from: &Uri,
    method: &Method,
    status: StatusCode,
    headers: &HeaderMap,
) -> Option<Result<Uri, RedirectError>> {
    let is_read = *method == Method::GET || *method == Method::HEAD;
    let follows = match status {
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND | StatusCode::SEE_OTHER => is_read,
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => true,
        _ => false,
    };
    let location = headers.get(header::LOCATION).filter(|_| follows)?;
    let written = location.to_str().ok();
    Some(
        written
            .and_then(|to| resolve_reference(from, to))
            .ok_or(RedirectError::Unreadable),
    )
}

/// Returns true if two URIs share scheme, host and port.
pub(super) fn is_same_origin(one: &Uri, other: &Uri) -> bool {
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

/// Resolves a reference by RFC 3986, if the result is an HTTP URI without user information.
fn resolve_reference(from: &Uri, to: &str) -> Option<Uri> {
    let to = to.split('#').next().unwrap_or(to);
    if !to.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\') {
        return None;
    }
    let uri: Uri = if has_scheme(to) {
        to.parse().ok()?
    } else if to.starts_with("//") {
        format!("{}:{to}", from.scheme_str()?).parse().ok()?
    } else {
        let mut parts = from.clone().into_parts();
        parts.path_and_query = Some(PathAndQuery::try_from(merge(from, to)).ok()?);
        Uri::from_parts(parts).ok()?
    };
    let is_http = *uri.scheme()? == Scheme::HTTP || *uri.scheme()? == Scheme::HTTPS;
    let authority = uri.authority()?;
    let has_plain_host = !authority.as_str().contains('@') && !authority.host().is_empty();
    // A port that is no number would silently become the default.
    let has_valid_port = authority.as_str() == authority.host() || authority.port_u16().is_some();
    (is_http && has_plain_host && has_valid_port).then_some(uri)
}

/// Returns true if a reference starts with a scheme: a colon before any slash or question mark.
fn has_scheme(to: &str) -> bool {
    let end = to.find(['/', '?', ':']);
    end.is_some_and(|end| end > 0 && to.as_bytes().get(end) == Some(&b':'))
}

/// Merges a relative reference with the current path and query.
fn merge(from: &Uri, to: &str) -> String {
    if to.is_empty() {
        return from.path_and_query().map_or("/", PathAndQuery::as_str).to_owned();
    }
    if to.starts_with('?') {
        return format!("{}{to}", from.path());
    }
    let (path, query) = to.split_at(to.find('?').unwrap_or(to.len()));
    let full = if path.starts_with('/') {
        path.to_owned()
    } else {
        let folder = from.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        format!("{folder}/{path}")
    };
    format!("{}{query}", remove_dot_segments(&full))
}

/// Removes dot segments: `..` goes up, at most to the root.
fn remove_dot_segments(path: &str) -> String {
    let mut segments_left: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    segments_left.pop();
                }
                if last {
                    segments_left.push("");
                }
            }
            name => segments_left.push(name),
        }
    }
    format!("/{}", segments_left.join("/"))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    const HERE: &str = "https://api.example.com/v1/films/17?page=2";

    fn resolve(to: &str) -> Option<String> {
        let here: Uri = HERE.parse().expect("a place");
        resolve_reference(&here, to).map(|uri| uri.to_string())
    }

    #[test]
    fn references_are_resolved_as_browsers_do() {
        for (to, uri) in [
            ("https://other.example/x#top", "https://other.example/x"),
            ("//other.example/x", "https://other.example/x"),
            ("/v2/films", "https://api.example.com/v2/films"),
            ("18", "https://api.example.com/v1/films/18"),
            ("./18?a=b/../c", "https://api.example.com/v1/films/18?a=b/../c"),
            ("../actors/", "https://api.example.com/v1/actors/"),
            ("../../../../up", "https://api.example.com/up"),
            ("..", "https://api.example.com/v1/"),
            ("?page=3", "https://api.example.com/v1/films/17?page=3"),
            ("", HERE),
            ("#only", HERE),
            ("18:30", "never"),
        ] {
            let uri = (uri != "never").then(|| uri.to_owned());
            assert_eq!(resolve(to), uri, "{to}");
        }
    }

    #[test]
    fn a_reference_that_is_no_http_uri_is_not_followed() {
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
            assert_eq!(resolve(to), None, "{to}");
        }
    }

    /// Returns references of meaningful pieces, and arbitrary ones.
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

        // A reference without an authority stays at the origin with any path.
        #[test]
        fn a_reference_resolves_to_a_plain_http_uri_or_not_at_all(to in references()) {
            let here: Uri = HERE.parse().expect("a place");
            let Some(uri) = resolve_reference(&here, &to) else {
                return Ok(());
            };
            let authority = uri.authority().expect("a host");
            prop_assert!(!authority.as_str().contains('@') && !authority.host().is_empty());
            let scheme = uri.scheme().expect("a scheme");
            prop_assert!(*scheme == Scheme::HTTP || *scheme == Scheme::HTTPS);
            let has_dot_segment = uri.path().split('/').any(|segment| segment == "..");
            if !has_scheme(&to) && !to.starts_with("//") {
                prop_assert!(is_same_origin(&here, &uri) && !has_dot_segment, "{}", uri);
            }
        }
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let same =
            |one: &str, other: &str| is_same_origin(&one.parse().expect("a place"), &other.parse().expect("a place"));
        assert!(same("https://a.example/x", "https://A.example:443/y"));
        assert!(same("http://a.example:80/", "http://a.example/"));
        assert!(!same("https://a.example/", "http://a.example/"), "a downgrade");
        assert!(!same("https://a.example/", "https://a.example:8443/"));
        assert!(!same("https://a.example/", "https://b.a.example/"));
    }

    // Each relevant method with each redirect status.
    #[test]
    fn only_redirects_that_repeat_the_request_are_followed() {
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
