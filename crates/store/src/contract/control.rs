//! Operator control, counts and maintenance.

use outflow_core::WallTime;

use super::StoreFuture;
use crate::action::JobCounts;
use crate::tenant::ControlScope;

/// Control and maintenance of a job store.
pub trait StoreControl: Send + Sync + 'static {
    /// Stops handing out jobs of a tenant or an action. Jobs in flight continue.
    fn pause(&self, scope: &ControlScope) -> impl StoreFuture<()>;

    /// Ends a pause.
    fn resume(&self, scope: &ControlScope) -> impl StoreFuture<()>;

    /// Cancels all unstarted jobs and returns their number. A job in flight ends with its own outcome, done
    /// or failed; if it would start again, it is cancelled. A finished action stays as it is.
    fn cancel(&self, scope: &ControlScope) -> impl StoreFuture<u64>;

    /// Counts all jobs.
    fn job_counts(&self) -> impl StoreFuture<JobCounts>;

    /// Removes old data: outcomes, job names, actions, tenants without work, and dead letters older than
    /// this instant. Does a bounded amount of work and returns the number of removed items.
    fn collect_garbage(&self, dead_before: WallTime) -> impl StoreFuture<u64>;

    /// Counts all jobs again from the jobs themselves, and returns the difference to the running counts:
    /// 0, or the store has a defect. Changes nothing.
    fn audit(&self) -> impl StoreFuture<u64>;

    /// Returns a warning once, in words for people, if the store may know less than it confirmed although
    /// no call failed: after a failover, or with a broken journal.
    fn take_warning(&self) -> Option<String>;
}
