//! The body of an answer, as its caller reads it.
//!
//! Either all of it is here, or it still flows and holds the call's place at the API until it ends.
//! Dropping it is leaving: the place is free at once and nothing bad is said of the API.

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

/// The body of an answer.
///
/// It is an [`http_body::Body`], so that it can be handed on, and can be read piece by piece:
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
    Whole(Bytes),
    Flowing(Box<LiveBody>),
    Lost(Error),
    Over,
}

struct LiveBody {
    incoming: IncomingBody,
    tail: Option<PendingBody>,
    steady: StreamLiveness,
}

impl Body {
    /// The next piece; nothing when it is over.
    pub async fn chunk(&mut self) -> Option<Result<Bytes, Error>> {
        loop {
            // Trailers are passed over: whoever wants them reads frames.
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
            source: BodySource::Whole(bytes),
        }
    }

    /// A body of which there is nothing but the reason.
    pub(crate) const fn lost(why: Error) -> Self {
        Self {
            source: BodySource::Lost(why),
        }
    }

    /// All of it, if all of it is here.
    pub(crate) fn here(&self) -> Option<&Bytes> {
        match &self.source {
            BodySource::Whole(bytes) => Some(bytes),
            BodySource::Flowing(_) | BodySource::Lost(_) | BodySource::Over => None,
        }
    }

    pub(crate) fn flowing(incoming: IncomingBody, tail: Option<PendingBody>) -> Self {
        let mut flowing = LiveBody {
            incoming,
            tail,
            steady: StreamLiveness::new(),
        };
        if flowing.incoming.is_end_stream() {
            flowing.finish();
            return Self::full(Bytes::new());
        }
        Self {
            source: BodySource::Flowing(Box::new(flowing)),
        }
    }

    /// All of it, if it is no larger than that.
    pub(crate) async fn read(self, largest: u64) -> Result<Bytes, BrokenBody> {
        match self.source {
            BodySource::Whole(bytes) => Ok(bytes),
            BodySource::Over => Ok(Bytes::new()),
            BodySource::Lost(error) => Err(BrokenBody {
                error,
                verdict: None,
            }),
            // On the heap: most bodies are here already, and their readers hold nothing more.
            BodySource::Flowing(flowing) => {
                let LiveBody { incoming, tail, .. } = *flowing;
                Box::pin(gather(incoming, tail, largest)).await
            }
        }
    }
}

/// All of what comes in, if it is no larger than that; the call is in flight until then.
pub(crate) async fn gather(
    incoming: IncomingBody,
    tail: Option<PendingBody>,
    largest: u64,
) -> Result<Bytes, BrokenBody> {
    match incoming.collect(largest).await {
        Ok(bytes) => {
            if let Some(tail) = tail {
                tail.finished();
            }
            Ok(bytes)
        }
        Err(BodyReadError::TooLarge) => Err(BrokenBody {
            error: Error::new(ErrorKind::TooLarge(largest)),
            verdict: None,
        }),
        Err(BodyReadError::Failed(failure)) => Err(BrokenBody {
            error: Error::from_failure(failure),
            verdict: broke(tail, failure),
        }),
    }
}

/// A body that could not be read whole, and what the door makes of that.
pub(crate) struct BrokenBody {
    pub(crate) error: Error,
    pub(crate) verdict: Option<Verdict>,
}

impl BodySource {
    /// All that is left of what need not be waited for.
    fn last(self) -> Option<Result<Frame<Bytes>, Error>> {
        match self {
            Self::Whole(bytes) => (!bytes.is_empty()).then(|| Ok(Frame::data(bytes))),
            Self::Lost(error) => Some(Err(error)),
            Self::Flowing(_) | Self::Over => None,
        }
    }
}

impl LiveBody {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, AttemptFailure>>> {
        let polled = Pin::new(&mut self.incoming).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(_))) => self.steady.moved(self.tail.as_mut()),
            Poll::Ready(Some(Err(failure))) => {
                broke(self.tail.take(), *failure);
            }
            Poll::Ready(None) => self.finish(),
            Poll::Pending => {}
        }
        polled
    }

    fn finish(&mut self) {
        if let Some(tail) = self.tail.take() {
            tail.finished();
        }
    }
}

/// Tells the door that a body broke off. A reader who had no more time only leaves.
fn broke(tail: Option<PendingBody>, failure: AttemptFailure) -> Option<Verdict> {
    match (tail, failure.trouble) {
        (Some(tail), FailureKind::Fault(fault)) => Some(tail.fail(fault)),
        _ => None,
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let BodySource::Flowing(flowing) = &mut self.source else {
            let here = std::mem::replace(&mut self.source, BodySource::Over);
            return Poll::Ready(here.last());
        };
        let polled = flowing.poll(cx);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.source = BodySource::Over;
        }
        polled.map(|frame| frame.map(|frame| frame.map_err(Error::from_failure)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            BodySource::Whole(bytes) => bytes.is_empty(),
            BodySource::Flowing(flowing) => flowing.incoming.is_end_stream(),
            BodySource::Lost(_) => false,
            BodySource::Over => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            BodySource::Whole(bytes) => exactly(bytes.len()),
            BodySource::Flowing(flowing) => flowing.incoming.size_hint(),
            BodySource::Lost(_) => SizeHint::new(),
            BodySource::Over => SizeHint::with_exact(0),
        }
    }
}

fn exactly(length: usize) -> SizeHint {
    u64::try_from(length).map_or_else(|_| SizeHint::new(), SizeHint::with_exact)
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.source {
            BodySource::Whole(_) => "Body(whole)",
            BodySource::Flowing(_) => "Body(flowing)",
            BodySource::Lost(_) => "Body(lost)",
            BodySource::Over => "Body(over)",
        })
    }
}
