//! Effects of an outcome on the machine.
//!
//! A server's wait is always obeyed, in any state the request was sent in. If the request was sent
//! in this state, the outcome is then counted and judged.

use core::time::Duration;

use super::decision::TicketStatus;
use super::rules::{Escalation, ProbeInstant, ProbePatience, ThrottleExit};
use super::{ConfirmingRatio, Health, HealthChange, HealthState, HealthStep, HealthTicket, TransitionReason};
use crate::outcome::{Outcome, OutcomeClass};
use crate::{Nanos, Share};

impl Health {
    /// Records the outcome of a request. Returns at once.
    pub fn record(&mut self, now: Nanos, ticket: HealthTicket, outcome: Outcome, entropy: u64) -> HealthChange {
        let now = self.clamped(now);
        let change = self.obey(now, outcome, entropy);
        if self.keeps_slot(&ticket, outcome) {
            return change;
        }
        let step = match self.take_back(ticket) {
            ReturnedTicket::Stale => None,
            ReturnedTicket::LateProbe => self.judge_late_probe(now, outcome),
            ReturnedTicket::Current { sent } => self.judge(now, sent.unwrap_or(now), outcome, entropy),
        };
        match step {
            Some(step) => HealthChange::Moved(self.enter(now, step)),
            None => change,
        }
    }

    /// Obeys a wait that the server asked of another process with the same key.
    pub fn obey_shared(&mut self, now: Nanos, wait: SharedWait) -> HealthChange {
        let now = self.clamped(now);
        let longest = now.saturating_add(self.settings().max_retry_after);
        let until = wait.until.min(longest);
        if until <= self.cooling_until.max(now) {
            return HealthChange::None;
        }
        self.cooling_until = until;
        self.reschedule();
        let is_long = wait.is_ban || until.since(now) > self.settings().short_retry_after;
        let is_open = matches!(self.state, HealthState::Normal | HealthState::Throttle) && self.hold.is_none();
        if !is_long || !is_open {
            return HealthChange::Cooling { until };
        }
        let reason = if wait.is_ban {
            TransitionReason::Banned
        } else {
            TransitionReason::RetryAfter
        };
        let to = HealthState::Sleep;
        HealthChange::Moved(self.enter(now, HealthStep { to, reason, until }))
    }

    /// Returns true if a probe's caller left before its end. Its slot stays in use until its patience ends:
    /// in an outage the first in the queue have little time left, and would be sent one after another.
    fn keeps_slot(&self, ticket: &HealthTicket, outcome: Outcome) -> bool {
        let is_patient = self.settings().probe_patience == ProbePatience::Latency;
        is_patient && ticket.is_probe() && outcome.effect() == OutcomeClass::Cancelled
    }

    /// Takes back a ticket whose request was never sent, or whose end was not awaited.
    pub fn abandon(&mut self, now: Nanos, ticket: HealthTicket) {
        self.clamped(now);
        self.take_back(ticket);
    }

