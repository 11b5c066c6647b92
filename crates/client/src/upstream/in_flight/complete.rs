//! End of an attempt: it is refunded, or its response and then its body complete.

use std::time::Duration;

use outflow_core::{
    AttemptReport, Cost, HealthChange, HealthTicket, LimitChange, Nanos, Outcome, OutcomeClass, TransitionFigures,
};

use super::super::circuit::PathThrottle;
use super::super::endpoint::{CallLabel, CallSubject};
use super::super::permit::{AttemptResult, LimitFeedback, Verdict};
use super::super::state::AdmissionState;
use super::StampResult;
use crate::event::EventKind;
use crate::trace::TraceId;
use crate::upstream::permit_pool::PermitPool;

/// An attempt whose response has begun and whose body has not ended.
#[derive(Debug)]
pub(in crate::upstream) struct ResponseInProgress {
    pub(in crate::upstream) id: u64,
    pub(in crate::upstream) subject: CallSubject,
    pub(in crate::upstream) circuit: usize,
    /// Recorded with the end of the body if the response is a success so far.
    ticket: Option<HealthTicket>,
    expects_failure: bool,
}

impl ResponseInProgress {
    /// Returns true for a failure of the server that is the call's own.
    const fn expects(&self, effect: OutcomeClass) -> bool {
        let is_failure = matches!(effect, OutcomeClass::ServerFailed | OutcomeClass::NetworkFailed);
        self.expects_failure && is_failure
    }
}

/// An attempt that was sent.
#[derive(Clone, Copy, Debug)]
pub(in crate::upstream) struct SentAttempt {
    pub(in crate::upstream) id: u64,
    pub(in crate::upstream) group: u32,
    pub(in crate::upstream) label: CallLabel,
    pub(in crate::upstream) cost: Cost,
    pub(in crate::upstream) at: Nanos,
}

/// End of an attempt or of its body, as its event reports it.
#[derive(Clone, Copy, Debug)]
pub(in crate::upstream) struct ReportedEnd {
    pub(in crate::upstream) attempt: AttemptReport,
    pub(in crate::upstream) effect: OutcomeClass,
    /// Figures of the transition that it caused: the new state has counted nothing.
    pub(in crate::upstream) figures: Option<TransitionFigures>,
}

impl PermitPool {
    /// Records the path of a success or a throttle, and returns the cause of the throttle.
    fn record_path(
        &mut self,
        circuit: usize,
        effect: OutcomeClass,
        result: &AttemptResult<'_>,
        now: Nanos,
    ) -> PathThrottle {
        let paths = &mut self.circuits.get_mut(circuit).throttled_paths;
        match effect {
            OutcomeClass::Success => paths.record_pass(now, result.path),
            OutcomeClass::Throttled => return paths.record_throttle(now, result.path),
            _ => {}
        }
        PathThrottle::Unknown
    }

    /// Records the latency of a response.
    fn observe_latency(&mut self, circuit: usize, latency: Duration) {
        self.in_flight.latency.observe(latency);
        self.circuits.get_mut(circuit).health.observe_latency(latency);
    }
}

impl AdmissionState {
    /// Counts an attempt from its sending, which may be long after its permit was granted.
    pub(in crate::upstream) fn mark_sent(&mut self, attempt: usize, now: Nanos) {
        match self.pool.restamp(attempt, now) {
            StampResult::Kept => {}
            StampResult::Renewed => {
                self.pool.drop_excess(attempt, now);
                self.pool.charge_excess(attempt, now);
                self.dispatch_if_freed(now);
            }
            StampResult::Expired => self.pool.charge_expired(attempt, now),
        }
    }

    /// Returns true if its circuit revoked a permit after it was granted.
    pub(in crate::upstream) fn is_revoked(&self, attempt: usize) -> bool {
        let attempt = self.pool.in_flight.get(attempt);
        attempt.is_some_and(|known| self.pool.circuits.is_revoked(known.circuit, known.id))
    }

    /// Sets the trace of an attempt.
    pub(in crate::upstream) fn set_trace(&mut self, attempt: usize, trace: TraceId) {
        if let Some(known) = self.pool.in_flight.get_mut(attempt) {
            known.label.trace = trace;
        }
    }

    /// Notes that a failure of an attempt would say nothing about the API.
    pub(in crate::upstream) fn expect_failure(&mut self, attempt: usize) {
        if let Some(known) = self.pool.in_flight.get_mut(attempt) {
            known.expects_failure = true;
        }
    }

    /// Refunds an unused permit.
    pub(in crate::upstream) fn refund(&mut self, attempt: usize, now: Nanos) {
        let pool = &mut self.pool;
        if pool.effects.has_observers()
            && let Some(known) = pool.in_flight.get(attempt)
        {
            let (permit, subject) = (known.id, known.subject());
            let (group, endpoint) = pool.subject_names(subject);
            let refunded = EventKind::Refunded {
                group,
                endpoint,
                permit,
            };
            pool.effects.emit_call(subject.label.trace, refunded);
        }
        pool.refund(attempt, now);
        self.dispatch(now);
    }

