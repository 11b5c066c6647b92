//! The executor of a lane's jobs, and the limits that they meet.

use outflow::{EffectiveLimit, Target, Upstream};

use super::Executor;

/// Executor of a lane's jobs, with their upstream.
pub(crate) struct LaneExecutor {
    pub(crate) executor: Executor,
    /// Tasks of a handler have none.
    pub(crate) upstream: Option<(Upstream, Target)>,
}

impl LaneExecutor {
    /// Returns the API's current limits for these jobs; tasks of a handler have none.
    pub(crate) fn effective_limits(&self) -> Vec<EffectiveLimit> {
        let upstream = self.upstream.as_ref();
        upstream.map_or_else(Vec::new, |(upstream, target)| upstream.effective_limits(*target))
    }
}
