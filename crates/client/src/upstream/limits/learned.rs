//! What a process learned about limits, as other processes take it over.

use std::time::Duration;

use outflow_core::{AdaptiveLimit, AdaptiveMode, AdaptiveSnapshot, CountBy, Limit, Nanos};

use super::{ScopeLimits, ScopeWait};

impl ScopeLimits {
    /// Returns the wait that the API asked for, because a limit has nothing left.
    pub(in crate::upstream) fn server_wait(&self, now: Nanos) -> Option<ScopeWait> {
        Some(self.cooldown).filter(|wait| wait.until > now)
    }

    /// Waits at least as long as another process has to.
    pub(in crate::upstream) fn extend_wait(&mut self, wait: ScopeWait) {
        if wait.until > self.cooldown.until {
            self.cooldown = wait;
        }
    }

    /// Returns the limits that evidence lowered.
    pub(in crate::upstream) fn lowered_limits(&self, now: Nanos) -> impl Iterator<Item = (Limit, AdaptiveSnapshot)> {
        let limits = self.configured.iter().zip(&self.states);
        let lowered = limits.filter(|(limit, state)| state.adaptive.effective().cmp_speed(limit.rate()).is_lt());
        lowered.map(move |(limit, state)| (*limit, state.adaptive.snapshot(now)))
    }

    /// Lowers the limit of this measure and window as far as another process did.
    pub(in crate::upstream) fn adopt_lower(
        &mut self,
        now: Nanos,
        (measure, window): (CountBy, Duration),
        mode: AdaptiveMode,
        snapshot: &AdaptiveSnapshot,
    ) {
        let limits = self.configured.iter().zip(&mut self.states);
        for (limit, state) in limits {
            if limit.measure() != measure || limit.rate().per() != window {
                continue;
            }
            let adopted = AdaptiveLimit::restore(mode, limit.rate(), snapshot, now);
            if adopted.effective().cmp_speed(state.adaptive.effective()).is_lt() {
                state.adaptive = adopted;
            }
        }
    }
}
