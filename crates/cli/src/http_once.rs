//! One HTTP exchange over its own connection: for commands that call the admin API, and for the load of
//! `dev`.
//!
//! It has no pool, no redirects and no TLS: both ends are on this machine or on a trusted path. API calls go
//! through the client instead.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// Address of an HTTP server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum HttpTarget {
    /// A host and a port.
    Tcp(String),
    /// A socket in the file system.
    Unix(PathBuf),
}

impl std::str::FromStr for HttpTarget {
    type Err = &'static str;

    /// Reads `http://127.0.0.1:7071`, `127.0.0.1:7071`, `:7071` or `unix:/run/admin.sock`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        let authority = text.strip_prefix("http://").unwrap_or(text);
        let authority = authority.trim_end_matches('/');
        let (host, port) = authority.rsplit_once(':').ok_or(INVALID_TARGET)?;
        let port: u16 = port.parse().map_err(|_| INVALID_TARGET)?;
        let plain = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
        if !host.chars().all(plain) {
            return Err(INVALID_TARGET);
        }
        let host = if host.is_empty() { "127.0.0.1" } else { host };
        Ok(Self::Tcp(format!("{host}:{port}")))
    }
}

impl fmt::Display for HttpTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(authority) => write!(f, "http://{authority}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Sends a request and reads the complete response.
///
/// # Errors
/// If no server listens there, or the response is incomplete.
pub(crate) async fn exchange(
    target: &HttpTarget,
    request: Request<Full<Bytes>>,
) -> Result<Response<Bytes>, ExchangeError> {
    let exchanged = async {
        match target {
            HttpTarget::Tcp(authority) => {
                let stream = TcpStream::connect(authority.as_str());
                let stream = stream.await.map_err(ExchangeError::Unreachable)?;
                exchange_over(stream, authority, request).await
            }
            HttpTarget::Unix(path) => {
                let stream = UnixStream::connect(path).await;
                exchange_over(stream.map_err(ExchangeError::Unreachable)?, "localhost", request).await
            }
        }
    };
    let response = tokio::time::timeout(TIMEOUT, exchanged).await;
    response.unwrap_or(Err(ExchangeError::Broken))
}

async fn exchange_over(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    host: &str,
    mut request: Request<Full<Bytes>>,
) -> Result<Response<Bytes>, ExchangeError> {
    let host = HeaderValue::from_str(host).map_err(|_| ExchangeError::Broken)?;
    request.headers_mut().insert(HOST, host);
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|_| ExchangeError::Broken)?;
    let exchanged = async {
        let response = sender.send_request(request).await;
        let (head, body) = response.map_err(|_| ExchangeError::Broken)?.into_parts();
        let body = Limited::new(body, MAX_RESPONSE).collect().await;
        let body = body.map_err(|error| {
            let large = error.downcast_ref::<LengthLimitError>().is_some();
            if large {
                ExchangeError::TooLarge
            } else {
                ExchangeError::Broken
            }
        });
        let body = body?.to_bytes();
        Ok(Response::from_parts(head, body))
    };
    let connected = async {
        // The exchange sees the error itself.
        let _ended = connection.await;
        std::future::pending().await
    };
    tokio::select! {
        response = exchanged => response,
        never = connected => never,
    }
}

/// Reason for a missing response.
#[derive(Debug)]
pub(crate) enum ExchangeError {
    /// No server listens there.
    Unreachable(io::Error),
    /// The server did not complete an HTTP response.
    Broken,
    /// The response exceeds the size limit.
    TooLarge,
}

impl fmt::Display for ExchangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(error) => write!(f, "no server listens there: {}", error.kind()),
            Self::Broken => {
                f.write_str("the server gave no complete response: check that it speaks HTTP/1.1 and is up")
            }
            Self::TooLarge => f.write_str("the response is larger than 64 MiB: request less at once"),
        }
    }
}

impl std::error::Error for ExchangeError {}

/// Advice for a text that is no address.
const INVALID_TARGET: &str = "write it like \"http://127.0.0.1:7071\", \":7071\" or \"unix:/run/admin.sock\"";

/// Longer than any wait queue of the sidecar, and shorter than users wait.
const TIMEOUT: Duration = Duration::from_secs(40);

/// Far above any response of the admin API.
const MAX_RESPONSE: usize = 64 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_parses_in_all_usual_notations() {
        let tcp = |authority: &str| Ok(HttpTarget::Tcp(authority.to_owned()));
        assert_eq!("http://127.0.0.1:7071/".parse(), tcp("127.0.0.1:7071"));
        assert_eq!(":7071".parse(), tcp("127.0.0.1:7071"));
        assert_eq!("[::1]:7071".parse(), tcp("[::1]:7071"));
        assert_eq!("unix:/a".parse(), Ok(HttpTarget::Unix("/a".into())));
        for wrong in ["", "https://a:1", "a", "a:b", "a/b:1", "a:70000"] {
            assert_eq!(wrong.parse::<HttpTarget>(), Err(INVALID_TARGET), "{wrong}");
        }
    }
}
