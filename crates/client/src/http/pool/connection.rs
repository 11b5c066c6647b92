//! Connection that carries requests over HTTP/1.1 or HTTP/2.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use http::header::HOST;
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper::rt::Executor;
use hyper_util::client::legacy::connect::Connection;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use outflow_core::Fault;
use tokio::runtime::Handle;
use tower_service::Service;

use super::super::failure::{AttemptFailure, BytesSent, ConnectError, FailureKind, INVALID_RESPONSE};
use super::super::request_body::OutgoingBody;
use super::super::tls_connector::TlsConnector;
use super::PoolOrigin;
use super::first_bytes::FirstBytes;
use super::marks::{ConnectionMarks, Occupancy};

/// Client side of a connection.
pub(crate) enum PooledConnection {
    /// HTTP/1.1: one request at a time. A new one has marks.
    Single(http1::SendRequest<OutgoingBody>, Option<ConnectionMarks>),
    /// HTTP/2: concurrent requests.
    Shared(http2::SendRequest<OutgoingBody>, ConnectionMarks),
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
        if stream.connected().is_negotiated_h2() {
            Self::shared(stream).await
        } else {
            Self::single(stream).await
        }
    }

    pub(super) async fn single<S: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static>(
        stream: S,
    ) -> Result<Self, AttemptFailure> {
        let marks = ConnectionMarks::default();
        let fail = |error| read_failure(&error, &marks);
        let mut builder = http1::Builder::new();
        builder.max_buf_size(MAX_HEAD);
        let stream = FirstBytes::new(stream, marks.clone());
        let (mut sender, driver) = builder.handshake(stream).await.map_err(fail)?;
        run(async {
            // The error reaches the request that waits for a response.
            let _ended = driver.with_upgrades().await;
        });
        sender.ready().await.map_err(fail)?;
        Ok(Self::Single(sender, Some(marks)))
    }

    pub(super) async fn shared<S: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static>(
        stream: S,
    ) -> Result<Self, AttemptFailure> {
        let marks = ConnectionMarks::default();
        let fail = |error| read_failure(&error, &marks);
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.timer(TokioTimer::new()).max_header_list_size(MAX_HEAD_H2);
        let (mut sender, driver) = builder.handshake(stream).await.map_err(fail)?;
        let driver_marks = marks.clone();
        run(async move {
            // Until it is dropped, requests find no closed connection: they see the mark first.
            let mut driver = pin!(driver);
            let mut settings = tokio::time::interval(SETTINGS_POLL);
            let mut polls = 0;
            let ended = poll_fn(|cx| {
                let polled = driver.as_mut().poll(cx);
                while polls < SETTINGS_POLLS && settings.poll_tick(cx).is_ready() {
                    polls += 1;
                }
                if polled.is_pending() && driver.current_max_send_streams() == 0 {
                    driver_marks.note_closed_to_streams();
                    return Poll::Ready(Ok(()));
                }
                polled
            });
            if let Err(error) = ended.await
                && AttemptFailure::from_head_error(&error, Occupancy::One).kind == INVALID_RESPONSE
            {
                driver_marks.note_broken();
            }
        });
        sender.ready().await.map_err(fail)?;
        Ok(Self::Shared(sender, marks))
    }

    /// Bars a shared connection from new requests. Any other ends with its request.
    pub(crate) fn distrust(&self) {
        if let Self::Shared(_, marks) = self {
            marks.raise_suspicion();
        }
    }

    const fn marks(&self) -> Option<&ConnectionMarks> {
        match self {
            Self::Single(_, marks) => marks.as_ref(),
            Self::Shared(_, marks) => Some(marks),
        }
    }

    /// Hands a request over and waits for the head of its response.
    pub(crate) async fn send(
        &mut self,
        origin: &PoolOrigin,
        mut request: Request<OutgoingBody>,
    ) -> Result<Response<Incoming>, UnansweredRequest> {
        let sent = match self {
            Self::Single(sender, _) => {
                set_http1_target(&mut request, origin);
                sender.try_send_request(request).await
            }
            Self::Shared(sender, marks) => {
                set_http2_target(&mut request, origin);
                tokio::select! {
                    sent = sender.try_send_request(request) => sent.inspect(|_| marks.note_response()),
                    () = marks.refused() => return Err(NO_STREAMS),
                }
            }
        };
        sent.map_err(|mut error: TrySendError<Request<OutgoingBody>>| {
            let unsent = error.take_message();
            let error = error.into_error();
            let failure = match self.marks() {
                Some(marks) => read_failure(&error, marks),
                None => AttemptFailure::from_head_error(&error, Occupancy::One),
            };
            UnansweredRequest { failure, unsent }
        })
    }
}

/// Reads the error of a request on a connection. A server that broke HTTP also leaves a closed connection.
fn read_failure(error: &hyper::Error, marks: &ConnectionMarks) -> AttemptFailure {
    if (error.is_user() || error.is_canceled()) && marks.is_closed_to_streams() {
        // The request waited for a stream, and hyper blames the driver for its end.
        return AttemptFailure {
            sent: BytesSent::Unprocessed,
            ..NO_STREAMS.failure
        };
    }
    let failure = AttemptFailure::from_head_error(error, marks.occupancy());
    match failure.kind {
        FailureKind::Fault(Fault::Reset) if marks.is_broken() && marks.occupancy() == Occupancy::One => {
            AttemptFailure::invalid_response("the server does not speak HTTP")
        }
        _ => failure,
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

const NO_STREAMS: UnansweredRequest = UnansweredRequest {
    failure: AttemptFailure::new(
        Fault::Reset,
        BytesSent::Something,
        "the server allows no requests on its connection",
    ),
    unsent: None,
};

/// A connection does not report that the server's settings arrived, so they are polled for the first second. Later
/// each request polls them.
const SETTINGS_POLL: Duration = Duration::from_millis(250);
const SETTINGS_POLLS: u32 = 5;

/// Far above what providers send. A slow head is parsed again with every piece, so doubling the
/// size quadruples the work.
const MAX_HEAD: usize = 32 * 1024;
const MAX_HEAD_H2: u32 = 32 * 1024;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use hyper_util::rt::TokioIo;
    use tokio::io::AsyncWriteExt;
    use tokio::time::{sleep, timeout};

    use super::*;

    // The settings arrive before the request or half a second after it. Without them the silence would end the call
    // after ten seconds.
    #[tokio::test(start_paused = true)]
    async fn a_server_that_allows_no_streams_fails_its_requests_at_once() {
        let no_streams = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0];
        let uri = Uri::from_static("https://a.example/");
        let origin = PoolOrigin::from_uri(&uri).expect("an origin");
        for delay in [Duration::ZERO, Duration::from_millis(500)] {
            let (ours, mut theirs) = tokio::io::duplex(1_024);
            if delay.is_zero() {
                theirs.write_all(&no_streams).await.expect("room");
            }
            let Ok(mut connection) = PooledConnection::shared(TokioIo::new(ours)).await else {
                panic!("HTTP/2");
            };
            let request = Request::get(uri.clone()).body(OutgoingBody::full(Bytes::new()));
            let sent = timeout(
                Duration::from_secs(1),
                connection.send(&origin, request.expect("valid")),
            );
            let settings = async {
                sleep(delay).await;
                theirs.write_all(&no_streams).await
            };
            let (sent, _) = tokio::join!(sent, settings);
            let failure = sent.expect("in time").expect_err("no stream").failure;
            assert_eq!(failure.kind, FailureKind::Fault(Fault::Reset), "{delay:?}");
        }
    }
}
