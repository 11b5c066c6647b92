//! The return to full speed after a recovery.
//!
//! It starts at Throttle's rate and grows by a factor at each step. The machine knows Throttle's
//! share, not the rates. So the ramp is a multiple that all rates of the API have in common; it
//! ends when that multiple compensates the share.

use core::time::Duration;

use super::config::{HealthSettings, RateFactor};
use crate::{Nanos, Share};

/// A ramp in progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ramp {
    /// Multiple of Throttle's rate, in millionths.
    multiple: u64,
    /// Start of the current step.
    stepped: Nanos,
    next: Nanos,
}

impl Ramp {
    /// Starts a ramp at Throttle's rate.
    pub(super) fn start(now: Nanos, settings: &HealthSettings) -> Option<Self> {
        Self {
            multiple: FULL_RATE,
            stepped: now,
            next: now.saturating_add(settings.ramp_every),
        }
        .unless_done(settings.throttle_share)
    }

    /// Applies all steps that are due; returns `None` at the top.
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

    /// Applies other settings; returns `None` if the ramp is at the top by them. It keeps its
    /// multiple, and the current step gets the new duration. Past time makes at most one step due,
    /// so a reload never jumps.
    pub(super) fn under(self, now: Nanos, settings: &HealthSettings) -> Option<Self> {
        Self {
            next: self.stepped.saturating_add(settings.ramp_every).max(now),
            ..self
        }
        .unless_done(settings.throttle_share)
    }

    /// Returns the multiple of Throttle's rate, in millionths.
    pub(super) const fn multiple(self) -> u64 {
        self.multiple
    }

    /// Returns the time of the next step.
    pub(super) const fn next(self) -> Nanos {
        self.next
    }

    /// Returns the time of the last step, if it is within [`MAX_STEPS`].
    pub(super) fn end(self, settings: &HealthSettings) -> Option<Nanos> {
        let mut ramp = self;
        for _ in 0..MAX_STEPS {
            let at = ramp.next;
            match ramp
                .step(settings.ramp_factor, settings.ramp_every)
                .unless_done(settings.throttle_share)
            {
                Some(next) => ramp = next,
                None => return Some(at),
            }
        }
        None
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
        let reached = self.multiple.saturating_mul(share) / FULL_RATE;
        (reached < FULL_RATE).then_some(self)
    }
}

pub(super) const FULL_RATE: u64 = 1_000_000;

/// A ramp with more steps ends in an unforeseeable time.
const MAX_STEPS: u32 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    // With a Throttle share of 100 % there is nothing to ramp.
    #[test]
    fn a_full_share_needs_no_ramp() {
        let settings = HealthSettings {
            throttle_share: Share::ALL,
            ..HealthSettings::CAUTIOUS
        };
        assert_eq!(Ramp::start(Nanos::ZERO, &settings), None);
    }

    #[test]
    fn a_ramp_at_the_end_of_the_timeline_stops() {
        let settings = HealthSettings::CAUTIOUS;
        let ramp = Ramp::start(Nanos::MAX, &settings).expect("half is left");
        assert!(ramp.current(Nanos::MAX, &settings).is_some());
    }
}
