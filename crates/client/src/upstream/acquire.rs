//! Waiting for a permit.
//!
//! A future by hand rather than an `async fn`: its drop has to know whether it stands in line, was
//! called, or has nothing, and a hundred thousand of them should be small.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::permit::Permit;
use super::shared::SharedState;
use super::state::{AcquireRequest, AcquireResult};
use crate::refusal::{Refusal, WaitEstimate};

/// A call that waits for its permit. Dropping it at any point gives everything back.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Acquire {
    /// Handed on to the permit, and gone from here then.
    door: Option<Arc<SharedState>>,
    step: AcquireStep,
}

#[derive(Debug)]
enum AcquireStep {
    First(AcquireRequest),
    Waiting(usize),
}

impl Acquire {
    pub(super) const fn new(door: Arc<SharedState>, caller: AcquireRequest) -> Self {
        Self {
            door: Some(door),
            step: AcquireStep::First(caller),
        }
    }

    /// What it waits for, how many are before it and when its turn will come; `None` before it was
    /// first polled and after it was called.
    pub fn explain(&self) -> Option<WaitEstimate> {
        match (&self.door, &self.step) {
            (Some(door), AcquireStep::Waiting(key)) => door.explain(*key),
            _ => None,
        }
    }
}

impl Future for Acquire {
    type Output = Result<Permit, Refusal>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(door) = &self.door else {
            return Poll::Pending;
        };
        let reply = match self.step {
            AcquireStep::First(caller) => door.enqueue(caller, context.waker()),
            AcquireStep::Waiting(key) => door.poll(key, context.waker()),
        };
        match reply {
            AcquireResult::Wait(key) => {
                self.step = AcquireStep::Waiting(key);
                Poll::Pending
            }
            AcquireResult::Go(pass) => Poll::Ready(Ok(Permit::new(self.door.take(), pass))),
            AcquireResult::No(refusal) => {
                self.door = None;
                Poll::Ready(Err(refusal))
            }
        }
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        if let (Some(door), AcquireStep::Waiting(key)) = (&self.door, &self.step) {
            door.forget(*key);
        }
    }
}
