//! The body of a response on its way in.
//!
//! Silence is measured, not duration: a body may take an hour as long as something comes. The timer
//! exists only while there is something to wait for, so a body that came with its head costs none.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use outflow_core::Fault;
use tokio::time::Sleep;

use super::deadline::{AttemptDeadline, from_now};
use super::failure::{AttemptFailure, BytesSent, FailureKind};
use super::pool::BodyFraming;

/// A response's body.
pub(crate) struct IncomingBody {
    body: hyper::body::Incoming,
    silence: Duration,
    end: Option<AttemptDeadline>,
    waiting: Option<Pin<Box<Sleep>>>,
    /// Until all of it has come.
    way: Option<BodyFraming>,
}

impl IncomingBody {
    /// A body on its way over a connection that must not be silent for longer, and must be over by
    /// then.
    pub(super) fn new(
        body: hyper::body::Incoming,
        silence: Duration,
        end: AttemptDeadline,
        way: BodyFraming,
    ) -> Self {
        let is_over = body.is_end_stream();
        Self {
            body,
            silence,
            end: Some(end),
            waiting: None,
            way: (!is_over).then_some(way),
        }
    }

    /// The same body, with another end.
    pub(crate) fn until(mut self, end: Option<AttemptDeadline>) -> Self {
        self.end = end;
        self.waiting = None;
        self
    }

    /// All of it, if it is no larger than that.
    pub(crate) async fn collect(mut self, largest: u64) -> Result<Bytes, BodyReadError> {
        let read = self.read(largest).await;
        if read == Err(BodyReadError::TooLarge) {
            self.distrust();
        }
        read
    }

    async fn read(&mut self, largest: u64) -> Result<Bytes, BodyReadError> {
        if self.body.size_hint().lower() > largest {
            return Err(BodyReadError::TooLarge);
        }
        let Some(first) = self.data().await? else {
            return Ok(Bytes::new());
        };
        let mut room = BodyAllowance(largest);
        room.take(&first)?;
        let Some(second) = self.data().await? else {
            return Ok(first);
        };
        room.take(&second)?;
        let mut all = BytesMut::with_capacity(first.len().saturating_add(second.len()));
        all.extend_from_slice(&first);
        all.extend_from_slice(&second);
        while let Some(next) = self.data().await? {
            room.take(&next)?;
            all.extend_from_slice(&next);
        }
        Ok(all.freeze())
    }

    async fn data(&mut self) -> Result<Option<Bytes>, BodyReadError> {
        while let Some(frame) = self.frame().await {
            // Trailers are not data; nothing here reads them.
            if let Ok(data) = frame.map_err(BodyReadError::Failed)?.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    /// Waits on, or says that it took too long.
    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<AttemptFailure> {
        let (silence, end) = (self.silence, self.end);
        let waiting = self.waiting.get_or_insert_with(|| {
            let quiet = from_now(silence);
            let until = end.map_or(quiet, |end| quiet.min(end.at));
            Box::pin(tokio::time::sleep_until(until))
        });
        ready!(waiting.as_mut().poll(cx));
        let failure = AttemptFailure::new(
            Fault::ReadTimeout,
            BytesSent::Something,
            "the body did not come in time",
        );
        let failure = end.map_or(failure, |end| end.judge(waiting.deadline(), failure));
        if failure.trouble == FailureKind::Fault(Fault::ReadTimeout) {
            self.distrust();
        }
        Poll::Ready(failure)
    }

    /// Has the connection get no new request. Others may still get their answers on it, but where many
    /// share one, a connection that is silent or floods us would take every call down, one after
    /// another. One that nobody shares ends with this body.
    fn distrust(&self) {
        if let Some(BodyFraming::Shared(doubt)) = &self.way {
            doubt.cast();
        }
    }
}

impl Body for IncomingBody {
    type Data = Bytes;
    type Error = AttemptFailure;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AttemptFailure>>> {
        if let Poll::Ready(polled) = Pin::new(&mut self.body).poll_frame(cx) {
            self.waiting = None;
            if self.body.is_end_stream() || !matches!(polled, Some(Ok(_))) {
                self.way = None;
            }
            return Poll::Ready(
                polled.map(|frame| frame.map_err(|error| AttemptFailure::of_body(&error))),
            );
        }
        self.poll_patience(cx).map(|failure| Some(Err(failure)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Why a body could not be read whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BodyReadError {
    /// It did not come.
    Failed(AttemptFailure),
    /// It is larger than it may be.
    TooLarge,
}

/// How much more may come.
struct BodyAllowance(u64);

impl BodyAllowance {
    fn take(&mut self, data: &Bytes) -> Result<(), BodyReadError> {
        let taken = u64::try_from(data.len()).map_err(|_| BodyReadError::TooLarge)?;
        self.0 = self.0.checked_sub(taken).ok_or(BodyReadError::TooLarge)?;
        Ok(())
    }
}
