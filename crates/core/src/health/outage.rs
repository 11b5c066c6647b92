//! The time since Normal was left, its cause, and the Sleep that follows from both.

use core::time::Duration;

use super::cooldown::Cooldown;
use super::rules::CooldownRule;
use super::{Health, TransitionReason};
use crate::Nanos;

/// Time since Normal was left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Outage {
    since: Nanos,
    pub(super) cause: OutageCause,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OutageCause {
    Throttles,
    Failures,
    Operator,
}

impl Health {
    /// Returns the outage that goes on or begins with a transition. The time for which an operator
    /// holds a state is no part of it, and says nothing about the rate.
    pub(super) fn outage_after(&self, now: Nanos, reason: TransitionReason) -> Outage {
        let begun = |cause| Outage { since: now, cause };
        match (reason, self.outage) {
            (TransitionReason::Forced | TransitionReason::Released, _) => begun(OutageCause::Operator),
            (_, Some(outage)) => outage,
            (_, None) => begun(self.cause_of_failures()),
        }
    }

    /// Returns the cause of an outage that begins now: throttles, if the last outcome or at least
    /// half of the failures were some.
    pub(super) fn cause_of_failures(&self) -> OutageCause {
        let throttled = self.window.counts().throttled;
        let is_most = throttled > 0 && throttled >= self.window.failures() - throttled;
        if self.streak > 0 || is_most {
            OutageCause::Throttles
        } else {
            OutageCause::Failures
        }
    }

    /// Returns the next Sleep without a server's time, before its jitter.
    pub(super) fn next_cooldown(&self, now: Nanos) -> Cooldown {
        let settings = self.settings();
        if settings.cooldown == CooldownRule::Doubling {
            return self.cooldown;
        }
        let outage = self.outage_after(now, TransitionReason::Streak);
        let least = match outage.cause {
            OutageCause::Throttles => self.limits.longest_window / 10,
            OutageCause::Failures | OutageCause::Operator => Duration::ZERO,
        };
        Cooldown::share_of(now.since(outage.since), least, settings)
    }

    pub(super) fn draw_sleep(&self, now: Nanos, entropy: u64) -> Duration {
        self.next_cooldown(now).draw(self.settings(), entropy)
    }
}
