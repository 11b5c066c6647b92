//! Background work: named, supervised, visible and drained.
//!
//! The only file of this crate that starts a task or a thread. Work that is spawned and forgotten
//! dies of its first panic and nobody knows; here a panic is caught and the work is started again
//! after a wait that grows, everybody can ask what runs, and a shutdown tells all of it to stop,
//! waits, and then names what had to be cut off.
//!
//! What a panic said is dropped unread: it may quote a request. The program's panic hook runs
//! before anything can be caught and belongs to the program, so it is left alone. Nothing may depend
//! on background work for being right: it can always be late, or gone.

mod cancel;
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

pub use self::cancel::CancelToken;
pub use self::registry::TaskReport;
use self::registry::{TaskKind, TaskRegistry, TaskSlot};
use self::supervision::{TaskEnd, caught, caught_here, supervise};
pub use self::task_group::TaskGroup;
use crate::event::Events;

/// The background work of one owner. Clones are handles to the same work; when the last of them is
/// dropped, all of it is aborted.
///
/// Work that holds a handle itself is never the last to let go of it: give it what it needs instead.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), outflow::CannotStart> {
/// use std::sync::Arc;
/// use std::time::Duration;
/// use outflow::{Events, SystemClock, Tasks};
///
/// let tasks = Tasks::new("orders", Events::new(), Arc::new(SystemClock::new()));
/// tasks.spawn("sweeper", |stop| async move {
///     // Sweeps now and then, until it is told to stop.
///     stop.told().await;
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
    /// No work yet. What becomes of it is told to `events` under the name of this API, with the
    /// time of this clock.
    pub fn new(
        api: impl Into<SmolStr>,
        events: Events,
        clock: Arc<dyn Clock + Send + Sync>,
    ) -> Self {
        let board = Arc::new(TaskRegistry::new(api.into(), events, clock));
        Self {
            shared: Arc::new(TaskShared { board }),
        }
    }

    /// Starts work that goes on until it returns or is told to stop, on the current runtime. If it
    /// panics, it is made and started again, after a wait that doubles with each time.
    ///
    /// # Errors
    /// Outside of a runtime, and after a shutdown has begun.
    pub fn spawn<F>(
        &self,
        name: &'static str,
        make: impl Fn(CancelToken) -> F + Send + Sync + 'static,
    ) -> Result<(), SpawnError>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (make, stop) = (Arc::new(make), self.stop());
        self.start(name, TaskKind::Lasting, move |place| {
            supervise(place, move || {
                let (make, stop) = (Arc::clone(&make), stop.clone());
                caught(move || make(stop))
            })
        })
    }

    /// Starts work that is done once: a panic ends it. It is drained like all other work, and
    /// forgotten when it ends.
    ///
    /// # Errors
    /// Outside of a runtime, and after a shutdown has begun.
    pub fn once(
        &self,
        name: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), SpawnError> {
        self.start(name, TaskKind::Once, move |place| async move {
            // A panic ends the task, and with it the place: the runtime drops what it said.
            work.await;
            drop(place);
        })
    }

    /// Starts work on a thread of its own, for what cannot be late by a runtime's tick. A panic
    /// starts another thread, as with [`spawn`](Self::spawn). A thread cannot be aborted, so the work
    /// looks at the [`CancelToken`] and parks rather than sleeps: it is unparked when it is told to stop.
    ///
    /// # Errors
    /// Outside of a runtime, which watches over the thread, and after a shutdown has begun.
    pub fn thread(
        &self,
        name: &'static str,
        work: impl Fn(&CancelToken) + Send + Sync + 'static,
    ) -> Result<(), SpawnError> {
        let (work, stop) = (Arc::new(work), self.stop());
        self.start(name, TaskKind::Lasting, move |place| {
            let seat = place.handle();
            supervise(place, move || {
                let (work, stop, seat) = (Arc::clone(&work), stop.clone(), seat.clone());
                on_thread(name, move || {
                    seat.is_taken_by(thread::current());
                    caught_here(|| work(&stop))
                })
            })
        })
    }

    /// Starts a crowd: pieces of work that come and go under one name and one row of the report, such
    /// as the connections of a server. A shutdown waits for all of them.
    ///
    /// # Errors
    /// Outside of a runtime, and after a shutdown has begun.
    pub fn task_group(&self, name: &'static str) -> Result<TaskGroup, SpawnError> {
        let runtime = Handle::try_current().map_err(|_| SpawnError::NoRuntime)?;
        let (crowd, guard) = TaskGroup::new(runtime, self.stop());
        self.start(name, TaskKind::Lasting, |place| guard(place).watch())?;
        Ok(crowd)
    }

    /// What work is told to stop with, for work that is made elsewhere.
    pub fn stop(&self) -> CancelToken {
        self.shared.board.stop()
    }

    /// All work that runs or waits to be started again, and the lasting work that ended, in the
    /// order in which it was started.
    pub fn report(&self) -> Vec<TaskReport> {
        self.shared.board.report()
    }

    /// Tells all work to stop, waits for it at most so long, then aborts what is left and names it.
    /// From the call on nothing new is started.
    pub async fn shutdown(&self, within: Duration) -> ShutdownReport {
        let board = &self.shared.board;
        board.cancel_all();
        if tokio::time::timeout(within, board.empty()).await.is_ok() {
            return ShutdownReport { left: Vec::new() };
        }
        let left = board.abort_all();
        // Aborted work is dropped by the runtime a little later; whoever goes on after a shutdown
        // may count on that having happened, unless it blocks and so can never be dropped.
        let _blocked = tokio::time::timeout(ABORT_TAKES, board.empty()).await;
        ShutdownReport { left }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the one place of this crate that spawns a task"
    )]
    fn start<F>(
        &self,
        name: &'static str,
        kind: TaskKind,
        work: impl FnOnce(TaskSlot) -> F,
    ) -> Result<(), SpawnError>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let runtime = Handle::try_current().map_err(|_| SpawnError::NoRuntime)?;
        let place =
            TaskRegistry::place(&self.shared.board, name, kind).ok_or(SpawnError::Stopping)?;
        let seat = place.handle();
        let task = runtime.spawn(work(place));
        seat.is_aborted_by(task.abort_handle());
        Ok(())
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tasks").field(&self.report()).finish()
    }
}

