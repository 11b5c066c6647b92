//! What a request carries: nothing, bytes that can be sent again, or a stream that goes once.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;

use crate::http::{BoxError, Outgoing};

/// The body of a call before it is sent.
pub(crate) enum Payload {
    /// Held whole; empty for none.
    Whole(Bytes),
    /// Produced as it goes. The lock is never waited for: it only lets a call that is under way be
    /// looked at from another thread, so that it can be spawned.
    Streamed(Mutex<UnsyncBoxBody<Bytes, BoxError>>),
    /// Was produced and went.
    Gone,
}

impl Payload {
    /// A body that is produced as it goes.
    pub(crate) fn streamed<B>(body: B) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self::Streamed(Mutex::new(body.map_err(Into::into).boxed_unsync()))
    }

    /// Whether it can be sent now: once, or as often as is wanted.
    pub(crate) const fn can_be_sent(&self) -> bool {
        match self {
            Self::Whole(_) | Self::Streamed(_) => true,
            Self::Gone => false,
        }
    }

    /// Takes it for one attempt. A stream that already went is nothing any more: whoever sends asks
    /// [`Self::can_be_sent`] first.
    pub(crate) fn outgoing(&mut self) -> Outgoing {
        if let Self::Whole(bytes) = self {
            return Outgoing::whole(bytes.clone());
        }
        match std::mem::replace(self, Self::Gone) {
            Self::Streamed(body) => {
                let body = body.into_inner();
                Outgoing::streamed(body.unwrap_or_else(PoisonError::into_inner))
            }
            Self::Whole(_) | Self::Gone => Outgoing::whole(Bytes::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    #[test]
    fn a_stream_goes_once_and_bytes_as_often_as_wanted() {
        let mut whole = Payload::Whole(Bytes::from_static(b"again"));
        let mut stream = Payload::streamed(Full::new(Bytes::from_static(b"once")));
        for _ in 0..2 {
            assert!(whole.can_be_sent());
            drop(whole.outgoing());
        }
        assert!(stream.can_be_sent());
        drop(stream.outgoing());
        assert!(!stream.can_be_sent());
    }
}
