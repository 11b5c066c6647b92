//! Says for each job whose turn it is whether it may go, by asking the doors it has to pass.
//!
//! Permit first, then job: the permits that it was given are in hand before the store lets the job out
//! of its line. A permit that turns out to be of no use, because its job went to another tenant or is
//! gone, is given back by being dropped.

use std::sync::Arc;
use std::time::Duration;

use outflow::{EffectiveLimit, Permit, Refusal, RefusalReason, Target, Upstream};
use outflow_core::{Cost, Nanos};
use outflow_store::{ClaimDecision, ClaimFilter, NextJob, SharedLimits};

use crate::global_rate::GlobalRate;
use crate::pacing::{self, StartPacer};
use crate::scheduled_start::ScheduledStart;
use crate::settings::EngineSettings;
use crate::tenant_limits::TenantLimiters;

/// Leave for one job.
#[derive(Debug)]
pub(crate) enum StartPermission {
    /// It goes, with the permits of its doors.
    Go(HeldPermits),
    /// It is to ask the doors itself, and limits that machines share.
    Later(Option<Arc<SharedLimits>>),
    /// The store has debited the limits for an instant: it goes then, and not much later.
    At(ScheduledStart),
    /// It costs more than a limit ever allows.
    Never(String),
}

/// What is held while a job is under way.
#[derive(Debug, Default)]
pub(crate) struct HeldPermits {
    /// Of the API; a handler's task has none.
    pub(crate) api: Option<Permit>,
    /// Of the tenant, if it has a limit.
    pub(crate) tenant: Option<Permit>,
}

/// The gate of one claim.
pub(crate) struct PermitFilter<'a> {
    pub(crate) doors: &'a TenantLimiters,
    pub(crate) house: &'a GlobalRate,
    pub(crate) settings: &'a EngineSettings,
    /// The API's door and the lane's place in it; a handler has none.
    pub(crate) door: Option<(Upstream, Target)>,
    /// A permit that was waited for, and what it is worth.
    pub(crate) in_hand: Option<(Permit, Cost)>,
    /// Leave for each job that was let out, in that order.
    pub(crate) leaves: Vec<StartPermission>,
    /// What keeps starts of the lane apart, and the limits that say how far.
    pub(crate) pace: StartPacer,
    pub(crate) ceilings: Vec<EffectiveLimit>,
    /// What the first who could not go would have needed.
    pub(crate) wanted: Option<MissingPermit>,
    pub(crate) now: Nanos,
}

/// What was not to be had.
#[derive(Debug)]
pub(crate) enum MissingPermit {
    /// A distance from the start before, which is kept from then on.
    Distance(Nanos),
    /// A permit of the API's door.
    Permit {
        /// For a job of this cost.
        cost: Cost,
        /// What the door said.
        refusal: Refusal,
    },
}

impl ClaimFilter for PermitFilter<'_> {
    fn decide(&mut self, head: &NextJob<'_>) -> ClaimDecision {
        if let Some(until) = self.pace.shut_until(self.now) {
            return self.stop(MissingPermit::Distance(until));
        }
        if let Some(until) = self.doors.paced_until(head.tenant, self.now) {
            return ClaimDecision::Park(until);
        }
        let rate = self.settings.rule(head.tenant).rate;
        let tenant = match self.doors.try_admit(head.tenant, rate, head.cost) {
            Ok(tenant) => tenant,
            Err(refusal) if is_never(&refusal) => return self.never(&refusal),
            Err(refusal) => return ClaimDecision::Park(self.back_at(&refusal)),
        };
        match self.of_the_api(head.cost) {
            Ok(api) => self.go(head, HeldPermits { api, tenant }),
            Err(refusal) if is_never(&refusal) => self.never(&refusal),
            Err(refusal) => {
                let cost = head.cost;
                self.stop(MissingPermit::Permit { cost, refusal })
            }
        }
    }
}

impl PermitFilter<'_> {
    fn go(&mut self, head: &NextJob<'_>, permits: HeldPermits) -> ClaimDecision {
        let global = self.settings.global_rate;
        if let Err(at) = self.house.start(global, head.cost, self.now) {
            self.in_hand = permits.api.map(|permit| (permit, head.cost));
            return self.stop(MissingPermit::Distance(at));
        }
        self.pace
            .start(self.now, pacing::apart(&self.ceilings, head.cost));
        if permits.tenant.is_some() {
            self.doors.started(head.tenant, head.cost, self.now);
        }
        self.leaves.push(StartPermission::Go(permits));
        ClaimDecision::Take
    }

    fn stop(&mut self, wanted: MissingPermit) -> ClaimDecision {
        self.wanted = Some(wanted);
        ClaimDecision::Stop
    }

    fn of_the_api(&mut self, cost: Cost) -> Result<Option<Permit>, Refusal> {
        let Some((door, target)) = &self.door else {
            return Ok(None);
        };
        match self.in_hand.take() {
            Some((permit, worth)) if worth == cost && !permit.is_revoked() => Ok(Some(permit)),
            _ => door.try_acquire(target.with_cost(cost)).map(Some),
        }
    }

    /// It is let out, so that it can be buried with the reason instead of standing in the way for ever.
    fn never(&mut self, refusal: &Refusal) -> ClaimDecision {
        self.leaves
            .push(StartPermission::Never(refusal.to_string()));
        ClaimDecision::Take
    }

    /// When it is asked again: its limit may be another by then.
    fn back_at(&self, refusal: &Refusal) -> Nanos {
        let wait = refusal.retry_after.unwrap_or(UNKNOWN).min(LONGEST);
        self.now.saturating_add(wait)
    }
}

/// Whether no waiting would help.
pub(crate) fn is_never(refusal: &Refusal) -> bool {
    matches!(refusal.cause, RefusalReason::Never { .. })
}

/// A limit that was raised is noticed after this, though nobody says so.
const LONGEST: Duration = Duration::from_secs(5);

/// A limit that cannot say when it has room waits for an answer, which takes about as long.
const UNKNOWN: Duration = Duration::from_millis(5);
