//! A caller that is polled by hand and counts how often it was woken.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use outflow::{Admit, Explanation, Permit, Refusal};

/// One call that waits for its permit.
pub struct Caller {
    admit: Pin<Box<Admit>>,
    woken: Arc<Woken>,
    /// How many wake-ups it has followed.
    followed: u32,
    pub polls: u32,
}

#[derive(Default)]
struct Woken(AtomicU32);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Caller {
    pub fn new(admit: Admit) -> Self {
        Self {
            admit: Box::pin(admit),
            woken: Arc::default(),
            followed: 0,
            polls: 0,
        }
    }

    /// What it is told now; `None` if it is to wait.
    pub fn poll(&mut self) -> Option<Result<Permit, Refusal>> {
        self.followed = self.wakes();
        self.polls += 1;
        let waker = Waker::from(Arc::clone(&self.woken));
        match self.admit.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        }
    }

    /// Has its permit now.
    pub fn admitted(&mut self) -> Permit {
        let answer = self.poll().expect("its turn has come");
        answer.expect("it may go")
    }

    /// Is refused now.
    pub fn refused(&mut self) -> Refusal {
        let answer = self.poll().expect("it is told");
        answer.expect_err("it may not go")
    }

    /// True if it was woken and has not been polled since.
    pub fn is_woken(&self) -> bool {
        self.wakes() > self.followed
    }

    pub fn wakes(&self) -> u32 {
        self.woken.0.load(Ordering::Relaxed)
    }

    pub fn explain(&self) -> Option<Explanation> {
        self.admit.explain()
    }
}
