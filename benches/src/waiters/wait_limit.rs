//! Contract of a contender: tasks wait for a permit.

use std::future::Future;

use super::Limit;

/// A limit on which tasks wait. Clones share the limit.
pub(crate) trait WaitLimit: Clone + Send + Sync + 'static {
    /// Permit of a task.
    type Permit: Send;

    /// Creates an unused limit; must be called inside its runtime.
    fn new(limit: Limit) -> Self;

    /// Waits for a permit.
    fn wait(&self) -> impl Future<Output = Self::Permit> + Send;

    /// Settles a successful call, which most contenders do not have. Returns true if there was a permit at all.
    fn settle(_permit: Self::Permit) -> bool {
        true
    }
}
