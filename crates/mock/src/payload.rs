//! The bodies of responses: complete, huge, endless, slow or streamed.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep};

/// Content of a response body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// These bytes at once.
    Whole(Bytes),
    /// This many zeros, announced and sent as fast as they are taken, never held in memory.
    Zeros(u64),
    /// Zeros without an end, as fast as they are taken.
    Endless,
    /// These bytes, one at a time.
    Drip {
        /// All bytes; their number is announced.
        bytes: Bytes,
        /// Interval between bytes.
        every: Duration,
    },
    /// The received request as JSON.
    Echo,
    /// A completion for `POST …/chat/completions`, as one document or a stream of events, as the
    /// request asks.
    Chat,
}

/// Body in transit.
#[derive(Debug)]
pub(crate) enum Payload {
    Whole(Bytes),
    Zeros(u64),
    Endless,
    Drip {
        bytes: Bytes,
        every: Duration,
        next: Pin<Box<Sleep>>,
    },
    Events {
        events: VecDeque<Bytes>,
        every: Duration,
        next: Pin<Box<Sleep>>,
    },
}

impl Payload {
    pub(crate) fn drip(bytes: Bytes, every: Duration) -> Self {
        Self::Drip {
            bytes,
            every,
            next: Box::pin(sleep(every)),
        }
    }

    /// Builds a body that sends one event per interval.
    pub(crate) fn events(events: VecDeque<Bytes>, every: Duration) -> Self {
        Self::Events {
            events,
            every,
            next: Box::pin(sleep(every)),
        }
    }
}

impl Body for Payload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = match &mut *self {
            Self::Whole(bytes) => std::mem::take(bytes),
            Self::Zeros(left) => {
                let piece = zeros(*left);
                *left -= length(&piece);
                piece
            }
            Self::Endless => zeros(u64::MAX),
            Self::Drip { bytes, .. } if bytes.is_empty() => Bytes::new(),
            Self::Drip { bytes, every, next } => {
                ready!(tick(next, *every, context));
                bytes.split_to(1)
            }
            Self::Events { events, .. } if events.is_empty() => Bytes::new(),
            Self::Events { events, every, next } => {
                ready!(tick(next, *every, context));
                events.pop_front().unwrap_or_default()
            }
        };
        Poll::Ready((!piece.is_empty()).then(|| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) | Self::Drip { bytes, .. } => bytes.is_empty(),
            Self::Zeros(left) => *left == 0,
            Self::Endless => false,
            Self::Events { events, .. } => events.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) | Self::Drip { bytes, .. } => SizeHint::with_exact(length(bytes)),
            Self::Zeros(left) => SizeHint::with_exact(*left),
            Self::Endless | Self::Events { .. } => SizeHint::default(),
        }
    }
}

/// Waits for the next tick, and resets the timer.
fn tick(next: &mut Pin<Box<Sleep>>, every: Duration, context: &mut Context<'_>) -> Poll<()> {
    ready!(next.as_mut().poll(context));
    let due = next.deadline() + every;
    next.as_mut().reset(due);
    Poll::Ready(())
}

fn zeros(max: u64) -> Bytes {
    let piece = Bytes::from_static(&ZEROS);
    match usize::try_from(max) {
        Ok(max) if max < piece.len() => piece.slice(..max),
        _ => piece,
    }
}

pub(crate) fn length(bytes: &Bytes) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// The amount that a socket takes at once.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
