//! Whether an answer repeats a secret of its request.
//!
//! Servers that echo exist: a debugging endpoint, an error page, a `PooledConnection` to the next page with the
//! key still in its query. What is a secret by its place or name is certain, and an answer with it is
//! not kept at all. What only looks like one, a word of letters and digits under a name that nobody
//! knows, is doubtful: an answer with it stays in memory and is never written. Both are found as they
//! are and as an address would carry them. Short values are not looked for: `1` is in every answer and
//! opens nothing. A server that hides what it echoes, in base64 or letter by letter, is not seen through.

use std::borrow::Cow;

use http::HeaderMap;
use percent_encoding::{percent_decode, percent_decode_str};

use super::key::is_noise;
use super::query::{CacheQuery, is_plain, names_caller, sounds_personal};

/// What an answer repeats of its request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EchoedSecret {
    /// Nothing that matters.
    Nothing,
    /// What may be a secret.
    Doubtful,
    /// What is one.
    Secret,
}

/// What a header or the body of an answer repeats of the request.
pub(super) fn repeated(query: &CacheQuery<'_>, headers: &HeaderMap, body: &[u8]) -> EchoedSecret {
    let mut texts: Vec<Cow<'_, [u8]>> = vec![Cow::Borrowed(body)];
    texts.extend(headers.values().map(|value| Cow::from(value.as_bytes())));
    // Only what differs when it is decoded is a text of its own.
    let decoded = |text: &[u8]| match Cow::from(percent_decode(text)) {
        Cow::Owned(meant) => Some(Cow::Owned(meant)),
        Cow::Borrowed(_) => None,
    };
    let meant: Vec<_> = texts.iter().filter_map(|text| decoded(text)).collect();
    texts.extend(meant);
    let stands =
        |secret: &Vec<u8>| secret.len() >= SHORTEST && texts.iter().any(|text| holds(text, secret));
    if secrets(query).iter().any(stands) {
        EchoedSecret::Secret
    } else if doubtful(query).iter().any(stands) {
        EchoedSecret::Doubtful
    } else {
        EchoedSecret::Nothing
    }
}

/// The values of a request that are secrets by their place or name.
fn secrets(query: &CacheQuery<'_>) -> Vec<Vec<u8>> {
    let mut found: Vec<Vec<u8>> = query.credential.map(<[u8]>::to_vec).into_iter().collect();
    if let Some(userinfo) = query.userinfo() {
        found.extend(password(userinfo.as_bytes()));
    }
    for (name, value) in query.headers {
        if names_caller(name, value) {
            found.extend(inside(value.as_bytes()));
            found.extend(in_basic(value.as_bytes()));
        }
    }
    found.extend(of_query(query, sounds_personal));
    found
}

/// The values of a request that may be secrets, for all that their names tell.
fn doubtful(query: &CacheQuery<'_>) -> Vec<Vec<u8>> {
    let unknown = |name: &str| !ORDINARY.iter().any(|mark| name.contains(mark));
    let mut found: Vec<Vec<u8>> = Vec::new();
    for (name, value) in query.headers {
        if unknown(name.as_str()) && !is_plain(name) && !is_noise(name) {
            found.push(value.as_bytes().to_vec());
            found.extend(inside(value.as_bytes()));
        }
    }
    found.extend(of_query(query, |name| unknown(&name.to_ascii_lowercase())));
    found.retain(|value| looks_made(value));
    found
}

/// Whether a value looks like one that a machine made: letters and digits, and no space. A word, a
/// number and a day are none.
fn looks_made(value: &[u8]) -> bool {
    let has = |kind: fn(&u8) -> bool| value.iter().any(kind);
    has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic) && !has(u8::is_ascii_whitespace)
}

/// What stands behind the user's name, and all of it if there is no name.
fn password(userinfo: &[u8]) -> [Vec<u8>; 2] {
    let colon = userinfo.iter().position(|byte| *byte == b':');
    let bare = colon.and_then(|at| userinfo.get(at + 1..));
    let bare = bare.unwrap_or(userinfo);
    [bare.to_vec(), percent_decode(bare).collect()]
}

