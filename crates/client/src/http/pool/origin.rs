//! Origin of a connection: scheme, host and port, and the `Host` header for it.

use http::uri::{Authority, Parts, PathAndQuery, Scheme};
use http::{HeaderValue, Uri};

use crate::base_url::BaseUrl;

/// Origin that connections lead to.
pub(crate) struct PoolOrigin {
    scheme: Scheme,
    authority: Authority,
    /// Value of `Host` in HTTP/1.1: without the default port.
    pub(super) host: HeaderValue,
}

impl PoolOrigin {
    /// Returns the origin of an API.
    pub(super) fn from_base(base: &BaseUrl) -> Option<Self> {
        Self::new(base.scheme().clone(), base.authority().clone())
    }

    /// Returns the origin of a URI, if it names one.
    pub(super) fn from_uri(uri: &Uri) -> Option<Self> {
        Self::new(uri.scheme()?.clone(), uri.authority()?.clone())
    }

    fn new(scheme: Scheme, authority: Authority) -> Option<Self> {
        let default = if scheme == Scheme::HTTPS { 443 } else { 80 };
        let other = authority.port_u16().filter(|port| *port != default);
        let host = match other {
            Some(port) => HeaderValue::try_from(format!("{}:{port}", authority.host())),
            None => HeaderValue::from_str(authority.host()),
        };
        Some(Self {
            scheme,
            host: host.ok()?,
            authority,
        })
    }

    /// Returns true if the URI belongs to this origin.
    pub(super) fn contains(&self, uri: &Uri) -> bool {
        uri.scheme() == Some(&self.scheme) && uri.authority() == Some(&self.authority)
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        self.scheme == other.scheme && self.authority == other.authority
    }

    /// Returns the full URI of a path at this origin.
    pub(super) fn uri_for(&self, path: Option<PathAndQuery>) -> Uri {
        let mut parts = Parts::default();
        parts.scheme = Some(self.scheme.clone());
        parts.authority = Some(self.authority.clone());
        parts.path_and_query = Some(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
        // Scheme, authority and path are set, so this cannot fail.
        Uri::from_parts(parts).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Virtual hosts expect the default port to be left out; any other port is named.
    #[test]
    fn the_host_header_omits_the_default_port() {
        for (url, host) in [
            ("http://a.example:80/x", "a.example"),
            ("https://a.example:443/x", "a.example"),
            ("https://a.example:80/x", "a.example:80"),
            ("http://[::1]:8080/x", "[::1]:8080"),
            ("http://a.example/x", "a.example"),
        ] {
            let uri: Uri = url.parse().expect("a place");
            let origin = PoolOrigin::from_uri(&uri).expect("an origin");
            assert_eq!(origin.host, host, "{url}");
            assert!(origin.contains(&uri));
            let again = origin.uri_for(uri.path_and_query().cloned());
            assert_eq!(again, uri);
        }
    }
}