    fn take_back(&mut self, ticket: HealthTicket) -> ReturnedTicket {
        match ticket.redeem(self.generation) {
            TicketStatus::Stale => ReturnedTicket::Stale,
            TicketStatus::LateProbe => ReturnedTicket::LateProbe,
            TicketStatus::Plain => ReturnedTicket::Current { sent: None },
            TicketStatus::Probe(slot) => {
                let sent = self.probes.free(slot);
                self.reschedule();
                ReturnedTicket::Current { sent }
            }
        }
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
            None if outcome.effect() == OutcomeClass::Banned => Some(self.draw_sleep(self.latest, entropy)),
            None => None,
        }
    }

    /// Ends a Sleep if a probe that was given up got a good response.
    fn judge_late_probe(&self, now: Nanos, outcome: Outcome) -> Option<HealthStep> {
        let ends = self.state == HealthState::Sleep
            && self.hold.is_none()
            && self.settings().probe_patience == ProbePatience::Latency
            && matches!(outcome.effect(), OutcomeClass::Success | OutcomeClass::Neutral)
            && now >= self.cooling_until;
        ends.then_some(HealthStep::to(HealthState::HalfOpen, TransitionReason::LateResponse))
    }

    fn judge(&mut self, now: Nanos, sent: Nanos, outcome: Outcome, entropy: u64) -> Option<HealthStep> {
        match outcome.effect() {
            OutcomeClass::Cancelled => return None,
            OutcomeClass::Neutral => return self.judge_neutral(),
            _ if outcome.is_explained() && self.state != HealthState::HalfOpen => {
                return self.judge_explained(now, outcome, entropy);
            }
            _ => {}
        }
        self.count(now, outcome.effect());
        if self.hold.is_some() {
            return None;
        }
        match self.state {
            HealthState::Normal | HealthState::Throttle => self.judge_call(now, outcome, entropy),
            HealthState::HalfOpen => self.judge_probe(now, sent, outcome, entropy),
            HealthState::Sleep | HealthState::CacheOnly => None,
        }
    }

    fn count(&mut self, now: Nanos, effect: OutcomeClass) {
        self.window.record(now, effect);
        let throttled = matches!(effect, OutcomeClass::Throttled | OutcomeClass::Banned);
        self.streak = if throttled { self.streak.saturating_add(1) } else { 0 };
        if effect == OutcomeClass::Success {
            self.successes = self.successes.saturating_add(1);
            self.failures = 0;
        } else {
            self.failures = self.failures.saturating_add(1);
        }
    }

    /// Obeys a long wait of a throttle that a lowered limit explains.
    fn judge_explained(&mut self, now: Nanos, outcome: Outcome, entropy: u64) -> Option<HealthStep> {
        let is_open = matches!(self.state, HealthState::Normal | HealthState::Throttle) && self.hold.is_none();
        let reason = self.stop_reason(outcome).filter(|_| is_open)?;
        self.streak = self.streak.saturating_add(1);
        let until = self.sleep_until(now, outcome, entropy);
        Some(HealthStep {
            to: HealthState::Sleep,
            reason,
            until,
        })
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

    fn judge_probe(&mut self, now: Nanos, sent: Nanos, outcome: Outcome, entropy: u64) -> Option<HealthStep> {
        if outcome.effect() == OutcomeClass::Success {
            self.probes.succeed();
            return self.recovered(TransitionReason::ProbesOk);
        }
        let reason = self.stop_reason(outcome).unwrap_or(TransitionReason::ProbeFailed);
        // The server named a time and is obeyed: that is no failed recovery.
        if outcome.retry_after().is_some() {
            return Some(HealthStep {
                to: HealthState::Sleep,
                reason,
                until: self.sleep_until(now, outcome, entropy),
            });
        }
        Some(self.failed_probe(now, sent, reason, entropy))
    }

    /// Returns the step after a probe that failed or was given up.
    pub(super) fn failed_probe(
        &mut self,
        now: Nanos,
        sent: Nanos,
        reason: TransitionReason,
        entropy: u64,
    ) -> HealthStep {
        self.cooldown = self.cooldown.grown(self.config.settings());
        let from = match self.settings().probe_from {
            ProbeInstant::Failure => now,
            ProbeInstant::Sending => sent,
        };
        let until = from.saturating_add(self.draw_sleep(now, entropy)).max(now);
        let sleep = HealthStep {
            to: HealthState::Sleep,
            reason,
            until,
        };
        self.failed_recovery(now, sleep)
    }

    /// Returns to Normal if enough probes got good responses.
    fn recovered(&self, reason: TransitionReason) -> Option<HealthStep> {
        let settings = self.settings();
        let needed = settings.probe_success.saturating_mul(settings.neutral_per_success);
        let enough = self.probes.weight(settings.neutral_per_success) >= needed;
        enough.then_some(HealthStep::to(HealthState::Normal, reason))
    }

    /// Judges a neutral response, which moves only a state that waits for responses.
    fn judge_neutral(&mut self) -> Option<HealthStep> {
        if self.state != HealthState::HalfOpen {
            return None;
        }
        self.probes.respond_neutrally();
        self.recovered(TransitionReason::ProbesAnswered)
    }

    /// Counts a failed recovery: returns another Sleep, or `CacheOnly` if there were too many.
    fn failed_recovery(&mut self, now: Nanos, sleep: HealthStep) -> HealthStep {
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
            .unwrap_or_else(|| self.draw_sleep(now, entropy));
        now.saturating_add(wait)
    }

    fn streak_move(&self) -> Option<(HealthState, TransitionReason)> {
        let settings = self.settings();
        if settings.n_failures.is_some_and(|max| self.failures >= max) {
            return Some((HealthState::Sleep, TransitionReason::Streak));
        }
        let (to, max) = match self.state {
            HealthState::Normal => (self.escalated(), settings.n_throttle),
            _ => (HealthState::Sleep, settings.n_cacheonly),
        };
        max.is_some_and(|max| self.streak >= max)
            .then_some((to, TransitionReason::Streak))
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
            HealthState::Throttle if settings.p_sleep.is_some_and(|share| self.fails(share)) => {
                let held = settings.p_sleep_held.max(confirm);
                Some((HealthState::Sleep, TransitionReason::ErrorRatioHeld, held))
            }
            HealthState::Throttle if self.recovers() => {
                let to = match settings.throttle_exit {
                    ThrottleExit::Normal => HealthState::Normal,
                    ThrottleExit::HalfOpen => HealthState::HalfOpen,
                };
                Some((to, TransitionReason::SuccessWindowOk, confirm))
            }
            _ => None,
        }
    }

    fn fails(&self, share: Share) -> bool {
        let settings = self.settings();
        self.window.at_least(share)
            && self.window.total() >= settings.min_samples.into()
            && self.window.failures() >= settings.min_failures.into()
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

/// Wait that the server asked of a process, as other processes obey it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedWait {
    /// End of the wait.
    pub until: Nanos,
    /// True if it is a ban.
    pub is_ban: bool,
}

/// Value of a returned ticket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ReturnedTicket {
    Stale,
    LateProbe,
    /// A request of this state, with the time at which it was sent if it was a probe.
    Current {
        sent: Option<Nanos>,
    },
}
