//! Cookies of a request over HTTP/2.
//!
//! HTTP/2 lets a client split `Cookie` into a field for each pair, which compress better. Servers of HTTP/1 expect one
//! field and read only the first, so RFC 9113, section 8.2.3, demands that a proxy joins them. It also makes equal
//! requests equal for the cache.

use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};

/// Joins the fields of `Cookie` into one.
pub(super) fn join(headers: &mut HeaderMap) {
    let crumbs: Vec<_> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if crumbs.len() < 2 {
        return;
    }
    // Valid values with a separator between them are a valid value.
    if let Ok(mut joined) = HeaderValue::from_bytes(&crumbs.join(&b"; "[..])) {
        joined.set_sensitive(headers.get_all(COOKIE).iter().any(HeaderValue::is_sensitive));
        headers.insert(COOKIE, joined);
    }
}
