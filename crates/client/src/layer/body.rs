//! A body that holds its call's place at the API until it ends.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame, SizeHint};
use outflow_core::Fault;
use pin_project_lite::pin_project;

use crate::upstream::Tail;

pin_project! {
    /// The body of a governed response.
    #[derive(Debug)]
    pub struct GovernedBody<B> {
        #[pin]
        body: B,
        tail: Option<Tail>,
        flows: Flows,
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flows {
    NotYet,
    Already,
}

impl<B> GovernedBody<B> {
    pub(super) const fn new(body: B, tail: Option<Tail>) -> Self {
        Self {
            body,
            tail,
            flows: Flows::NotYet,
        }
    }
}

impl<B: Body> Body for GovernedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let endless = this.body.size_hint().exact().is_none();
        let frame = ready!(this.body.poll_frame(cx));
        match (&frame, &mut *this.tail) {
            // Of a body whose length is known the end will tell; of one without, that it flows.
            (Some(Ok(_)), Some(tail)) if *this.flows == Flows::NotYet && endless => {
                *this.flows = Flows::Already;
                tail.flowing();
            }
            (None, tail) => {
                if let Some(tail) = tail.take() {
                    tail.finished();
                }
            }
            (Some(Err(_)), tail) => {
                if let Some(tail) = tail.take() {
                    tail.broke(Fault::TruncatedBody);
                }
            }
            (Some(Ok(_)), _) => {}
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
