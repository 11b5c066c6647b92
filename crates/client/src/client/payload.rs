//! What a request carries: nothing, bytes that can be sent again, or a stream that goes once.

use bytes::Bytes;
use http_body_util::BodyExt;

use crate::http::{BoxError, LentBody, OutgoingBody};

/// The body of a call before it is sent.
pub(crate) enum RequestPayload {
    /// Held whole; empty for none.
    Whole(Bytes),
    /// Produced as it goes.
    Streamed(LentBody),
    /// Produced as it goes, and given to an attempt.
    Given(LentBody),
}

impl RequestPayload {
    /// A body that is produced as it goes.
    pub(crate) fn streamed<B>(body: B) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self::Streamed(LentBody::new(body.map_err(Into::into).boxed_unsync()))
    }

    /// Whether it can be sent now: once, or as often as is wanted.
    pub(crate) const fn can_be_sent(&self) -> bool {
        match self {
            Self::Whole(_) | Self::Streamed(_) => true,
            Self::Given(_) => false,
        }
    }

    /// Hands it to one attempt. Whoever sends asks [`Self::can_be_sent`] first: a stream that already
    /// went fails when it is read.
    pub(crate) fn outgoing(&mut self) -> OutgoingBody {
        let lent = match self {
            Self::Whole(bytes) => return OutgoingBody::full(bytes.clone()),
            Self::Streamed(lent) | Self::Given(lent) => lent.clone(),
        };
        *self = Self::Given(lent.clone());
        OutgoingBody::lent(lent)
    }

    /// Takes it back from an attempt that is over and of which nothing left, if nothing of it was
    /// produced.
    pub(crate) fn take_back(&mut self) {
        if let Self::Given(lent) = self
            && lent.is_whole()
        {
            *self = Self::Streamed(lent.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    #[test]
    fn a_stream_goes_once_and_bytes_as_often_as_wanted() {
        let mut whole = RequestPayload::Whole(Bytes::from_static(b"again"));
        let mut stream = RequestPayload::streamed(Full::new(Bytes::from_static(b"once")));
        for _ in 0..2 {
            assert!(whole.can_be_sent());
            drop(whole.outgoing());
        }
        assert!(stream.can_be_sent());
        drop(stream.outgoing());
        assert!(!stream.can_be_sent());
    }

    // The second attempt reads it; the first must not find what is left, nor the payload give it again.
    #[tokio::test]
    async fn a_stream_is_taken_back_only_while_nothing_of_it_was_produced() {
        let mut stream = RequestPayload::streamed(Full::new(Bytes::from_static(b"once")));
        let mut first = stream.outgoing();
        stream.take_back();
        assert!(stream.can_be_sent());
        let mut second = stream.outgoing();
        assert!(second.frame().await.is_some_and(|frame| frame.is_ok()));
        stream.take_back();
        assert!(!stream.can_be_sent());
        assert!(first.frame().await.is_some_and(|frame| frame.is_err()));
    }
}
