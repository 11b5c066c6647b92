//! Tasks and their runtimes. The only place of the benchmarks that spawns.

use std::future::Future;
use std::io;

use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;

/// Runtime of a case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flavour {
    /// Everything on the thread that waits for it.
    Current,
    /// Two threads that steal from each other.
    Multi,
}

impl Flavour {
    /// Creates a new runtime, so that no case inherits the timers of another.
    ///
    /// # Errors
    /// If the system gives no threads or no poll descriptor.
    pub(crate) fn runtime(self) -> io::Result<Runtime> {
        match self {
            Self::Current => Builder::new_current_thread().enable_all().build(),
            Self::Multi => Builder::new_multi_thread().worker_threads(2).enable_all().build(),
        }
    }

    /// Returns the suffix of its figures.
    pub(crate) const fn suffix(self) -> &'static str {
        match self {
            Self::Current => "",
            Self::Multi => "_mt",
        }
    }
}

/// Starts a detached task; it ends with its runtime at the latest.
#[expect(
    clippy::disallowed_methods,
    reason = "the benchmark measures many tasks, which end with their runtime"
)]
pub(crate) fn start(work: impl Future<Output = ()> + Send + 'static) {
    drop(tokio::spawn(work));
}

/// Starts a task that stays on its thread.
pub(crate) fn start_here(set: &LocalSet, work: impl Future<Output = ()> + 'static) {
    drop(set.spawn_local(work));
}

/// Starts a thread that serves until the process ends.
///
/// # Errors
/// If the system gives no thread.
#[expect(
    clippy::disallowed_methods,
    reason = "a server on a thread of its own, so that its processor time is not the client's"
)]
pub(crate) fn spawn_thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(work).map(drop)
}
