//! Body of a response.
//!
//! The read timeout limits silence, not duration: a body may take an hour while data arrives. The
//! timer exists only during a wait, so a body that came with its head costs none.

mod bounded;

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
use super::failure::{AttemptFailure, BytesSent, FailureKind, INVALID_RESPONSE};
use super::pool::BodyConnection;

pub(crate) use self::bounded::{CollectedBody, SMALL_BODY};

/// Body of a response.
pub(crate) struct IncomingBody {
    body: hyper::body::Incoming,
    silence: Duration,
    deadline: Option<AttemptDeadline>,
    timer: Option<Pin<Box<Sleep>>>,
    /// Set until the body is complete.
    connection: Option<BodyConnection>,
    /// True if the status of the response allows no data. Over HTTP/2 a server can send some.
    is_dataless: bool,
    /// Bytes that the announced length still promises. Over HTTP/2 a reset without an error ends a body like its end.
    promised: u64,
}

impl IncomingBody {
    /// Returns a body with a maximum silence and a deadline.
    pub(super) fn new(
        body: hyper::body::Incoming,
        silence: Duration,
        deadline: AttemptDeadline,
        connection: BodyConnection,
    ) -> Self {
        let is_over = body.is_end_stream();
        Self {
            promised: body.size_hint().exact().filter(|_| !is_over).unwrap_or_default(),
            body,
            silence,
            deadline: Some(deadline),
            timer: None,
            connection: (!is_over).then_some(connection),
            is_dataless: false,
        }
    }

    /// Makes any data an error.
    pub(super) fn without_data(mut self) -> Self {
        self.is_dataless = true;
        self
    }

    /// Replaces the deadline.
    pub(crate) fn with_deadline(mut self, deadline: Option<AttemptDeadline>) -> Self {
        self.deadline = deadline;
        self.timer = None;
        self
    }

    /// Reads the complete body up to a maximum size.
    pub(crate) async fn collect(mut self, max: u64) -> Result<Bytes, BodyReadError> {
        let read = self.read(max).await;
        if read == Err(BodyReadError::TooLarge) {
            self.distrust();
        }
        read
    }

    async fn read(&mut self, max: u64) -> Result<Bytes, BodyReadError> {
        if self.body.size_hint().lower() > max {
            return Err(BodyReadError::TooLarge);
        }
        let Some(first) = self.data().await? else {
            return Ok(Bytes::new());
        };
        let mut allowance = BodyAllowance(max);
        allowance.take(&first)?;
        let Some(second) = self.data().await? else {
            return Ok(first);
        };
        allowance.take(&second)?;
        let mut all = BytesMut::with_capacity(first.len().saturating_add(second.len()));
        all.extend_from_slice(&first);
        all.extend_from_slice(&second);
        while let Some(next) = self.data().await? {
            allowance.take(&next)?;
            all.extend_from_slice(&next);
        }
        Ok(all.freeze())
    }

    async fn data(&mut self) -> Result<Option<Bytes>, BodyReadError> {
        while let Some(frame) = self.frame().await {
            // Trailers are not data and are dropped.
            if let Ok(data) = frame.map_err(BodyReadError::Failed)?.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    /// Waits for data until the silence or the deadline ends.
    fn poll_timeout(&mut self, cx: &mut Context<'_>) -> Poll<AttemptFailure> {
        let (silence, deadline) = (self.silence, self.deadline);
        let timer = self.timer.get_or_insert_with(|| {
            let quiet = from_now(silence);
            let until = deadline.map_or(quiet, |deadline| quiet.min(deadline.at));
            Box::pin(tokio::time::sleep_until(until))
        });
        ready!(timer.as_mut().poll(cx));
        let failure = AttemptFailure::new(
            Fault::ReadTimeout,
            BytesSent::Something,
            "the response body did not arrive in time",
        );
        let failure = deadline.map_or(failure, |deadline| deadline.attribute(timer.deadline(), failure));
        if failure.kind == FailureKind::Fault(Fault::ReadTimeout) {
            self.distrust();
        }
        Poll::Ready(failure)
    }

    fn check_frame(&mut self, frame: hyper::Result<Frame<Bytes>>) -> Result<Frame<Bytes>, AttemptFailure> {
        let frame = frame.map_err(|error| AttemptFailure::from_body_error(&error))?;
        let length = frame.data_ref().map_or(0, Bytes::len);
        self.promised = self.promised.saturating_sub(u64::try_from(length).unwrap_or(u64::MAX));
        if self.is_dataless && frame.data_ref().is_some_and(|data| !data.is_empty()) {
            return Err(AttemptFailure::invalid_response(
                "the response has a body that its status forbids",
            ));
        }
        Ok(frame)
    }

    /// Reports a body that ends before its announced length.
    fn check_end(&mut self) -> Option<Result<Frame<Bytes>, AttemptFailure>> {
        let is_cut = std::mem::take(&mut self.promised) > 0;
        let phrase = "the body ended before its announced length";
        is_cut.then(|| Err(AttemptFailure::new(Fault::TruncatedBody, BytesSent::Something, phrase)))
    }

    /// Bars a shared connection from new requests. Requests in flight may still complete on it, but
    /// a silent or flooding connection would fail every new call. An unshared connection ends with
    /// this body.
    fn distrust(&self) {
        if let Some(BodyConnection::Shared(suspect)) = &self.connection {
            suspect.raise();
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
            self.timer = None;
            let polled = match polled {
                Some(frame) => Some(self.check_frame(frame)),
                None => self.check_end(),
            };
            if matches!(&polled, Some(Err(failure)) if failure.kind == INVALID_RESPONSE) {
                self.distrust();
            }
            if self.body.is_end_stream() || !matches!(polled, Some(Ok(_))) {
                self.connection = None;
            }
            return Poll::Ready(polled);
        }
        self.poll_timeout(cx).map(|failure| Some(Err(failure)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream() && self.promised == 0
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Error of a body that could not be read completely.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BodyReadError {
    /// The read failed.
    Failed(AttemptFailure),
    /// The body exceeds the maximum size.
    TooLarge,
}

/// Bytes that may still arrive.
struct BodyAllowance(u64);

impl BodyAllowance {
    fn take(&mut self, data: &Bytes) -> Result<(), BodyReadError> {
        let taken = u64::try_from(data.len()).map_err(|_| BodyReadError::TooLarge)?;
        self.0 = self.0.checked_sub(taken).ok_or(BodyReadError::TooLarge)?;
        Ok(())
    }
}
