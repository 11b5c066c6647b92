//! One request on its way through the layer.
//!
//! A future by hand, so that a governed request costs no allocation more than the one below it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use outflow_core::Fault;
use pin_project_lite::pin_project;
use tower_service::Service;

use super::LayerError;
use super::body::UpstreamBody;
use crate::upstream::{Acquire, AcquireOptions, AttemptResult, Permit, Upstream};

pin_project! {
    /// A request that waits for its permit, or is under way. Dropping it gives back what was not used.
    #[must_use = "futures do nothing unless polled"]
    pub struct UpstreamFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        upstream: Upstream,
        ask: AcquireOptions,
        inner: S,
        request: Option<Request<B>>,
        permit: Option<Permit>,
        #[pin]
        step: FutureStep<S::Future>,
    }
}

pin_project! {
    #[project = StepNow]
    enum FutureStep<F> {
        Admitting { #[pin] admit: Acquire },
        Ready,
        Sending { #[pin] future: F },
    }
}

impl<S: Service<Request<B>>, B> UpstreamFuture<S, B> {
    pub(super) fn new(
        upstream: Upstream,
        ask: AcquireOptions,
        inner: S,
        request: Request<B>,
    ) -> Self {
        let admit = upstream.admit(ask);
        Self {
            upstream,
            ask,
            inner,
            request: Some(request),
            permit: None,
            step: FutureStep::Admitting { admit },
        }
    }
}

impl<S, B, R> Future for UpstreamFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Output = Result<Response<UpstreamBody<R>>, LayerError<S::Error>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match this.step.as_mut().project() {
                StepNow::Admitting { admit } => match ready!(admit.poll(cx)) {
                    Ok(permit) => *this.permit = Some(permit),
                    Err(refusal) => return Poll::Ready(Err(LayerError::Refused(refusal))),
                },
                StepNow::Ready => {
                    // An error here drops the permit unsent, which gives it back.
                    ready!(this.inner.poll_ready(cx)).map_err(LayerError::Failed)?;
                    if this.permit.as_ref().is_some_and(Permit::is_revoked) {
                        // Getting ready took so long that nobody is to go any more.
                        *this.permit = None;
                        let admit = this.upstream.admit(*this.ask);
                        this.step.set(FutureStep::Admitting { admit });
                        continue;
                    }
                    let Some(request) = this.request.take() else {
                        return Poll::Pending;
                    };
                    if let Some(permit) = this.permit.as_mut() {
                        permit.sending();
                    }
                    let future = this.inner.call(request);
                    this.step.set(FutureStep::Sending { future });
                    continue;
                }
                StepNow::Sending { future } => {
                    let ended = ready!(future.poll(cx));
                    return Poll::Ready(settled(this.permit.take(), ended));
                }
            }
            this.step.set(FutureStep::Ready);
        }
    }
}

/// Tells the door how a request ended. What the service below calls an error is taken for a broken
/// connection: its type is its own, and a break is what all of them have in common.
fn settled<R, E>(
    permit: Option<Permit>,
    ended: Result<Response<R>, E>,
) -> Result<Response<UpstreamBody<R>>, LayerError<E>> {
    match ended {
        Ok(response) => {
            let answer = AttemptResult::response(response.status().as_u16(), response.headers());
            let tail = permit.map(|permit| permit.settle_head(answer).1);
            Ok(response.map(|body| UpstreamBody::new(body, tail)))
        }
        Err(error) => {
            if let Some(permit) = permit {
                permit.settle(AttemptResult::fault(Fault::Reset));
            }
            Err(LayerError::Failed(error))
        }
    }
}
