//! Starting work again after a panic.
//!
//! The panic is caught around each poll inside of the supervising task, rather than by letting the
//! runtime catch it: its error repeats what the panic said, and one task is half of two.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;
use std::time::Duration;

use outflow_core::Backoff;

use super::registry::TaskSlot;
use crate::event::TaskState;

/// How a piece of work came to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TaskEnd {
    Finished,
    Panicked,
}

/// Runs work, and runs it again for as long as it panics and nobody said stop.
pub(super) async fn supervise<F>(place: TaskSlot, make: impl Fn() -> F)
where
    F: Future<Output = TaskEnd>,
{
    let stop = place.stop();
    let (mut restarts, mut in_a_row) = (0_u32, 0_u32);
    loop {
        let started = tokio::time::Instant::now();
        if make().await == TaskEnd::Finished || stop.is_cancelled() {
            return;
        }
        if started.elapsed() >= SETTLED {
            in_a_row = 0;
        }
        restarts = restarts.saturating_add(1);
        in_a_row = in_a_row.saturating_add(1);
        let delay = backoff().delay(in_a_row, fastrand::u64(..));
        place.turns(TaskState::Restarting { restarts, delay });
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = stop.cancelled() => return,
        }
        place.turns(TaskState::Running);
    }
}

/// Makes the work and polls it to its end or to its first panic, wherever that is: in the making, in
/// a poll or in letting go of it.
pub(super) async fn caught<F>(make: impl FnOnce() -> F) -> TaskEnd
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
            Ok(Poll::Ready(())) => Poll::Ready(caught_here(|| drop(work.take()))),
            Err(_unread) => {
                caught_here(|| drop(work.take()));
                Poll::Ready(TaskEnd::Panicked)
            }
        }
    })
    .await
}

/// The same for work that does not wait.
pub(super) fn caught_here(work: impl FnOnce()) -> TaskEnd {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(()) => TaskEnd::Finished,
        Err(_unread) => TaskEnd::Panicked,
    }
}

/// The wait lies on top of a least one: work that panics at once must never become a busy loop.
fn backoff() -> Backoff {
    Backoff::added_jitter(FIRST_WAIT, FIRST_WAIT, LONGEST_WAIT).unwrap_or_default()
}

/// A passing fault is over by then, and a hundred milliseconds without a sweep hurt nobody.
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// A fault that stays costs two panics a minute.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Work that lasted so long had recovered, and its next panic is a first one again.
const SETTLED: Duration = Duration::from_mins(1);
