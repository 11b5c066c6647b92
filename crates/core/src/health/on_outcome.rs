//! Effects of an outcome on the machine.
//!
//! A server's wait is always obeyed, in any state the request was sent in. If the request was sent
//! in this state, the outcome is then counted and judged.

use core::time::Duration;

use super::config::{Escalation, StreakRule};
use super::decision::TicketStatus;
use super::{ConfirmingRatio, Health, HealthChange, HealthState, HealthStep, HealthTicket, TransitionReason};
use crate::outcome::{Outcome, OutcomeClass};
use crate::{Nanos, Share};

impl Health {
    /// Records the outcome of a request. Returns at once.
    pub fn record(&mut self, now: Nanos, ticket: HealthTicket, outcome: Outcome, entropy: u64) -> HealthChange {
        let now = self.clamped(now);
        let change = self.obey(now, outcome, entropy);
        if self.take_back(ticket) == TicketStatus::Stale {
            return change;
        }
        match self.judge(now, outcome, entropy) {
            Some(step) => HealthChange::Moved(self.enter(now, step)),
            None => change,
        }
    }

    /// Takes back a ticket whose request was never sent, or whose end was not awaited.
    pub fn abandon(&mut self, now: Nanos, ticket: HealthTicket) {
        self.clamped(now);
        self.take_back(ticket);
    }

    fn take_back(&mut self, ticket: HealthTicket) -> TicketStatus {
        let status = ticket.redeem(self.generation);
        if let TicketStatus::Probe(slot) = status {
            self.probes.free(slot);
            self.reschedule();
        }
        status
    }

    /// Starts a cooldown for all callers as long as the server asks, merged by maximum.
    fn obey(&mut self, now: Nanos, outcome: Outcome, entropy: u64) -> HealthChange {
        let Some(wait) = self.requested_wait(outcome, entropy) else {
            return HealthChange::None;
        };
        let until = now.saturating_add(wait);
        if until <= self.cooling_until.max(now) {
            return HealthChange::None;
        }
        self.cooling_until = until;
        self.reschedule();
        HealthChange::Cooling { until }
    }

    fn requested_wait(&self, outcome: Outcome, entropy: u64) -> Option<Duration> {
        let settings = self.settings();
        match outcome.retry_after() {
            Some(span) => Some(span.min(settings.max_retry_after)),
            None if outcome.effect() == OutcomeClass::Banned => Some(self.cooldown.draw(settings, entropy)),
            None => None,
        }
    }

    fn judge(&mut self, now: Nanos, outcome: Outcome, entropy: u64) -> Option<HealthStep> {
        match outcome.effect() {
            OutcomeClass::Cancelled => return None,
            OutcomeClass::Neutral => return self.judge_neutral(),
            _ => {}
        }
        self.count(now, outcome.effect());
        if self.hold.is_some() {
            return None;
        }
        match self.state {
            HealthState::Normal | HealthState::Throttle => self.judge_call(now, outcome, entropy),
            HealthState::HalfOpen => self.judge_probe(now, outcome, entropy),
            HealthState::Sleep | HealthState::CacheOnly => None,
        }
    }

    fn count(&mut self, now: Nanos, effect: OutcomeClass) {
        self.window.record(now, effect);
        let adds = match self.settings().streak {
            StreakRule::Throttled => {
                matches!(effect, OutcomeClass::Throttled | OutcomeClass::Banned)
            }
            StreakRule::Failures => effect != OutcomeClass::Success,
        };
        self.streak = if adds { self.streak.saturating_add(1) } else { 0 };
        if effect == OutcomeClass::Success {
            self.successes = self.successes.saturating_add(1);
        }
    }

    fn judge_call(&mut self, now: Nanos, outcome: Outcome, entropy: u64) -> Option<HealthStep> {
        if let Some(reason) = self.stop_reason(outcome) {
            let until = self.sleep_until(now, outcome, entropy);
            return Some(HealthStep {
                to: HealthState::Sleep,
                reason,
                until,
            });
        }
        let (to, reason) = self.streak_move().or_else(|| self.evaluate(now))?;
        let until = match to {
            HealthState::Sleep => self.sleep_until(now, outcome, entropy),
            _ => Nanos::MAX,
        };
        Some(HealthStep { to, reason, until })
    }

