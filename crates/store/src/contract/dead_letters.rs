//! Dead letters: list, requeue, purge.

use std::future::Future;

use super::StoreResult;
use crate::dead_letter::{DeadLetter, DeadLetterFilter};

/// Dead letters of a job store.
pub trait DeadLetterStore: Send + Sync + 'static {
    /// Returns dead letters after a position, the oldest first.
    fn dead_letters(&self, after: u64, limit: usize) -> impl Future<Output = StoreResult<Vec<DeadLetter>>> + Send;

    /// Queues dead letters again as untried jobs, and returns their number. An unfinished action drops the
    /// earlier outcome of each, because a job has one outcome. A finished action keeps its outcomes.
    fn requeue(&self, filter: &DeadLetterFilter) -> impl Future<Output = StoreResult<u64>> + Send;

    /// Deletes dead letters, and returns their number.
    fn purge(&self, filter: &DeadLetterFilter) -> impl Future<Output = StoreResult<u64>> + Send;
}
