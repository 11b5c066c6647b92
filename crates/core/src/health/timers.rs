//! The timers of the machine.
//!
//! One field holds the next due instant. It is computed on changes, not on queries, so that a
//! healthy request costs one comparison.

use core::time::Duration;

use super::cooldown::Cooldown;
use super::ramp::Ramp;
use super::rules::ProbePatience;
use super::{Health, HealthState, HealthStep, HealthTransition, TransitionReason};
use crate::Nanos;

impl Health {
    /// Serves the timer that is due, if one is. Without it a Sleep would only end with the next
    /// request. Rates may have changed even where the state has not: ask for
    /// [`effective`](Health::effective) again.
    pub fn wake(&mut self, now: Nanos, entropy: u64) -> Option<HealthTransition> {
        let now = self.clamped(now);
        if !self.is_due(now) {
            return None;
        }
        let step = match self.state {
            HealthState::Sleep => Some(HealthStep::to(HealthState::HalfOpen, TransitionReason::SleepOver)),
            HealthState::CacheOnly => Some(self.auto_recovery(now, entropy)),
            HealthState::HalfOpen => Some(self.timed_out_probe(now, entropy)),
            HealthState::Normal | HealthState::Throttle => self.recheck(now, entropy),
        };
        if step.is_none() {
            self.reschedule();
        }
        step.map(|step| self.enter(now, step))
    }

    /// Computes the time of the next timer.
    pub(super) fn reschedule(&mut self) {
        self.due = match self.state {
            _ if self.until < Nanos::MAX => self.until.max(self.cooling_until),
            HealthState::HalfOpen => self.probe_deadline(),
            _ => self.confirmed_at().min(self.ramp_step_at()),
        };
    }

    /// Returns the time at which `CacheOnly`, entered at `since`, tries to recover.
    pub(super) fn auto_recover_at(&self, since: Nanos) -> Nanos {
        self.settings()
            .auto_recover
            .map_or(Nanos::MAX, |every| since.saturating_add(every))
    }

    /// `CacheOnly` was a long rest, so the Sleep after it is the shortest.
    fn auto_recovery(&self, now: Nanos, entropy: u64) -> HealthStep {
        let sleep = Cooldown::first(self.settings()).draw(self.settings(), entropy);
        HealthStep {
            to: HealthState::Sleep,
            reason: TransitionReason::AutoRecover,
            until: now.saturating_add(sleep),
        }
    }

    fn timed_out_probe(&mut self, now: Nanos, entropy: u64) -> HealthStep {
        let sent = self.probes.first_sent().unwrap_or(now);
        self.failed_probe(now, sent, TransitionReason::ProbeTimedOut, entropy)
    }

    /// Returns the time at which the oldest probe is given up.
    fn probe_deadline(&self) -> Nanos {
        let patience = self.probe_patience();
        let sent = self.probes.first_sent();
        sent.map_or(Nanos::MAX, |sent| sent.saturating_add(patience))
    }

    fn probe_patience(&self) -> Duration {
        let settings = self.settings();
        match settings.probe_patience {
            ProbePatience::Fixed => settings.probe_timeout,
            ProbePatience::Latency => {
                let usual = Duration::from_nanos(self.latency.saturating_mul(3));
                usual.max(LEAST_PATIENCE).min(settings.probe_timeout)
            }
        }
    }

    fn recheck(&mut self, now: Nanos, entropy: u64) -> Option<HealthStep> {
        let settings = self.config.settings();
        self.ramp = self.ramp.and_then(|ramp| ramp.current(now, settings));
        self.window.refresh(now);
        let (to, reason) = self.evaluate(now)?;
        let until = match to {
            HealthState::Sleep => now.saturating_add(self.draw_sleep(now, entropy)),
            _ => Nanos::MAX,
        };
        Some(HealthStep { to, reason, until })
    }

    fn confirmed_at(&self) -> Nanos {
        self.confirming
            .map_or(Nanos::MAX, |seen| seen.since.saturating_add(seen.held))
    }

    fn ramp_step_at(&self) -> Nanos {
        self.ramp.map_or(Nanos::MAX, Ramp::next)
    }
}

/// A healthy API may pause for a second.
const LEAST_PATIENCE: Duration = Duration::from_secs(2);
