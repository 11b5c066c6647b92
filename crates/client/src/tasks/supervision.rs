//! Restart of tasks after a panic.
//!
//! The panic is caught around each poll inside the supervising task, not by the runtime: the
//! runtime's error repeats the message, and one task is cheaper than two.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;
use std::time::Duration;

use outflow_core::Backoff;

use super::registry::TaskSlot;
use crate::event::TaskState;

/// End of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TaskEnd {
    Finished,
    Panicked,
}

/// Runs a task, and restarts it while it panics and is not cancelled.
pub(super) async fn supervise<F>(slot: TaskSlot, make: impl Fn() -> F)
where
    F: Future<Output = TaskEnd>,
{
    let cancel = slot.cancel_token();
    let (mut restarts, mut consecutive) = (0_u32, 0_u32);
    loop {
        let started = tokio::time::Instant::now();
        if make().await == TaskEnd::Finished || cancel.is_cancelled() {
            return;
        }
        if started.elapsed() >= RECOVERED_AFTER {
            consecutive = 0;
        }
        restarts = restarts.saturating_add(1);
        consecutive = consecutive.saturating_add(1);
        let delay = backoff().delay(consecutive, fastrand::u64(..));
        slot.set_state(TaskState::Restarting { restarts, delay });
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = cancel.cancelled() => return,
        }
        slot.set_state(TaskState::Running);
    }
}

/// Builds work and polls it to its end or first panic, also in building or dropping it.
pub(super) async fn catch_panics<F>(make: impl FnOnce() -> F) -> TaskEnd
where
    F: Future<Output = ()>,
{
    let Ok(work) = catch_unwind(AssertUnwindSafe(|| Box::pin(make()))) else {
        return TaskEnd::Panicked;
    };
    let mut work = Some(work);
    poll_fn(|context| {
        let poll = AssertUnwindSafe(|| match work.as_mut() {
            Some(work) => work.as_mut().poll(context),
            None => Poll::Ready(()),
        });
        match catch_unwind(poll) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(())) => Poll::Ready(catch_panic(|| drop(work.take()))),
            Err(_unread) => {
                catch_panic(|| drop(work.take()));
                Poll::Ready(TaskEnd::Panicked)
            }
        }
    })
    .await
}

/// Runs synchronous work and catches a panic.
pub(super) fn catch_panic(work: impl FnOnce()) -> TaskEnd {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(()) => TaskEnd::Finished,
        Err(_unread) => TaskEnd::Panicked,
    }
}

/// Returns the backoff with a minimum delay: work that panics at once must never become a busy
/// loop.
fn backoff() -> Backoff {
    Backoff::added_jitter(MIN_DELAY, MIN_DELAY, MAX_DELAY).unwrap_or_default()
}

/// A transient fault is over by then, and a pause of a hundred milliseconds is harmless.
const MIN_DELAY: Duration = Duration::from_millis(100);

/// A lasting fault costs two panics a minute.
const MAX_DELAY: Duration = Duration::from_secs(30);

/// Work that ran this long had recovered, and its next panic counts as the first.
const RECOVERED_AFTER: Duration = Duration::from_mins(1);
