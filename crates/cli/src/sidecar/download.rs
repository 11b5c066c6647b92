//! The body of an answer on its way out: a text of ours, or what the API sends as it comes.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::pulse::Beat;
use super::readers::{Lost, Readers, Watched};

/// An answer's body. The request is under way until it is gone.
pub(super) enum Download {
    /// Its connection sees to it that it is taken.
    Plain(
        Source,
        #[expect(dead_code, reason = "held for its end alone")] Beat,
    ),
    /// Its connection does not.
    Watched(Watched),
}

/// Where a body comes from.
pub(super) enum Source {
    /// Our own words.
    Text(Bytes),
    /// The API.
    Api(outflow::Body),
}

impl Source {
    pub(super) const fn text(bytes: Bytes) -> Self {
        Self::Text(bytes)
    }
}

impl Download {
    /// With somebody who watches whether it is taken, if the connection does not see to that.
    pub(super) fn new(source: Source, beat: Beat, readers: Option<&Readers>) -> Self {
        match (source, readers) {
            (Source::Api(body), Some(readers)) if !body.is_end_stream() => {
                Self::Watched(readers.watch(body, beat))
            }
            (source, _) => Self::Plain(source, beat),
        }
    }
}

impl Body for Download {
    type Data = Bytes;
    type Error = Lost;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Lost>>> {
        match &mut *self {
            Self::Plain(Source::Text(bytes), _) if bytes.is_empty() => Poll::Ready(None),
            Self::Plain(Source::Text(bytes), _) => {
                Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes)))))
            }
            Self::Plain(Source::Api(body), _) => {
                let polled = Pin::new(body).poll_frame(cx);
                polled.map_err(Into::into)
            }
            Self::Watched(watched) => watched.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Plain(Source::Text(bytes), _) => bytes.is_empty(),
            Self::Plain(Source::Api(body), _) => body.is_end_stream(),
            Self::Watched(watched) => watched.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Plain(Source::Text(bytes), _) => {
                SizeHint::with_exact(u64::try_from(bytes.len()).unwrap_or(0))
            }
            Self::Plain(Source::Api(body), _) => body.size_hint(),
            Self::Watched(watched) => watched.size_hint(),
        }
    }
}
