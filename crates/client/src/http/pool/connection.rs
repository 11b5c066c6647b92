//! Connection that carries requests over HTTP/1.1 or HTTP/2.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::header::HOST;
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper::rt::Executor;
use hyper_util::client::legacy::connect::Connection;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::runtime::Handle;
use tower_service::Service;

use super::super::failure::{AttemptFailure, ConnectError};
use super::super::request_body::OutgoingBody;
use super::super::tls_connector::TlsConnector;
use super::PoolOrigin;

/// Client side of a connection.
pub(crate) enum PooledConnection {
    /// HTTP/1.1: one request at a time.
    Single(http1::SendRequest<OutgoingBody>),
    /// HTTP/2: concurrent requests.
    Shared(http2::SendRequest<OutgoingBody>, SuspectFlag),
}

/// Flag that bars a shared connection from new requests. Clones share the connection's flag.
#[derive(Clone, Default)]
pub(crate) struct SuspectFlag(Arc<AtomicBool>);

impl SuspectFlag {
    /// Bars new requests.
    pub(crate) fn raise(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(super) fn is_raised(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Request without a response, returned if nothing of it was written.
pub(crate) struct UnansweredRequest {
    pub(crate) failure: AttemptFailure,
    pub(crate) unsent: Option<Request<OutgoingBody>>,
}

impl PooledConnection {
    /// Opens a connection. The connector applies the timeout.
    pub(super) async fn connect(mut connector: TlsConnector, origin: &PoolOrigin) -> Result<Self, AttemptFailure> {
        let stream = connector.call(origin.uri_for(None)).await;
        let stream = stream.map_err(ConnectError::into_failure)?;
        let opened = if stream.connected().is_negotiated_h2() {
            Self::shared(stream).await
        } else {
            Self::single(stream).await
        };
        opened.map_err(|error| AttemptFailure::from_head_error(&error))
    }

    pub(super) async fn single<S: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static>(
        stream: S,
    ) -> hyper::Result<Self> {
        let mut builder = http1::Builder::new();
        builder.max_buf_size(MAX_HEAD);
        let (mut sender, driver) = builder.handshake(stream).await?;
        run(async {
            // The error reaches the request that waits for a response.
            let _ended = driver.with_upgrades().await;
        });
        sender.ready().await?;
        Ok(Self::Single(sender))
    }

    pub(super) async fn shared<S: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static>(
        stream: S,
    ) -> hyper::Result<Self> {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.timer(TokioTimer::new()).max_header_list_size(MAX_HEAD_H2);
        let (mut sender, driver) = builder.handshake(stream).await?;
        run(async {
            let _ended = driver.await;
        });
        sender.ready().await?;
        Ok(Self::Shared(sender, SuspectFlag::default()))
    }

    /// Bars a shared connection from new requests. Any other ends with its request.
    pub(crate) fn distrust(&self) {
        if let Self::Shared(_, suspect) = self {
            suspect.raise();
        }
    }

    /// Hands a request over and waits for the head of its response.
    pub(crate) async fn send(
        &mut self,
        origin: &PoolOrigin,
        mut request: Request<OutgoingBody>,
    ) -> Result<Response<Incoming>, UnansweredRequest> {
        let sent = match self {
            Self::Single(sender) => {
                set_http1_target(&mut request, origin);
                sender.try_send_request(request).await
            }
            Self::Shared(sender, _) => {
                set_http2_target(&mut request, origin);
                sender.try_send_request(request).await
            }
        };
        sent.map_err(|mut error: TrySendError<Request<OutgoingBody>>| {
            let unsent = error.take_message();
            UnansweredRequest {
                failure: AttemptFailure::from_head_error(&error.into_error()),
                unsent,
            }
        })
    }
}

/// Sets the target for HTTP/1.1: the path in the request line, the host in a header.
fn set_http1_target(request: &mut Request<OutgoingBody>, origin: &PoolOrigin) {
    let path = std::mem::take(request.uri_mut()).into_parts().path_and_query;
    *request.uri_mut() = path.map(Uri::from).unwrap_or_default();
    request.headers_mut().insert(HOST, origin.host.clone());
}

/// Sets the target for HTTP/2: the full URI, also if the request was prepared for HTTP/1.1 before.
fn set_http2_target(request: &mut Request<OutgoingBody>, origin: &PoolOrigin) {
    if request.headers_mut().remove(HOST).is_some() {
        let path = std::mem::take(request.uri_mut()).into_parts().path_and_query;
        *request.uri_mut() = origin.uri_for(path);
    }
}

/// Runs a connection as a detached task: it ends with its user. A client that closes waits for its
/// calls, not for idle connections. A response may be dropped outside a runtime; then the
/// connection ends.
pub(super) fn run(connection: impl Future<Output = ()> + Send + 'static) {
    if Handle::try_current().is_ok() {
        TokioExecutor::new().execute(connection);
    }
}

/// Far above what providers send. A slow head is parsed again with every piece, so doubling the
/// size quadruples the work.
const MAX_HEAD: usize = 32 * 1024;
const MAX_HEAD_H2: u32 = 32 * 1024;
