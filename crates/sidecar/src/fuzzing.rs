//! Entry points for fuzz targets: each stage of the sidecar alone, and all stages together.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use outflow_sync::Mutex;

use crate::config::ServerConfig;
use bytes::Bytes;
use http::{HeaderMap, Request, Response, Uri, Version};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use outflow_listener::{IdleTracker, InboundConnection};
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

/// Scans bytes that arrive in these pieces, with limits for the number of headers and the size of a head.
pub fn read<'a>((headers, bytes): (usize, usize), pieces: impl IntoIterator<Item = &'a [u8]>) -> ParsedRequests {
    ParsedRequests::new(HeadLimits { headers, bytes }, pieces)
}

/// Request as hyper reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParsedRequest {
    /// Extent of the body.
    pub body: BodyBytes,
    /// HTTP version.
    pub version: Version,
}

/// Parses all bytes of a connection with hyper alone, configured as in the sidecar. Returns the requests and
/// the bytes of the responses.
pub async fn parsed(bytes: &[u8]) -> (Vec<ParsedRequest>, Vec<u8>) {
    let (mut client, server) = tokio::io::duplex(PIPE_SIZE.max(bytes.len()));
    // The pipe holds all bytes, so that writing finishes before the server reads.
    let _written = client.write_all(bytes).await;
    let _ended = client.shutdown().await;
    let requests = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&requests);
    let service = service_fn(move |request| record(request, Arc::clone(&recorded)));
    let mut builder = connection::builder(&ServerConfig::default());
    // The client has closed its side and still gets its responses.
    builder.http1().half_close(true);
    // Requests and responses show how the connection ended.
    let _ended = builder.serve_connection(TokioIo::new(server), service).await;
    let mut responses = Vec::new();
    let _all = client.read_to_end(&mut responses).await;
    let requests = std::mem::take(&mut *requests.lock());
    (requests, responses)
}

async fn record(
    request: Request<Incoming>,
    requests: Arc<Mutex<Vec<ParsedRequest>>>,
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
    let parsed = ParsedRequest { body: length, version };
    requests.lock().push(parsed);
    let mut response = Response::new(Empty::new());
    // After a success, CONNECT would switch the protocol.
    *response.status_mut() = http::StatusCode::METHOD_NOT_ALLOWED;
    Ok(response)
}

/// Splits a target into the name of the API and its path there.
#[must_use]
pub fn route(target: &Uri) -> Option<(&str, &str)> {
    RequestRoute::from_uri(target).map(|route| (route.api, route.path))
}

/// Takes the control headers out of the headers.
///
/// # Errors
/// If a control header is invalid: its name and the advice.
pub fn take_control_headers(headers: &mut HeaderMap) -> Result<(), (String, String)> {
    let taken = CallOverrides::take(headers);
    taken
        .map(drop)
        .map_err(|invalid| (invalid.header.to_string(), invalid.advice))
}

/// All stages of the sidecar, without a port.
pub struct SidecarFuzz {
    sidecar: Arc<Sidecar>,
    proxy: Arc<ProxyHandler>,
}

impl SidecarFuzz {
    /// Creates the proxy of a loopback listener.
    #[must_use]
    pub fn new(sidecar: Arc<Sidecar>) -> Self {
        let proxy = ProxyHandler::new(Arc::clone(&sidecar), Arc::default(), ListenerExposure::Loopback);
        Self {
            sidecar,
            proxy: Arc::new(proxy),
        }
    }

    /// Sends these bytes over a connection and returns the responses; closes it when no more bytes arrive.
    ///
    /// # Errors
    /// If the process has no sockets left.
    pub async fn exchange(&self, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
        let (mut client, server) = UnixStream::pair()?;
        let config = self.sidecar.config();
        let stop = self.sidecar.tasks.cancel_token();
        let proxy = Arc::clone(&self.proxy);
        let tracker = IdleTracker::default();
        let handled = connection::serve(InboundConnection::Unix(server), proxy, &config, &tracker, stop);
        let exchanged = async move {
            let mut responses = Vec::new();
            // A rejection may close the connection before all bytes are written.
            let _rejected = client.write_all(bytes).await;
            loop {
                match timeout(RESPONSE_TIMEOUT, client.read_buf(&mut responses)).await {
                    Ok(Ok(1..)) => {}
                    Ok(_) => break,
                    Err(_) => {
                        let _closed = client.shutdown().await;
                        let _all = client.read_to_end(&mut responses).await;
                        break;
                    }
                }
            }
            // The server waits for the close.
            drop(client);
            responses
        };
        let ((), responses) = tokio::join!(handled, exchanged);
        Ok(responses)
    }
}

/// Size above the responses to all requests of one fuzzer input.
const PIPE_SIZE: usize = 1024 * 1024;

/// Longer than a response from memory takes.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(5);
