//! Life of an action: open, close, finish, notify.

use super::StoreFuture;
use crate::action::{ActionReport, ActionSpec, FinishedQuery, RemainingWork};
use crate::name::Name;
use crate::settle::JobOutcome;
use crate::tenant::PageRequest;

/// Actions of a job store.
pub trait ActionStore: Send + Sync + 'static {
    /// Opens an action, or changes the spec of an open one. A finished action starts again, and the store
    /// drops its earlier outcomes.
    fn open(&self, spec: ActionSpec) -> impl StoreFuture<()>;

    /// Closes an action for further jobs. An unknown action is an error.
    fn close(&self, action: &Name) -> impl StoreFuture<()>;

    /// Reports one action, or nothing if the store does not know it.
    fn action(&self, id: &Name) -> impl StoreFuture<Option<ActionReport>>;

    /// Estimates the work that an action's waiting jobs still need; nothing for an unknown action.
    fn remaining(&self, action: &Name) -> impl StoreFuture<RemainingWork>;

    /// Reports actions in the order of their names.
    fn actions(&self, page: PageRequest) -> impl StoreFuture<Vec<ActionReport>>;

    /// Takes finished actions that need a completion notice: closed with all jobs over
    /// ([`ActionStage::Aggregating`](crate::ActionStage::Aggregating)), timed out, or cancelled. This
    /// fails actions that made no progress within their timeout, and cancels their unstarted jobs. It skips actions with a job in
    /// flight, because their outcome is not final.
    ///
    /// The caller holds each action under a lease, and renews it by naming the action in its next query.
    fn take_finished(&self, query: FinishedQuery<'_>) -> impl StoreFuture<Vec<ActionReport>>;

    /// Records that the completion notice of an action was sent. Until then the action is offered again
    /// after each lease, so that a crash of the notifier loses no notice.
    fn mark_notified(&self, action: &Name) -> impl StoreFuture<()>;

    /// Returns outcomes of an action after a position, in the order in which they were recorded.
    fn outcomes(&self, action: &Name, after: u64, limit: usize) -> impl StoreFuture<Vec<JobOutcome>>;
}
