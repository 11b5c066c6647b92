//! A place in the line at an API's door.
//!
//! Callers of the same API stand there too. Whoever left the line to look whose turn it is now, and joined it
//! again behind everybody, would never come to its end beside callers who keep it long. So the place is kept
//! while the lane looks, and given up only if another cost is wanted by then.

use std::time::Duration;

use outflow::{Acquire, AcquireOptions, Permit, Refusal, Target, Upstream, WaitMode};
use outflow_core::Cost;
use tokio::time::timeout;

/// Somebody who stands in line for a permit of this cost.
pub(crate) struct PermitWait {
    cost: Cost,
    admit: Acquire,
}

/// How it went for a while.
pub(crate) enum WaitResult {
    /// It is its turn.
    Called(Permit, Cost),
    /// The door does not let it stand there.
    SentAway(Refusal),
    /// Not yet: it is time to look whose turn it is.
    Still(PermitWait),
}

impl PermitWait {
    /// Joins the line.
    pub(crate) fn new(door: &Upstream, target: Target, cost: Cost) -> Self {
        let by = door.now().saturating_add(LONGEST);
        let options = AcquireOptions::new()
            .with_mode(WaitMode::Wait)
            .with_deadline(by);
        Self {
            cost,
            admit: door.acquire_with(target.with_cost(cost), options),
        }
    }

    /// Whether it is a permit of this cost that it stands there for.
    pub(crate) fn is_for(&self, cost: Cost) -> bool {
        self.cost == cost
    }

    /// Stands there for a while.
    pub(crate) async fn stand(mut self) -> WaitResult {
        match timeout(PATIENCE, &mut self.admit).await {
            Ok(Ok(permit)) => WaitResult::Called(permit, self.cost),
            Ok(Err(refusal)) => WaitResult::SentAway(refusal),
            Err(_) => WaitResult::Still(self),
        }
    }
}

/// How long one stands in line before looking whose turn it is now.
const PATIENCE: Duration = Duration::from_secs(5);

/// A door refuses whoever could not go before its deadline, so there is none to speak of.
const LONGEST: Duration = Duration::from_hours(24 * 365);
