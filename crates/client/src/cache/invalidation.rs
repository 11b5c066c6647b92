//! Resources that a write makes obsolete: its own and those of the same origin that the response
//! names.
//!
//! Other origins stay, as RFC 9111 demands: otherwise any server could empty the cache of another.
//! `..` in a relative reference is not resolved; a missed resource is stale until it expires.

use http::header::{CONTENT_LOCATION, LOCATION};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, Uri};

/// Returns the URIs that the response to a write names.
pub(super) fn related_uris(uri: &Uri, headers: &HeaderMap) -> Vec<Uri> {
    let values = [LOCATION, CONTENT_LOCATION];
    let texts = values.iter().filter_map(|name| headers.get(name)?.to_str().ok());
    texts
        .filter_map(|text| resolve(uri, text))
        .filter(|related| origin(related) == origin(uri))
        .collect()
}

fn resolve(base: &Uri, text: &str) -> Option<Uri> {
    let text = text.split('#').next()?.trim();
    let scheme = base.scheme_str()?;
    if text.starts_with("//") {
        return format!("{scheme}:{text}").parse().ok();
    }
    if text.contains("://") {
        return text.parse().ok();
    }
    let folder = base.path().rsplit_once('/').map_or("", |(folder, _)| folder);
    let target = if text.starts_with('/') {
        text.to_owned()
    } else {
        format!("{folder}/{text}")
    };
    let mut parts = base.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(target).ok()?);
    Uri::from_parts(parts).ok()
}

/// Returns scheme, host and port.
fn origin(uri: &Uri) -> Option<(Scheme, String, u16)> {
    let scheme = uri.scheme()?.clone();
    let default_port = if scheme == Scheme::HTTPS { 443 } else { 80 };
    let port = uri.authority().and_then(Authority::port_u16).unwrap_or(default_port);
    Some((scheme, uri.host()?.to_ascii_lowercase(), port))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn related(text: &'static str) -> Option<String> {
        let base = Uri::from_static("https://api.example.com/v1/orders?x=1");
        let headers = HeaderMap::from_iter([(LOCATION, HeaderValue::from_static(text))]);
        related_uris(&base, &headers).first().map(Uri::to_string)
    }

    #[test]
    fn a_location_is_resolved_in_every_form() {
        let full = "https://api.example.com/v1/orders/7";
        assert_eq!(related(full).as_deref(), Some(full));
        assert_eq!(related("/v1/orders/7#top").as_deref(), Some(full));
        assert_eq!(related("orders/7").as_deref(), Some(full));
        assert_eq!(related("//API.example.com:443/v1/orders/7").map(|_| ()), Some(()));
    }

    #[test]
    fn another_origin_is_not_invalidated() {
        assert_eq!(related("https://example.com/v1/orders/7"), None);
        assert_eq!(related("http://api.example.com/v1/orders/7"), None);
        assert_eq!(related("https://api.example.com:444/"), None);
    }
}
