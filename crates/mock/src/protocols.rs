//! The HTTP versions of a server.

use hyper_util::server::conn::auto;

use crate::tasks::Spawner;

/// Versions that are offered behind TLS and accepted without it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Protocols {
    /// HTTP/1.1 and HTTP/2, as the client prefers.
    #[default]
    Both,
    /// HTTP/1.1 alone, which supports every fault.
    Http1,
    /// HTTP/2 alone.
    Http2,
}

impl Protocols {
    /// Returns their ALPN names.
    pub(crate) fn alpn(self) -> Vec<Vec<u8>> {
        let (h1, h2) = (b"http/1.1".to_vec(), b"h2".to_vec());
        match self {
            Self::Both => vec![h2, h1],
            Self::Http1 => vec![h1],
            Self::Http2 => vec![h2],
        }
    }

    /// Builds the HTTP library's server. Dates are the mock's own, so the library writes none.
    pub(crate) fn http(self, spawner: Spawner) -> auto::Builder<Spawner> {
        let mut http = auto::Builder::new(spawner);
        http.http1().auto_date_header(false);
        http.http2().auto_date_header(false);
        match self {
            Self::Both => http,
            Self::Http1 => http.http1_only(),
            Self::Http2 => http.http2_only(),
        }
    }
}
