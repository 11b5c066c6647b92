//! Work that runs alongside a test and ends with it.
//!
//! A detached task outlives the test that started it, and its panic is lost on a terminal. A task
//! held as a value is aborted when it is dropped, and waiting for it repeats its panic. Everything
//! in this crate that spawns does it here.

use std::future::Future;
use std::panic::resume_unwind;

use tokio::task::{AbortHandle, JoinHandle};

/// Task of the current runtime that ends when this is dropped.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use outflow_testkit::Background;
///
/// let work = Background::start(async { 6 * 7 });
/// assert_eq!(work.join().await, 42);
/// # }
/// ```
#[derive(Debug)]
pub struct Background<T> {
    task: JoinHandle<T>,
    abort: AbortOnDrop,
}

impl<T: Send + 'static> Background<T> {
    /// Starts the work on the current runtime.
    ///
    /// # Panics
    /// Outside of a runtime.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place of this crate that spawns a task"
    )]
    pub fn start(work: impl Future<Output = T> + Send + 'static) -> Self {
        let task = tokio::spawn(work);
        let abort = AbortOnDrop(task.abort_handle());
        Self { task, abort }
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// If the work panicked, with its payload.
    pub async fn join(self) -> T {
        let Self { task, abort } = self;
        let ended = task.await;
        drop(abort);
        ended.unwrap_or_else(|error| match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(error) => resume_unwind(Box::new(error.to_string())),
        })
    }

    /// Returns true if it has ended, normally or not.
    pub fn is_over(&self) -> bool {
        self.task.is_finished()
    }
}

#[derive(Debug)]
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
