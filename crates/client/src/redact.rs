//! What must not be read, taken out of what is shown.
//!
//! The one place where it is decided. An allow-list wherever there is one to make: of a URL its path
//! alone, of headers those whose values are known to be harmless. What cannot be listed is judged by
//! its looks, and rather too strictly: an identifier that is missing in a log is a nuisance, a key
//! that is in one must be changed. Last comes the [`Scrubber`], which knows the secrets themselves.
//!
//! Taking out comes before cutting short: half a secret is a secret.

mod scrubber;

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use percent_encoding::percent_decode_str;
use smol_str::{SmolStr, SmolStrBuilder};

pub use scrubber::Scrubber;

/// The path of a URL or request target, as it may be shown: without user, host, query and fragment,
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
    for (place, segment) in path.split('/').enumerate() {
        if place > 0 {
            shown.push("/");
        }
        shown.push(if is_secret(segment) { GONE } else { segment });
    }
    shown.finish()
}

/// What follows the host, if there is one.
fn without_authority(uri: &str) -> &str {
    let Some((scheme, rest)) = uri.split_once("://") else {
        return uri;
    };
    if scheme.contains('/') {
        return uri;
    }
    rest.find('/').and_then(|at| rest.get(at..)).unwrap_or("/")
}

/// Whether a segment is more than the name of a thing: it holds what only queries, parameters and
/// user names hold, or it is as long and as mixed as keys are.
fn is_secret(segment: &str) -> bool {
    let plain = percent_decode_str(segment).decode_utf8_lossy();
    plain.contains([
        '@',
        '?',
        '#',
        ';',
        '=',
        '&',
        '/',
        char::REPLACEMENT_CHARACTER,
    ]) || looks_like_a_key(&plain)
}

/// Long, and of letters and digits. Names of things are shorter or have no digits; an identifier that
/// is neither might as well be a key.
fn looks_like_a_key(text: &str) -> bool {
    let has = |sort: fn(&u8) -> bool| text.bytes().any(|byte| sort(&byte));
    text.len() >= SHORTEST_KEY && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic)
}

/// A URL as it may be shown: scheme, host, port and the [`path()`].
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

/// Headers as they may be shown: all names, and the values of those that never hold a secret.
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

/// What [`headers()`] answers.
#[derive(Clone, Copy)]
pub struct RedactedHeaders<'a>(&'a HeaderMap);

impl fmt::Display for RedactedHeaders<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (name, value)) in self.0.iter().enumerate() {
            let comma = if place > 0 { ", " } else { "" };
            write!(f, "{comma}{name}: {}", shown(name, value))?;
        }
        Ok(())
    }
}

impl fmt::Debug for RedactedHeaders<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn shown<'v>(name: &HeaderName, value: &'v HeaderValue) -> &'v str {
    let is_harmless = !value.is_sensitive() && HARMLESS.contains(name);
    let text = value.to_str().ok().filter(|_| is_harmless);
    text.unwrap_or(REDACTED)
}

/// The same value, marked so that HTTP libraries neither print nor compress it.
#[must_use]
pub fn sensitive(mut value: HeaderValue) -> HeaderValue {
    value.set_sensitive(true);
    value
}

/// A text that stops growing at [`LONGEST_PATH`] bytes.
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
        let room = (LONGEST_PATH - GONE.len()).saturating_sub(self.len);
        self.is_full = more.len() > room;
        let fits = more.floor_char_boundary(room.min(more.len()));
        self.text.push_str(more.get(..fits).unwrap_or_default());
        self.len += fits;
        if self.is_full {
            self.text.push_str(GONE);
        }
    }

    fn finish(self) -> SmolStr {
        self.text.finish()
    }
}

/// Stands where something was taken out.
const GONE: &str = "…";

/// Stands for the value of a header.
const REDACTED: &str = "[redacted]";

/// Keys of providers begin at 20 characters; words of one language seldom reach them.
const SHORTEST_KEY: usize = 20;

/// Long enough for every path that a person wrote.
const LONGEST_PATH: usize = 256;

/// Headers whose values are numbers, dates, types or the words of a protocol.
const HARMLESS: [HeaderName; 16] = [
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
    header::TRANSFER_ENCODING,
    header::USER_AGENT,
    header::VARY,
];
