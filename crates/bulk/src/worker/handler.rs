//! Work of the user's own, in the place of a call.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use outflow_store::Name;

/// A piece of work that a handler is given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HandlerTask {
    /// The job's name: the same for every attempt, so that work that was done can be known again.
    pub id: Name,
    /// For whom.
    pub tenant: Name,
    /// Which attempt it is, from 1.
    pub attempt: u32,
    /// What was submitted.
    pub payload: Bytes,
}

/// What came of a piece of work.
pub type HandlerOutput = Result<Bytes, HandlerError>;

/// Why a piece of work was not done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HandlerError {
    /// It may succeed later: it is tried again if it has retries left.
    Passing(String),
    /// It never will: it is buried.
    Final(String),
    /// Whatever it needs has no room for it for so long; that uses up no retry.
    Busy(Duration),
}

/// Does work of one kind. Any async closure of a [`HandlerTask`] is one.
///
/// At least once: a worker that dies after it did the work and before that was noted leaves it to be
/// done again, with the same name.
pub trait Handler: Send + Sync + 'static {
    /// Does one piece.
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
