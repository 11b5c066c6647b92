//! Request as the cache sees it, and its caller.
//!
//! The query borrows everything and the cache stores only keyed hashes. This module decides two
//! things: whether the cache may serve the request, and which headers identify the *caller* or the
//! *real target*. Those are part of the key even if the response's `Vary` omits them, as it usually
//! does: an unkeyed header that steers the server lets one caller poison another's cache. No list
//! of such names is complete (`X-Shop`, `X-Workspace`). So the list names the harmless headers, and
//! all others are part of the key.

use std::fmt;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Uri};

use super::cache_control::CacheControl;
use super::key::is_noise;
use crate::api::CacheMode;

/// Request as the cache sees it.
///
/// The URI excludes an injected key: the credential is a field of its own.
#[derive(Clone, Copy)]
pub struct CacheQuery<'a> {
    /// Name of the API. Two APIs share nothing, even at one address.
    pub api: &'a str,
    /// Method.
    pub method: &'a Method,
    /// Full URI.
    pub uri: &'a Uri,
    /// Headers of the caller.
    pub headers: &'a HeaderMap,
    /// Key that will be put into the request. It is hashed and never stored.
    pub credential: Option<&'a [u8]>,
    /// Cache mode of the API.
    pub mode: CacheMode,
}

/// Reason to bypass the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BypassReason {
    /// The API's cache is off.
    Off,
    /// The method is neither GET nor HEAD.
    Method,
    /// The request asks for a range, has its own conditions or a body, or forbids storing.
    Request,
}

impl CacheQuery<'_> {
    /// Returns the reason to bypass the cache, if any.
    pub(super) fn bypass(&self) -> Option<BypassReason> {
        if self.mode == CacheMode::Off {
            return Some(BypassReason::Off);
        }
        if self.method != Method::GET && self.method != Method::HEAD {
            return Some(BypassReason::Method);
        }
        let has_conditions = CONDITIONS.iter().any(|name| self.headers.contains_key(name));
        let forbids_storing = CacheControl::from_headers(self.headers).is_none_or(|control| control.has("no-store"));
        (has_conditions || forbids_storing || self.has_body()).then_some(BypassReason::Request)
    }

    /// Returns true if a read accepts only a stored response.
    pub(crate) fn is_only_if_cached(&self) -> bool {
        let is_read = self.method == Method::GET || self.method == Method::HEAD;
        is_read && CacheControl::from_headers(self.headers).is_some_and(|control| control.has("only-if-cached"))
    }

    /// Returns true if the request identifies its caller. Its responses are then private in the
    /// RFC's sense; responses to anonymous requests are shared.
    pub(super) fn is_personal(&self) -> bool {
        self.credential.is_some_and(|key| !key.is_empty())
            || self.userinfo().is_some()
            || self.headers.iter().any(|(name, value)| identifies_caller(name, value))
    }

    /// Returns the user information of the URI.
    pub(super) fn userinfo(&self) -> Option<&str> {
        let authority = self.uri.authority()?.as_str();
        authority.rsplit_once('@').map(|(user, _)| user)
    }

    fn has_body(&self) -> bool {
        let length = self.headers.get(header::CONTENT_LENGTH);
        length.is_some_and(|length| length != "0") || self.headers.contains_key(header::TRANSFER_ENCODING)
    }
}

/// Hides everything that could be a secret: path, headers and key.
impl fmt::Debug for CacheQuery<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheQuery")
            .field("api", &self.api)
            .field("method", &self.method)
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

/// Returns true if a header is part of the key regardless of `Vary`. One header too many costs a
/// miss; one too few would show a caller another's response.
pub(super) fn is_in_key(name: &HeaderName, value: &HeaderValue) -> bool {
    value.is_sensitive() || !(is_content_header(name) || is_noise(name))
}

/// Returns true if a header describes the wanted content, not the caller or the target.
pub(super) fn is_content_header(name: &HeaderName) -> bool {
    CONTENT_HEADERS.contains(name) || CONDITIONS.contains(name)
}

/// Returns true if the name of a header shows that it identifies the caller: its response is
/// private.
pub(super) fn identifies_caller(name: &HeaderName, value: &HeaderValue) -> bool {
    value.is_sensitive() || (*name != header::USER_AGENT && is_personal_name(name.as_str()))
}

/// Returns true if a name is typical for secrets and identities.
pub(super) fn is_personal_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    PERSONAL.iter().any(|part| name.contains(part))
}

/// A response to a request with one of these is useless for others.
const CONDITIONS: [HeaderName; 6] = [
    header::RANGE,
    header::IF_RANGE,
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_UNMODIFIED_SINCE,
];

/// Parts of names that providers use for keys and identities.
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

/// Headers that every client sends and that servers ignore or name in `Vary`.
const CONTENT_HEADERS: [HeaderName; 11] = [
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
