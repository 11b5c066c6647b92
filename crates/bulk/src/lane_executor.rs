//! Who does the jobs of a lane, and the limits that they meet.

use std::time::Duration;

use outflow::{EffectiveLimit, LimitScope, Target, Upstream, WaitReason};
use outflow_core::{Cost, CountBy, Rate};
use outflow_store::{Name, SharedLimit, SharedLimits};

use crate::permit_wait::PermitWait;
use crate::scheduler::LOOK_AGAIN;
use crate::settings::EngineSettings;
use crate::worker::Executor;

/// Who does the jobs of a lane, and which door they pass.
pub(crate) struct LaneExecutor {
    pub(crate) doer: Executor,
    /// A handler's have none.
    pub(crate) door: Option<(Upstream, Target)>,
}

impl LaneExecutor {
    /// The limits that the store is to debit for jobs of this lane, where others take from it too. What the
    /// whole API allows is one limit for all lanes of it.
    pub(crate) fn plan(&self, lane: &Name, settings: &EngineSettings) -> Option<SharedLimits> {
        let shared = settings.shared?;
        let mut limits = self.limits(lane);
        let global = Rate::per_second(settings.global_rate).ok();
        limits.extend(global.map(|rate| SharedLimit {
            name: "A".to_owned(),
            rate,
            measure: CountBy::Cost,
        }));
        Some(SharedLimits {
            limits,
            guard: shared.guard,
            horizon: shared.horizon,
        })
    }

    /// By their place among those of the API or the group, and not by their rate: when that changes, or the other's
    /// become more, what was used stays used.
    fn limits(&self, lane: &Name) -> Vec<SharedLimit> {
        let Some((door, target)) = &self.door else {
            return Vec::new();
        };
        let (api, mut places) = (door.name(), [0_usize; 2]);
        let named = door.effective_limits(*target).into_iter().map(|ceiling| {
            let [of_api, of_group] = &mut places;
            let (letter, place, whose) = match ceiling.extent {
                LimitScope::Api => ('P', of_api, api.as_str()),
                LimitScope::Group => ('L', of_group, lane.as_str()),
            };
            let name = format!("{letter}{place} {whose}");
            *place += 1;
            SharedLimit {
                name,
                rate: ceiling.rate,
                measure: ceiling.measure,
            }
        });
        named.collect()
    }

    /// What the API allows these jobs now; a handler's are bounded by nothing.
    pub(crate) fn ceilings(&self) -> Vec<EffectiveLimit> {
        let door = self.door.as_ref();
        door.map_or_else(Vec::new, |(door, target)| door.effective_limits(*target))
    }

    /// How long the API's door stays shut, if longer than this, because it sleeps or asked everybody to
    /// wait: what is claimed meanwhile would only come back. Limits are the store's to debit, and a full
    /// house empties by itself.
    pub(crate) fn shut_for(&self, horizon: Duration) -> Option<Duration> {
        let (door, target) = self.door.as_ref()?;
        let stands = door.explain(*target)?;
        let asleep = matches!(stands.why, WaitReason::Cooldown | WaitReason::State(_));
        let left = stands.eta.map_or(LOOK_AGAIN, |at| at.since(door.now()));
        (asleep && left > horizon).then(|| left.min(LOOK_AGAIN))
    }

    /// Joins the line at the API's door for a permit of this cost.
    pub(crate) fn line_up(&self, cost: Cost) -> Option<PermitWait> {
        let (door, target) = self.door.as_ref()?;
        Some(PermitWait::new(door, *target, cost))
    }
}
