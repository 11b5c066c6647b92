//! The bodies of answers: whole, huge, endless, dripping or spoken.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep};

/// What an answer's body is made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// These bytes at once.
    Whole(Bytes),
    /// So many zeros, announced and sent as fast as they are taken, never held in memory.
    Zeros(u64),
    /// Zeros without an end, as fast as they are taken.
    Endless,
    /// These bytes, one at a time.
    Drip {
        /// What is sent in the end; its length is announced.
        bytes: Bytes,
        /// How long each byte takes.
        every: Duration,
    },
    /// What the server received, as JSON.
    Echo,
    /// What a language model says to a `POST …/chat/completions`, whole or as a stream of events, as the
    /// request wants it.
    Chat,
}

/// A body on its way.
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
    pub(crate) fn empty() -> Self {
        Self::Whole(Bytes::new())
    }

    pub(crate) fn drip(bytes: Bytes, every: Duration) -> Self {
        Self::Drip {
            bytes,
            every,
            next: Box::pin(sleep(every)),
        }
    }

    /// Each of these after so long.
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
            Self::Events {
                events,
                every,
                next,
            } => {
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

/// Waits for the next tick, and winds the clock up again.
fn tick(next: &mut Pin<Box<Sleep>>, every: Duration, context: &mut Context<'_>) -> Poll<()> {
    ready!(next.as_mut().poll(context));
    let due = next.deadline() + every;
    next.as_mut().reset(due);
    Poll::Ready(())
}

fn zeros(most: u64) -> Bytes {
    let piece = Bytes::from_static(&ZEROS);
    match usize::try_from(most) {
        Ok(most) if most < piece.len() => piece.slice(..most),
        _ => piece,
    }
}

pub(crate) fn length(bytes: &Bytes) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// As much as a socket takes at once.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
