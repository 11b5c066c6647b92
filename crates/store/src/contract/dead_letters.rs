//! Dead letters: list, requeue, purge.

use super::StoreFuture;
use crate::dead_letter::{DeadLetter, DeadLetterFilter};

/// Dead letters of a job store.
pub trait DeadLetterStore: Send + Sync + 'static {
    /// Returns dead letters after a position, the oldest first.
    fn dead_letters(&self, after: u64, limit: usize) -> impl StoreFuture<Vec<DeadLetter>>;

    /// Queues dead letters again as untried jobs, and returns their number. Each counts in its action again, which
    /// drops the earlier outcome, because a job has one outcome. A completed action stays completed. An action
    /// that timed out or was cancelled keeps its outcomes, and the job runs without it.
    fn requeue(&self, filter: &DeadLetterFilter) -> impl StoreFuture<u64>;

    /// Deletes dead letters, and returns their number.
    fn purge(&self, filter: &DeadLetterFilter) -> impl StoreFuture<u64>;
}
