//! The body of a request on its way in: bounded in size, and in how long it may be silent.
//!
//! One that is held until it is whole has no more time than that for all of it: a byte now and then would
//! otherwise keep a connection for days, and no call is under way whose own time could run out.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::OnceLock;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderName;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::Sleep;

use super::hop_by_hop;
use crate::config::ServerConfig;

/// A request's body.
pub(crate) struct RequestBody {
    body: Incoming,
    left: u64,
    patience: Duration,
    measures: BodyTimers,
    waiting: Option<Pin<Box<Sleep>>>,
    broken: BodyBreach,
    /// The header that holds the API's key, which no caller may write behind a body either.
    key: Option<HeaderName>,
}

/// What its time is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BodyTimers {
    /// Each silence.
    Silence,
    /// All of it.
    Whole,
}

/// Why a body did not come whole, told to whoever has to answer. The call itself only learns that its
/// body is gone.
#[derive(Clone, Debug, Default)]
pub(crate) struct BodyBreach(Arc<OnceLock<BodyError>>);

/// Why a body did not come whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BodyError {
    /// It is larger than it may be.
    TooLarge,
    /// It was silent for too long.
    Slow,
    /// It broke off, or its chunks are none.
    Malformed,
}

impl RequestBody {
    pub(crate) fn new(body: Incoming, settings: &ServerConfig) -> Self {
        Self {
            body,
            left: settings.max_body,
            patience: settings.body_timeout,
            measures: BodyTimers::Silence,
            waiting: None,
            broken: BodyBreach::default(),
            key: None,
        }
    }

    /// The same, for an API whose key is in this header.
    pub(crate) fn without(mut self, key: Option<HeaderName>) -> Self {
        self.key = key;
        self
    }

    /// Where it is said if it does not come whole.
    pub(crate) fn breach(&self) -> BodyBreach {
        self.broken.clone()
    }

    /// Whether it is known to be larger than it may be.
    pub(crate) fn is_too_large(&self) -> bool {
        self.body.size_hint().lower() > self.left
    }

    /// Whether it is known to be small enough to be held, so that the call can be repeated.
    pub(crate) fn is_small(&self) -> bool {
        self.body
            .size_hint()
            .upper()
            .is_some_and(|size| size <= SMALL)
    }

    /// All of it.
    pub(crate) async fn collect(mut self) -> Result<Bytes, BodyError> {
        self.measures = BodyTimers::Whole;
        let Some(first) = self.data().await? else {
            return Ok(Bytes::new());
        };
        let Some(second) = self.data().await? else {
            return Ok(first);
        };
        let mut all = BytesMut::from(&*first);
        all.extend_from_slice(&second);
        while let Some(next) = self.data().await? {
            all.extend_from_slice(&next);
        }
        Ok(all.freeze())
    }

    async fn data(&mut self) -> Result<Option<Bytes>, BodyError> {
        while let Some(frame) = self.frame().await {
            // A body with a length has no trailers; over HTTP/2 it may, and they go with the stream.
            if let Ok(data) = frame?.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    fn take(&mut self, frame: &Frame<Bytes>) -> Result<(), BodyError> {
        let length = frame.data_ref().map_or(0, Bytes::len);
        let length = u64::try_from(length).map_err(|_| BodyError::TooLarge)?;
        self.left = self.left.checked_sub(length).ok_or(BodyError::TooLarge)?;
        Ok(())
    }

    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<BodyError> {
        let patience = self.patience;
        let waiting = self
            .waiting
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        ready!(waiting.as_mut().poll(cx));
        Poll::Ready(BodyError::Slow)
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Pending => Err(ready!(self.poll_patience(cx))),
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Ready(Some(Err(_))) => Err(BodyError::Malformed),
            Poll::Ready(Some(Ok(frame))) => {
                if self.measures == BodyTimers::Silence {
                    self.waiting = None;
                }
                self.take(&frame)
                    .map(|()| hop_by_hop::trailing(frame, self.key.as_ref()))
            }
        };
        Poll::Ready(Some(frame.inspect_err(|why| self.broken.report(*why))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl BodyBreach {
    /// What happened, if anything did.
    pub(crate) fn why(&self) -> Option<BodyError> {
        self.0.get().copied()
    }

    fn report(&self, why: BodyError) {
        // The first thing that went wrong is the one that matters.
        let _known = self.0.set(why);
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLarge => "the body is larger than `max_body` allows",
            Self::Slow => "the body was silent for too long, or took too long to come whole",
            Self::Malformed => "the body broke off, or its chunks are malformed",
        })
    }
}

impl std::error::Error for BodyError {}

/// As much as a connection's window, and more than most calls to an API carry. Held for each call that
/// waits: ten thousand of them then take at most 640 MiB, and usually hardly anything.
const SMALL: u64 = 64 * 1024;