/// The password inside of `Basic dXNlcjpwYXNz`.
fn in_basic(value: &[u8]) -> Vec<Vec<u8>> {
    let text = String::from_utf8_lossy(value);
    let Some((scheme, coded)) = text.trim().split_once(' ') else {
        return Vec::new();
    };
    if !scheme.eq_ignore_ascii_case("basic") {
        return Vec::new();
    }
    let pair = from_base64(coded.trim().as_bytes());
    pair.map_or_else(Vec::new, |pair| password(&pair).to_vec())
}

/// Base64 in its usual alphabet; `None` if it is anything else.
fn from_base64(coded: &[u8]) -> Option<Vec<u8>> {
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

/// The parts of a header's value that are secret by themselves: `Bearer KEY`, `a=KEY; b=KEY`.
fn inside(value: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let parts = value.split(|byte| matches!(byte, b' ' | b';' | b','));
    parts.map(|part| {
        let name_end = part.iter().position(|byte| *byte == b'=');
        // Padding at the end of base64 is no name before it.
        let value = name_end.and_then(|end| part.get(end + 1..)).unwrap_or(part);
        let padded = value.iter().all(|byte| *byte == b'=');
        if padded {
            part.to_vec()
        } else {
            value.to_vec()
        }
    })
}

/// The values of the parameters with such names, as they are written and as they are meant.
fn of_query(query: &CacheQuery<'_>, named: impl Fn(&str) -> bool) -> Vec<Vec<u8>> {
    let text = query.uri.query().unwrap_or_default();
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    let chosen = pairs.filter(|(name, _)| named(name));
    let both = chosen.map(|(_, value)| {
        let meant = percent_decode_str(value).collect();
        [value.as_bytes().to_vec(), meant]
    });
    both.flatten().collect()
}

/// A search for the first byte and then for the rest: quick, because few bytes are the first.
fn holds(text: &[u8], secret: &[u8]) -> bool {
    let Some(first) = secret.first() else {
        return false;
    };
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| byte == first) {
        let Some(here) = rest.get(at..) else {
            return false;
        };
        if here.starts_with(secret) {
            return true;
        }
        rest = here.get(1..).unwrap_or_default();
    }
    false
}

/// No provider's key is shorter, and shorter words are found in answers by chance.
const SHORTEST: usize = 8;

/// Parts of names whose values are no secrets and that servers like to repeat.
const ORDINARY: [&str; 8] = [
    "version", "date", "time", "page", "sort", "lang", "format", "fields",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_found_wherever_it_stands() {
        assert!(holds(b"canary", b"canary"));
        assert!(holds(b"xcacanary!", b"canary"));
        assert!(!holds(b"canar", b"canary"));
        assert!(!holds(b"", b"canary"));
    }

    #[test]
    fn a_header_is_taken_apart() {
        let parts = |text: &str| inside(text.as_bytes()).collect::<Vec<_>>();
        assert!(parts("Bearer canary-1").contains(&b"canary-1".to_vec()));
        assert!(parts("a=canary-1; b=canary-2").contains(&b"canary-2".to_vec()));
        assert!(parts("Basic Y2FuYXJ5==").contains(&b"Y2FuYXJ5==".to_vec()));
    }

    // What GitHub, Stripe and a weather service get and repeat in every answer.
    #[test]
    fn a_word_a_number_and_a_day_are_no_secrets() {
        for plain in ["temperature", "2022-11-28", "1234567890", "route 66 west"] {
            assert!(!looks_made(plain.as_bytes()), "{plain}");
        }
        assert!(looks_made(b"7f3a9c51e2"));
    }

    // RFC 7617's own example, and what is no base64.
    #[test]
    fn a_password_is_read_out_of_basic() {
        let found = in_basic(b"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        assert_eq!(found.first().map(Vec::as_slice), Some(&b"open sesame"[..]));
        assert!(in_basic(b"Basic ?").is_empty() && in_basic(b"Bearer QWxh").is_empty());
    }
}
