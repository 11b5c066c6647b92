//! Where connections lead: a scheme, a host and a port, and how a request there names its host.

use http::uri::{Authority, Parts, PathAndQuery, Scheme};
use http::{HeaderValue, Uri};

use crate::base_url::BaseUrl;

/// One end of connections.
pub(crate) struct PoolOrigin {
    scheme: Scheme,
    authority: Authority,
    /// What a request of HTTP/1.1 calls it: without a port that is the usual one.
    pub(super) host: HeaderValue,
}

impl PoolOrigin {
    /// Where an API is.
    pub(super) fn of_base(base: &BaseUrl) -> Option<Self> {
        Self::new(base.scheme().clone(), base.authority().clone())
    }

    /// Where a request is for, if it says so.
    pub(super) fn from_uri(uri: &Uri) -> Option<Self> {
        Self::new(uri.scheme()?.clone(), uri.authority()?.clone())
    }

    fn new(scheme: Scheme, authority: Authority) -> Option<Self> {
        let usual = if scheme == Scheme::HTTPS { 443 } else { 80 };
        let unusual = authority.port_u16().filter(|port| *port != usual);
        let named = match unusual {
            Some(port) => HeaderValue::try_from(format!("{}:{port}", authority.host())),
            None => HeaderValue::from_str(authority.host()),
        };
        Some(Self {
            scheme,
            host: named.ok()?,
            authority,
        })
    }

    /// Whether a request is for here.
    pub(super) fn leads(&self, uri: &Uri) -> bool {
        uri.scheme() == Some(&self.scheme) && uri.authority() == Some(&self.authority)
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        self.scheme == other.scheme && self.authority == other.authority
    }

    /// The whole place of a path here.
    pub(super) fn place_of(&self, path: Option<PathAndQuery>) -> Uri {
        let mut parts = Parts::default();
        parts.scheme = Some(self.scheme.clone());
        parts.authority = Some(self.authority.clone());
        parts.path_and_query = Some(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
        // All three parts are there, which is all that is asked.
        Uri::from_parts(parts).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The usual port is left out, as servers with several names expect; another is told.
    #[test]
    fn a_host_is_named_without_the_usual_port() {
        for (place, host) in [
            ("http://a.example:80/x", "a.example"),
            ("https://a.example:443/x", "a.example"),
            ("https://a.example:80/x", "a.example:80"),
            ("http://[::1]:8080/x", "[::1]:8080"),
            ("http://a.example/x", "a.example"),
        ] {
            let uri: Uri = place.parse().expect("a place");
            let origin = PoolOrigin::from_uri(&uri).expect("an origin");
            assert_eq!(origin.host, host, "{place}");
            assert!(origin.leads(&uri));
            let again = origin.place_of(uri.path_and_query().cloned());
            assert_eq!(again, uri);
        }
    }
}
