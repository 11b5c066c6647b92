//! What an answer is filed under: two keyed hashes, one of the address and one of who asks.
//!
//! Nothing of a request can be read from a key: not the path, not a token in its query, not a cookie.
//! The hash is keyed with a secret of the cache's own, so that whoever finds the files cannot try out
//! guesses either. The address is hashed apart from the caller because a write to it makes everybody's
//! copies obsolete, and they must be found.

use std::fmt;

use blake3::Hasher;
use http::uri::Scheme;
use http::{HeaderMap, HeaderName, Uri};

use super::query::{CacheQuery, shapes_key};

/// Half of a key: 128 bits, so that among all answers ever kept no two meet by chance.
pub(super) type Digest = [u8; 16];

/// What an answer is filed under.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct CacheKey {
    /// The API and the address. First, so that all keys of one address are neighbours.
    pub(super) resource: Digest,
    /// The method, and everything that says who asks.
    pub(super) caller: Digest,
}

/// What concurrent equal requests have in common: the key, every header that an answer could depend
/// on, and the writes before them, so that a read after a write is not equal to one before it. One-way, like every key here.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlightKey(CacheKey, Digest);

/// The cache's own secret, and what is made with it.
pub(super) struct KeySecret {
    secret: [u8; 32],
}

impl KeySecret {
    pub(super) const fn new(secret: [u8; 32]) -> Self {
        Self { secret }
    }

    /// The key of a request.
    pub(super) fn key(&self, query: &CacheQuery<'_>) -> CacheKey {
        CacheKey {
            resource: self.resource(query.api, query.uri),
            caller: self.caller(query),
        }
    }

    /// The first half of the keys of an address.
    pub(super) fn resource(&self, api: &str, uri: &Uri) -> Digest {
        let https = uri.scheme() == Some(&Scheme::HTTPS);
        let port = uri.port_u16().unwrap_or(if https { 443 } else { 80 });
        let host = uri.host().unwrap_or_default().to_ascii_lowercase();
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        let mut hash = self.hasher("resource");
        field(&mut hash, api.as_bytes());
        field(&mut hash, uri.scheme_str().unwrap_or_default().as_bytes());
        field(&mut hash, host.as_bytes());
        field(&mut hash, &port.to_le_bytes());
        field(&mut hash, target.as_bytes());
        digest(&hash)
    }

    fn caller(&self, query: &CacheQuery<'_>) -> Digest {
        let mut hash = self.hasher("caller");
        field(&mut hash, query.method.as_str().as_bytes());
        optional(&mut hash, query.credential);
        optional(&mut hash, query.userinfo().map(str::as_bytes));
        let shaping = |name: &HeaderName| {
            let mut values = query.headers.get_all(name).iter();
            values.any(|value| shapes_key(name, value))
        };
        headers(&mut hash, query.headers, shaping);
        digest(&hash)
    }

    /// The values that an answer's `Vary` selects from a request.
    pub(super) fn selection(&self, names: &[HeaderName], request: &HeaderMap) -> Digest {
        let mut hash = self.hasher("selection");
        for name in names {
            field(&mut hash, name.as_str().as_bytes());
            values(&mut hash, request, name);
        }
        digest(&hash)
    }

    /// What equal requests have in common, among them how many writes they have come after.
    pub(super) fn flight(&self, query: &CacheQuery<'_>, writes: u64) -> FlightKey {
        let mut hash = self.hasher("flight");
        field(&mut hash, &writes.to_le_bytes());
        headers(&mut hash, query.headers, |name| !is_noise(name));
        FlightKey(self.key(query), digest(&hash))
    }

    /// Vouches that a file's content was written by this cache, under this key.
    pub(super) fn mark(&self, key: &CacheKey, content: &[u8]) -> [u8; 32] {
        let mut hash = self.hasher("file");
        field(&mut hash, &key.resource);
        field(&mut hash, &key.caller);
        hash.update(content);
        *hash.finalize().as_bytes()
    }

    /// A label before everything: what is hashed for one purpose is no hash for another.
    fn hasher(&self, purpose: &str) -> Hasher {
        let mut hash = Hasher::new_keyed(&self.secret);
        field(&mut hash, purpose.as_bytes());
        hash
    }
}

/// Whether a header tells calls apart and nothing else. Equal calls differ in these and are still one.
pub(super) fn is_noise(name: &HeaderName) -> bool {
    NOISE.contains(&name.as_str())
}

impl CacheKey {
    /// The name of its file.
    pub(super) fn file_name(&self) -> String {
        format!("{}-{}", HexDigest(self.resource), HexDigest(self.caller))
    }

    /// The key whose file has this name.
    pub(super) fn from_file_name(name: &str) -> Option<Self> {
        let (resource, caller) = name.split_once('-')?;
        Some(Self {
            resource: unhex(resource)?,
            caller: unhex(caller)?,
        })
    }
}

struct HexDigest(Digest);

impl fmt::Display for HexDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for CacheKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file_name())
    }
}

impl fmt::Debug for FlightKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}-{}", self.0, HexDigest(self.1))
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

/// Its length first: two fields never run into one another.
fn field(hash: &mut Hasher, bytes: &[u8]) {
    hash.update(&bytes.len().to_le_bytes());
    hash.update(bytes);
}

/// Nothing at all differs from nothing in it.
fn optional(hash: &mut Hasher, bytes: Option<&[u8]>) {
    hash.update(&[u8::from(bytes.is_some())]);
    field(hash, bytes.unwrap_or_default());
}

/// The chosen headers in the order of their names: the map's own order means nothing.
fn headers(hash: &mut Hasher, all: &HeaderMap, chosen: impl Fn(&HeaderName) -> bool) {
    let mut names: Vec<_> = all.keys().filter(|name| chosen(name)).collect();
    names.sort_unstable_by_key(|name| name.as_str());
    for name in names {
        field(hash, name.as_str().as_bytes());
        values(hash, all, name);
    }
}

fn values(hash: &mut Hasher, all: &HeaderMap, name: &HeaderName) {
    let values = all.get_all(name);
    hash.update(&values.iter().count().to_le_bytes());
    for value in values {
        field(hash, value.as_bytes());
    }
}

/// Names under which single calls are followed through systems, and the way that they took: a gateway has
/// another name after each start.
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
    fn a_file_name_leads_back_to_its_key() {
        let key = CacheKey {
            resource: [0xab; 16],
            caller: [7; 16],
        };
        assert_eq!(CacheKey::from_file_name(&key.file_name()), Some(key));
        for name in [
            "",
            "-",
            "key",
            "lock",
            &"a".repeat(65),
            &key.file_name().to_uppercase(),
        ] {
            assert_eq!(CacheKey::from_file_name(name), None, "{name}");
        }
    }

    // "ab" + "c" and "a" + "bc" are the same bytes.
    #[test]
    fn fields_do_not_run_into_one_another() {
        let seal = KeySecret::new([1; 32]);
        let hash = |api: &str, uri: &str| seal.resource(api, &uri.parse().expect("a URI"));
        assert_ne!(hash("ab", "http://c/"), hash("a", "http://bc/"));
        assert_eq!(
            hash("a", "http://b/"),
            hash("a", "http://B:80/"),
            "one address"
        );
        assert_ne!(hash("a", "http://b/"), hash("a", "https://b/"));
        assert_ne!(hash("a", "http://b/x"), hash("a", "http://b/x?y"));
    }
}