/// Starts one of a crowd, whose guardian stands on the board for it.
#[expect(
    clippy::disallowed_methods,
    reason = "the members of a crowd are started here and nowhere else"
)]
fn one_of_many(runtime: &Handle, work: impl Future<Output = ()> + Send + 'static) {
    drop(runtime.spawn(work));
}

/// Runs it on a new thread and waits for its end. A thread that the system refuses is as good as one
/// that panicked: it is tried again later.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place of this crate that starts a thread"
)]
async fn on_thread(name: &'static str, work: impl FnOnce() -> TaskEnd + Send + 'static) -> TaskEnd {
    let (tell, ended) = oneshot::channel();
    let started = thread::Builder::new().name(name.to_owned()).spawn(move || {
        // Nobody hears it when the supervisor was aborted, and then nobody needs to.
        let _unheard = tell.send(work());
    });
    match started {
        Ok(_detached) => ended.await.unwrap_or(TaskEnd::Panicked),
        Err(_refused) => TaskEnd::Panicked,
    }
}

/// Runs what may block, such as reading a file, where it holds up no task, and waits for it. `None`
/// outside of a runtime, or if it panicked. It is not on any board: it ends by itself, and whoever
/// waits for it may leave.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place of this crate that blocks beside the runtime"
)]
pub(crate) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let runtime = Handle::try_current().ok()?;
    runtime.spawn_blocking(work).await.ok()
}

/// What the handles share and the work does not, so that its end is theirs.
struct TaskShared {
    board: Arc<TaskRegistry>,
}

impl Drop for TaskShared {
    fn drop(&mut self) {
        self.board.cancel_all();
        self.board.abort_all();
    }
}

/// How a shutdown went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShutdownReport {
    /// The work that had not ended in time and was aborted; threads among it run on until they look
    /// at their [`CancelToken`].
    pub left: Vec<&'static str>,
}

impl ShutdownReport {
    /// True if all work ended by itself.
    pub fn is_clean(&self) -> bool {
        self.left.is_empty()
    }
}

/// Why work was not started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpawnError {
    /// No runtime is current.
    NoRuntime,
    /// The shutdown has begun.
    Stopping,
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoRuntime => "there is no tokio runtime here: call this from inside of one",
            Self::Stopping => "a shutdown has begun: start background work before it",
        })
    }
}

impl std::error::Error for SpawnError {}

/// Far more than a runtime needs to drop what was aborted, and nothing that a shutdown would notice.
const ABORT_TAKES: Duration = Duration::from_millis(100);
