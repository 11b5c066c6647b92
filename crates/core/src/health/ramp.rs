//! The way back to full speed after a recovery.
//!
//! It starts at Throttle's rate and grows by a factor at each step. The machine knows the share that
//! Throttle leaves, not the rates it is a share of, so the ramp is a multiple that all rates of the
//! API have in common; it ends when that multiple makes up for the share.

use core::time::Duration;

use super::config::{HealthSettings, RateFactor};
use crate::{Nanos, Share};

/// A ramp that is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ramp {
    /// How many times Throttle's rate it is at, in millionths.
    multiple: u64,
    /// When the step it is on began.
    stepped: Nanos,
    next: Nanos,
}

impl Ramp {
    /// At Throttle's rate, now.
    pub(super) fn start(now: Nanos, settings: &HealthSettings) -> Option<Self> {
        Self {
            multiple: WHOLE,
            stepped: now,
            next: now.saturating_add(settings.ramp_every),
        }
        .unless_done(settings.throttle_share)
    }

    /// The same ramp after all steps that are due, or nothing when it has reached the top.
    pub(super) fn current(mut self, now: Nanos, settings: &HealthSettings) -> Option<Self> {
        while self.next <= now {
            self = self
                .step(settings.ramp_factor, settings.ramp_every)
                .unless_done(settings.throttle_share)?;
            if self.next == Nanos::MAX {
                break;
            }
        }
        Some(self)
    }

    /// The same ramp under other settings, or nothing if it has reached the top by them. It keeps
    /// what it has climbed, and the step it is on lasts as long as steps do now. Time that is past
    /// makes one step due, not many: the climb of an hour is not made up for at a stroke.
    pub(super) fn under(self, now: Nanos, settings: &HealthSettings) -> Option<Self> {
        Self {
            next: self.stepped.saturating_add(settings.ramp_every).max(now),
            ..self
        }
        .unless_done(settings.throttle_share)
    }

    /// How many times Throttle's rate it is at, in millionths.
    pub(super) const fn multiple(self) -> u64 {
        self.multiple
    }

    /// When the next step is due.
    pub(super) const fn next(self) -> Nanos {
        self.next
    }

    fn step(self, factor: RateFactor, every: Duration) -> Self {
        Self {
            multiple: factor.times(self.multiple),
            stepped: self.next,
            next: self.next.saturating_add(every),
        }
    }

    fn unless_done(self, share: Share) -> Option<Self> {
        let share = u64::from(share.as_parts_per_million());
        let reached = self.multiple.saturating_mul(share) / WHOLE;
        (reached < WHOLE).then_some(self)
    }
}

const WHOLE: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    // Where Throttle leaves everything there is nothing to climb.
    #[test]
    fn a_share_of_all_needs_no_ramp() {
        let settings = HealthSettings {
            throttle_share: Share::ALL,
            ..HealthSettings::default()
        };
        assert_eq!(Ramp::start(Nanos::ZERO, &settings), None);
    }

    #[test]
    fn a_ramp_at_the_end_of_time_stops_climbing() {
        let settings = HealthSettings::default();
        let ramp = Ramp::start(Nanos::MAX, &settings).expect("half is left");
        assert!(ramp.current(Nanos::MAX, &settings).is_some());
    }
}
