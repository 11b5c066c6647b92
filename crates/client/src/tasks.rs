//! Background tasks: named, supervised, visible and shut down with grace.
//!
//! Only this file of the crate starts a task or a thread. A detached task dies silently at its
//! first panic. Here a panic is caught and the task restarts after a growing delay. A report shows
//! all tasks. A shutdown cancels them, waits, and names the ones it had to abort.
//!
//! The panic message is dropped unread, because it may quote a request. The program's panic hook
//! runs before and is left alone. Nothing may depend on a background task for correctness: it can
//! always be late or gone.

mod registry;
mod supervision;
mod task_group;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use outflow_core::Clock;
use smol_str::SmolStr;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Signal to stop, for a task. Once cancelled it stays cancelled.
///
/// Each task gets a child token: cancelling it does not affect other tasks.
pub use tokio_util::sync::CancellationToken as CancelToken;

pub use self::registry::TaskReport;
use self::registry::{TaskKind, TaskRegistry, TaskSlot};
use self::supervision::{TaskEnd, catch_panic, catch_panics, supervise};
pub use self::task_group::TaskGroup;
use crate::event::Events;

/// Background tasks of one owner. Clones are handles to these tasks; the last drop aborts them.
///
/// A task that holds a handle prevents the last drop: pass it only what it needs.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), outflow::SpawnError> {
/// use std::sync::Arc;
/// use std::time::Duration;
/// use outflow::{Events, SystemClock, Tasks};
///
/// let tasks = Tasks::new("orders", Events::new(), Arc::new(SystemClock::new()));
/// tasks.spawn("sweeper", |cancel| async move {
///     // Sweeps from time to time until it is cancelled.
///     cancel.cancelled().await;
/// })?;
/// assert_eq!(tasks.report()[0].name, "sweeper");
/// assert!(tasks.shutdown(Duration::from_secs(1)).await.is_clean());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Tasks {
    shared: Arc<TaskShared>,
}

impl Tasks {
    /// Returns an empty set. State changes are reported to `events` under this API name with the
    /// time of this clock.
    pub fn new(api: impl Into<SmolStr>, events: Events, clock: Arc<dyn Clock + Send + Sync>) -> Self {
        let registry = Arc::new(TaskRegistry::new(api.into(), events, clock));
        Self {
            shared: Arc::new(TaskShared { registry }),
        }
    }

    /// Starts a task on the current runtime that runs until it returns or is cancelled. After a
    /// panic it is built and started again, with a delay that doubles each time.
    ///
    /// # Errors
    /// Outside of a runtime, and after a shutdown has started.
    pub fn spawn<F>(
        &self,
        name: &'static str,
        make: impl Fn(CancelToken) -> F + Send + Sync + 'static,
    ) -> Result<(), SpawnError>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (make, cancel) = (Arc::new(make), self.cancel_token());
        self.start(name, TaskKind::Lasting, move |slot| {
            supervise(slot, move || {
                let (make, cancel) = (Arc::clone(&make), cancel.clone());
                catch_panics(move || make(cancel))
            })
        })
    }

    /// Starts a task that runs once: a panic ends it. A shutdown waits for it, and the report drops
    /// it when it ends.
    ///
    /// # Errors
    /// Outside of a runtime, and after a shutdown has started.
    pub fn spawn_once(
        &self,
        name: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), SpawnError> {
        self.start(name, TaskKind::Once, move |slot| async move {
            // A panic ends the task and its slot; the runtime drops the message.
            work.await;
            drop(slot);
        })
    }

    /// Starts work on a thread of its own, if it cannot be late by a runtime's tick. A panic starts
    /// another thread, as with [`spawn`](Self::spawn). A thread cannot be aborted, so the work
    /// checks the [`CancelToken`] and parks rather than sleeps: cancelling unparks it.
    ///
    /// # Errors
    /// Outside of a runtime, which supervises the thread, and after a shutdown has started.
    pub fn spawn_thread(
        &self,
        name: &'static str,
        work: impl Fn(&CancelToken) + Send + Sync + 'static,
    ) -> Result<(), SpawnError> {
        let (work, cancel) = (Arc::new(work), self.cancel_token());
        self.start(name, TaskKind::Lasting, move |slot| {
            let handle = slot.handle();
            supervise(slot, move || {
                let (work, cancel, handle) = (Arc::clone(&work), cancel.clone(), handle.clone());
                run_on_thread(name, move || {
                    handle.set_thread(thread::current());
                    catch_panic(|| work(&cancel))
                })
            })
        })
    }

    /// Starts a group: tasks that come and go under one name and one row of the report, such as the
    /// connections of a server. A shutdown waits for all of them.
    ///
    /// # Errors
    /// Outside of a runtime, and after a shutdown has started.
    pub fn task_group(&self, name: &'static str) -> Result<TaskGroup, SpawnError> {
        let runtime = Handle::try_current().map_err(|_| SpawnError::NoRuntime)?;
        let mut group = None;
        self.start(name, TaskKind::Lasting, |slot| {
            let (started, guard) = TaskGroup::new(runtime, slot);
            group = Some(started);
            guard.watch()
        })?;
        group.ok_or(SpawnError::Stopping)
    }

    /// Returns a token that is cancelled at shutdown, for tasks started elsewhere.
    pub fn cancel_token(&self) -> CancelToken {
        self.shared.registry.cancel_token()
    }

    /// Returns all running or restarting tasks and the lasting tasks that ended, in order of start.
    pub fn report(&self) -> Vec<TaskReport> {
        self.shared.registry.report()
    }

    /// Cancels all tasks, waits up to `grace`, then aborts the rest and names them. From the call
    /// on nothing new starts.
    pub async fn shutdown(&self, grace: Duration) -> ShutdownReport {
        let registry = &self.shared.registry;
        registry.cancel_all();
        if tokio::time::timeout(grace, registry.wait_empty()).await.is_ok() {
            return ShutdownReport { aborted: Vec::new() };
        }
        let aborted = registry.abort_all();
        // The runtime drops aborted tasks a little later. Code after a shutdown may rely on that,
        // unless a task blocks and can never be dropped.
        let _blocked = tokio::time::timeout(ABORT_TIMEOUT, registry.wait_empty()).await;
        ShutdownReport { aborted }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the only function of this crate that spawns a task"
    )]
    fn start<F>(&self, name: &'static str, kind: TaskKind, work: impl FnOnce(TaskSlot) -> F) -> Result<(), SpawnError>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let runtime = Handle::try_current().map_err(|_| SpawnError::NoRuntime)?;
        let slot = TaskRegistry::add(&self.shared.registry, name, kind).ok_or(SpawnError::Stopping)?;
        let handle = slot.handle();
        let task = runtime.spawn(work(slot));
        handle.set_abort(task.abort_handle());
        Ok(())
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tasks").field(&self.report()).finish()
    }
}

