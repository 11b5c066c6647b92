//! Body of a response: a text of the sidecar, or the body of the API as it arrives.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use outflow_listener::ActiveRequest;

use super::api_share::ApiCall;
use super::hop_by_hop;
use super::stalled_readers::{StalledReaders, StreamError, WatchedBody};
use crate::memory_cost::RequestMemory;

/// Body of a response. Its request takes memory until the body is dropped.
pub(crate) struct ResponseBody {
    kind: BodyKind,
    #[expect(dead_code, reason = "held until it is dropped")]
    share: Option<RequestMemory>,
}

/// Body by the protocol of its reader. Its request is in progress until the source is dropped.
enum BodyKind {
    /// Body over HTTP/1, whose connection detects a stalled reader.
    Plain(
        BodySource,
        #[expect(dead_code, reason = "held until it is dropped")] ActiveRequest,
    ),
    /// Body over HTTP/2, whose connection does not.
    Watched(WatchedBody),
}

/// Source of a body.
pub(crate) enum BodySource {
    /// Text of the sidecar.
    Text(Bytes),
    /// Body of the API's response, and its call.
    Api(
        outflow::Body,
        #[expect(dead_code, reason = "held until it is dropped")] ApiCall,
    ),
}

impl Body for BodySource {
    type Data = Bytes;
    type Error = StreamError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, StreamError>>> {
        match &mut *self {
            Self::Text(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Text(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Api(body, _) => {
                let polled = Pin::new(body).poll_frame(cx);
                polled
                    .map_ok(|frame| hop_by_hop::filter_trailers(frame, None))
                    .map_err(Into::into)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Text(bytes) => bytes.is_empty(),
            Self::Api(body, _) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Text(bytes) => SizeHint::with_exact(u64::try_from(bytes.len()).unwrap_or(0)),
            Self::Api(body, _) => body.size_hint(),
        }
    }
}

impl ResponseBody {
    /// Creates a body that is watched for a stalled reader if `readers` is given.
    pub(crate) fn new(source: BodySource, active: ActiveRequest, readers: Option<&StalledReaders>) -> Self {
        let kind = match readers {
            Some(readers) if !source.is_end_stream() => BodyKind::Watched(readers.watch(source, active)),
            _ => BodyKind::Plain(source, active),
        };
        Self { kind, share: None }
    }

    /// Holds the memory of the request. An aborted body holds it, too: the connection may still keep a piece.
    pub(crate) fn holding(self, share: Option<RequestMemory>) -> Self {
        Self { share, ..self }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = StreamError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, StreamError>>> {
        match &mut self.kind {
            BodyKind::Plain(source, _) => Pin::new(source).poll_frame(cx),
            BodyKind::Watched(watched) => watched.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            BodyKind::Plain(source, _) => source.is_end_stream(),
            BodyKind::Watched(watched) => watched.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            BodyKind::Plain(source, _) => source.size_hint(),
            BodyKind::Watched(watched) => watched.size_hint(),
        }
    }
}
