//! Lets a job out of its queue only with its permits.
//!
//! Permit first, then job: the permits are held before the store removes the job from its queue. If the claim
//! fails, the permits drop and are refunded.

use outflow_store::{ClaimDecision, ClaimFilter, NextJob};

use super::start_permission::{MissingPermit, StartCheck, StartDenied, StartPermission};

/// Filter of one claim.
pub(crate) struct PermitFilter<'a> {
    pub(crate) check: StartCheck<'a>,
    /// One permission for each job that was let out, in that order.
    pub(crate) permissions: Vec<StartPermission>,
    /// Part that the first job lacked which could not start.
    pub(crate) missing: Option<MissingPermit>,
}

impl PermitFilter<'_> {
    fn take(&mut self, permission: StartPermission) -> ClaimDecision {
        self.permissions.push(permission);
        ClaimDecision::Take
    }
}

impl ClaimFilter for PermitFilter<'_> {
    fn decide(&mut self, head: &NextJob<'_>) -> ClaimDecision {
        match self.check.decide(head.tenant, head.cost) {
            Ok(permits) => self.take(StartPermission::Granted(permits)),
            Err(StartDenied::TenantUntil(at)) => ClaimDecision::SkipUntil(at),
            Err(StartDenied::Lane(missing)) => {
                self.missing = Some(missing);
                ClaimDecision::Stop
            }
            // It is claimed to be dead-lettered with the reason: in its queue it would block all others.
            Err(StartDenied::Impossible(words)) => self.take(StartPermission::Impossible(words)),
        }
    }
}
