//! What a contender has to do: let tasks wait for a permit.

use std::future::Future;

use super::Limit;

/// A limit on which tasks wait. Clones are the same limit.
pub(crate) trait Line: Clone + Send + Sync + 'static {
    /// What a task holds when it may go.
    type Permit: Send;

    /// An untouched limit; called inside of the runtime that it will serve.
    fn new(limit: Limit) -> Self;

    /// Waits for leave to go.
    fn wait(&self) -> impl Future<Output = Self::Permit> + Send;

    /// The task has gone and all is well, which most have no word for. Answers whether it had leave
    /// to go at all.
    fn gone(_permit: Self::Permit) -> bool {
        true
    }
}
