//! Parser for `Cache-Control`.
//!
//! The freshness library compares directives case-sensitively, splits at commas inside quotes and
//! skips unreadable headers; it would store `No-Store`. So this parser reads them first and passes
//! on the form that the library understands. A header that breaks its grammar is no permission: in
//! `private;max-age=60` a lenient reader sees one unknown name. Its response is not stored.

use std::fmt::Write as _;

use http::HeaderMap;
use http::header::{CACHE_CONTROL, HeaderValue};

/// Directives of a message, with lower-case names.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct CacheControl {
    directives: Vec<(String, Option<String>)>,
}

impl CacheControl {
    /// Parses the directives of these headers; `None` if they break the grammar of RFC 9111, section 5.2.
    pub(super) fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let mut directives = Vec::new();
        for value in headers.get_all(CACHE_CONTROL) {
            for part in split_directives(value.to_str().ok()?) {
                // A list may have empty elements.
                if !part.trim().is_empty() {
                    directives.push(parse_directive(part)?);
                }
            }
        }
        Some(Self { directives })
    }

    /// Returns the directives of a message that cannot be read.
    pub(super) fn forbidding() -> Self {
        let forbidden = ["no-store", "no-cache"].map(|name| (name.to_owned(), None));
        Self {
            directives: forbidden.into(),
        }
    }

    /// Returns true if a directive is present, with or without a value.
    pub(super) fn has(&self, name: &str) -> bool {
        self.directives.iter().any(|(known, _)| known == name)
    }

    /// Returns the seconds of a directive; its first occurrence counts.
    pub(super) fn seconds(&self, name: &str) -> Option<u64> {
        let (_, value) = self.directives.iter().find(|(known, _)| known == name)?;
        parse_seconds(value.as_deref()?)
    }

    /// Formats the directives for the library. Field lists (`no-cache="set-cookie"`) lose their
    /// fields, which makes them stricter. The library takes `proxy-revalidate` for "never fresh",
    /// so it does not get it: the caller forbids stale responses itself.
    pub(super) fn to_header(&self) -> HeaderValue {
        let mut text = String::new();
        for (name, value) in self.directives.iter().filter(|(name, _)| name != "proxy-revalidate") {
            let separator = if text.is_empty() { "" } else { ", " };
            let seconds_value = value.as_deref().and_then(parse_seconds);
            // Writing into a string cannot fail.
            let _ = match (seconds_value, value) {
                (Some(seconds_value), _) => write!(text, "{separator}{name}={seconds_value}"),
                (None, Some(_)) if TIME_DIRECTIVES.contains(&name.as_str()) => {
                    write!(text, "{separator}{name}=0")
                }
                _ => write!(text, "{separator}{name}"),
            };
        }
        HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("no-store"))
    }
}

/// Splits at commas outside quotes.
fn split_directives(text: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    text.split(move |letter| {
        quoted ^= letter == '"';
        letter == ',' && !quoted
    })
}

/// Parses `name`, `name=token` or `name="quoted"`.
fn parse_directive(part: &str) -> Option<(String, Option<String>)> {
    let part = part.trim_matches([' ', '\t']);
    let (name, value) = match part.split_once('=') {
        Some((name, value)) => (name, Some(unquote(value)?.to_owned())),
        None => (part, None),
    };
    is_token(name).then(|| (name.to_ascii_lowercase(), value))
}

/// Returns the text of a token or quoted string. An escaped letter keeps its backslash: no known value has one.
fn unquote(value: &str) -> Option<&str> {
    let quoted = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match quoted {
        Some(quoted) => (!quoted.contains('"')).then_some(quoted),
        None => is_token(value).then_some(value),
    }
}

fn is_token(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_letter)
}

/// Parses whole seconds; larger numbers mean forever.
pub(super) fn parse_seconds(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(FOREVER).min(FOREVER))
}

/// RFC 9111's value for a number of seconds that is too large: 68 years.
pub(super) const FOREVER: u64 = 1 << 31;

/// Directives with a time value: an invalid time means zero.
const TIME_DIRECTIVES: [&str; 2] = ["max-age", "s-maxage"];

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &'static str) -> CacheControl {
        let value = HeaderValue::from_static(text);
        CacheControl::from_headers(&HeaderMap::from_iter([(CACHE_CONTROL, value)])).expect("readable")
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
        assert_eq!(control.to_header(), "no-cache, max-age=7");
    }

    #[test]
    fn a_huge_time_means_forever_and_an_invalid_one_zero() {
        assert_eq!(read("max-age=99999999999999999999").seconds("max-age"), Some(FOREVER));
        assert_eq!(read("max-age=-1").to_header(), "max-age=0");
        assert_eq!(read("max-age=soon").to_header(), "max-age=0");
    }

    #[test]
    fn a_header_that_breaks_the_grammar_is_no_permission() {
        for text in [
            &b"max-age=5, x=\xff"[..],
            b"private;max-age=60",
            b"max-age=60; no-store",
            b"max-age=60 no-store",
            b"max-age =60",
            b"max-age= 60",
            b"max-age=",
            b"=60",
            b"max-age=\"60",
            b"no-cache=\"a\"b, max-age=60",
            b"max-age=60, (no-store)",
        ] {
            let value = HeaderValue::from_bytes(text).expect("a value");
            let headers = HeaderMap::from_iter([(CACHE_CONTROL, value)]);
            assert_eq!(CacheControl::from_headers(&headers), None, "{text:?}");
        }
    }

    #[test]
    fn blanks_and_empty_elements_are_part_of_the_grammar() {
        assert_eq!(read(" ,max-age=5 ,\t, x=\"a;b, c\",").seconds("max-age"), Some(5));
        assert_eq!(read(""), CacheControl::default());
    }
}
