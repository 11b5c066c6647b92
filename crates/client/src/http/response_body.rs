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
use super::pool::{BodyConnection, Occupancy};

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
    /// Bytes that the announced length still promises; `None` without one.
    promised: Option<u64>,
    /// Last frame of a body over HTTP/2, until its end confirms it.
    held: Option<Box<Frame<Bytes>>>,
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
            promised: body.size_hint().exact().filter(|_| !is_over),
            body,
            silence,
            deadline: Some(deadline),
            timer: None,
            connection: (!is_over).then_some(connection),
            is_dataless: false,
            held: None,
        }
    }

    /// Makes any data an error.
    pub(super) fn without_data(mut self) -> Self {
        self.is_dataless = true;
        self.promised = Some(0);
        self
    }

    /// Waits for the end of a body of length zero, or of none. Over HTTP/2 forbidden data can follow the head, and
    /// no reader of an empty body would see it.
    pub(super) async fn confirm_empty(&mut self) -> Result<(), AttemptFailure> {
        let is_open = self.is_shared() && !self.body.is_end_stream();
        if is_open && self.promised == Some(0) {
            self.held = self.frame().await.transpose()?.filter(Frame::is_trailers).map(Box::new);
        }
        Ok(())
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
        let frame = frame.map_err(|error| AttemptFailure::from_body_error(&error, self.occupancy()))?;
        let length = frame.data_ref().map_or(0, Bytes::len);
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        self.promised = self.promised.map(|promised| promised.saturating_sub(length));
        if self.is_dataless && frame.data_ref().is_some_and(|data| !data.is_empty()) {
            return Err(AttemptFailure::invalid_response(
                "the response has a body that its status forbids",
            ));
        }
        Ok(frame)
    }

    /// Reports a body that is cut. Over HTTP/2 hyper reads a reset without an error as an end, but only the
    /// flag of the last frame is one.
    fn check_end(&mut self) -> Option<Result<Frame<Bytes>, AttemptFailure>> {
        let is_short = self.promised.take().is_some_and(|promised| promised > 0);
        let is_cut = self.is_shared() && !self.body.is_end_stream();
        let phrase = "the body ended before its announced length, or without an end";
        (is_short || is_cut).then(|| Err(AttemptFailure::new(Fault::TruncatedBody, BytesSent::Something, phrase)))
    }

    /// Polls the next checked frame.
    fn poll_checked(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, AttemptFailure>>> {
        let Poll::Ready(polled) = Pin::new(&mut self.body).poll_frame(cx) else {
            return self.poll_timeout(cx).map(|failure| Some(Err(failure)));
        };
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
        Poll::Ready(polled)
    }

    /// Returns true for the last announced data over HTTP/2 before the end: more data may follow, and a reader
    /// that has all announced bytes would never see it.
    fn is_unconfirmed(&self, frame: &Frame<Bytes>) -> bool {
        self.is_shared() && frame.is_data() && self.promised == Some(0) && !self.body.is_end_stream()
    }

    const fn is_shared(&self) -> bool {
        matches!(self.connection, Some(BodyConnection::Shared(_)))
    }

    fn occupancy(&self) -> Occupancy {
        match &self.connection {
            Some(BodyConnection::Shared(marks)) => marks.occupancy(),
            Some(BodyConnection::Leased(_)) | None => Occupancy::One,
        }
    }

    /// Bars a shared connection from new requests. Requests in flight may still complete on it, but
    /// a silent or flooding connection would fail every new call. An unshared connection ends with
    /// this body.
    fn distrust(&self) {
        if let Some(BodyConnection::Shared(marks)) = &self.connection {
            marks.raise_suspicion();
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
        loop {
            if self.body.is_end_stream()
                && let Some(frame) = self.held.take()
            {
                return Poll::Ready(Some(Ok(*frame)));
            }
            match ready!(self.poll_checked(cx)) {
                Some(Ok(frame)) if self.is_unconfirmed(&frame) => self.held = Some(Box::new(frame)),
                // An empty last frame confirms the held one; trailers also follow it.
                Some(Ok(frame)) if self.held.is_some() => {
                    let last = Some(frame).filter(Frame::is_trailers).map(Box::new);
                    return Poll::Ready(std::mem::replace(&mut self.held, last).map(|frame| Ok(*frame)));
                }
                None => return Poll::Ready(self.held.take().map(|frame| Ok(*frame))),
                polled => return Poll::Ready(polled),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_none() && self.body.is_end_stream() && self.promised.is_none_or(|promised| promised == 0)
    }

    fn size_hint(&self) -> SizeHint {
        let held = self.held.as_deref().and_then(Frame::data_ref);
        match held.map(|data| u64::try_from(data.len())) {
            Some(Ok(length)) => SizeHint::with_exact(length),
            _ => self.body.size_hint(),
        }
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
