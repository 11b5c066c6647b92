//! What people do to the machine: hold it, let it go, change its variables.

use super::{
    ConfirmingRatio, Health, HealthConfig, HealthOverride, HealthState, HealthStep,
    HealthTransition, TransitionReason,
};
use crate::Nanos;

impl Health {
    /// Holds the API in a state until [`Health::release`]. No timer and no outcome leaves it; what
    /// the server asks to wait is still waited.
    pub fn force(&mut self, now: Nanos, hold: HealthOverride) -> HealthTransition {
        let now = self.clamped(now);
        self.hold = Some(hold);
        self.enter(now, HealthStep::to(hold.state(), TransitionReason::Forced))
    }

    /// Lets the API go, if it was held. A held Normal or Throttle goes on from there; from a stop
    /// the way leads through probes, after the rest of what the server asked to wait.
    pub fn release(&mut self, now: Nanos) -> Option<HealthTransition> {
        let now = self.clamped(now);
        let step = match self.hold.take()? {
            HealthOverride::Normal => {
                HealthStep::to(HealthState::Normal, TransitionReason::Released)
            }
            HealthOverride::Throttle => {
                HealthStep::to(HealthState::Throttle, TransitionReason::Released)
            }
            HealthOverride::Sleep | HealthOverride::CacheOnly if self.cooling_until > now => {
                HealthStep {
                    to: HealthState::Sleep,
                    reason: TransitionReason::Released,
                    until: self.cooling_until,
                }
            }
            HealthOverride::Sleep | HealthOverride::CacheOnly => {
                HealthStep::to(HealthState::HalfOpen, TransitionReason::Released)
            }
        };
        Some(self.enter(now, step))
    }

    /// Goes on with other variables. The state, its timer, the outcomes that still count and the
    /// tickets that are out stay as they are; a Sleep that has begun is not shortened. A ratio that
    /// is being confirmed goes on if it still holds, and must hold for as long as is now asked. A
    /// ramp goes on from where it is, in the new steps. Ask for [`effective`](Health::effective)
    /// again.
    pub fn configure(&mut self, now: Nanos, config: HealthConfig) {
        let now = self.clamped(now);
        let old = core::mem::replace(&mut self.config, config);
        let settings = config.settings();
        self.ramp = self
            .ramp
            .and_then(|ramp| ramp.current(now, old.settings()))
            .and_then(|ramp| ramp.under(now, settings));
        self.window
            .resize(settings.window, settings.window_length, now);
        self.cooldown = self.cooldown.within(settings);
        if self.state == HealthState::CacheOnly && self.hold.is_none() {
            self.until = self.auto_recover_at(self.since);
        }
        self.confirming = self.confirming.and_then(|seen| self.still_confirming(seen));
        self.reschedule();
    }

    /// What was seen under the old variables, if the new ones see it too. It goes on from when it
    /// was first seen: a reload every few minutes would otherwise put off for ever what must be
    /// held for five.
    fn still_confirming(&self, seen: ConfirmingRatio) -> Option<ConfirmingRatio> {
        let (_, reason, held) = self.condition()?;
        (seen.reason == reason).then_some(ConfirmingRatio { held, ..seen })
    }
}
