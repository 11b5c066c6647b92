//! Cache key: two keyed hashes, one of the resource and one of the caller.
//!
//! Nothing of a request can be read from a key: no path, no token in a query, no cookie. The hash
//! is keyed with the cache's own secret, so that found files allow no guessing. The resource is
//! hashed apart from the caller because a write makes the copies of all callers obsolete.

use std::fmt;

use blake3::Hasher;
use http::uri::Scheme;
use http::{HeaderMap, HeaderName, Uri};

use super::query::{CacheQuery, is_in_key};

/// Half of a key: 128 bits, so that no two stored responses collide by chance.
pub(super) type Digest = [u8; 16];

/// Key of a stored response.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct CacheKey {
    /// API and address. First, so that all keys of one resource are adjacent.
    pub(super) resource: Digest,
    /// Method and everything that identifies the caller.
    pub(super) caller: Digest,
}

/// Key that equal concurrent requests share: the cache key, all headers a response could depend on,
/// and the number of writes before them. A read after a write differs from one before it. One-way
/// like all keys.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlightKey(CacheKey, Digest);

/// Secret of a cache, and the hashes keyed with it.
pub(super) struct KeySecret {
    secret: [u8; 32],
}

impl KeySecret {
    pub(super) const fn new(secret: [u8; 32]) -> Self {
        Self { secret }
    }

    /// Returns the key of a request.
    pub(super) fn key(&self, query: &CacheQuery<'_>) -> CacheKey {
        CacheKey {
            resource: self.resource(query.api, query.uri),
            caller: self.caller(query),
        }
    }

    /// Hashes a resource.
    pub(super) fn resource(&self, api: &str, uri: &Uri) -> Digest {
        let https = uri.scheme() == Some(&Scheme::HTTPS);
        let port = uri.port_u16().unwrap_or(if https { 443 } else { 80 });
        let host = uri.host().unwrap_or_default().to_ascii_lowercase();
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        let mut hash = self.hasher("resource");
        update_field(&mut hash, api.as_bytes());
        update_field(&mut hash, uri.scheme_str().unwrap_or_default().as_bytes());
        update_field(&mut hash, host.as_bytes());
        update_field(&mut hash, &port.to_le_bytes());
        update_field(&mut hash, target.as_bytes());
        digest(&hash)
    }

    fn caller(&self, query: &CacheQuery<'_>) -> Digest {
        let mut hash = self.hasher("caller");
        update_field(&mut hash, query.method.as_str().as_bytes());
        update_optional(&mut hash, query.credential);
        update_optional(&mut hash, query.userinfo().map(str::as_bytes));
        let has_key_value = |name: &HeaderName| {
            let mut values = query.headers.get_all(name).iter();
            values.any(|value| is_in_key(name, value))
        };
        update_headers(&mut hash, query.headers, has_key_value);
        digest(&hash)
    }

    /// Hashes the request values that a response's `Vary` selects.
    pub(super) fn selection(&self, names: &[HeaderName], request: &HeaderMap) -> Digest {
        let mut hash = self.hasher("selection");
        for name in names {
            update_field(&mut hash, name.as_str().as_bytes());
            update_values(&mut hash, request, name);
        }
        digest(&hash)
    }

    /// Returns the key that equal requests share; `writes` counts the writes before them.
    pub(super) fn flight_key(&self, query: &CacheQuery<'_>, writes: u64) -> FlightKey {
        let mut hash = self.hasher("flight");
        update_field(&mut hash, &writes.to_le_bytes());
        update_headers(&mut hash, query.headers, |name| !is_noise(name));
        FlightKey(self.key(query), digest(&hash))
    }

    /// Returns the MAC that proves that this cache wrote the content under this key.
    pub(super) fn mac(&self, key: &CacheKey, content: &[u8]) -> [u8; 32] {
        let mut hash = self.hasher("file");
        update_field(&mut hash, &key.resource);
        update_field(&mut hash, &key.caller);
        hash.update(content);
        *hash.finalize().as_bytes()
    }

