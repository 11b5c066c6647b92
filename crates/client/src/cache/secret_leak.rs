//! Detection of responses that repeat a secret of their request.
//!
//! Some servers echo: a debugging endpoint, an error page, a `Link` to the next page with the key
//! in its query. A value that is a secret by place or name is certain, and such a response is not
//! stored. A value that only looks like one, letters and digits under an unknown name, is doubtful:
//! the response stays in memory only. Both are matched raw and percent-encoded. Short values are
//! ignored: `1` is in every response and opens nothing. An echo in base64 or letter by letter is
//! not detected.

use std::borrow::Cow;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use http::HeaderMap;
use percent_encoding::{percent_decode, percent_decode_str};

use super::key::is_noise;
use super::query::{CacheQuery, identifies_caller, is_content_header, is_personal_name};

/// Request data repeated by a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EchoedSecret {
    /// Nothing relevant.
    Nothing,
    /// A possible secret.
    Doubtful,
    /// A secret.
    Secret,
}

/// Finds request secrets in a response's headers and body.
pub(super) fn find_echo(query: &CacheQuery<'_>, headers: &HeaderMap, body: &[u8]) -> EchoedSecret {
    let mut texts: Vec<Cow<'_, [u8]>> = vec![Cow::Borrowed(body)];
    texts.extend(headers.values().map(|value| Cow::from(value.as_bytes())));
    // Only texts that differ after decoding are added.
    let decoded = |text: &[u8]| match Cow::from(percent_decode(text)) {
        Cow::Owned(plain) => Some(Cow::Owned(plain)),
        Cow::Borrowed(_) => None,
    };
    let plain: Vec<_> = texts.iter().filter_map(|text| decoded(text)).collect();
    texts.extend(plain);
    if contains_any(&texts, secrets(query)) {
        EchoedSecret::Secret
    } else if contains_any(&texts, doubtful(query)) {
        EchoedSecret::Doubtful
    } else {
        EchoedSecret::Nothing
    }
}

/// Returns the values of a request that are secrets by place or name.
fn secrets(query: &CacheQuery<'_>) -> Vec<Vec<u8>> {
    let mut found: Vec<Vec<u8>> = query.credential.map(<[u8]>::to_vec).into_iter().collect();
    if let Some(userinfo) = query.userinfo() {
        found.extend(password(userinfo.as_bytes()));
    }
    for (name, value) in query.headers {
        if identifies_caller(name, value) {
            found.extend(header_secrets(value.as_bytes()));
            found.extend(basic_password(value.as_bytes()));
        }
    }
    found.extend(query_values(query, is_personal_name));
    found
}

/// Returns the values of a request that may be secrets under an unknown name.
fn doubtful(query: &CacheQuery<'_>) -> Vec<Vec<u8>> {
    let unknown = |name: &str| !HARMLESS.iter().any(|part| name.contains(part));
    let mut found: Vec<Vec<u8>> = Vec::new();
    for (name, value) in query.headers {
        if unknown(name.as_str()) && !is_content_header(name) && !is_noise(name) {
            found.push(value.as_bytes().to_vec());
            found.extend(header_secrets(value.as_bytes()));
        }
    }
    found.extend(query_values(query, |name| unknown(&name.to_ascii_lowercase())));
    found.retain(|value| looks_generated(value));
    found
}

/// Returns true if a value looks generated: letters and digits without spaces. Words, numbers and
/// dates do not.
fn looks_generated(value: &[u8]) -> bool {
    let has = |kind: fn(&u8) -> bool| value.iter().any(kind);
    has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic) && !has(u8::is_ascii_whitespace)
}

/// Returns the part after the user name, or all of it without a colon.
fn password(userinfo: &[u8]) -> [Vec<u8>; 2] {
    let colon = userinfo.iter().position(|byte| *byte == b':');
    let bare = colon.and_then(|at| userinfo.get(at + 1..));
    let bare = bare.unwrap_or(userinfo);
    [bare.to_vec(), percent_decode(bare).collect()]
}

/// Returns the password of `Basic dXNlcjpwYXNz`.
fn basic_password(value: &[u8]) -> Vec<Vec<u8>> {
    let text = String::from_utf8_lossy(value);
    let Some((scheme, coded)) = text.trim().split_once(' ') else {
        return Vec::new();
    };
    if !scheme.eq_ignore_ascii_case("basic") {
        return Vec::new();
    }
    let pair = decode_base64(coded.trim().as_bytes());
    pair.map_or_else(Vec::new, |pair| password(&pair).to_vec())
}

