//! The future of one request behind the layer.
//!
//! It is written by hand, so that the layer adds no allocation to a request.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use outflow_core::Fault;
use pin_project_lite::pin_project;
use tower_service::Service;

use super::LayerError;
use super::body::UpstreamBody;
use crate::upstream::{Acquire, AcquireOptions, AttemptResult, Permit, Target, Upstream};

/// Target and options of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct LayerCall {
    pub(super) target: Target,
    pub(super) options: AcquireOptions,
}

pin_project! {
    /// A request that waits for its permit or is in flight. Dropping it refunds an unused permit.
    #[must_use = "futures do nothing unless polled"]
    pub struct UpstreamFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        upstream: Upstream,
        call: LayerCall,
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
        Acquiring { #[pin] acquire: Acquire },
        Ready,
        Sending { #[pin] future: F },
    }
}

impl<S: Service<Request<B>>, B> UpstreamFuture<S, B> {
    pub(super) fn new(upstream: Upstream, call: LayerCall, inner: S, request: Request<B>) -> Self {
        let acquire = upstream.acquire_with(call.target, call.options);
        Self {
            upstream,
            call,
            inner,
            request: Some(request),
            permit: None,
            step: FutureStep::Acquiring { acquire },
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
                StepNow::Acquiring { acquire } => match ready!(acquire.poll(cx)) {
                    Ok(permit) => *this.permit = Some(permit),
                    Err(refusal) => return Poll::Ready(Err(LayerError::Refused(refusal))),
                },
                StepNow::Ready => {
                    // An error here drops the unsent permit, which refunds it.
                    ready!(this.inner.poll_ready(cx)).map_err(LayerError::Failed)?;
                    if this.permit.as_ref().is_some_and(Permit::is_revoked) {
                        // The permit was revoked while the service got ready.
                        *this.permit = None;
                        let LayerCall { target, options } = *this.call;
                        let acquire = this.upstream.acquire_with(target, options);
                        this.step.set(FutureStep::Acquiring { acquire });
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
                    return Poll::Ready(settle(this.permit.take(), ended));
                }
            }
            this.step.set(FutureStep::Ready);
        }
    }
}

/// Settles the permit of a request. An error of the inner service counts as a reset connection: its type
/// is unknown, and a reset is common to all of them.
fn settle<R, E>(
    permit: Option<Permit>,
    ended: Result<Response<R>, E>,
) -> Result<Response<UpstreamBody<R>>, LayerError<E>> {
    match ended {
        Ok(response) => {
            let result = AttemptResult::response(response.status().as_u16(), response.headers());
            let pending = permit.map(|permit| permit.settle_head(result).1);
            Ok(response.map(|body| UpstreamBody::new(body, pending)))
        }
        Err(error) => {
            if let Some(permit) = permit {
                permit.settle(AttemptResult::fault(Fault::Reset));
            }
            Err(LayerError::Failed(error))
        }
    }
}
