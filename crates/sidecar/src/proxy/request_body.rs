//! Body of a request, with a limit for its size and a timeout for pauses.
//!
//! For a body that is collected, the timeout covers all of it: a byte now and then would otherwise occupy a
//! connection for days, because no call with its own timeout is in progress yet.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::OnceLock;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderName;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::Sleep;

use super::hop_by_hop;
use crate::config::ServerConfig;

/// Body of a request from a caller.
pub(crate) struct RequestBody {
    body: Incoming,
    remaining: u64,
    timeout: Duration,
    timeout_scope: TimeoutScope,
    timer: Option<Pin<Box<Sleep>>>,
    pub(super) failure: BodyFailure,
    /// Header with the API's key, which no caller may send as a trailer.
    key: Option<HeaderName>,
}

/// Part of a body that the timeout covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TimeoutScope {
    /// Each pause.
    EachPause,
    /// The whole body.
    WholeBody,
}

/// Slot for the error of a body, read when the response is built. The call itself only sees that its body
/// failed.
pub(crate) type BodyFailure = Arc<OnceLock<BodyError>>;

/// Reason why a body did not arrive completely.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BodyError {
    /// The body exceeds the limit.
    TooLarge,
    /// The body paused for too long.
    Slow,
    /// The body ended early, or its chunks are malformed.
    Malformed,
}

impl RequestBody {
    pub(crate) fn new(body: Incoming, config: &ServerConfig, key: Option<HeaderName>) -> Self {
        Self {
            body,
            remaining: config.max_body,
            timeout: config.body_timeout,
            timeout_scope: TimeoutScope::EachPause,
            timer: None,
            failure: BodyFailure::default(),
            key,
        }
    }

    /// Returns true if the body is known to exceed the limit.
    pub(crate) fn is_too_large(&self) -> bool {
        self.body.size_hint().lower() > self.remaining
    }

    /// Returns the size of a body that is small enough to be collected, so that the call can be retried.
    pub(crate) fn small_size(&self) -> Option<u64> {
        self.body.size_hint().upper().filter(|size| *size <= MAX_COLLECTED)
    }

    /// Reads the whole body.
    pub(crate) async fn collect(mut self) -> Result<Bytes, BodyError> {
        self.timeout_scope = TimeoutScope::WholeBody;
        let size = self.small_size().and_then(|size| usize::try_from(size).ok());
        let Some(first) = self.next_data().await? else {
            return Ok(Bytes::new());
        };
        let Some(second) = self.next_data().await? else {
            return Ok(first);
        };
        // Exactly the size that the budget counts; growing by doubling could take twice as much.
        let mut all = BytesMut::with_capacity(size.unwrap_or_default());
        all.extend_from_slice(&first);
        all.extend_from_slice(&second);
        while let Some(next) = self.next_data().await? {
            all.extend_from_slice(&next);
        }
        Ok(all.freeze())
    }

    async fn next_data(&mut self) -> Result<Option<Bytes>, BodyError> {
        while let Some(frame) = self.frame().await {
            // Over HTTP/2 a body with a length may have trailers; a collected body drops them.
            if let Ok(data) = frame?.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    fn count(&mut self, frame: &Frame<Bytes>) -> Result<(), BodyError> {
        let length = frame.data_ref().map_or(0, Bytes::len);
        let length = u64::try_from(length).map_err(|_| BodyError::TooLarge)?;
        let remaining = self.remaining.checked_sub(length);
        self.remaining = remaining.ok_or(BodyError::TooLarge)?;
        Ok(())
    }

    fn poll_timeout(&mut self, cx: &mut Context<'_>) -> Poll<BodyError> {
        let timeout = self.timeout;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(BodyError::Slow)
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Pending => Err(ready!(self.poll_timeout(cx))),
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Ready(Some(Err(_))) => Err(BodyError::Malformed),
            Poll::Ready(Some(Ok(frame))) => {
                if self.timeout_scope == TimeoutScope::EachPause {
                    self.timer = None;
                }
                self.count(&frame)
                    .map(|()| hop_by_hop::filter_trailers(frame, self.key.as_ref()))
            }
        };
        Poll::Ready(Some(frame.inspect_err(|error| {
            // The first error is the cause of all later ones.
            let _known = self.failure.set(*error);
        })))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLarge => "the body is larger than `server.max_body` allows",
            Self::Slow => "the body paused for too long, or took too long to arrive completely",
            Self::Malformed => "the body ended early, or its chunks are malformed",
        })
    }
}

impl std::error::Error for BodyError {}

/// Size of a stream's window, above the bodies of most calls. Each waiting call holds its body, as long as the
/// memory budget allows.
const MAX_COLLECTED: u64 = 64 * 1024;
