//! Operator control: override a state, release it, change the configuration.

use super::{
    ConfirmingRatio, Health, HealthConfig, HealthOverride, HealthState, HealthStep, HealthTransition, TransitionReason,
};
use crate::Nanos;

impl Health {
    /// Forces a state until [`Health::release`]. No timer and no outcome leaves it; a server's wait
    /// is still obeyed.
    pub fn force(&mut self, now: Nanos, hold: HealthOverride) -> HealthTransition {
        let now = self.clamped(now);
        self.hold = Some(hold);
        self.enter(now, HealthStep::to(hold.state(), TransitionReason::Forced))
    }

    /// Releases an override, if there is one. A forced Normal or Throttle continues from there. A
    /// forced stop continues through probes, after the rest of the server's wait.
    pub fn release(&mut self, now: Nanos) -> Option<HealthTransition> {
        let now = self.clamped(now);
        let step = match self.hold.take()? {
            HealthOverride::Normal => HealthStep::to(HealthState::Normal, TransitionReason::Released),
            HealthOverride::Throttle => HealthStep::to(HealthState::Throttle, TransitionReason::Released),
            HealthOverride::Sleep | HealthOverride::CacheOnly if self.cooling_until > now => HealthStep {
                to: HealthState::Sleep,
                reason: TransitionReason::Released,
                until: self.cooling_until,
            },
            HealthOverride::Sleep | HealthOverride::CacheOnly => {
                HealthStep::to(HealthState::HalfOpen, TransitionReason::Released)
            }
        };
        Some(self.enter(now, step))
    }

    /// Applies another configuration. The state, its timer, counted outcomes and open tickets stay;
    /// a Sleep that has begun is not shortened. A ratio that is being confirmed continues if it
    /// still holds, for the new duration. A ramp continues from its position in the new steps. Ask
    /// for [`effective`](Health::effective) again.
    pub fn configure(&mut self, now: Nanos, config: HealthConfig) {
        let now = self.clamped(now);
        let old = core::mem::replace(&mut self.config, config);
        let settings = config.settings();
        self.ramp = self
            .ramp
            .and_then(|ramp| ramp.current(now, old.settings()))
            .and_then(|ramp| ramp.under(now, settings));
        self.window.resize(settings.window, settings.window_length, now);
        self.cooldown = self.cooldown.within(settings);
        if self.state == HealthState::CacheOnly && self.hold.is_none() {
            self.until = self.auto_recover_at(self.since);
        }
        self.confirming = self.confirming.and_then(|seen| self.still_confirming(seen));
        self.reschedule();
    }

    /// Keeps a ratio that the new configuration sees too, from when it was first seen. Otherwise a
    /// reload every few minutes would postpone a condition of five minutes for ever.
    fn still_confirming(&self, seen: ConfirmingRatio) -> Option<ConfirmingRatio> {
        let (_, reason, held) = self.condition()?;
        (seen.reason == reason).then_some(ConfirmingRatio { held, ..seen })
    }
}
