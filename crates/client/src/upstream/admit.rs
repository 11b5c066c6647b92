//! Waiting for a permit.
//!
//! A future by hand rather than an `async fn`: its drop has to know whether it stands in line, was
//! called, or has nothing, and a hundred thousand of them should be small.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::door::Door;
use super::gate::{Caller, Reply};
use super::permit::Permit;
use crate::refusal::{Explanation, Refusal};

/// A call that waits for its permit. Dropping it at any point gives everything back.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Admit {
    /// Handed on to the permit, and gone from here then.
    door: Option<Arc<Door>>,
    step: Step,
}

#[derive(Debug)]
enum Step {
    First(Caller),
    Waiting(usize),
}

impl Admit {
    pub(super) const fn new(door: Arc<Door>, caller: Caller) -> Self {
        Self {
            door: Some(door),
            step: Step::First(caller),
        }
    }

    /// What it waits for, how many are before it and when its turn will come; `None` before it was
    /// first polled and after it was called.
    pub fn explain(&self) -> Option<Explanation> {
        match (&self.door, &self.step) {
            (Some(door), Step::Waiting(key)) => door.explain(*key),
            _ => None,
        }
    }
}

impl Future for Admit {
    type Output = Result<Permit, Refusal>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(door) = &self.door else {
            return Poll::Pending;
        };
        let reply = match self.step {
            Step::First(caller) => door.ask(caller, context.waker()),
            Step::Waiting(key) => door.look(key, context.waker()),
        };
        match reply {
            Reply::Wait(key) => {
                self.step = Step::Waiting(key);
                Poll::Pending
            }
            Reply::Go(pass) => Poll::Ready(Ok(Permit::new(self.door.take(), pass))),
            Reply::No(refusal) => {
                self.door = None;
                Poll::Ready(Err(refusal))
            }
        }
    }
}

impl Drop for Admit {
    fn drop(&mut self) {
        if let (Some(door), Step::Waiting(key)) = (&self.door, &self.step) {
            door.forget(*key);
        }
    }
}