/// Decodes standard base64; `None` for anything else.
fn decode_base64(coded: &[u8]) -> Option<Vec<u8>> {
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0_u32, 0_u32);
    for letter in coded.iter().filter(|letter| **letter != b'=') {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = ((bits << 6) | u32::from(value)) & 0xffff;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from((bits >> held) & 0xff).ok()?);
        }
    }
    Some(bytes)
}

/// Splits a header value into possible secrets: `Bearer KEY`, `a=KEY; b=KEY`.
fn header_secrets(value: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let parts = value.split(|byte| matches!(byte, b' ' | b';' | b','));
    parts.map(|part| {
        let name_end = part.iter().position(|byte| *byte == b'=');
        // Padding at the end of base64 does not end a name.
        let value = name_end.and_then(|end| part.get(end + 1..)).unwrap_or(part);
        let padded = value.iter().all(|byte| *byte == b'=');
        if padded { part.to_vec() } else { value.to_vec() }
    })
}

/// Returns the values of the chosen query parameters, raw and decoded.
fn query_values(query: &CacheQuery<'_>, is_chosen: impl Fn(&str) -> bool) -> Vec<Vec<u8>> {
    let text = query.uri.query().unwrap_or_default();
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    let chosen = pairs.filter(|(name, _)| is_chosen(name));
    let both = chosen.map(|(_, value)| {
        let plain = percent_decode_str(value).collect();
        [value.as_bytes().to_vec(), plain]
    });
    both.flatten().collect()
}

/// Returns true if a text contains one of these values. All values are searched in one pass: a caller chooses their
/// number, and a search for each would occupy a thread for as long as the caller likes.
fn contains_any(texts: &[Cow<'_, [u8]>], mut values: Vec<Vec<u8>>) -> bool {
    values.retain(|value| value.len() >= MIN_LENGTH);
    if values.is_empty() {
        return false;
    }
    let search = AhoCorasick::builder()
        // The default kind takes longer to build, and most searches are short.
        .kind(Some(AhoCorasickKind::ContiguousNFA))
        .build(&values);
    // Values that fill no head cannot fill the search either.
    search.map_or(true, |search| texts.iter().any(|text| search.is_match(text.as_ref())))
}

/// No provider's key is shorter, and shorter words occur in responses by chance.
const MIN_LENGTH: usize = 8;

/// Parts of names whose values are no secrets and that servers like to repeat.
const HARMLESS: [&str; 8] = ["version", "date", "time", "page", "sort", "lang", "format", "fields"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_found_at_any_position() {
        let found = |text: &'static [u8], values: &[&str]| {
            let values = values.iter().map(|value| value.as_bytes().to_vec());
            contains_any(&[Cow::Borrowed(text)], values.collect())
        };
        assert!(found(b"canaries", &["canaries"]));
        assert!(found(b"xcacanaries!", &["another!", "canaries", "canaries-2"]));
        assert!(!found(b"canarie", &["canaries"]));
        assert!(!found(b"", &["canaries"]));
        assert!(!found(b"canary", &["canary"]), "too short");
        assert!(!found(b"canaries", &[]));
    }

    #[test]
    fn a_header_is_split_into_its_secrets() {
        let parts = |text: &str| header_secrets(text.as_bytes()).collect::<Vec<_>>();
        assert!(parts("Bearer canary-1").contains(&b"canary-1".to_vec()));
        assert!(parts("a=canary-1; b=canary-2").contains(&b"canary-2".to_vec()));
        assert!(parts("Basic Y2FuYXJ5==").contains(&b"Y2FuYXJ5==".to_vec()));
    }

    // Values that GitHub, Stripe and a weather service get and repeat in every response.
    #[test]
    fn words_numbers_and_dates_are_no_secrets() {
        for plain in ["temperature", "2022-11-28", "1234567890", "route 66 west"] {
            assert!(!looks_generated(plain.as_bytes()), "{plain}");
        }
        assert!(looks_generated(b"7f3a9c51e2"));
    }

    // RFC 7617's own example, and invalid base64.
    #[test]
    fn the_password_of_basic_is_found() {
        let found = basic_password(b"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        assert_eq!(found.first().map(Vec::as_slice), Some(&b"open sesame"[..]));
        assert!(basic_password(b"Basic ?").is_empty() && basic_password(b"Bearer QWxh").is_empty());
    }
}
