//! Body of a request.
//!
//! A buffered body can be sent again. It goes out in pieces, so that progress is visible: a slow
//! upload is not a silent server. A streamed body goes once. An attempt borrows it and takes it
//! with the first poll, so that an attempt without a connection leaves it intact.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use outflow_sync::Mutex;
use tokio::time::Instant;

/// Error of a caller's streamed body. Its text is never shown.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Body of a request.
pub(crate) struct OutgoingBody {
    kind: OutgoingKind,
    progress: Option<BodyProgress>,
}

enum OutgoingKind {
    Buffered(Bytes),
    Borrowed(BorrowedBody),
    Streamed(StreamedBody),
    Taken,
}

/// Body that the caller produces while it is sent.
pub(crate) type StreamedBody = UnsyncBoxBody<Bytes, BoxError>;

/// Streamed body that the first attempt to poll it takes.
#[derive(Clone)]
pub(crate) struct BorrowedBody(Arc<Mutex<Option<StreamedBody>>>);

impl BorrowedBody {
    pub(crate) fn new(body: StreamedBody) -> Self {
        Self(Arc::new(Mutex::new(Some(body))))
    }

    /// Returns true if no attempt has taken it.
    pub(crate) fn is_untouched(&self) -> bool {
        self.0.lock().is_some()
    }

    fn take(&self) -> Option<StreamedBody> {
        self.0.lock().take()
    }
}

impl OutgoingBody {
    pub(crate) fn full(bytes: Bytes) -> Self {
        let progress = (!bytes.is_empty()).then(BodyProgress::default);
        Self {
            kind: OutgoingKind::Buffered(bytes),
            progress,
        }
    }

    pub(crate) fn borrowed(body: BorrowedBody) -> Self {
        Self {
            kind: OutgoingKind::Borrowed(body),
            progress: Some(BodyProgress::default()),
        }
    }

    /// Returns the progress of the body; `None` for a request without a body.
    pub(super) fn progress(&self) -> Option<BodyProgress> {
        self.progress.clone()
    }
}

impl Body for OutgoingBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let OutgoingKind::Borrowed(borrowed) = &self.kind {
            self.kind = borrowed.take().map_or(OutgoingKind::Taken, OutgoingKind::Streamed);
        }
        let polled = match &mut self.kind {
            OutgoingKind::Buffered(rest) if rest.is_empty() => Poll::Ready(None),
            OutgoingKind::Buffered(rest) => {
                let piece = rest.split_to(rest.len().min(MAX_PIECE));
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            OutgoingKind::Streamed(body) => Pin::new(body).poll_frame(cx),
            // A partial body must never pass for a complete one.
            OutgoingKind::Borrowed(_) | OutgoingKind::Taken => {
                Poll::Ready(Some(Err("the body was already sent".into())))
            }
        };
        if let Some(progress) = &self.progress {
            match polled {
                Poll::Ready(_) => progress.mark_progress(),
                Poll::Pending => progress.mark_starved(),
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            OutgoingKind::Buffered(rest) => rest.is_empty(),
            OutgoingKind::Streamed(body) => body.is_end_stream(),
            OutgoingKind::Borrowed(borrowed) => borrowed.0.lock().as_ref().is_some_and(Body::is_end_stream),
            OutgoingKind::Taken => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            OutgoingKind::Buffered(rest) => {
                u64::try_from(rest.len()).map_or_else(|_| SizeHint::new(), SizeHint::with_exact)
            }
            OutgoingKind::Streamed(body) => body.size_hint(),
            OutgoingKind::Borrowed(borrowed) => borrowed.0.lock().as_ref().map(Body::size_hint).unwrap_or_default(),
            OutgoingKind::Taken => SizeHint::default(),
        }
    }
}

/// Time of the last progress of a body. The connection sets it and the attempt reads it, on
/// different tasks.
#[derive(Clone, Debug, Default)]
pub(super) struct BodyProgress(Arc<Mutex<ProgressState>>);

#[derive(Clone, Copy, Debug, Default)]
struct ProgressState {
    last: Option<Instant>,
    /// Set while the connection waits for more data from the caller.
    starved: bool,
}

impl BodyProgress {
    fn mark_progress(&self) {
        *self.0.lock() = ProgressState {
            last: Some(Instant::now()),
            starved: false,
        };
    }

    fn mark_starved(&self) {
        self.0.lock().starved = true;
    }

    pub(super) fn last(&self) -> Option<Instant> {
        self.0.lock().last
    }

    /// Returns true if the caller keeps the server waiting.
    pub(super) fn is_starved(&self) -> bool {
        self.0.lock().starved
    }
}

/// Amount that a connection takes at once without growing its buffer.
const MAX_PIECE: usize = 64 * 1024;
