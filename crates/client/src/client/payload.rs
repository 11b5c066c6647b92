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
    /// Produced as it goes; `None` once it went. The lock is never waited for: it is what lets a call
    /// move between threads while a body that cannot be looked at from two lies in it.
    Streamed(Option<Mutex<UnsyncBoxBody<Bytes, BoxError>>>),
}

impl Payload {
    /// A body that is produced as it goes.
    pub(crate) fn streamed<B>(body: B) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let body = body.map_err(Into::into).boxed_unsync();
        Self::Streamed(Some(Mutex::new(body)))
    }

    /// Whether it can be sent now: once, or as often as is wanted.
    pub(crate) const fn can_be_sent(&self) -> bool {
        match self {
            Self::Whole(_) | Self::Streamed(Some(_)) => true,
            Self::Streamed(None) => false,
        }
    }

    /// Takes it for one attempt. A stream that already went is nothing any more: whoever sends asks
    /// [`Self::can_be_sent`] first.
    pub(crate) fn outgoing(&mut self) -> Outgoing {
        match self {
            Self::Whole(bytes) => Outgoing::whole(bytes.clone()),
            Self::Streamed(body) => match body.take() {
                Some(body) => {
                    let body = body.into_inner();
                    Outgoing::streamed(body.unwrap_or_else(PoisonError::into_inner))
                }
                None => Outgoing::whole(Bytes::new()),
            },
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
