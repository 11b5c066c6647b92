//! A connection that takes requests, of whichever version of HTTP.

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

/// One end of a connection.
pub(crate) enum PooledConnection {
    /// One request after the other.
    Single(http1::SendRequest<OutgoingBody>),
    /// Many at once.
    Shared(http2::SendRequest<OutgoingBody>, SuspectFlag),
}

/// Whether a connection that many use gets no more requests. Clones are about the same connection.
#[derive(Clone, Default)]
pub(crate) struct SuspectFlag(Arc<AtomicBool>);

impl SuspectFlag {
    /// Has it get no more.
    pub(crate) fn cast(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(super) fn is_cast(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A request without an answer, and the request itself if nothing of it was written.
pub(crate) struct UnansweredRequest {
    pub(crate) failure: AttemptFailure,
    pub(crate) unsent: Option<Request<OutgoingBody>>,
}

impl PooledConnection {
    /// Makes a connection. The time that may take is not its concern.
    pub(super) async fn made(
        mut dial: TlsConnector,
        origin: &PoolOrigin,
    ) -> Result<Self, AttemptFailure> {
        let stream = dial.call(origin.place_of(None)).await;
        let stream = stream.map_err(ConnectError::failure)?;
        let made = if stream.connected().is_negotiated_h2() {
            Self::shared(stream).await
        } else {
            Self::single(stream).await
        };
        made.map_err(|error| AttemptFailure::of_head(&error))
    }

    pub(super) async fn single<S: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static>(
        stream: S,
    ) -> hyper::Result<Self> {
        let mut settings = http1::Builder::new();
        settings.max_buf_size(LARGEST_HEAD);
        let (mut sender, connection) = settings.handshake(stream).await?;
        run(async {
            // Whoever waits for an answer is told what ended it.
            let _ended = connection.with_upgrades().await;
        });
        sender.ready().await?;
        Ok(Self::Single(sender))
    }

    pub(super) async fn shared<S: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static>(
        stream: S,
    ) -> hyper::Result<Self> {
        let mut settings = http2::Builder::new(TokioExecutor::new());
        settings
            .timer(TokioTimer::new())
            .max_header_list_size(LARGEST_HEAD_H2);
        let (mut sender, connection) = settings.handshake(stream).await?;
        run(async {
            let _ended = connection.await;
        });
        sender.ready().await?;
        Ok(Self::Shared(sender, SuspectFlag::default()))
    }

    /// What others can be warned of the connection with, if there are others.
    pub(crate) fn doubt(&self) -> Option<SuspectFlag> {
        match self {
            Self::Single(_) => None,
            Self::Shared(_, doubt) => Some(doubt.clone()),
        }
    }

    /// Hands a request over and waits for the head of its answer.
    pub(crate) async fn answer(
        &mut self,
        origin: &PoolOrigin,
        mut request: Request<OutgoingBody>,
    ) -> Result<Response<Incoming>, UnansweredRequest> {
        let answered = match self {
            Self::Single(sender) => {
                address_line(&mut request, origin);
                sender.try_send_request(request).await
            }
            Self::Shared(sender, _) => {
                address_whole(&mut request, origin);
                sender.try_send_request(request).await
            }
        };
        answered.map_err(|unanswered: TrySendError<Request<OutgoingBody>>| {
            let mut unanswered = unanswered;
            let unsent = unanswered.take_message();
            UnansweredRequest {
                failure: AttemptFailure::of_head(&unanswered.into_error()),
                unsent,
            }
        })
    }
}

/// HTTP/1.1 names the path in its first line and the host in a header.
fn address_line(request: &mut Request<OutgoingBody>, origin: &PoolOrigin) {
    let path = std::mem::take(request.uri_mut())
        .into_parts()
        .path_and_query;
    *request.uri_mut() = path.map(Uri::from).unwrap_or_default();
    request.headers_mut().insert(HOST, origin.host.clone());
}

/// HTTP/2 names the whole place, also where the request was meant for HTTP/1.1 a moment ago.
fn address_whole(request: &mut Request<OutgoingBody>, origin: &PoolOrigin) {
    if request.headers_mut().remove(HOST).is_some() {
        let path = std::mem::take(request.uri_mut())
            .into_parts()
            .path_and_query;
        *request.uri_mut() = origin.place_of(path);
    }
}

/// Runs a connection beside everything: it ends with whoever uses it, and a client that is closed
/// waits for its calls and not for connections that nobody uses. An answer may be dropped where there
/// is no runtime any more, and there its connection ends.
pub(super) fn run(connection: impl Future<Output = ()> + Send + 'static) {
    if Handle::try_current().is_ok() {
        TokioExecutor::new().execute(connection);
    }
}

/// Far above what providers send. A head that trickles in is looked at again with every piece, so
/// twice as much would take four times the work.
const LARGEST_HEAD: usize = 32 * 1024;
const LARGEST_HEAD_H2: u32 = 32 * 1024;
