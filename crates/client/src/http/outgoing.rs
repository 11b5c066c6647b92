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
pub(crate) struct Outgoing {
    kind: Kind,
    progress: Option<Progress>,
}

enum Kind {
    Whole(Bytes),
    Lent(Lent),
    Streamed(Streamed),
    Gone,
}

/// A body that is produced as it goes.
pub(crate) type Streamed = UnsyncBoxBody<Bytes, BoxError>;

/// A streamed body that is taken by whoever first asks for a piece of it.
#[derive(Clone)]
pub(crate) struct Lent(Arc<Mutex<Option<Streamed>>>);

impl Lent {
    pub(crate) fn new(body: Streamed) -> Self {
        Self(Arc::new(Mutex::new(Some(body))))
    }

    /// Whether nobody has taken it yet.
    pub(crate) fn is_whole(&self) -> bool {
        self.look(|body| body.is_some())
    }

    fn take(&self) -> Option<Streamed> {
        self.look(Option::take)
    }

    fn look<R>(&self, look: impl FnOnce(&mut Option<Streamed>) -> R) -> R {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Outgoing {
    pub(crate) fn whole(bytes: Bytes) -> Self {
        let progress = (!bytes.is_empty()).then(Progress::default);
        Self {
            kind: Kind::Whole(bytes),
            progress,
        }
    }

    pub(crate) fn lent(body: Lent) -> Self {
        Self {
            kind: Kind::Lent(body),
            progress: Some(Progress::default()),
        }
    }

    /// When the last piece was handed over; nothing for a request without a body.
    pub(super) fn progress(&self) -> Option<Progress> {
        self.progress.clone()
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Kind::Lent(lent) = &self.kind {
            self.kind = lent.take().map_or(Kind::Gone, Kind::Streamed);
        }
        let polled = match &mut self.kind {
            Kind::Whole(rest) if rest.is_empty() => Poll::Ready(None),
            Kind::Whole(rest) => {
                let piece = rest.split_to(rest.len().min(PIECE));
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            Kind::Streamed(body) => Pin::new(body).poll_frame(cx),
            // Half a body must never look like a whole one.
            Kind::Lent(_) | Kind::Gone => Poll::Ready(Some(Err("the body already went".into()))),
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
            Kind::Whole(rest) => rest.is_empty(),
            Kind::Streamed(body) => body.is_end_stream(),
            Kind::Lent(lent) => lent.look(|body| body.as_ref().is_some_and(Body::is_end_stream)),
            Kind::Gone => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Whole(rest) => {
                u64::try_from(rest.len()).map_or_else(|_| SizeHint::new(), SizeHint::with_exact)
            }
            Kind::Streamed(body) => body.size_hint(),
            Kind::Lent(lent) => {
                lent.look(|body| body.as_ref().map(Body::size_hint).unwrap_or_default())
            }
            Kind::Gone => SizeHint::default(),
        }
    }
}

/// When a body last moved. The connection marks it and the attempt reads it, on different tasks.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress(Arc<Mutex<Moved>>);

#[derive(Clone, Copy, Debug, Default)]
struct Moved {
    last: Option<Instant>,
    /// Whether the connection would send more if the caller had more.
    starved: bool,
}

impl Progress {
    fn moved(&self) {
        *self.lock() = Moved {
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

    fn lock(&self) -> MutexGuard<'_, Moved> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a connection takes at once without growing its buffer.
const PIECE: usize = 64 * 1024;
