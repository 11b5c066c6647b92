//! The executor of a lane's jobs, and the limits that they meet.

use outflow::{EffectiveLimit, LimitScope, Target, Upstream};
use outflow_core::{CountBy, Rate};
use outflow_store::{Name, SharedLimit, SharedLimits};

use super::Executor;
use crate::settings::EngineSettings;

/// Executor of a lane's jobs, with their upstream.
pub(crate) struct LaneExecutor {
    pub(crate) executor: Executor,
    /// Tasks of a handler have none.
    pub(crate) upstream: Option<(Upstream, Target)>,
}

impl LaneExecutor {
    /// Returns the limits that the store debits for jobs of this lane, if other machines use them too. A limit of
    /// the whole API is one limit for all of its lanes.
    pub(crate) fn shared_limits(&self, lane: &Name, settings: &EngineSettings) -> Option<SharedLimits> {
        let shared = settings.shared?;
        let mut limits = self.named_limits(lane);
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

    /// Names limits by their position in the API or the group, and not by their rate: a changed rate keeps the
    /// usage that was counted.
    fn named_limits(&self, lane: &Name) -> Vec<SharedLimit> {
        let Some((upstream, target)) = &self.upstream else {
            return Vec::new();
        };
        let (api, mut api_limits, mut group_limits) = (upstream.name(), 0_usize, 0_usize);
        let named = upstream.effective_limits(*target).into_iter().map(|limit| {
            let (letter, position, owner) = match limit.scope {
                LimitScope::Api => ('P', &mut api_limits, api.as_str()),
                LimitScope::Group => ('L', &mut group_limits, lane.as_str()),
            };
            let name = format!("{letter}{position} {owner}");
            *position += 1;
            SharedLimit {
                name,
                rate: limit.rate,
                measure: limit.measure,
            }
        });
        named.collect()
    }

    /// Returns the API's current limits for these jobs; tasks of a handler have none.
    pub(crate) fn effective_limits(&self) -> Vec<EffectiveLimit> {
        let upstream = self.upstream.as_ref();
        upstream.map_or_else(Vec::new, |(upstream, target)| upstream.effective_limits(*target))
    }
}
