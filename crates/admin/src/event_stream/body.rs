//! A stream of events as the body of an answer.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame};

use super::ListenerState;

/// A body that goes on as long as somebody listens.
pub(crate) struct EventBody {
    /// What comes next, and who waits for it; nothing once it is over.
    next: Option<Pin<Box<dyn Future<Output = Step> + Send>>>,
}

type Step = (Option<Bytes>, ListenerState);

impl EventBody {
    /// What this one hears.
    pub(crate) fn from_listening(listening: ListenerState) -> Self {
        Self {
            next: Some(Box::pin(step(listening))),
        }
    }
}

async fn step(mut listening: ListenerState) -> Step {
    (listening.next().await, listening)
}

impl Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(next) = &mut self.next else {
            return Poll::Ready(None);
        };
        let (heard, listening) = ready!(next.as_mut().poll(context));
        self.next = match heard {
            Some(_) => Some(Box::pin(step(listening))),
            None => None,
        };
        Poll::Ready(heard.map(|bytes| Ok(Frame::data(bytes))))
    }
}
