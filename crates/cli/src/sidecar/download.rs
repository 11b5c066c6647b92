//! The body of an answer on its way out: a text of ours, or what the API sends as it comes.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::pulse::Beat;

/// An answer's body. The request is under way until it is gone.
pub(super) struct Download {
    source: Source,
    _beat: Beat,
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
    pub(super) const fn new(source: Source, beat: Beat) -> Self {
        Self {
            source,
            _beat: beat,
        }
    }
}

impl Body for Download {
    type Data = Bytes;
    type Error = outflow::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, outflow::Error>>> {
        match &mut self.source {
            Source::Text(bytes) if bytes.is_empty() => Poll::Ready(None),
            Source::Text(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Source::Api(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Text(bytes) => bytes.is_empty(),
            Source::Api(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Text(bytes) => SizeHint::with_exact(u64::try_from(bytes.len()).unwrap_or(0)),
            Source::Api(body) => body.size_hint(),
        }
    }
}
