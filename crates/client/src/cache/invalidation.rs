//! Which addresses a write makes obsolete: its own, and those of the same origin that its answer names.
//!
//! Another origin's are left alone, as the RFC has it: else any server could empty our memory of any
//! other. `..` in a relative address is not resolved; what it misses is only stale until it expires.

use http::header::{CONTENT_LOCATION, LOCATION};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, Uri};

/// The addresses that the answer to a write names beside its own.
pub(super) fn named_in(uri: &Uri, headers: &HeaderMap) -> Vec<Uri> {
    let values = [LOCATION, CONTENT_LOCATION];
    let texts = values
        .iter()
        .filter_map(|name| headers.get(name)?.to_str().ok());
    texts
        .filter_map(|text| resolved(uri, text))
        .filter(|named| origin(named) == origin(uri))
        .collect()
}

fn resolved(base: &Uri, text: &str) -> Option<Uri> {
    let text = text.split('#').next()?.trim();
    let scheme = base.scheme_str()?;
    if text.starts_with("//") {
        return format!("{scheme}:{text}").parse().ok();
    }
    if text.contains("://") {
        return text.parse().ok();
    }
    let folder = base
        .path()
        .rsplit_once('/')
        .map_or("", |(folder, _)| folder);
    let target = if text.starts_with('/') {
        text.to_owned()
    } else {
        format!("{folder}/{text}")
    };
    let mut parts = base.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(target).ok()?);
    Uri::from_parts(parts).ok()
}

/// Scheme, host and port.
fn origin(uri: &Uri) -> Option<(Scheme, String, u16)> {
    let scheme = uri.scheme()?.clone();
    let usual = if scheme == Scheme::HTTPS { 443 } else { 80 };
    let port = uri
        .authority()
        .and_then(Authority::port_u16)
        .unwrap_or(usual);
    Some((scheme, uri.host()?.to_ascii_lowercase(), port))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn named(text: &'static str) -> Option<String> {
        let base = Uri::from_static("https://api.example.com/v1/orders?x=1");
        let headers = HeaderMap::from_iter([(LOCATION, HeaderValue::from_static(text))]);
        named_in(&base, &headers).first().map(Uri::to_string)
    }

    #[test]
    fn an_address_is_read_in_every_form() {
        let whole = "https://api.example.com/v1/orders/7";
        assert_eq!(named(whole).as_deref(), Some(whole));
        assert_eq!(named("/v1/orders/7#top").as_deref(), Some(whole));
        assert_eq!(named("orders/7").as_deref(), Some(whole));
        assert_eq!(
            named("//API.example.com:443/v1/orders/7").map(|_| ()),
            Some(())
        );
    }

    #[test]
    fn another_origin_is_left_alone() {
        assert_eq!(named("https://example.com/v1/orders/7"), None);
        assert_eq!(named("http://api.example.com/v1/orders/7"), None);
        assert_eq!(named("https://api.example.com:444/"), None);
    }
}
