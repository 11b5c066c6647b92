//! Payload of a request: bytes that can be sent again, or a stream that goes once.

use bytes::Bytes;
use http_body_util::BodyExt;

use crate::http::{BorrowedBody, BoxError, OutgoingBody};

/// Body of a call before it is sent.
pub(crate) enum RequestPayload {
    /// Bytes; empty for none.
    Buffered(Bytes),
    /// Stream.
    Streamed(BorrowedBody),
    /// Stream taken by an attempt.
    Taken(BorrowedBody),
}

impl RequestPayload {
    /// Wraps a stream.
    pub(crate) fn streamed<B>(body: B) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self::Streamed(BorrowedBody::new(body.map_err(Into::into).boxed_unsync()))
    }

    /// Returns true if it can be sent now.
    pub(crate) const fn is_sendable(&self) -> bool {
        match self {
            Self::Buffered(_) | Self::Streamed(_) => true,
            Self::Taken(_) => false,
        }
    }

    /// Hands the body to one attempt. Check [`Self::is_sendable`] first: a stream that was already
    /// sent fails when read.
    pub(crate) fn outgoing(&mut self) -> OutgoingBody {
        let body = match self {
            Self::Buffered(bytes) => return OutgoingBody::full(bytes.clone()),
            Self::Streamed(body) | Self::Taken(body) => body.clone(),
        };
        *self = Self::Taken(body.clone());
        OutgoingBody::borrowed(body)
    }

    /// Takes the stream back from an attempt that sent nothing, if nothing of it was produced.
    pub(crate) fn take_back(&mut self) {
        if let Self::Taken(body) = self
            && body.is_untouched()
        {
            *self = Self::Streamed(body.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    #[test]
    fn a_stream_is_sent_once_and_bytes_any_number_of_times() {
        let mut buffered = RequestPayload::Buffered(Bytes::from_static(b"again"));
        let mut stream = RequestPayload::streamed(Full::new(Bytes::from_static(b"once")));
        for _ in 0..2 {
            assert!(buffered.is_sendable());
            drop(buffered.outgoing());
        }
        assert!(stream.is_sendable());
        drop(stream.outgoing());
        assert!(!stream.is_sendable());
    }

    // The second attempt reads the stream; the first must find nothing, and the payload must not
    // hand it out again.
    #[tokio::test]
    async fn a_stream_is_taken_back_only_while_nothing_of_it_was_produced() {
        let mut stream = RequestPayload::streamed(Full::new(Bytes::from_static(b"once")));
        let mut first = stream.outgoing();
        stream.take_back();
        assert!(stream.is_sendable());
        let mut second = stream.outgoing();
        assert!(second.frame().await.is_some_and(|frame| frame.is_ok()));
        stream.take_back();
        assert!(!stream.is_sendable());
        assert!(first.frame().await.is_some_and(|frame| frame.is_err()));
    }
}