    /// Settles an attempt whose response began, or that got none. Its body may still be in progress.
    pub(in crate::upstream) fn settle_head(
        &mut self,
        attempt: usize,
        sent: Option<Nanos>,
        result: &AttemptResult<'_>,
        now: Nanos,
    ) -> Option<(Verdict, ResponseInProgress)> {
        let mut known = self.pool.in_flight.attempts.try_remove(attempt)?;
        let sent = SentAttempt {
            id: known.id,
            group: known.group,
            label: known.label,
            cost: known.cost,
            at: sent.unwrap_or(known.granted),
        };
        self.pool.settle_receipts(&mut known, sent.at, result, now);
        let report = self.pool.reader().read_attempt(result);
        let classified = self.pool.settings.policy.classify(&report);
        let effect = classified.outcome.effect();
        let was_probe = known.ticket.is_probe();
        let mut response = ResponseInProgress {
            id: sent.id,
            subject: known.subject(),
            circuit: known.circuit,
            ticket: Some(known.ticket),
            expects_failure: known.expects_failure,
        };
        let cause = self.pool.record_path(known.circuit, effect, result, now);
        let is_about_path = cause != PathThrottle::Unknown;
        let change = match cause {
            PathThrottle::AboutPath { lowered_at } => self.pool.retract_shrink(sent.group, lowered_at, now),
            PathThrottle::Unknown => self.pool.learn_throttle(sent, &classified.outcome, now),
        };
        if change == LimitChange::Shrunk {
            self.pool
                .circuits
                .get_mut(known.circuit)
                .throttled_paths
                .mark_lowered(now);
        }
        // A lower limit answers the throttle: one cause, one reaction. A lowered limit begins a new throttle
        // burst afterwards, and its cause belongs to the old.
        let is_answered = matches!(change, LimitChange::Shrunk | LimitChange::SameBurst);
        let is_lowered = effect == OutcomeClass::Throttled && is_answered;
        if matches!(effect, OutcomeClass::Success | OutcomeClass::Neutral) {
            self.pool.observe_latency(known.circuit, now.since(sent.at));
        }
        let figures = match effect {
            OutcomeClass::Success => None,
            _ if is_lowered || is_about_path || response.expects(effect) => {
                self.record(&mut response, classified.outcome.explained(), now)
            }
            _ => self.record(&mut response, classified.outcome, now),
        };
        // The event of a throttle response counts that response, with the figures before a reset.
        if !result.counted {
            let end = ReportedEnd {
                attempt: report,
                effect,
                figures,
            };
            self.pool.emit_settled(sent, end, now);
        }
        if let Some(headers) = result.headers {
            let marks = known.marks.as_deref();
            self.pool.read_hints(sent, headers, marks, effect, now);
        }
        self.pool.apply_limit_change(sent.group, change, now);
        if effect == OutcomeClass::Success {
            let circuit = self.pool.circuits.get_mut(known.circuit);
            circuit.last_served = circuit.last_served.max(Some(sent.at));
            self.pool.learn_success(sent, now);
        }
        self.dispatch_if_freed(now);
        let limit_feedback = match cause {
            PathThrottle::AboutPath { .. } => LimitFeedback::PathThrottled,
            PathThrottle::Unknown if is_lowered => LimitFeedback::Lowered,
            PathThrottle::Unknown => LimitFeedback::None,
        };
        let verdict = Verdict {
            effect,
            retry: classified.retry,
            retry_after: classified.outcome.retry_after(),
            limit_feedback,
            was_probe,
        };
        Some((verdict, response))
    }

    /// Completes a response whose body ended, or whose reader left.
    pub(in crate::upstream) fn finish_body(&mut self, mut response: ResponseInProgress, now: Nanos) {
        self.record(&mut response, Outcome::SUCCESS, now);
        self.end_call(&response, now);
    }

    /// Completes a response whose body failed.
    pub(in crate::upstream) fn fail_body(
        &mut self,
        mut response: ResponseInProgress,
        result: &AttemptResult<'_>,
        now: Nanos,
    ) -> Verdict {
        let report = self.pool.reader().read_attempt(result);
        let classified = self.pool.settings.policy.classify(&report);
        let effect = classified.outcome.effect();
        let outcome = if response.expects(effect) {
            classified.outcome.explained()
        } else {
            classified.outcome
        };
        let figures = self.record(&mut response, outcome, now);
        let end = ReportedEnd {
            attempt: report,
            effect,
            figures,
        };
        self.pool.emit_broken(&response, end, now);
        self.end_call(&response, now);
        Verdict {
            effect,
            retry: classified.retry,
            retry_after: None,
            limit_feedback: LimitFeedback::None,
            was_probe: false,
        }
    }

    /// Records a success for a body that may never end: a probe needs no more than that.
    pub(in crate::upstream) fn mark_alive(&mut self, response: &mut ResponseInProgress, now: Nanos) {
        self.record(response, Outcome::SUCCESS, now);
        self.dispatch_if_freed(now);
    }

    fn end_call(&mut self, response: &ResponseInProgress, now: Nanos) {
        self.pool.circuits.get_mut(response.circuit).end_call();
        self.dispatch_if_freed(now);
    }

    /// Records an outcome; returns the figures that led to a transition, which the new state no longer has.
    fn record(&mut self, response: &mut ResponseInProgress, outcome: Outcome, now: Nanos) -> Option<TransitionFigures> {
        let ticket = response.ticket.take()?;
        let entropy = self.pool.circuits.entropy();
        let circuit = self.pool.circuits.get_mut(response.circuit);
        let asked_before = circuit.health.cooling_until();
        let change = circuit.health.record(now, ticket, outcome, entropy);
        let has_new_wait = circuit.health.cooling_until() > asked_before;
        self.apply_change(response.circuit, change, now);
        if has_new_wait {
            self.pool.offer_facts(now);
        }
        match change {
            HealthChange::Moved(transition) => Some(transition.figures),
            HealthChange::None | HealthChange::Cooling { .. } => None,
        }
    }
}