/// Starts a member of a group, whose guardian is registered for it.
#[expect(clippy::disallowed_methods, reason = "members of a group are only started here")]
fn spawn_member(runtime: &Handle, work: impl Future<Output = ()> + Send + 'static) {
    drop(runtime.spawn(work));
}

/// Runs work on a new thread and waits for its end. A thread that the system refuses counts as a
/// panic: it is tried again later.
#[expect(
    clippy::disallowed_methods,
    reason = "the only function of this crate that starts a thread"
)]
async fn run_on_thread(name: &'static str, work: impl FnOnce() -> TaskEnd + Send + 'static) -> TaskEnd {
    let (sender, receiver) = oneshot::channel();
    let started = thread::Builder::new().name(name.to_owned()).spawn(move || {
        // If the supervisor was aborted, the result is not needed.
        let _no_receiver = sender.send(work());
    });
    match started {
        Ok(_detached) => receiver.await.unwrap_or(TaskEnd::Panicked),
        Err(_refused) => TaskEnd::Panicked,
    }
}

/// Runs blocking work, such as reading a file, outside of the async threads and waits for it.
/// `None` outside of a runtime, or after a panic. It is not registered: it ends by itself, and the
/// caller may give up.
#[expect(clippy::disallowed_methods, reason = "the only function of this crate that blocks")]
pub(crate) async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let runtime = Handle::try_current().ok()?;
    runtime.spawn_blocking(work).await.ok()
}

/// State shared by the handles but not by the tasks, so that the last handle ends them.
struct TaskShared {
    registry: Arc<TaskRegistry>,
}

impl Drop for TaskShared {
    fn drop(&mut self) {
        self.registry.cancel_all();
        self.registry.abort_all();
    }
}

/// Result of a shutdown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShutdownReport {
    /// Tasks that were aborted; threads among them run until they check their [`CancelToken`].
    pub aborted: Vec<&'static str>,
}

impl ShutdownReport {
    /// Returns true if all tasks ended by themselves.
    pub fn is_clean(&self) -> bool {
        self.aborted.is_empty()
    }
}

outflow_core::error_enum! {
    /// Error of starting a task.
    pub enum SpawnError {
        /// There is no current runtime.
        NoRuntime = "there is no tokio runtime here: call this inside of one",
        /// A shutdown has started.
        Stopping = "a shutdown has started: start background tasks before it",
    }
}

/// Far more than a runtime needs to drop aborted tasks, and too short to matter in a shutdown.
const ABORT_TIMEOUT: Duration = Duration::from_millis(100);
