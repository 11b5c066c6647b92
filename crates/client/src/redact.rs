//! Redaction of secrets in displayed text.
//!
//! All rules are here. Allow-lists where possible: of a URL only the path, of headers only values
//! known to be harmless. Other text is judged by its form, rather too strictly: a missing
//! identifier in a log is a nuisance, a leaked key must be replaced. Last comes the [`Scrubber`],
//! which knows the secrets themselves.
//!
//! Redaction comes before truncation: half a secret is a secret.

mod scrubber;

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use percent_encoding::percent_decode_str;
use smol_str::{SmolStr, SmolStrBuilder};

pub use scrubber::Scrubber;

/// Returns the path of a URL or request target for display: without user, host, query and fragment,
/// without segments that look like secrets, and at most 256 bytes long.
///
/// ```
/// use outflow::redact;
///
/// assert_eq!(redact::path("https://me:pw@api.example.com/v1/items?key=abc"), "/v1/items");
/// assert_eq!(redact::path("/bot8123:AAHk0vT3xPqL9sWz2mRbYc/getMe"), "/…/getMe");
/// ```
pub fn path(uri: &str) -> SmolStr {
    let uri = uri.get(..uri.find(['?', '#']).unwrap_or(uri.len()));
    let path = without_authority(uri.unwrap_or_default());
    let mut shown = ShortText::new();
    for (index, segment) in path.split('/').enumerate() {
        if index > 0 {
            shown.push("/");
        }
        shown.push(if is_secret(segment) { ELLIPSIS } else { segment });
    }
    shown.finish()
}

/// Returns the part after the host, if there is one.
fn without_authority(uri: &str) -> &str {
    let Some((scheme, rest)) = uri.split_once("://") else {
        return uri;
    };
    if scheme.contains('/') {
        return uri;
    }
    rest.find('/').and_then(|at| rest.get(at..)).unwrap_or("/")
}

/// Returns true if a segment is more than a name: it holds characters of queries, parameters or
/// user names, or it is as long and mixed as a key.
fn is_secret(segment: &str) -> bool {
    let plain = percent_decode_str(segment).decode_utf8_lossy();
    plain.contains(['@', '?', '#', ';', '=', '&', '/', char::REPLACEMENT_CHARACTER]) || looks_like_key(&plain)
}

/// Returns true for long text with letters and digits. Names are shorter or have no digits; any
/// other identifier might be a key.
fn looks_like_key(text: &str) -> bool {
    let has = |class: fn(&u8) -> bool| text.bytes().any(|byte| class(&byte));
    text.len() >= MIN_KEY && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic)
}

/// URL for display: scheme, host, port and [`path()`].
///
/// ```
/// use outflow::redact;
///
/// let shown = redact::Url("https://me:pw@api.example.com:8443/v1?key=abc").to_string();
/// assert_eq!(shown, "https://api.example.com:8443/v1");
/// ```
#[derive(Clone, Copy)]
pub struct Url<'a>(pub &'a str);

impl fmt::Display for Url<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((scheme, rest)) = self.0.split_once("://")
            && !scheme.contains(['/', '?', '#'])
        {
            let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
            let host = authority.rsplit('@').next().unwrap_or_default();
            write!(f, "{scheme}://{host}")?;
        }
        f.write_str(&path(self.0))
    }
}

impl fmt::Debug for Url<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Returns headers for display: all names, and the values of those that never hold a secret.
///
/// ```
/// use http::{HeaderMap, HeaderValue, header};
/// use outflow::redact;
///
/// let mut headers = HeaderMap::new();
/// headers.insert(header::CONTENT_LENGTH, HeaderValue::from(12));
/// headers.insert(header::AUTHORIZATION, HeaderValue::from_static("Bearer abc"));
/// let shown = redact::headers(&headers).to_string();
/// assert_eq!(shown, "content-length: 12, authorization: [redacted]");
/// ```
pub const fn headers(headers: &HeaderMap) -> RedactedHeaders<'_> {
    RedactedHeaders(headers)
}

/// Result of [`headers()`].
#[derive(Clone, Copy)]
pub struct RedactedHeaders<'a>(&'a HeaderMap);

impl fmt::Display for RedactedHeaders<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.0.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{name}: {}", safe_value(name, value))?;
        }
        Ok(())
    }
}

impl fmt::Debug for RedactedHeaders<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn safe_value<'v>(name: &HeaderName, value: &'v HeaderValue) -> &'v str {
    let is_safe = !value.is_sensitive() && SAFE_HEADERS.contains(name);
    let text = value.to_str().ok().filter(|_| is_safe);
    text.unwrap_or(REDACTED)
}

/// Marks a value as sensitive, so that HTTP libraries neither print nor compress it.
#[must_use]
pub fn mark_sensitive(mut value: HeaderValue) -> HeaderValue {
    value.set_sensitive(true);
    value
}

/// Text that stops growing at [`MAX_PATH`] bytes.
struct ShortText {
    text: SmolStrBuilder,
    len: usize,
    is_full: bool,
}

impl ShortText {
    const fn new() -> Self {
        Self {
            text: SmolStrBuilder::new(),
            len: 0,
            is_full: false,
        }
    }

    fn push(&mut self, more: &str) {
        if self.is_full {
            return;
        }
        let remaining = (MAX_PATH - ELLIPSIS.len()).saturating_sub(self.len);
        self.is_full = more.len() > remaining;
        let fits = more.floor_char_boundary(remaining.min(more.len()));
        self.text.push_str(more.get(..fits).unwrap_or_default());
        self.len += fits;
        if self.is_full {
            self.text.push_str(ELLIPSIS);
        }
    }

    fn finish(self) -> SmolStr {
        self.text.finish()
    }
}

/// Replacement for redacted or cut text.
const ELLIPSIS: &str = "…";

/// Replacement for a header value.
const REDACTED: &str = "[redacted]";

/// Keys of providers have at least 20 characters; words seldom do.
const MIN_KEY: usize = 20;

/// Long enough for every path that a person wrote.
const MAX_PATH: usize = 256;

/// Headers with numbers, dates, types or protocol words as values.
const SAFE_HEADERS: [HeaderName; 17] = [
    header::ACCEPT,
    header::ACCEPT_ENCODING,
    header::AGE,
    header::ALLOW,
    header::CACHE_CONTROL,
    header::CONNECTION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::DATE,
    header::EXPIRES,
    header::HOST,
    header::RETRY_AFTER,
    HeaderName::from_static("retry-after-ms"),
    header::TRANSFER_ENCODING,
    header::USER_AGENT,
    header::VARY,
];
