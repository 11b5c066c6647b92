//! Whether an answer repeats a secret of its request.
//!
//! Servers that echo exist: a debugging endpoint, an error page, a `Link` to the next page with the
//! key still in its query. Such an answer is not kept, in memory or on disk. Short values are not
//! looked for: `1` is in every answer and opens nothing.

use http::HeaderMap;
use percent_encoding::percent_decode_str;

use super::query::{Query, names_caller, sounds_personal};

/// Whether a header or the body of an answer holds a secret of the request.
pub(super) fn repeats(query: &Query<'_>, headers: &HeaderMap, body: &[u8]) -> bool {
    secrets(query).iter().any(|secret| {
        let in_headers = headers
            .values()
            .any(|value| holds(value.as_bytes(), secret));
        in_headers || holds(body, secret)
    })
}

/// The values of a request that are secrets by their place or name, as long as they are long enough.
fn secrets(query: &Query<'_>) -> Vec<Vec<u8>> {
    let mut found: Vec<Vec<u8>> = query.credential.map(<[u8]>::to_vec).into_iter().collect();
    if let Some(userinfo) = query.userinfo() {
        let password = userinfo
            .split_once(':')
            .map_or(userinfo, |(_, password)| password);
        found.push(password.as_bytes().to_vec());
    }
    for (name, value) in query.headers {
        if names_caller(name, value) {
            found.extend(inside(value.as_bytes()));
        }
    }
    found.extend(of_query(query.uri.query().unwrap_or_default()));
    found.retain(|secret| secret.len() >= SHORTEST);
    found
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

/// The values of parameters that go by a secret's name, as they are written and as they are meant.
fn of_query(query: &str) -> impl Iterator<Item = Vec<u8>> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let secret = pairs.filter(|(name, _)| sounds_personal(name));
    secret.flat_map(|(_, value)| {
        let meant = percent_decode_str(value).collect();
        [value.as_bytes().to_vec(), meant]
    })
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

    #[test]
    fn a_parameter_is_looked_for_in_both_its_forms() {
        let found = of_query("q=word&api_key=a%2Fb").collect::<Vec<_>>();
        assert_eq!(found, [b"a%2Fb".to_vec(), b"a/b".to_vec()]);
    }
}
