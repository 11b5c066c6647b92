//! Handlers: jobs that run the user's code instead of an HTTP call.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use outflow_store::Name;

/// One task of a handler.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HandlerTask {
    /// Id of the job; every attempt has the same, so that a handler can detect repeated work.
    pub id: Name,
    /// Tenant of the job.
    pub tenant: Name,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Submitted payload.
    pub payload: Bytes,
}

/// Result of a task.
pub type HandlerOutput = Result<Bytes, HandlerError>;

/// Failure of a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HandlerError {
    /// It may succeed later: the task is retried while it has retries left.
    Passing(String),
    /// It never succeeds: the task is dead-lettered.
    Final(String),
    /// A resource that it needs is exhausted for this span; that uses no retry.
    Busy(Duration),
}

/// Executor of tasks of one kind. Any async closure of a [`HandlerTask`] is one.
///
/// A task runs at least once: if a worker dies after the work and before its end is stored, the task runs again
/// with the same id.
pub trait Handler: Send + Sync + 'static {
    /// Runs one task.
    fn run(&self, task: HandlerTask) -> Pin<Box<dyn Future<Output = HandlerOutput> + Send>>;
}

impl<F, W> Handler for F
where
    F: Fn(HandlerTask) -> W + Send + Sync + 'static,
    W: Future<Output = HandlerOutput> + Send + 'static,
{
    fn run(&self, task: HandlerTask) -> Pin<Box<dyn Future<Output = HandlerOutput> + Send>> {
        Box::pin(self(task))
    }
}
