//! The sidecar's rooms, one by one and all of them, for whoever makes requests up.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::config::ServerConfig;
use bytes::Bytes;
use http::{HeaderMap, Request, Response, Uri, Version};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use outflow_listener::InboundConnection;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

pub use crate::h1::framing::{BodyBytes, ParsedRequests};

use crate::Sidecar;
use crate::accept::connection;
use crate::h1::framing::HeadLimits;
use crate::proxy::ProxyHandler;
use crate::proxy::control_headers::CallOverrides;
use crate::proxy::request_guard::ListenerExposure;
use crate::proxy::route::RequestRoute;

/// What the reader before the parser makes of bytes that come in these pieces, with so many headers and
/// so large a head as the most.
pub fn read<'a>(
    (headers, bytes): (usize, usize),
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> ParsedRequests {
    ParsedRequests::new(HeadLimits { headers, bytes }, pieces)
}

/// A request as the parser read it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParsedRequest {
    /// Its body.
    pub body: BodyBytes,
    /// Its version.
    pub version: Version,
}

/// What the parser makes of a whole connection by itself, as it is set up for the sidecar: its requests,
/// and what it answered.
pub async fn parsed(bytes: &[u8]) -> (Vec<ParsedRequest>, Vec<u8>) {
    let (mut here, there) = tokio::io::duplex(ROOM.max(bytes.len()));
    // Nobody reads yet, and there is room for all of it.
    let _written = here.write_all(bytes).await;
    let _ended = here.shutdown().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let service = service_fn(move |request| note(request, Arc::clone(&noted)));
    let mut builder = connection::builder(&ServerConfig::default());
    // Nothing more comes, and what came is to be answered all the same.
    builder.http1().half_close(true);
    // How it ends is told by what was read and answered.
    let _ended = builder.serve_connection(TokioIo::new(there), service).await;
    let mut answers = Vec::new();
    let _all = here.read_to_end(&mut answers).await;
    let seen = std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner));
    (seen, answers)
}

async fn note(
    request: Request<Incoming>,
    seen: Arc<Mutex<Vec<ParsedRequest>>>,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    let version = request.version();
    let mut body = request.into_body();
    let mut length = BodyBytes::default();
    length.is_whole = loop {
        match body.frame().await {
            None => break true,
            Some(Err(_)) => break false,
            Some(Ok(frame)) => {
                let count = frame.data_ref().map_or(0, Bytes::len);
                length.bytes += u64::try_from(count).unwrap_or(u64::MAX);
            }
        }
    };
    let parsed = ParsedRequest {
        body: length,
        version,
    };
    seen.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(parsed);
    let mut response = Response::new(Empty::new());
    // A success would make CONNECT another protocol.
    *response.status_mut() = http::StatusCode::METHOD_NOT_ALLOWED;
    Ok(response)
}

/// The API that a target names, and the path that it has there.
#[must_use]
pub fn route(target: &Uri) -> Option<(&str, &str)> {
    RequestRoute::from_uri(target).map(|route| (route.api, route.path))
}

/// Takes what is said about the call out of its headers.
///
/// # Errors
/// The header that cannot be read, and what to write instead.
pub fn steering(headers: &mut HeaderMap) -> Result<(), (String, String)> {
    let taken = CallOverrides::take(headers);
    taken
        .map(drop)
        .map_err(|mistaken| (mistaken.header.to_string(), mistaken.advice))
}

/// All of its rooms, without a port before them.
pub struct SidecarFuzz {
    sidecar: Arc<Sidecar>,
    proxy: Arc<ProxyHandler>,
}

impl SidecarFuzz {
    /// Creates the proxy of a loopback listener.
    #[must_use]
    pub fn new(sidecar: Arc<Sidecar>) -> Self {
        let proxy = ProxyHandler::new(Arc::clone(&sidecar), ListenerExposure::Loopback);
        Self {
            sidecar,
            proxy: Arc::new(proxy),
        }
    }

    /// What a connection answers that sends these bytes, and ends when nothing more comes back.
    ///
    /// # Errors
    /// If there are no sockets left.
    pub async fn exchange(&self, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
        let (mut here, there) = UnixStream::pair()?;
        let config = self.sidecar.config();
        let stop = self.sidecar.tasks.cancel_token();
        let proxy = Arc::clone(&self.proxy);
        let served = connection::serve(InboundConnection::Unix(there), proxy, &config, stop);
        // It is gone once there is nothing more to read: the other side would wait for that.
        let asked = async move {
            let mut answers = Vec::new();
            // A refusal may close it before everything is written.
            let _refused = here.write_all(bytes).await;
            loop {
                match timeout(QUIET, here.read_buf(&mut answers)).await {
                    Ok(Ok(1..)) => {}
                    Ok(_) => break,
                    Err(_) => {
                        let _closed = here.shutdown().await;
                        let _all = here.read_to_end(&mut answers).await;
                        break;
                    }
                }
            }
            drop(here);
            answers
        };
        let ((), answers) = tokio::join!(served, asked);
        Ok(answers)
    }
}

/// More than the answers to all the requests that fit into a fuzzer's input.
const ROOM: usize = 1024 * 1024;

/// Longer than an answer takes that comes out of memory.
const QUIET: Duration = Duration::from_millis(5);