    fn judge_probe(&mut self, now: Nanos, outcome: Outcome, entropy: u64) -> Option<HealthStep> {
        if outcome.effect() == OutcomeClass::Success {
            let enough = self.probes.succeed() >= self.settings().probe_success;
            return enough.then_some(HealthStep::to(HealthState::Normal, TransitionReason::ProbesOk));
        }
        let reason = self.stop_reason(outcome).unwrap_or(TransitionReason::ProbeFailed);
        self.cooldown = self.cooldown.grown(self.config.settings());
        let until = self.sleep_until(now, outcome, entropy);
        Some(self.failed_recovery(
            now,
            HealthStep {
                to: HealthState::Sleep,
                reason,
                until,
            },
        ))
    }

    /// Judges a neutral response, which moves only a state that waits for responses.
    fn judge_neutral(&mut self) -> Option<HealthStep> {
        if self.state != HealthState::HalfOpen {
            return None;
        }
        let settings = self.config.settings();
        let max = settings.probe_success.saturating_mul(settings.neutral_per_success);
        let enough = self.probes.respond_neutrally() >= max;
        enough.then_some(HealthStep::to(HealthState::Normal, TransitionReason::ProbesAnswered))
    }

    /// Counts a failed recovery: returns another Sleep, or `CacheOnly` if there were too many.
    pub(super) fn failed_recovery(&mut self, now: Nanos, sleep: HealthStep) -> HealthStep {
        self.failed_recoveries = self.failed_recoveries.saturating_add(1);
        match self.settings().cache_only_after {
            Some(max) if self.failed_recoveries >= max => HealthStep {
                to: HealthState::CacheOnly,
                reason: TransitionReason::RecoveriesExhausted,
                until: self.auto_recover_at(now),
            },
            _ => sleep,
        }
    }

    /// Returns the reason to stop, if the server itself asked for it.
    fn stop_reason(&self, outcome: Outcome) -> Option<TransitionReason> {
        let short = self.settings().short_retry_after;
        if outcome.effect() == OutcomeClass::Banned {
            Some(TransitionReason::Banned)
        } else if outcome.retry_after().is_some_and(|span| span > short) {
            Some(TransitionReason::RetryAfter)
        } else {
            None
        }
    }

    /// Returns the end of a Sleep that this outcome causes: exactly the server's time if it named
    /// one, else our own.
    fn sleep_until(&self, now: Nanos, outcome: Outcome, entropy: u64) -> Nanos {
        let wait = self
            .requested_wait(outcome, entropy)
            .unwrap_or_else(|| self.cooldown.draw(self.settings(), entropy));
        now.saturating_add(wait)
    }

    fn streak_move(&self) -> Option<(HealthState, TransitionReason)> {
        let settings = self.settings();
        let (to, max) = match self.state {
            HealthState::Normal => (self.escalated(), settings.n_throttle),
            _ => (HealthState::Sleep, settings.n_cacheonly),
        };
        (self.streak >= max).then_some((to, TransitionReason::Streak))
    }

    /// Evaluates the ratio once: a condition is believed when it holds again later, with nothing
    /// contrary between.
    pub(super) fn evaluate(&mut self, now: Nanos) -> Option<(HealthState, TransitionReason)> {
        let Some((to, reason, held)) = self.condition() else {
            if self.confirming.take().is_some() {
                self.reschedule();
            }
            return None;
        };
        match self.confirming {
            Some(seen) if seen.reason == reason => (now.since(seen.since) >= held).then_some((to, reason)),
            _ => {
                self.confirming = Some(ConfirmingRatio {
                    reason,
                    since: now,
                    held,
                });
                self.reschedule();
                None
            }
        }
    }

    /// Returns the transition that the ratio calls for, and how long it must last.
    pub(super) fn condition(&self) -> Option<(HealthState, TransitionReason, Duration)> {
        let settings = self.settings();
        let confirm = settings.confirm_after;
        match self.state {
            HealthState::Normal if self.fails(settings.p_throttle) => {
                Some((self.escalated(), TransitionReason::ErrorRatio, confirm))
            }
            HealthState::Throttle if self.fails(settings.p_sleep) => {
                let held = settings.p_sleep_held.max(confirm);
                Some((HealthState::Sleep, TransitionReason::ErrorRatioHeld, held))
            }
            HealthState::Throttle if self.recovers() => {
                Some((HealthState::HalfOpen, TransitionReason::SuccessWindowOk, confirm))
            }
            _ => None,
        }
    }

    fn fails(&self, share: Share) -> bool {
        self.window.at_least(share) && self.window.total() >= self.settings().min_samples.into()
    }

    fn recovers(&self) -> bool {
        let settings = self.settings();
        self.successes >= settings.s_recover && !self.window.at_least(settings.p_recover)
    }

    fn escalated(&self) -> HealthState {
        match self.settings().escalation {
            Escalation::Throttle => HealthState::Throttle,
            Escalation::Sleep => HealthState::Sleep,
        }
    }
}
