//! A place in an API's wait queue.
//!
//! Other callers of the API wait there too. A lane that left the queue to look for its next job would rejoin
//! behind all of them, and starve next to long queues. So the lane keeps its place while it looks, and leaves
//! only if the next job has another cost.

use std::time::Duration;

use outflow::{Acquire, AcquireOptions, Refusal, Target, Upstream, WaitMode};
use outflow_core::Cost;
use tokio::time::timeout;

use super::start_permission::ReservedPermit;

/// A wait for a permit of one cost.
pub(crate) struct PermitWait {
    pub(crate) cost: Cost,
    acquire: Acquire,
}

/// Result of waiting for a while.
pub(crate) enum WaitResult {
    /// The permit is there.
    Acquired(ReservedPermit),
    /// The API's wait queue refused.
    Refused(Refusal),
    /// Not yet: another job may be first by now.
    Waiting(PermitWait),
}

impl PermitWait {
    /// Joins the wait queue.
    pub(crate) fn new((upstream, target): &(Upstream, Target), cost: Cost) -> Self {
        let deadline = upstream.now().saturating_add(NO_DEADLINE);
        let options = AcquireOptions::new().with_mode(WaitMode::Wait).with_deadline(deadline);
        Self {
            cost,
            acquire: upstream.acquire_with(target.with_cost(cost), options),
        }
    }

    /// Waits for a while.
    pub(crate) async fn wait(mut self) -> WaitResult {
        match timeout(RECHECK_AFTER, &mut self.acquire).await {
            Ok(Ok(permit)) => {
                let cost = self.cost;
                WaitResult::Acquired(ReservedPermit { permit, cost })
            }
            Ok(Err(refusal)) => WaitResult::Refused(refusal),
            Err(_) => WaitResult::Waiting(self),
        }
    }
}

/// A lane looks this often if another job has become first.
const RECHECK_AFTER: Duration = Duration::from_secs(5);

/// An upstream refuses a call that cannot start before its deadline, so this one is never reached.
const NO_DEADLINE: Duration = Duration::from_hours(24 * 365);
