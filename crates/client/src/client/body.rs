//! Body of a response as the caller reads it.
//!
//! It is buffered, or it streams and its attempt stays in flight until it ends. Dropping it ends
//! the attempt at once and says nothing bad about the API.
//!
//! A buffered body that counts against a memory budget goes out in copied pieces. A piece that its
//! reader does not take must not keep the whole body in memory.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;

use crate::error::{Error, ErrorKind};
use crate::http::{
    AttemptDeadline, AttemptFailure, BodyReadError, CollectedBody, FailureKind, IncomingBody, SMALL_BODY,
};
use crate::memory_budget::{MemoryBudget, MemoryShare};
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
    /// Share of the buffered bytes in the memory budget.
    share: Option<Arc<MemoryShare>>,
}

enum BodySource {
    Buffered(Bytes),
    /// Bytes that were read before the memory budget ended, and the rest.
    Spilled(Bytes, Box<LiveBody>),
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
        Self::from_source(BodySource::Buffered(bytes))
    }

    const fn from_source(source: BodySource) -> Self {
        Self { source, share: None }
    }

    /// Counts a buffered body against this budget until it is read or dropped. Returns false if it does not
    /// fit. A small body, and one that streams, needs no room.
    pub fn reserve_memory(&mut self, budget: &MemoryBudget) -> bool {
        match &self.source {
            BodySource::Buffered(bytes) if self.share.is_none() && !is_small(bytes) => {
                self.share = budget.reserve_body(bytes);
                self.share.is_some()
            }
            _ => true,
        }
    }

    /// Returns a body that only yields an error.
    pub(crate) const fn failed(error: Error) -> Self {
        Self::from_source(BodySource::Failed(error))
    }

    /// Returns the bytes of a buffered body.
    pub(crate) fn buffered(&self) -> Option<&Bytes> {
        match &self.source {
            BodySource::Buffered(bytes) => Some(bytes),
            BodySource::Spilled(..) | BodySource::Streaming(_) | BodySource::Failed(_) | BodySource::Finished => None,
        }
    }

    pub(crate) fn streaming(incoming: IncomingBody, pending_body: Option<PendingBody>) -> Self {
        let mut streaming = LiveBody::new(incoming, pending_body);
        if streaming.incoming.is_end_stream() {
            streaming.finish();
            return Self::full(Bytes::new());
        }
        Self::from_source(BodySource::Streaming(Box::new(streaming)))
    }

    /// Reads the complete body up to a maximum size.
    pub(crate) async fn read(self, max_body: u64) -> Result<Bytes, BrokenBody> {
        match self.source {
            BodySource::Buffered(bytes) => Ok(bytes),
            BodySource::Finished => Ok(Bytes::new()),
            BodySource::Failed(error) => Err(BrokenBody { error, verdict: None }),
            // On the heap: most bodies are buffered, and their readers hold nothing more.
            BodySource::Streaming(streaming) => Box::pin(streaming.collect(max_body)).await,
            BodySource::Spilled(first, rest) => {
                let max = max_body.saturating_sub(u64::try_from(first.len()).unwrap_or(u64::MAX));
                let rest = Box::pin(rest.collect(max)).await?;
                Ok([first, rest].concat().into())
            }
        }
    }

    /// Returns the next piece of buffered bytes that count against a budget.
    fn next_piece(&mut self) -> Option<Bytes> {
        let (BodySource::Buffered(bytes) | BodySource::Spilled(bytes, _)) = &mut self.source else {
            return None;
        };
        let piece = bytes.split_to(bytes.len().min(MAX_PIECE));
        (!piece.is_empty()).then(|| Bytes::copy_from_slice(&piece))
    }

    /// Returns the share of bytes that are read, and goes on with the rest.
    fn end_buffer(&mut self) {
        self.share = None;
        self.source = match std::mem::replace(&mut self.source, BodySource::Finished) {
            BodySource::Spilled(_, rest) => BodySource::Streaming(rest),
            BodySource::Buffered(_) => BodySource::Finished,
            other => other,
        };
    }
}

/// Returns true if a body is part of the cost of its request.
fn is_small(bytes: &Bytes) -> bool {
    u64::try_from(bytes.len()).is_ok_and(|length| length <= SMALL_BODY)
}

/// Body read as far as a memory budget allowed, and its attempt.
pub(crate) enum BoundedBody {
    /// Complete body.
    Whole(Body),
    /// Begin of a body, and the unread rest.
    Spilled(Box<SpilledBody>),
}

