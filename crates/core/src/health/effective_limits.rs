//! The part of the configured rates and of the concurrency that a state leaves.

use super::ramp::FULL_RATE;
use super::{Health, HealthState};
use crate::Rate;

impl Health {
    /// Returns the part of a configured rate that this state leaves. Ask again after every
    /// transition, wake-up and configuration change.
    #[must_use]
    pub fn effective(&self, rate: Rate) -> Rate {
        match (self.state, self.ramp) {
            (HealthState::Normal, None) => rate,
            (HealthState::Normal, Some(ramp)) => self.slowed(rate, ramp.multiple()),
            (HealthState::Throttle, _) => self.slowed(rate, FULL_RATE),
            // While nothing may go, the rate is already that of the coming probes.
            (HealthState::HalfOpen | HealthState::Sleep | HealthState::CacheOnly, _) => {
                self.settings().probe_rate.map_or(rate, |max| rate.at_most(max))
            }
        }
    }

    /// Returns the part that this state leaves of a rate that evidence lowered from `configured`. A ramp
    /// is a part of the configured rate: it does not cut again what evidence has cut.
    #[must_use]
    pub fn effective_adapted(&self, configured: Rate, adapted: Rate) -> Rate {
        match (self.state, self.ramp) {
            (HealthState::Normal, Some(_)) => adapted.at_most(self.effective(configured)),
            _ => self.effective(adapted),
        }
    }

    /// Returns the number of requests that may be in flight in this state.
    pub fn concurrency(&self) -> u32 {
        let settings = self.settings();
        let full = settings.concurrency.unwrap_or(self.limits.concurrency);
        match self.state {
            HealthState::Normal => full,
            HealthState::Throttle => {
                let share = u64::from(settings.throttle_share.as_parts_per_million());
                let left = u64::from(full) * share / FULL_RATE;
                u32::try_from(left).unwrap_or(u32::MAX).max(1)
            }
            HealthState::HalfOpen => settings.probe_concurrency,
            HealthState::Sleep | HealthState::CacheOnly => 0,
        }
    }

    /// Returns Throttle's rate times `multiple` millionths.
    fn slowed(&self, rate: Rate, multiple: u64) -> Rate {
        let settings = self.settings();
        let share = u64::from(settings.throttle_share.as_parts_per_million());
        let part = rate.scaled(share.saturating_mul(multiple) / FULL_RATE);
        let floor = settings.throttle_floor.scaled(multiple);
        rate.at_most(if part.cmp_speed(floor).is_lt() { floor } else { part })
    }
}
