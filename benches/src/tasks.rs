//! Tasks and the runtimes that they run on. The one place of the benchmarks that spawns.

use std::future::Future;
use std::io;

use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;

/// Which runtime a case runs on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flavour {
    /// Everything on the thread that waits for it.
    Current,
    /// Two threads that steal from each other.
    Multi,
}

impl Flavour {
    /// A fresh one, so that no case inherits the timers of another.
    ///
    /// # Errors
    /// If the system gives no threads or no poll descriptor.
    pub(crate) fn runtime(self) -> io::Result<Runtime> {
        match self {
            Self::Current => Builder::new_current_thread().enable_all().build(),
            Self::Multi => Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build(),
        }
    }

    /// What the names of its figures end with.
    pub(crate) const fn suffix(self) -> &'static str {
        match self {
            Self::Current => "",
            Self::Multi => "_mt",
        }
    }
}

/// Starts a task that nobody waits for; it ends with its runtime at the latest.
#[expect(
    clippy::disallowed_methods,
    reason = "a crowd of tasks is what is measured, and it ends with its runtime"
)]
pub(crate) fn start(work: impl Future<Output = ()> + Send + 'static) {
    drop(tokio::spawn(work));
}

/// Starts a task that stays on its thread.
pub(crate) fn start_here(set: &LocalSet, work: impl Future<Output = ()> + 'static) {
    drop(set.spawn_local(work));
}

/// Starts a thread that serves for as long as the process lives.
///
/// # Errors
/// If the system gives no thread.
#[expect(
    clippy::disallowed_methods,
    reason = "a server on a thread of its own, so that its processor time is not the client's"
)]
pub(crate) fn beside(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(work).map(drop)
}
