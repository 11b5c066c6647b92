//! What people do to the machine: hold it, let it go, change its variables.

use super::{Confirming, Health, HealthConfig, Hold, Reason, State, Step, Transition};
use crate::Nanos;

impl Health {
    /// Holds the API in a state until [`Health::release`]. No timer and no outcome leaves it; what
    /// the server asks to wait is still waited.
    pub fn force(&mut self, now: Nanos, hold: Hold) -> Transition {
        let now = self.clamped(now);
        self.hold = Some(hold);
        self.enter(now, Step::to(hold.state(), Reason::Forced))
    }

    /// Lets the API go, if it was held. A held Normal or Throttle goes on from there; from a stop
    /// the way leads through probes, after the rest of what the server asked to wait.
    pub fn release(&mut self, now: Nanos) -> Option<Transition> {
        let now = self.clamped(now);
        let step = match self.hold.take()? {
            Hold::Normal => Step::to(State::Normal, Reason::Released),
            Hold::Throttle => Step::to(State::Throttle, Reason::Released),
            Hold::Sleep | Hold::CacheOnly if self.cooling_until > now => Step {
                to: State::Sleep,
                reason: Reason::Released,
                until: self.cooling_until,
            },
            Hold::Sleep | Hold::CacheOnly => Step::to(State::HalfOpen, Reason::Released),
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
            .and_then(|ramp| ramp.at(now, old.settings()))
            .and_then(|ramp| ramp.under(now, settings));
        self.window
            .resize(settings.window, settings.window_length, now);
        self.cooldown = self.cooldown.within(settings);
        if self.state == State::CacheOnly && self.hold.is_none() {
            self.until = self.auto_recover_at(self.since);
        }
        self.confirming = self.confirming.and_then(|seen| self.still_confirming(seen));
        self.reschedule();
    }

    /// What was seen under the old variables, if the new ones see it too. It goes on from when it
    /// was first seen: a reload every few minutes would otherwise put off for ever what must be
    /// held for five.
    fn still_confirming(&self, seen: Confirming) -> Option<Confirming> {
        let (_, reason, held) = self.condition()?;
        (seen.reason == reason).then_some(Confirming { held, ..seen })
    }
}
