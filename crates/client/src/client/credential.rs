//! Credential of an API: added to its requests and removed from redirected ones.
//!
//! The key is prepared once, as a value that prints nothing. It replaces a key of the caller: a
//! call uses the key of its configuration. A redirect to another origin removes it and everything
//! else that identifies the caller.

use std::fmt;

use http::header::{AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use secrecy::{ExposeSecret, SecretString};

use crate::api::{Credential, CredentialPlacement};

/// Key ready to be sent.
#[derive(Clone)]
pub(crate) enum AuthApplier {
    /// In a header.
    Header(HeaderName, HeaderValue),
    /// In the query: `name=` and the encoded value.
    Query(String, SecretString),
}

impl AuthApplier {
    /// Prepares a key; `None` if it holds characters that its place does not allow.
    pub(crate) fn from_credential(credential: &Credential) -> Option<Self> {
        let secret = credential.secret.expose_secret();
        match &credential.place {
            CredentialPlacement::Bearer => Self::header(AUTHORIZATION, &format!("Bearer {secret}")),
            CredentialPlacement::Header(name) => Self::header(name.clone(), secret),
            CredentialPlacement::Query(name) => Some(Self::Query(
                format!("{}=", percent_encode(name)),
                percent_encode(secret).into(),
            )),
        }
    }

    fn header(name: HeaderName, value: &str) -> Option<Self> {
        let mut value = HeaderValue::from_str(value).ok()?;
        value.set_sensitive(true);
        Some(Self::Header(name, value))
    }

    /// Adds the key to the headers, if it belongs there.
    pub(crate) fn add_to_headers(&self, headers: &mut HeaderMap) {
        if let Self::Header(name, value) = self {
            headers.insert(name.clone(), value.clone());
        }
    }

    /// Adds the key to a query, if it belongs there, and removes the caller's: of two keys some
    /// servers take the first.
    pub(crate) fn add_to_query(&self, target: &mut String) {
        if let Self::Query(name, value) = self {
            remove_parameter(target, &percent_decode(name.trim_end_matches('=')));
            match target.split_once('?') {
                None => target.push('?'),
                Some((_, "")) => {}
                Some(_) => target.push('&'),
            }
            target.push_str(name);
            target.push_str(value.expose_secret());
        }
    }

    /// Adds the key to a redirect target, if it belongs there and is missing.
    pub(crate) fn add_to_redirect(&self, to: Uri) -> Uri {
        let has_parameter = |name: &str| {
            let query = to.query().unwrap_or_default();
            query.split('&').any(|pair| pair.starts_with(name))
        };
        let Self::Query(name, _) = self else {
            return to;
        };
        if has_parameter(name) {
            return to;
        }
        let mut target = to.path_and_query().map_or("/", |part| part.as_str()).to_owned();
        self.add_to_query(&mut target);
        let mut deps = to.clone().into_parts();
        deps.path_and_query = target.try_into().ok();
        // A URI that is too long with the key is called without it, and the server reports that.
        Uri::from_parts(deps).unwrap_or(to)
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

/// Removes headers that identify the caller to another origin. Custom headers are judged by name: a
/// key in a header of its own is still a key.
pub(crate) fn strip_credentials(headers: &mut HeaderMap, auth: Option<&AuthApplier>) {
    for name in [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION] {
        headers.remove(name);
    }
    if let Some(AuthApplier::Header(name, _)) = auth {
        headers.remove(name);
    }
    let identifying: Vec<_> = headers
        .iter()
        .filter(|(name, value)| value.is_sensitive() || is_identifying_name(name.as_str()))
        .map(|(name, _)| name.clone())
        .collect();
    for name in identifying {
        headers.remove(name);
    }
}

/// Removes every parameter of this name from a query, in any encoding. Some servers accept `;` for
/// `&`. The others stay byte for byte: they may be signed.
fn remove_parameter(target: &mut String, name: &str) {
    let Some((path, query)) = target.split_once('?') else {
        return;
    };
    let is_named = |part: &str| percent_decode(part.split('=').next().unwrap_or_default()) == name;
    if !query.split(['&', ';']).any(is_named) {
        return;
    }
    let remaining = query.split('&').filter_map(|pair| {
        let deps: Vec<_> = pair.split(';').filter(|part| !is_named(part)).collect();
        (!deps.is_empty()).then(|| deps.join(";"))
    });
    let remaining: Vec<_> = remaining.collect();
    *target = match remaining.as_slice() {
        [] => path.to_owned(),
        remaining => format!("{path}?{}", remaining.join("&")),
    };
}

/// Decodes a name in a query.
fn percent_decode(name: &str) -> String {
    let spaced = name.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}

/// Returns true if a header of this name probably holds a credential.
pub(crate) fn is_identifying_name(name: &str) -> bool {
    ["auth", "key", "token", "secret", "session", "cookie", "signature"]
        .iter()
        .any(|word| name.contains(word))
}

/// Percent-encodes a name or value for a query.
pub(crate) fn percent_encode(text: &str) -> String {
    utf8_percent_encode(text, QUERY_ENCODE_SET).to_string()
}

/// Everything but the unreserved characters of RFC 3986.
const QUERY_ENCODE_SET: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

#[cfg(test)]
mod tests {
    use super::*;

    fn auth(place: CredentialPlacement, secret: &str) -> Option<AuthApplier> {
        AuthApplier::from_credential(&Credential {
            secret: secret.to_owned().into(),
            place,
        })
    }

    #[test]
    fn a_key_is_added_where_it_was_configured() {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::from_static("the caller's own"));
        auth(CredentialPlacement::Bearer, "abc")
            .expect("valid")
            .add_to_headers(&mut headers);
        assert_eq!(headers[AUTHORIZATION], "Bearer abc");
        let in_query = auth(CredentialPlacement::Query("api_key".into()), "a&b=c d").expect("valid");
        for (before, after) in [
            ("/films", "/films?api_key=a%26b%3Dc%20d"),
            ("/films?page=2", "/films?page=2&api_key=a%26b%3Dc%20d"),
            ("/films?", "/films?api_key=a%26b%3Dc%20d"),
        ] {
            let mut target = before.to_owned();
            in_query.add_to_query(&mut target);
            assert_eq!(target, after);
        }
    }

    // The name in every encoding that a server decodes; names that only contain it differ.
    #[test]
    fn a_caller_cannot_send_a_second_key() {
        let in_query = auth(CredentialPlacement::Query("api_key".into()), "ours").expect("valid");
        for (before, after) in [
            ("/films?api_key=mine", "/films?api_key=ours"),
            ("/films?a=1&api_key=mine&b=%2F", "/films?a=1&b=%2F&api_key=ours"),
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
            in_query.add_to_query(&mut target);
            assert_eq!(target, after, "{before}");
        }
    }

    // A line end in a variable is the usual way for a key to become two headers.
    #[test]
    fn a_key_with_a_line_end_is_rejected() {
        for secret in ["a\r\nx-evil: 1", "a\n", "a\0b"] {
            assert!(auth(CredentialPlacement::Bearer, secret).is_none());
            assert!(auth(CredentialPlacement::Header(COOKIE), secret).is_none());
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
            let auth = auth(place, "CANARY").expect("valid");
            let mut headers = HeaderMap::new();
            auth.add_to_headers(&mut headers);
            assert!(!format!("{auth:?} {headers:?}").contains("CANARY"));
        }
    }

    #[test]
    fn no_identifying_header_goes_to_another_origin() {
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
        strip_credentials(&mut headers, auth(place, "v").as_ref());
        let mut kept: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        kept.sort_unstable();
        assert_eq!(kept, ["accept", "user-agent"]);
    }
}
