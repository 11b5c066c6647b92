//! Which versions of HTTP a server speaks.

use hyper_util::server::conn::auto;

use crate::tasks::Spawner;

/// The versions that are offered behind TLS and understood without it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Protocols {
    /// HTTP/1.1 and HTTP/2, whichever the client prefers.
    #[default]
    Both,
    /// HTTP/1.1 alone, on which every fault can be shown.
    Http1,
    /// HTTP/2 alone.
    Http2,
}

impl Protocols {
    /// Their names in a handshake.
    pub(crate) fn alpn(self) -> Vec<Vec<u8>> {
        let (h1, h2) = (b"http/1.1".to_vec(), b"h2".to_vec());
        match self {
            Self::Both => vec![h2, h1],
            Self::Http1 => vec![h1],
            Self::Http2 => vec![h2],
        }
    }

    /// The library that speaks them. Dates are the server's own, so the library writes none.
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
