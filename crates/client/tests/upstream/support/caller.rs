//! A caller that is polled by hand and counts how often it was woken.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use outflow::core::{Clock, Nanos};
use outflow::{Acquire, AttemptResult, Permit, Refusal, WaitEstimate};

use super::ManualTimer;

/// One call that waits for its permit.
pub(crate) struct Caller {
    admit: Pin<Box<Acquire>>,
    woken: Arc<Woken>,
    /// How many wake-ups it has followed.
    followed: u32,
    pub(crate) polls: u32,
    /// The order in which callers were made.
    pub(crate) number: u64,
}

struct Woken {
    times: AtomicU32,
    last: AtomicU64,
    timer: Arc<ManualTimer>,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        let now = self.timer.now().as_nanos();
        self.last.store(now, Ordering::Relaxed);
        self.times.fetch_add(1, Ordering::Relaxed);
    }
}

impl Caller {
    pub(crate) fn new(admit: Acquire, timer: Arc<ManualTimer>) -> Self {
        let woken = Woken {
            times: AtomicU32::new(0),
            last: AtomicU64::new(0),
            timer,
        };
        Self {
            admit: Box::pin(admit),
            woken: Arc::new(woken),
            followed: 0,
            polls: 0,
            number: NEXT.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// What it is told now; `None` if it is to wait.
    pub(crate) fn poll(&mut self) -> Option<Result<Permit, Refusal>> {
        self.followed = self.wakes();
        self.polls += 1;
        let waker = Waker::from(Arc::clone(&self.woken));
        match self.admit.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        }
    }

    /// Has its permit now, which is given back if it is not sent.
    pub(crate) fn admitted(&mut self) -> Permit {
        let answer = self.poll().expect("its turn has come");
        answer.expect("it may go")
    }

    /// Goes now, and all is well with it. Answers how long it waited.
    pub(crate) fn goes(&mut self) -> Duration {
        let mut permit = self.admitted();
        permit.sending();
        let waited = permit.waited();
        permit.settle(AttemptResult::status(200));
        waited
    }

    /// If it is its turn it goes, or is refused; true if it waits on.
    pub(crate) fn waits_on(&mut self) -> bool {
        match self.poll() {
            Some(Ok(mut permit)) => {
                permit.sending();
                permit.settle(AttemptResult::status(200));
                false
            }
            Some(Err(_)) => false,
            None => true,
        }
    }

    /// Is refused now.
    pub(crate) fn refused(&mut self) -> Refusal {
        let answer = self.poll().expect("it is told");
        answer.expect_err("it may not go")
    }

    /// True if it was woken and has not been polled since.
    pub(crate) fn is_woken(&self) -> bool {
        self.wakes() > self.followed
    }

    pub(crate) fn wakes(&self) -> u32 {
        self.woken.times.load(Ordering::Relaxed)
    }

    /// When it was last woken.
    pub(crate) fn woken_at(&self) -> Nanos {
        Nanos::from_nanos(self.woken.last.load(Ordering::Relaxed))
    }

    pub(crate) fn explain(&self) -> Option<WaitEstimate> {
        self.admit.explain()
    }
}

static NEXT: AtomicU64 = AtomicU64::new(0);
