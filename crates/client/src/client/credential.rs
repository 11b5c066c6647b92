//! An API's key on its way into a request, and out of one that leaves the API.
//!
//! The key is made ready once, as a value that prints nothing. It is laid over whatever the caller
//! wrote: a call goes out under the key it was configured with. A request that is redirected to
//! another origin loses it, and everything else by which the caller could be known there.

use std::fmt;

use http::header::{AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use secrecy::{ExposeSecret, SecretString};

use crate::api::{Credential, CredentialPlacement};

/// A key, ready to be sent.
#[derive(Clone)]
pub(crate) enum AuthApplier {
    /// In a header.
    Header(HeaderName, HeaderValue),
    /// In the query: `name=`, and the value already encoded.
    Query(String, SecretString),
}

impl AuthApplier {
    /// Makes a key ready; nothing if it holds what its place cannot.
    pub(crate) fn from_credential(credential: &Credential) -> Option<Self> {
        let secret = credential.secret.expose_secret();
        match &credential.place {
            CredentialPlacement::Bearer => Self::header(AUTHORIZATION, &format!("Bearer {secret}")),
            CredentialPlacement::Header(name) => Self::header(name.clone(), secret),
            CredentialPlacement::Query(name) => Some(Self::Query(
                format!("{}=", encoded(name)),
                encoded(secret).into(),
            )),
        }
    }

    fn header(name: HeaderName, value: &str) -> Option<Self> {
        let mut value = HeaderValue::from_str(value).ok()?;
        value.set_sensitive(true);
        Some(Self::Header(name, value))
    }

    /// Puts the key into the headers, if that is its place.
    pub(crate) fn put(&self, headers: &mut HeaderMap) {
        if let Self::Header(name, value) = self {
            headers.insert(name.clone(), value.clone());
        }
    }

    /// Puts the key behind a path and query, if that is its place, and takes out what the caller wrote
    /// there: of two keys some servers take the first.
    pub(crate) fn behind(&self, target: &mut String) {
        if let Self::Query(name, value) = self {
            take_out(target, &decoded(name.trim_end_matches('=')));
            match target.split_once('?') {
                None => target.push('?'),
                Some((_, "")) => {}
                Some(_) => target.push('&'),
            }
            target.push_str(name);
            target.push_str(value.expose_secret());
        }
    }

    /// Puts the key behind where a redirect leads, if that is its place and it is not there already.
    pub(crate) fn follow(&self, to: Uri) -> Uri {
        let named = |name: &str| {
            let query = to.query().unwrap_or_default();
            query.split('&').any(|pair| pair.starts_with(name))
        };
        let Self::Query(name, _) = self else {
            return to;
        };
        if named(name) {
            return to;
        }
        let mut target = to
            .path_and_query()
            .map_or("/", |part| part.as_str())
            .to_owned();
        self.behind(&mut target);
        let mut parts = to.clone().into_parts();
        parts.path_and_query = target.try_into().ok();
        // What is too long with the key is called without, and says so itself.
        Uri::from_parts(parts).unwrap_or(to)
    }
}

impl fmt::Debug for AuthApplier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Header(..) => "Header",
            Self::Query(..) => "Query",
        })
    }
}

/// Takes everything out of the headers by which another origin could know the caller. Custom names
/// are taken by their sound: a key in a header of its own is still a key.
pub(crate) fn forget(headers: &mut HeaderMap, shown: Option<&AuthApplier>) {
    for name in [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION] {
        headers.remove(name);
    }
    if let Some(AuthApplier::Header(name, _)) = shown {
        headers.remove(name);
    }
    let personal: Vec<_> = headers
        .iter()
        .filter(|(name, value)| value.is_sensitive() || sounds_personal(name.as_str()))
        .map(|(name, _)| name.clone())
        .collect();
    for name in personal {
        headers.remove(name);
    }
}

/// Takes every parameter of this name out of a query, however it is spelt. Some servers take `;` for
/// `&`. The others stay byte for byte: they may be signed.
fn take_out(target: &mut String, name: &str) {
    let Some((path, query)) = target.split_once('?') else {
        return;
    };
    let is_it = |part: &str| decoded(part.split('=').next().unwrap_or_default()) == name;
    if !query.split(['&', ';']).any(is_it) {
        return;
    }
    let kept = query.split('&').filter_map(|pair| {
        let parts: Vec<_> = pair.split(';').filter(|part| !is_it(part)).collect();
        (!parts.is_empty()).then(|| parts.join(";"))
    });
    let kept: Vec<_> = kept.collect();
    *target = match kept.as_slice() {
        [] => path.to_owned(),
        kept => format!("{path}?{}", kept.join("&")),
    };
}

