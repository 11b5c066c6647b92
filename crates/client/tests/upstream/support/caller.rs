//! A caller that the test polls and that counts its wake-ups.

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
pub(crate) struct TestCaller {
    acquire: Pin<Box<Acquire>>,
    woken: Arc<WakeCounter>,
    /// Number of wake-ups that a poll followed.
    followed: u32,
    pub(crate) polls: u32,
    /// Creation order of the callers.
    pub(crate) number: u64,
}

struct WakeCounter {
    times: AtomicU32,
    last: AtomicU64,
    timer: Arc<ManualTimer>,
}

impl Wake for WakeCounter {
    fn wake(self: Arc<Self>) {
        let now = self.timer.now().as_nanos();
        self.last.store(now, Ordering::Relaxed);
        self.times.fetch_add(1, Ordering::Relaxed);
    }
}

impl TestCaller {
    pub(crate) fn new(acquire: Acquire, timer: Arc<ManualTimer>) -> Self {
        let woken = WakeCounter {
            times: AtomicU32::new(0),
            last: AtomicU64::new(0),
            timer,
        };
        Self {
            acquire: Box::pin(acquire),
            woken: Arc::new(woken),
            followed: 0,
            polls: 0,
            number: NEXT.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Polls the call: its result, or `None` if it waits.
    pub(crate) fn poll(&mut self) -> Option<Result<Permit, Refusal>> {
        self.followed = self.wakes();
        self.polls += 1;
        let waker = Waker::from(Arc::clone(&self.woken));
        match self.acquire.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        }
    }

    /// Takes its permit now, which is refunded unless it is sent.
    pub(crate) fn admitted(&mut self) -> Permit {
        let result = self.poll().expect("its permit is ready");
        result.expect("it may go")
    }

    /// Goes now and succeeds. Returns its waiting time.
    pub(crate) fn goes(&mut self) -> Duration {
        let mut permit = self.admitted();
        permit.sending();
        let waited = permit.waited();
        permit.settle(AttemptResult::status(200));
        waited
    }

    /// Polls once: goes or is refused if possible; returns true if it still waits.
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
        let result = self.poll().expect("it has a result");
        result.expect_err("it may not go")
    }

    /// Returns true if it was woken and not polled since.
    pub(crate) fn is_woken(&self) -> bool {
        self.wakes() > self.followed
    }

    pub(crate) fn wakes(&self) -> u32 {
        self.woken.times.load(Ordering::Relaxed)
    }

    /// Returns the instant of its last wake-up.
    pub(crate) fn woken_at(&self) -> Nanos {
        Nanos::from_nanos(self.woken.last.load(Ordering::Relaxed))
    }

    pub(crate) fn explain(&self) -> Option<WaitEstimate> {
        self.acquire.explain()
    }
}

static NEXT: AtomicU64 = AtomicU64::new(0);
