//! One HTTP exchange over a connection of its own, for the program's talk with itself: commands that ask
//! the admin API, and the load that `dev` puts on its sidecar.
//!
//! No pool, no redirects, no TLS: both ends are on this machine or on a trusted way to it. Calls to APIs
//! never take this way; they go through the client.

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

/// Where the other end is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum HttpTarget {
    /// A host and a port.
    Tcp(String),
    /// A socket in the file system.
    Unix(PathBuf),
}

impl std::str::FromStr for HttpTarget {
    type Err = InvalidPlace;

    /// Reads `http://127.0.0.1:7071`, `127.0.0.1:7071`, `:7071` or `unix:/run/admin.sock`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        let authority = text.strip_prefix("http://").unwrap_or(text);
        let authority = authority.trim_end_matches('/');
        let (host, port) = authority.rsplit_once(':').ok_or(InvalidPlace)?;
        let port: u16 = port.parse().map_err(|_| InvalidPlace)?;
        let plain = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
        if !host.chars().all(plain) {
            return Err(InvalidPlace);
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

/// Sends a request there and reads its answer whole.
///
/// # Errors
/// If nobody is there, or no whole answer came.
pub(crate) async fn exchange(
    place: &HttpTarget,
    request: Request<Full<Bytes>>,
) -> Result<Response<Bytes>, ExchangeError> {
    let talk = async {
        match place {
            HttpTarget::Tcp(authority) => {
                let stream = TcpStream::connect(authority.as_str());
                let stream = stream.await.map_err(ExchangeError::Unreachable)?;
                converse(stream, authority, request).await
            }
            HttpTarget::Unix(path) => {
                let stream = UnixStream::connect(path).await;
                converse(
                    stream.map_err(ExchangeError::Unreachable)?,
                    "localhost",
                    request,
                )
                .await
            }
        }
    };
    let answered = tokio::time::timeout(PATIENCE, talk).await;
    answered.unwrap_or(Err(ExchangeError::Broken))
}

async fn converse(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    host: &str,
    mut request: Request<Full<Bytes>>,
) -> Result<Response<Bytes>, ExchangeError> {
    let host = HeaderValue::from_str(host).map_err(|_| ExchangeError::Broken)?;
    request.headers_mut().insert(HOST, host);
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|_| ExchangeError::Broken)?;
    let talk = async {
        let answer = sender.send_request(request).await;
        let (head, body) = answer.map_err(|_| ExchangeError::Broken)?.into_parts();
        let body = Limited::new(body, LARGEST).collect().await;
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
    let driven = async {
        // What it ended with, the talk learns by itself.
        let _ended = connection.await;
        std::future::pending().await
    };
    tokio::select! {
        answer = talk => answer,
        never = driven => never,
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum ExchangeError {
    /// Nobody listens there.
    Unreachable(io::Error),
    /// Somebody does, and does not speak HTTP to its end.
    Broken,
    /// The answer is larger than what is read at once.
    TooLarge,
}

impl fmt::Display for ExchangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(error) => write!(f, "nobody listens there: {}", error.kind()),
            Self::Broken => f.write_str("whoever listens there gave no whole answer"),
            Self::TooLarge => f.write_str("the answer is larger than 64 MiB: ask for less at once"),
        }
    }
}

impl std::error::Error for ExchangeError {}

/// A text that is no place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct InvalidPlace;

impl fmt::Display for InvalidPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "write it like \"http://127.0.0.1:7071\", \":7071\" or \"unix:/run/admin.sock\"",
        )
    }
}

impl std::error::Error for InvalidPlace {}

/// Longer than any queue of the sidecar lets a call wait, and shorter than a person does.
const PATIENCE: Duration = Duration::from_secs(40);

/// Far above any answer of the admin API.
const LARGEST: usize = 64 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_people_write_it() {
        let tcp = |authority: &str| Ok(HttpTarget::Tcp(authority.to_owned()));
        assert_eq!("http://127.0.0.1:7071/".parse(), tcp("127.0.0.1:7071"));
        assert_eq!(":7071".parse(), tcp("127.0.0.1:7071"));
        assert_eq!("[::1]:7071".parse(), tcp("[::1]:7071"));
        assert_eq!("unix:/a".parse(), Ok(HttpTarget::Unix("/a".into())));
        for wrong in ["", "https://a:1", "a", "a:b", "a/b:1", "a:70000"] {
            assert_eq!(wrong.parse::<HttpTarget>(), Err(InvalidPlace), "{wrong}");
        }
    }
}
