//! The body of a request on its way out.
//!
//! A body that is held whole can be sent again and is handed over in pieces, so that progress is
//! seen: a slow upload is not a silent server. A streamed one goes once: it is lent to an attempt, and
//! taken only when its first piece is asked for, so that an attempt without a connection leaves it.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use tokio::time::Instant;

/// An error of a body that a caller streams. Its text is never shown.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A request's body.
pub(crate) struct OutgoingBody {
    kind: OutgoingKind,
    progress: Option<BodyProgress>,
}

enum OutgoingKind {
    Whole(Bytes),
    Lent(LentBody),
    Streamed(Streamed),
    Gone,
}

/// A body that is produced as it goes.
pub(crate) type Streamed = UnsyncBoxBody<Bytes, BoxError>;

/// A streamed body that is taken by whoever first asks for a piece of it.
#[derive(Clone)]
pub(crate) struct LentBody(Arc<Mutex<Option<Streamed>>>);

impl LentBody {
    pub(crate) fn new(body: Streamed) -> Self {
        Self(Arc::new(Mutex::new(Some(body))))
    }

    /// Whether nobody has taken it yet.
    pub(crate) fn is_whole(&self) -> bool {
        self.with_body(|body| body.is_some())
    }

    fn take(&self) -> Option<Streamed> {
        self.with_body(Option::take)
    }

    fn with_body<R>(&self, look: impl FnOnce(&mut Option<Streamed>) -> R) -> R {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl OutgoingBody {
    pub(crate) fn full(bytes: Bytes) -> Self {
        let progress = (!bytes.is_empty()).then(BodyProgress::default);
        Self {
            kind: OutgoingKind::Whole(bytes),
            progress,
        }
    }

    pub(crate) fn lent(body: LentBody) -> Self {
        Self {
            kind: OutgoingKind::Lent(body),
            progress: Some(BodyProgress::default()),
        }
    }

    /// When the last piece was handed over; nothing for a request without a body.
    pub(super) fn progress(&self) -> Option<BodyProgress> {
        self.progress.clone()
    }
}

impl Body for OutgoingBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let OutgoingKind::Lent(lent) = &self.kind {
            self.kind = lent
                .take()
                .map_or(OutgoingKind::Gone, OutgoingKind::Streamed);
        }
        let polled = match &mut self.kind {
            OutgoingKind::Whole(rest) if rest.is_empty() => Poll::Ready(None),
            OutgoingKind::Whole(rest) => {
                let piece = rest.split_to(rest.len().min(PIECE));
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            OutgoingKind::Streamed(body) => Pin::new(body).poll_frame(cx),
            // Half a body must never look like a whole one.
            OutgoingKind::Lent(_) | OutgoingKind::Gone => {
                Poll::Ready(Some(Err("the body already went".into())))
            }
        };
        if let Some(progress) = &self.progress {
            match polled {
                Poll::Ready(_) => progress.moved(),
                Poll::Pending => progress.starves(),
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            OutgoingKind::Whole(rest) => rest.is_empty(),
            OutgoingKind::Streamed(body) => body.is_end_stream(),
            OutgoingKind::Lent(lent) => {
                lent.with_body(|body| body.as_ref().is_some_and(Body::is_end_stream))
            }
            OutgoingKind::Gone => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            OutgoingKind::Whole(rest) => {
                u64::try_from(rest.len()).map_or_else(|_| SizeHint::new(), SizeHint::with_exact)
            }
            OutgoingKind::Streamed(body) => body.size_hint(),
            OutgoingKind::Lent(lent) => {
                lent.with_body(|body| body.as_ref().map(Body::size_hint).unwrap_or_default())
            }
            OutgoingKind::Gone => SizeHint::default(),
        }
    }
}

/// When a body last moved. The connection marks it and the attempt reads it, on different tasks.
#[derive(Clone, Debug, Default)]
pub(super) struct BodyProgress(Arc<Mutex<MovedBytes>>);

#[derive(Clone, Copy, Debug, Default)]
struct MovedBytes {
    last: Option<Instant>,
    /// Whether the connection would send more if the caller had more.
    starved: bool,
}

impl BodyProgress {
    fn moved(&self) {
        *self.lock() = MovedBytes {
            last: Some(Instant::now()),
            starved: false,
        };
    }

    fn starves(&self) {
        self.lock().starved = true;
    }

    pub(super) fn last(&self) -> Option<Instant> {
        self.lock().last
    }

    /// Whether it is the caller who keeps the server waiting.
    pub(super) fn is_starved(&self) -> bool {
        self.lock().starved
    }

    fn lock(&self) -> MutexGuard<'_, MovedBytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a connection takes at once without growing its buffer.
const PIECE: usize = 64 * 1024;
