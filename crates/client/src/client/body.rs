//! Body of a response as the caller reads it.
//!
//! It is buffered, or it streams and its attempt stays in flight until it ends. Dropping it ends
//! the attempt at once and says nothing bad about the API.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;

use crate::error::{Error, ErrorKind};
use crate::http::{AttemptFailure, BodyReadError, FailureKind, IncomingBody};
use crate::send::StreamLiveness;
use crate::upstream::{PendingBody, Verdict};

/// Body of a response.
///
/// It implements [`http_body::Body`], so it can be forwarded, and can be read in pieces:
///
/// ```
/// async fn length(mut body: outflow::Body) -> Result<usize, outflow::Error> {
///     let mut length = 0;
///     while let Some(piece) = body.chunk().await {
///         length += piece?.len();
///     }
///     Ok(length)
/// }
/// ```
pub struct Body {
    source: BodySource,
}

enum BodySource {
    Buffered(Bytes),
    Streaming(Box<LiveBody>),
    Failed(Error),
    Finished,
}

struct LiveBody {
    incoming: IncomingBody,
    pending_body: Option<PendingBody>,
    liveness: StreamLiveness,
}

impl Body {
    /// Returns the next piece; `None` at the end.
    pub async fn chunk(&mut self) -> Option<Result<Bytes, Error>> {
        loop {
            // Trailers are skipped: read frames to get them.
            match self.frame().await? {
                Ok(frame) => {
                    if let Ok(data) = frame.into_data() {
                        return Some(Ok(data));
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }

    pub(crate) const fn full(bytes: Bytes) -> Self {
        Self {
            source: BodySource::Buffered(bytes),
        }
    }

    /// Returns a body that only yields an error.
    pub(crate) const fn failed(error: Error) -> Self {
        Self {
            source: BodySource::Failed(error),
        }
    }

    /// Returns the bytes of a buffered body.
    pub(crate) fn buffered(&self) -> Option<&Bytes> {
        match &self.source {
            BodySource::Buffered(bytes) => Some(bytes),
            BodySource::Streaming(_) | BodySource::Failed(_) | BodySource::Finished => None,
        }
    }

    pub(crate) fn streaming(incoming: IncomingBody, pending_body: Option<PendingBody>) -> Self {
        let mut streaming = LiveBody {
            incoming,
            pending_body,
            liveness: StreamLiveness::new(),
        };
        if streaming.incoming.is_end_stream() {
            streaming.finish();
            return Self::full(Bytes::new());
        }
        Self {
            source: BodySource::Streaming(Box::new(streaming)),
        }
    }

    /// Reads the complete body up to a maximum size.
    pub(crate) async fn read(self, max_body: u64) -> Result<Bytes, BrokenBody> {
        match self.source {
            BodySource::Buffered(bytes) => Ok(bytes),
            BodySource::Finished => Ok(Bytes::new()),
            BodySource::Failed(error) => Err(BrokenBody { error, verdict: None }),
            // On the heap: most bodies are buffered, and their readers hold nothing more.
            BodySource::Streaming(streaming) => {
                let LiveBody {
                    incoming, pending_body, ..
                } = *streaming;
                Box::pin(collect_body(incoming, pending_body, max_body)).await
            }
        }
    }
}

/// Reads a complete body up to a maximum size; the attempt is in flight until then.
pub(crate) async fn collect_body(
    incoming: IncomingBody,
    pending_body: Option<PendingBody>,
    max_body: u64,
) -> Result<Bytes, BrokenBody> {
    match incoming.collect(max_body).await {
        Ok(bytes) => {
            if let Some(pending_body) = pending_body {
                pending_body.finished();
            }
            Ok(bytes)
        }
        Err(BodyReadError::TooLarge) => Err(BrokenBody {
            error: Error::new(ErrorKind::TooLarge(max_body)),
            verdict: None,
        }),
        Err(BodyReadError::Failed(failure)) => Err(BrokenBody {
            error: Error::from_failure(failure),
            verdict: settle_broken(pending_body, failure),
        }),
    }
}

/// Error of a body, with the upstream's verdict on it.
pub(crate) struct BrokenBody {
    pub(crate) error: Error,
    pub(crate) verdict: Option<Verdict>,
}

impl BodySource {
    /// Returns the last frame of a source that does not stream.
    fn last_frame(self) -> Option<Result<Frame<Bytes>, Error>> {
        match self {
            Self::Buffered(bytes) => (!bytes.is_empty()).then(|| Ok(Frame::data(bytes))),
            Self::Failed(error) => Some(Err(error)),
            Self::Streaming(_) | Self::Finished => None,
        }
    }
}

impl LiveBody {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, AttemptFailure>>> {
        let polled = Pin::new(&mut self.incoming).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(_))) => self.liveness.on_data(self.pending_body.as_mut()),
            Poll::Ready(Some(Err(failure))) => {
                settle_broken(self.pending_body.take(), *failure);
            }
            Poll::Ready(None) => self.finish(),
            Poll::Pending => {}
        }
        polled
    }

    fn finish(&mut self) {
        if let Some(pending_body) = self.pending_body.take() {
            pending_body.finished();
        }
    }
}

/// Settles a truncated body as failed. A reader whose deadline passed only leaves.
fn settle_broken(pending_body: Option<PendingBody>, failure: AttemptFailure) -> Option<Verdict> {
    match (pending_body, failure.kind) {
        (Some(pending_body), FailureKind::Fault(fault)) => Some(pending_body.fail(fault)),
        _ => None,
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let BodySource::Streaming(streaming) = &mut self.source else {
            let source = std::mem::replace(&mut self.source, BodySource::Finished);
            return Poll::Ready(source.last_frame());
        };
        let polled = streaming.poll(cx);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.source = BodySource::Finished;
        }
        polled.map(|frame| frame.map(|frame| frame.map_err(Error::from_failure)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            BodySource::Buffered(bytes) => bytes.is_empty(),
            BodySource::Streaming(streaming) => streaming.incoming.is_end_stream(),
            BodySource::Failed(_) => false,
            BodySource::Finished => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            BodySource::Buffered(bytes) => exact_size(bytes.len()),
            BodySource::Streaming(streaming) => streaming.incoming.size_hint(),
            BodySource::Failed(_) => SizeHint::new(),
            BodySource::Finished => SizeHint::with_exact(0),
        }
    }
}

fn exact_size(length: usize) -> SizeHint {
    u64::try_from(length).map_or_else(|_| SizeHint::new(), SizeHint::with_exact)
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.source {
            BodySource::Buffered(_) => "Body(buffered)",
            BodySource::Streaming(_) => "Body(streaming)",
            BodySource::Failed(_) => "Body(failed)",
            BodySource::Finished => "Body(finished)",
        })
    }
}
