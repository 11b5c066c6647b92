//! The body of an answer on its way out: a text of ours, or what the API sends as it comes.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::hop_by_hop;
use super::stalled_readers::{Lost, StalledReaders, WatchedBody};
use crate::accept::idle_tracker::ActiveRequest;

/// An answer's body. The request is under way until it is gone.
pub(crate) enum ResponseBody {
    /// Its connection sees to it that it is taken.
    Plain(
        DownloadSource,
        #[expect(dead_code, reason = "held for its end alone")] ActiveRequest,
    ),
    /// Its connection does not.
    Watched(WatchedBody),
}

/// Where a body comes from.
pub(crate) enum DownloadSource {
    /// Our own words.
    Text(Bytes),
    /// The API.
    Api(outflow::Body),
}

impl DownloadSource {
    pub(crate) const fn text(bytes: Bytes) -> Self {
        Self::Text(bytes)
    }
}

impl Body for DownloadSource {
    type Data = Bytes;
    type Error = Lost;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Lost>>> {
        match &mut *self {
            Self::Text(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Text(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Api(body) => {
                let polled = Pin::new(body).poll_frame(cx);
                polled
                    .map_ok(|frame| hop_by_hop::trailing(frame, None))
                    .map_err(Into::into)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Text(bytes) => bytes.is_empty(),
            Self::Api(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Text(bytes) => SizeHint::with_exact(u64::try_from(bytes.len()).unwrap_or(0)),
            Self::Api(body) => body.size_hint(),
        }
    }
}

impl ResponseBody {
    /// With somebody who watches whether it is taken, if the connection does not see to that.
    pub(crate) fn new(
        source: DownloadSource,
        beat: ActiveRequest,
        readers: Option<&StalledReaders>,
    ) -> Self {
        match readers {
            Some(readers) if !source.is_end_stream() => Self::Watched(readers.watch(source, beat)),
            _ => Self::Plain(source, beat),
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Lost;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Lost>>> {
        match &mut *self {
            Self::Plain(source, _) => Pin::new(source).poll_frame(cx),
            Self::Watched(watched) => watched.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Plain(source, _) => source.is_end_stream(),
            Self::Watched(watched) => watched.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Plain(source, _) => source.size_hint(),
            Self::Watched(watched) => watched.size_hint(),
        }
    }
}
