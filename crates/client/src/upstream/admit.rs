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
    door: Arc<Door>,
    caller: Caller,
    step: Step,
}

#[derive(Debug)]
enum Step {
    First,
    Waiting(usize),
    Over,
}

impl Admit {
    pub(super) const fn new(door: Arc<Door>, caller: Caller) -> Self {
        Self {
            door,
            caller,
            step: Step::First,
        }
    }

    /// What it waits for, how many are before it and when its turn will come; `None` before it was
    /// first polled and after it was called.
    pub fn explain(&self) -> Option<Explanation> {
        match self.step {
            Step::Waiting(key) => self.door.explain(key),
            Step::First | Step::Over => None,
        }
    }
}

impl Future for Admit {
    type Output = Result<Permit, Refusal>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let reply = match self.step {
            Step::First => self.door.ask(self.caller, context.waker()),
            Step::Waiting(key) => self.door.look(key, context.waker()),
            Step::Over => return Poll::Pending,
        };
        match reply {
            Reply::Wait(key) => {
                self.step = Step::Waiting(key);
                Poll::Pending
            }
            Reply::Go(pass) => {
                self.step = Step::Over;
                Poll::Ready(Ok(Permit::new(Arc::clone(&self.door), pass)))
            }
            Reply::No(refusal) => {
                self.step = Step::Over;
                Poll::Ready(Err(refusal))
            }
        }
    }
}

impl Drop for Admit {
    fn drop(&mut self) {
        if let Step::Waiting(key) = self.step {
            self.door.forget(key);
        }
    }
}
