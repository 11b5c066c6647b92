//! The directives of `Cache-Control`, read carefully.
//!
//! The library that judges freshness compares directives letter by letter, splits at commas inside of
//! quotes and skips a header it cannot read; `No-Store` would then be stored. So they are read here
//! first, in any case and with quotes, and handed on in the one form it understands. A header that
//! cannot be read is no permission: its answer is not kept.

use std::fmt::Write as _;

use http::HeaderMap;
use http::header::{CACHE_CONTROL, HeaderValue};

/// The directives of a message, names in lower case.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct CacheControl {
    directives: Vec<(String, Option<String>)>,
}

impl CacheControl {
    /// Those of these headers; `None` if they cannot be read.
    pub(super) fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let mut directives = Vec::new();
        for value in headers.get_all(CACHE_CONTROL) {
            for part in split(value.to_str().ok()?) {
                directives.extend(directive(part));
            }
        }
        Some(Self { directives })
    }

    /// Whether a directive is there, with or without a value.
    pub(super) fn has(&self, name: &str) -> bool {
        self.directives.iter().any(|(known, _)| known == name)
    }

    /// The seconds that a directive names; its first mention counts.
    pub(super) fn seconds(&self, name: &str) -> Option<u64> {
        let (_, value) = self.directives.iter().find(|(known, _)| known == name)?;
        seconds(value.as_deref()?)
    }

    /// The same for the library. Field lists (`no-cache="set-cookie"`) lose their fields, which makes
    /// them stricter; `no-cache` brings `must-revalidate` along, without which a request's `max-stale`
    /// would outweigh it.
    pub(super) fn rendered(&self) -> HeaderValue {
        let mut text = String::new();
        for (name, value) in &self.directives {
            let separator = if text.is_empty() { "" } else { ", " };
            let told = value.as_deref().and_then(seconds);
            // Writing into a string cannot fail.
            let _ = match (told, value) {
                (Some(told), _) => write!(text, "{separator}{name}={told}"),
                (None, Some(_)) if TIMES.contains(&name.as_str()) => {
                    write!(text, "{separator}{name}=0")
                }
                _ => write!(text, "{separator}{name}"),
            };
        }
        if self.has("no-cache") {
            text.push_str(", must-revalidate");
        }
        HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("no-store"))
    }
}

/// Parts between commas that are not inside of quotes.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    text.split(move |letter| {
        quoted ^= letter == '"';
        letter == ',' && !quoted
    })
}

fn directive(part: &str) -> Option<(String, Option<String>)> {
    let (name, value) = match part.split_once('=') {
        Some((name, value)) => (name, Some(value.trim().trim_matches('"').to_owned())),
        None => (part, None),
    };
    let name = name.trim().to_ascii_lowercase();
    (!name.is_empty()).then_some((name, value))
}

/// Whole seconds; more than can be told means for ever.
fn seconds(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(FOREVER).min(FOREVER))
}

/// What the RFC has a recipient take for a number of seconds that is too large: 68 years.
pub(super) const FOREVER: u64 = 1 << 31;

/// Directives whose value is a time: one that is none means "no time at all".
const TIMES: [&str; 2] = ["max-age", "s-maxage"];

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &'static str) -> CacheControl {
        let value = HeaderValue::from_static(text);
        CacheControl::from_headers(&HeaderMap::from_iter([(CACHE_CONTROL, value)]))
            .expect("readable")
    }

    #[test]
    fn names_are_read_in_any_case() {
        assert!(read("No-Store").has("no-store"));
        assert_eq!(read("MAX-AGE=5").seconds("max-age"), Some(5));
    }

    // A comma inside of quotes separates field names, not directives.
    #[test]
    fn a_comma_in_quotes_ends_no_directive() {
        let control = read("no-cache=\"set-cookie, max-age\", max-age=\"7\"");
        assert_eq!(control.directives.len(), 2);
        assert_eq!(control.rendered(), "no-cache, max-age=7, must-revalidate");
    }

    #[test]
    fn a_time_too_large_is_for_ever_and_no_time_is_none() {
        assert_eq!(
            read("max-age=99999999999999999999").seconds("max-age"),
            Some(FOREVER)
        );
        assert_eq!(read("max-age=-1").rendered(), "max-age=0");
        assert_eq!(read("max-age=soon").rendered(), "max-age=0");
    }

    #[test]
    fn what_cannot_be_read_permits_nothing() {
        let value = HeaderValue::from_bytes(b"max-age=5, x=\xff").expect("a value");
        let headers = HeaderMap::from_iter([(CACHE_CONTROL, value)]);
        assert_eq!(CacheControl::from_headers(&headers), None);
    }
}
