//! The future of a permit.
//!
//! It is written by hand instead of an `async fn`: its drop depends on its position in the queue, and a
//! hundred thousand of them should be small.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::explain::WaitEstimate;
use super::permit::Permit;
use super::shared::SharedState;
use super::wait_queue::{AcquireRequest, AcquireResult};
use crate::refusal::Refusal;

/// Future of a permit. Dropping it at any point refunds everything.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Acquire {
    /// Moves to the permit.
    shared: Option<Arc<SharedState>>,
    step: AcquireStep,
}

#[derive(Debug)]
enum AcquireStep {
    First(AcquireRequest),
    Waiting(usize),
}

impl Acquire {
    pub(super) const fn new(shared: Arc<SharedState>, request: AcquireRequest) -> Self {
        Self {
            shared: Some(shared),
            step: AcquireStep::First(request),
        }
    }

    /// Estimates the remaining wait. There is none before the first poll and after the permit is ready.
    pub fn explain(&self) -> Option<WaitEstimate> {
        match (&self.shared, &self.step) {
            (Some(shared), AcquireStep::Waiting(key)) => shared.with(|state, now| state.explain_waiter(*key, now)),
            _ => None,
        }
    }
}

impl Future for Acquire {
    type Output = Result<Permit, Refusal>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(shared) = &self.shared else {
            return Poll::Pending;
        };
        let result = match self.step {
            AcquireStep::First(request) => shared.with(|state, now| state.enqueue(request, now, context.waker())),
            AcquireStep::Waiting(key) => shared.with(|state, now| state.poll(key, now, context.waker())),
        };
        match result {
            AcquireResult::Wait(key) => {
                shared.renew_timer();
                self.step = AcquireStep::Waiting(key);
                Poll::Pending
            }
            AcquireResult::Granted(parts) => Poll::Ready(Ok(Permit::new(self.shared.take(), parts))),
            AcquireResult::Refused(refusal) => {
                self.shared = None;
                Poll::Ready(Err(refusal))
            }
        }
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        if let (Some(shared), AcquireStep::Waiting(key)) = (&self.shared, &self.step) {
            shared.with(|state, now| state.forget(*key, now));
        }
    }
}
