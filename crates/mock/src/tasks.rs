//! The tasks of one server: they end with it, and a panic in one of them is not lost.
//!
//! This is the only file of the crate that spawns. Tasks hold their server weakly; otherwise an
//! endless connection would keep the handle alive whose drop is meant to end it.

use std::any::Any;
use std::sync::{Arc, Weak};

use hyper::rt::Executor;
use outflow_sync::Mutex;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// All tasks of one server.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    running: Mutex<Running>,
}

#[derive(Debug, Default)]
struct Running {
    set: JoinSet<()>,
    panic: Option<Box<dyn Any + Send>>,
}

impl Tasks {
    /// Returns a spawner that does not keep the server alive.
    pub(crate) fn spawner(self: &Arc<Self>) -> Spawner {
        Spawner(Arc::downgrade(self))
    }

    /// Ends all tasks; returns the payload of the first panic, if there was one.
    pub(crate) fn stop(&self) -> Option<Box<dyn Any + Send>> {
        let mut running = self.running.lock();
        running.reap();
        running.set.abort_all();
        running.panic.take()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one file of the crate that spawns")]
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut running = self.running.lock();
        running.reap();
        running.set.spawn(task);
    }
}

impl Running {
    /// Drops finished tasks, and keeps the first panic.
    fn reap(&mut self) {
        while let Some(ended) = self.set.try_join_next() {
            let panic = ended.err().and_then(|error| error.try_into_panic().ok());
            self.panic = self.panic.take().or(panic);
        }
    }
}

/// Starts tasks for a server as long as it lives.
#[derive(Clone, Debug)]
pub(crate) struct Spawner(Weak<Tasks>);

impl Spawner {
    /// Starts a task; does nothing once the server is gone.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(tasks) = self.0.upgrade() {
            tasks.spawn(task);
        }
    }

    /// Runs a future to its end even if the caller is dropped; `None` once the server is gone.
    pub(crate) async fn run<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> Option<T> {
        let (sender, receiver) = oneshot::channel();
        // The caller may have been dropped; the task's effects still count.
        self.spawn(async move { drop(sender.send(task.await)) });
        receiver.await.ok()
    }
}

impl<F> Executor<F> for Spawner
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, task: F) {
        self.spawn(async move { drop(task.await) });
    }
}