/// Body that did not fit into the memory budget.
pub(crate) struct SpilledBody {
    first: Bytes,
    share: MemoryShare,
    incoming: IncomingBody,
    pending_body: Option<PendingBody>,
}

impl SpilledBody {
    /// Returns the body, to be read until this deadline.
    pub(crate) fn into_body(self, deadline: Option<AttemptDeadline>) -> Body {
        let incoming = self.incoming.with_deadline(deadline);
        if self.first.is_empty() {
            return Body::streaming(incoming, self.pending_body);
        }
        let rest = Box::new(LiveBody::new(incoming, self.pending_body));
        Body {
            source: BodySource::Spilled(self.first, rest),
            share: Some(Arc::new(self.share)),
        }
    }
}

/// Reads a body up to a maximum size, as far as a memory budget allows.
pub(crate) async fn collect_within(
    incoming: IncomingBody,
    pending_body: Option<PendingBody>,
    max_body: u64,
    budget: &MemoryBudget,
) -> Result<BoundedBody, BrokenBody> {
    match incoming.collect_within(max_body, budget).await {
        Ok(CollectedBody::Whole(bytes, share)) => {
            finish(pending_body);
            let share = share.map(|share| budget.share_body(&bytes, share));
            let source = BodySource::Buffered(bytes);
            Ok(BoundedBody::Whole(Body { source, share }))
        }
        Ok(CollectedBody::Spilled(first, share, incoming)) => Ok(BoundedBody::Spilled(Box::new(SpilledBody {
            first,
            share,
            incoming,
            pending_body,
        }))),
        Err(error) => Err(BrokenBody::new(error, pending_body, max_body)),
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
            finish(pending_body);
            Ok(bytes)
        }
        Err(error) => Err(BrokenBody::new(error, pending_body, max_body)),
    }
}

fn finish(pending_body: Option<PendingBody>) {
    if let Some(pending_body) = pending_body {
        pending_body.finished();
    }
}

/// Error of a body, with the upstream's verdict on it.
pub(crate) struct BrokenBody {
    pub(crate) error: Error,
    pub(crate) verdict: Option<Verdict>,
}

impl BrokenBody {
    fn new(error: BodyReadError, pending_body: Option<PendingBody>, max_body: u64) -> Self {
        match error {
            BodyReadError::TooLarge => Self {
                error: Error::new(ErrorKind::TooLarge(max_body)),
                verdict: None,
            },
            BodyReadError::Failed(failure) => Self {
                error: Error::from_failure(failure),
                verdict: settle_broken(pending_body, failure),
            },
        }
    }

    /// Returns the error of a failed attempt whose body does not fit into the memory budget.
    pub(crate) fn memory_full() -> Self {
        Self {
            error: Error::new(ErrorKind::MemoryFull),
            verdict: None,
        }
    }
}

impl BodySource {
    /// Returns the last frame of a source that does not stream.
    fn last_frame(self) -> Option<Result<Frame<Bytes>, Error>> {
        match self {
            Self::Buffered(bytes) => (!bytes.is_empty()).then(|| Ok(Frame::data(bytes))),
            Self::Failed(error) => Some(Err(error)),
            Self::Spilled(..) | Self::Streaming(_) | Self::Finished => None,
        }
    }
}

impl LiveBody {
    fn new(incoming: IncomingBody, pending_body: Option<PendingBody>) -> Self {
        Self {
            incoming,
            pending_body,
            liveness: StreamLiveness::new(),
        }
    }

    async fn collect(self, max_body: u64) -> Result<Bytes, BrokenBody> {
        collect_body(self.incoming, self.pending_body, max_body).await
    }

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
        finish(self.pending_body.take());
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
        if self.share.is_some() {
            if let Some(piece) = self.next_piece() {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            self.end_buffer();
        }
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
            BodySource::Spilled(..) | BodySource::Failed(_) => false,
            BodySource::Finished => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            BodySource::Buffered(bytes) => exact_size(bytes.len()),
            BodySource::Streaming(streaming) => streaming.incoming.size_hint(),
            BodySource::Spilled(..) | BodySource::Failed(_) => SizeHint::new(),
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
            BodySource::Spilled(..) | BodySource::Streaming(_) => "Body(streaming)",
            BodySource::Failed(_) => "Body(failed)",
            BodySource::Finished => "Body(finished)",
        })
    }
}

/// One frame of HTTP/2: a stream that stalls keeps no more than this.
const MAX_PIECE: usize = 16 * 1024;
