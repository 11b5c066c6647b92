//! Base URL of an API: scheme, host, port and a path prefix of every call.
//!
//! Nothing else is allowed. A user name would be a secret that gets printed, a query would be lost
//! when a path is joined, and other schemes are not supported.

mod join;

use std::fmt;
use std::str::FromStr;

use http::Uri;
use http::uri::{Authority, Scheme};

pub use self::join::InvalidPath;

/// Checked base URL.
///
/// ```
/// use outflow::{BaseUrl, InvalidBaseUrl};
///
/// let url: BaseUrl = "https://api.example.com/v1/".parse()?;
/// assert_eq!(url.to_string(), "https://api.example.com/v1");
/// assert_eq!("ftp://example.com".parse::<BaseUrl>(), Err(InvalidBaseUrl::Scheme));
/// # Ok::<(), InvalidBaseUrl>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BaseUrl {
    scheme: Scheme,
    authority: Authority,
    /// Without a trailing slash; empty for the root.
    path: Box<str>,
}

impl BaseUrl {
    /// Returns `http` or `https`.
    pub const fn scheme(&self) -> &Scheme {
        &self.scheme
    }

    /// Returns the host and, if given, the port.
    pub const fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Returns the host.
    pub fn host(&self) -> &str {
        self.authority.host()
    }

    /// Returns the prefix of every path: empty, or a path without a trailing slash.
    pub fn prefix(&self) -> &str {
        &self.path
    }
}

impl FromStr for BaseUrl {
    type Err = InvalidBaseUrl;

    fn from_str(written: &str) -> Result<Self, InvalidBaseUrl> {
        let uri: Uri = written.parse().map_err(|_| InvalidBaseUrl::Unreadable)?;
        let parts = uri.into_parts();
        let scheme = parts.scheme.ok_or(InvalidBaseUrl::Scheme)?;
        if scheme != Scheme::HTTP && scheme != Scheme::HTTPS {
            return Err(InvalidBaseUrl::Scheme);
        }
        let authority = parts.authority.ok_or(InvalidBaseUrl::Host)?;
        if authority.as_str().contains('@') {
            return Err(InvalidBaseUrl::UserInfo);
        }
        if authority.host().is_empty() {
            return Err(InvalidBaseUrl::Host);
        }
        // A port that is no number would silently become the default.
        if authority.as_str() != authority.host() && authority.port_u16().is_none() {
            return Err(InvalidBaseUrl::Port);
        }
        let path = parts.path_and_query;
        if written.contains(['?', '#']) {
            return Err(InvalidBaseUrl::Query);
        }
        let path = path.as_ref().map_or("", |path| path.path());
        Ok(Self {
            scheme,
            authority,
            path: path.trim_end_matches('/').into(),
        })
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority, self.path)
    }
}

outflow_core::error_enum! {
    /// Error of a base URL.
    pub enum InvalidBaseUrl {
        /// It is not a URL.
        Unreadable = "this is not a URL: write it as `https://api.example.com`",
        /// It does not start with `http://` or `https://`.
        Scheme = "a base URL starts with `http://` or `https://`",
        /// It has no host.
        Host = "a base URL needs a host",
        /// The port is invalid.
        Port = "a port is a number up to 65535",
        /// It holds a user name or password.
        UserInfo = "a base URL holds no user or password: put the key into a variable and name it in \
             `api_key_env`",
        /// It holds a query or a fragment.
        Query = "a base URL ends before `?` and `#`: put parameters into the calls",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_origin_and_path_is_a_base_url() {
        for (written, error) in [
            ("", InvalidBaseUrl::Unreadable),
            ("api.example.com", InvalidBaseUrl::Scheme),
            ("/v1", InvalidBaseUrl::Scheme),
            ("ws://example.com", InvalidBaseUrl::Scheme),
            ("https://user:pw@example.com", InvalidBaseUrl::UserInfo),
            ("https://example.com:99999", InvalidBaseUrl::Port),
            ("https://example.com:", InvalidBaseUrl::Port),
            ("https://example.com?key=1", InvalidBaseUrl::Query),
            ("https://example.com/#top", InvalidBaseUrl::Query),
        ] {
            assert_eq!(written.parse::<BaseUrl>(), Err(error), "{written}");
        }
    }
}