    /// Starts with a label, so that hashes for different purposes differ.
    fn hasher(&self, purpose: &str) -> Hasher {
        let mut hash = Hasher::new_keyed(&self.secret);
        update_field(&mut hash, purpose.as_bytes());
        hash
    }
}

/// Returns true if a header only identifies single calls. Equal requests may differ in it.
pub(super) fn is_noise(name: &HeaderName) -> bool {
    NOISE.contains(&name.as_str())
}

impl CacheKey {
    /// Returns the name of the key's file.
    pub(super) fn file_name(&self) -> String {
        format!(
            "{:032x}-{:032x}",
            u128::from_be_bytes(self.resource),
            u128::from_be_bytes(self.caller)
        )
    }

    /// Parses a file name.
    pub(super) fn from_file_name(name: &str) -> Option<Self> {
        let (resource, caller) = name.split_once('-')?;
        Some(Self {
            resource: unhex(resource)?,
            caller: unhex(caller)?,
        })
    }
}

impl fmt::Debug for CacheKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file_name())
    }
}

impl fmt::Debug for FlightKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}-{:032x}", self.0, u128::from_be_bytes(self.1))
    }
}

fn unhex(text: &str) -> Option<Digest> {
    let bytes = text.as_bytes();
    let lower = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if bytes.len() != 32 || !bytes.iter().all(lower) {
        return None;
    }
    Some(u128::from_str_radix(text, 16).ok()?.to_be_bytes())
}

fn digest(hash: &Hasher) -> Digest {
    let mut half = Digest::default();
    hash.finalize_xof().fill(&mut half);
    half
}

/// Adds the length first, so that adjacent fields cannot be confused.
fn update_field(hash: &mut Hasher, bytes: &[u8]) {
    hash.update(&bytes.len().to_le_bytes());
    hash.update(bytes);
}

/// Distinguishes a missing value from an empty one.
fn update_optional(hash: &mut Hasher, bytes: Option<&[u8]>) {
    hash.update(&[u8::from(bytes.is_some())]);
    update_field(hash, bytes.unwrap_or_default());
}

/// Hashes the chosen headers sorted by name: the map's order has no meaning.
fn update_headers(hash: &mut Hasher, all: &HeaderMap, is_chosen: impl Fn(&HeaderName) -> bool) {
    let mut names: Vec<_> = all.keys().filter(|name| is_chosen(name)).collect();
    names.sort_unstable_by_key(|name| name.as_str());
    for name in names {
        update_field(hash, name.as_str().as_bytes());
        update_values(hash, all, name);
    }
}

fn update_values(hash: &mut Hasher, all: &HeaderMap, name: &HeaderName) {
    let values = all.get_all(name);
    hash.update(&values.iter().count().to_le_bytes());
    for value in values {
        update_field(hash, value.as_bytes());
    }
}

/// Headers for tracing single calls, and their route: a gateway has another name after each start.
const NOISE: [&str; 9] = [
    "via",
    "traceparent",
    "tracestate",
    "baggage",
    "x-request-id",
    "x-correlation-id",
    "x-b3-traceid",
    "x-b3-spanid",
    "x-b3-parentspanid",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_parses_to_its_key() {
        let key = CacheKey {
            resource: [0xab; 16],
            caller: [7; 16],
        };
        assert_eq!(CacheKey::from_file_name(&key.file_name()), Some(key));
        for name in ["", "-", "key", "lock", &"a".repeat(65), &key.file_name().to_uppercase()] {
            assert_eq!(CacheKey::from_file_name(name), None, "{name}");
        }
    }

    // "ab" + "c" and "a" + "bc" are equal bytes.
    #[test]
    fn adjacent_fields_are_not_confused() {
        let secret = KeySecret::new([1; 32]);
        let hash = |api: &str, uri: &str| secret.resource(api, &uri.parse().expect("a URI"));
        assert_ne!(hash("ab", "http://c/"), hash("a", "http://bc/"));
        assert_eq!(hash("a", "http://b/"), hash("a", "http://B:80/"), "one address");
        assert_ne!(hash("a", "http://b/"), hash("a", "https://b/"));
        assert_ne!(hash("a", "http://b/x"), hash("a", "http://b/x?y"));
    }
}
