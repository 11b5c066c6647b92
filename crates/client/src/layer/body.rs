//! A response body that keeps its call in flight until it ends.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame, SizeHint};
use outflow_core::Fault;
use pin_project_lite::pin_project;

use crate::send::StreamLiveness;
use crate::upstream::PendingBody;

pin_project! {
    /// The body of a response behind the layer.
    #[derive(Debug)]
    pub struct UpstreamBody<B> {
        #[pin]
        body: B,
        pending: Option<PendingBody>,
        liveness: StreamLiveness,
    }
}

impl<B> UpstreamBody<B> {
    pub(super) fn new(body: B, pending: Option<PendingBody>) -> Self {
        Self {
            body,
            pending,
            liveness: StreamLiveness::new(),
        }
    }
}

impl<B: Body> Body for UpstreamBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let frame = ready!(this.body.poll_frame(cx));
        match &frame {
            Some(Ok(_)) => this.liveness.on_data(this.pending.as_mut()),
            Some(Err(_)) => {
                if let Some(pending) = this.pending.take() {
                    pending.fail(Fault::TruncatedBody);
                }
            }
            None => {
                if let Some(pending) = this.pending.take() {
                    pending.finished();
                }
            }
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
