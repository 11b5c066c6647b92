//! What is asked of the cache: a request, and whose it is.
//!
//! The caller lends everything and the cache keeps none of it: of a query only keyed hashes remain.
//! Two questions are answered here. May this request be answered from memory at all? And which of its
//! headers say *who* asks or *where* the request really goes? Those belong to the key even if the
//! answer's `Vary` forgets them, as it usually does: a header that steers the server and is in no key
//! is how one caller poisons another's cache. No list of names is long enough for that (`X-Shop`,
//! `X-Workspace`), so the list is of those that say neither, and all others belong to the key.

use std::fmt;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Uri};

use super::cache_control::CacheControl;
use super::key::is_noise;
use crate::api::CacheMode;

/// A request, as the cache sees it.
///
/// The URI is the one that is asked for, without an injected key: the credential is named apart.
#[derive(Clone, Copy)]
pub struct CacheQuery<'a> {
    /// The API's name. Two APIs share nothing, even at one address.
    pub api: &'a str,
    /// The method.
    pub method: &'a Method,
    /// The whole address.
    pub uri: &'a Uri,
    /// The headers that the caller gave.
    pub headers: &'a HeaderMap,
    /// The key that will be put into the request, if any. It is hashed and never kept.
    pub credential: Option<&'a [u8]>,
    /// Whether answers of this API are kept.
    pub mode: CacheMode,
}

/// Why a request is not answered from memory and its answer not kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BypassReason {
    /// The API's cache is off.
    Off,
    /// The method is neither GET nor HEAD.
    Method,
    /// The request asks for a part, brings its own conditions or a body, or forbids keeping.
    Request,
}

impl CacheQuery<'_> {
    /// Why the cache has no part in this, if it has none.
    pub(super) fn bypass(&self) -> Option<BypassReason> {
        if self.mode == CacheMode::Off {
            return Some(BypassReason::Off);
        }
        if self.method != Method::GET && self.method != Method::HEAD {
            return Some(BypassReason::Method);
        }
        let special = OWN_CONDITIONS
            .iter()
            .any(|name| self.headers.contains_key(name));
        let unkept =
            CacheControl::from_headers(self.headers).is_none_or(|control| control.has("no-store"));
        (special || unkept || self.has_body()).then_some(BypassReason::Request)
    }

    /// Whether a read asks for what is kept and for nothing else.
    pub(crate) fn is_only_if_cached(&self) -> bool {
        let reads = self.method == Method::GET || self.method == Method::HEAD;
        reads
            && CacheControl::from_headers(self.headers)
                .is_some_and(|control| control.has("only-if-cached"))
    }

    /// Whether something says whose request this is. What is kept for it then is that caller's own,
    /// a private cache in the sense of the RFC; what is kept for nobody in particular is shared.
    pub(super) fn is_personal(&self) -> bool {
        self.credential.is_some_and(|key| !key.is_empty())
            || self.userinfo().is_some()
            || self
                .headers
                .iter()
                .any(|(name, value)| names_caller(name, value))
    }

    /// What stands before the host in the address.
    pub(super) fn userinfo(&self) -> Option<&str> {
        let authority = self.uri.authority()?.as_str();
        authority.rsplit_once('@').map(|(user, _)| user)
    }

    fn has_body(&self) -> bool {
        let length = self.headers.get(header::CONTENT_LENGTH);
        length.is_some_and(|length| length != "0")
            || self.headers.contains_key(header::TRANSFER_ENCODING)
    }
}

/// Shows nothing that could be a secret: no path, no header, no key.
impl fmt::Debug for CacheQuery<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Query")
            .field("api", &self.api)
            .field("method", &self.method)
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

/// Whether a header is part of the key, whatever `Vary` says. A header too many costs a miss, one too
/// few would show a caller what is another's.
pub(super) fn shapes_key(name: &HeaderName, value: &HeaderValue) -> bool {
    value.is_sensitive() || !(is_plain(name) || is_noise(name))
}

/// Whether a header says what is wanted, and neither who asks nor where.
pub(super) fn is_plain(name: &HeaderName) -> bool {
    PLAIN.contains(name) || OWN_CONDITIONS.contains(name)
}

/// Whether a header certainly tells who asks, by its name: what is kept for it is that caller's own.
pub(super) fn names_caller(name: &HeaderName, value: &HeaderValue) -> bool {
    value.is_sensitive() || (*name != header::USER_AGENT && sounds_personal(name.as_str()))
}

/// Whether a name is one that secrets and identities go by.
pub(super) fn sounds_personal(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    PERSONAL.iter().any(|mark| name.contains(mark))
}

/// A request with one of these gets an answer that is of use to nobody else.
const OWN_CONDITIONS: [HeaderName; 6] = [
    header::RANGE,
    header::IF_RANGE,
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_UNMODIFIED_SINCE,
];

/// Parts of names under which providers take keys and identities.
const PERSONAL: [&str; 15] = [
    "auth",
    "cookie",
    "key",
    "token",
    "secret",
    "session",
    "sign",
    "credential",
    "passw",
    "jwt",
    "user",
    "account",
    "tenant",
    "organi",
    "csrf",
];

/// What every client sends, and servers answer alike or name in `Vary`.
const PLAIN: [HeaderName; 11] = [
    header::ACCEPT,
    header::ACCEPT_CHARSET,
    header::ACCEPT_ENCODING,
    header::ACCEPT_LANGUAGE,
    header::CACHE_CONTROL,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::PRAGMA,
    header::TE,
    header::USER_AGENT,
];