/// What a name in a query says.
fn decoded(name: &str) -> String {
    let spaced = name.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}

fn sounds_personal(name: &str) -> bool {
    [
        "auth",
        "key",
        "token",
        "secret",
        "session",
        "cookie",
        "signature",
    ]
    .iter()
    .any(|word| name.contains(word))
}

/// A name or value as it stands in a query.
pub(crate) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, IN_A_QUERY).to_string()
}

/// Everything but the characters that RFC 3986 calls unreserved.
const IN_A_QUERY: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(place: CredentialPlacement, secret: &str) -> Option<AuthApplier> {
        AuthApplier::from_credential(&Credential {
            secret: secret.to_owned().into(),
            place,
        })
    }

    #[test]
    fn a_key_is_put_where_it_was_configured() {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::from_static("the caller's own"));
        shown(CredentialPlacement::Bearer, "abc")
            .expect("valid")
            .put(&mut headers);
        assert_eq!(headers[AUTHORIZATION], "Bearer abc");
        let in_query =
            shown(CredentialPlacement::Query("api_key".into()), "a&b=c d").expect("valid");
        for (before, after) in [
            ("/films", "/films?api_key=a%26b%3Dc%20d"),
            ("/films?page=2", "/films?page=2&api_key=a%26b%3Dc%20d"),
            ("/films?", "/films?api_key=a%26b%3Dc%20d"),
        ] {
            let mut target = before.to_owned();
            in_query.behind(&mut target);
            assert_eq!(target, after);
        }
    }

    // The name in every spelling that a server undoes; names that only contain it are others.
    #[test]
    fn a_caller_cannot_send_another_key_beside_it() {
        let in_query = shown(CredentialPlacement::Query("api_key".into()), "ours").expect("valid");
        for (before, after) in [
            ("/films?api_key=mine", "/films?api_key=ours"),
            (
                "/films?a=1&api_key=mine&b=%2F",
                "/films?a=1&b=%2F&api_key=ours",
            ),
            ("/films?api%5fkey=mine&a", "/films?a&api_key=ours"),
            ("/films?%61pi_key&api_key=&a=1", "/films?a=1&api_key=ours"),
            ("/films?a=1;api_key=mine&b", "/films?a=1&b&api_key=ours"),
            (
                "/films?api_key2=x&&my_api_key=y",
                "/films?api_key2=x&&my_api_key=y&api_key=ours",
            ),
            ("/api_key=mine", "/api_key=mine?api_key=ours"),
        ] {
            let mut target = before.to_owned();
            in_query.behind(&mut target);
            assert_eq!(target, after, "{before}");
        }
    }

    // A line end in a variable is the usual way by which a key becomes two headers.
    #[test]
    fn a_key_that_ends_a_line_is_refused() {
        for secret in ["a\r\nx-evil: 1", "a\n", "a\0b"] {
            assert!(shown(CredentialPlacement::Bearer, secret).is_none());
            assert!(shown(CredentialPlacement::Header(COOKIE), secret).is_none());
        }
    }

    #[test]
    fn a_key_prints_nothing() {
        let place = CredentialPlacement::Header(HeaderName::from_static("x-api-key"));
        for place in [
            CredentialPlacement::Bearer,
            place,
            CredentialPlacement::Query("key".into()),
        ] {
            let shown = shown(place, "CANARY").expect("valid");
            let mut headers = HeaderMap::new();
            shown.put(&mut headers);
            assert!(!format!("{shown:?} {headers:?}").contains("CANARY"));
        }
    }

    #[test]
    fn nothing_personal_goes_to_another_origin() {
        let mut headers = HeaderMap::new();
        for name in [
            "authorization",
            "cookie",
            "proxy-authorization",
            "x-api-key",
            "x-auth-token",
            "x-mine",
            "idempotency-key",
            "accept",
            "user-agent",
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static("v"));
        }
        let place = CredentialPlacement::Header(HeaderName::from_static("x-mine"));
        forget(&mut headers, shown(place, "v").as_ref());
        let mut kept: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        kept.sort_unstable();
        assert_eq!(kept, ["accept", "user-agent"]);
    }
}
