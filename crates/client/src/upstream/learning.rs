//! Effect of responses on the limits: hints in headers, throttle responses, successes.

use http::HeaderMap;
use outflow_core::{AdaptiveMode, LimitChange, Nanos, Outcome, OutcomeClass, RetryAfter};
use smol_str::SmolStr;

use super::in_flight::{LimitMarks, SentAttempt};
use super::limits::{HintResult, ThrottleEvidence};
use super::permit_pool::PermitPool;
use crate::event::EventKind;

impl PermitPool {
    /// Compares the hints of a response with the local usage.
    pub(super) fn read_hints(
        &mut self,
        sent: SentAttempt,
        headers: &HeaderMap,
        marks: Option<&LimitMarks>,
        effect: OutcomeClass,
        now: Nanos,
    ) {
        let hints = self.reader().read_hints(headers);
        self.emit_malformed(headers, hints.malformed());
        if hints.iter().next().is_some() {
            self.sends_hints = true;
        }
        let throttled = matches!(effect, OutcomeClass::Throttled | OutcomeClass::Banned);
        let mut waits = false;
        for hint in hints.iter() {
            let (own, shared) = (marks.map(|all| &*all.own), marks.map(|all| &*all.shared));
            let limits = self.own(sent.group, now);
            let result = limits.apply_hint(now, hint, own, throttled);
            let group = result.map(|_| self.limits.group(sent.group).name.clone());
            let shared_limits = &mut self.limits.shared;
            let result = result.or_else(|| shared_limits.apply_hint(now, hint, shared, throttled));
            if let Some(result) = result {
                waits |= result.waits;
                self.apply_hint_result(sent.group, group, result, now);
            }
        }
        if waits {
            self.offer_facts(now);
        }
    }

    fn emit_malformed(&mut self, headers: &HeaderMap, hints: u32) {
        if !self.effects.has_observers() {
            return;
        }
        let retry_after = self.reader().read_retry_after(headers);
        let malformed = matches!(retry_after, Some(RetryAfter::Ignored(_)));
        let headers = hints.saturating_add(malformed.into());
        if headers > 0 {
            self.effects.emit(EventKind::Malformed { headers });
        }
    }

    fn apply_hint_result(&mut self, group: u32, name: Option<SmolStr>, result: HintResult, now: Nanos) {
        if result.correction.foreign > 0 {
            let units = result.correction.foreign;
            self.effects.emit(EventKind::Foreign { group: name, units });
        }
        self.apply_limit_change(group, result.reaction, now);
    }

    /// Lowers the fullest limit after a throttle response, if the response says something about it.
    pub(super) fn learn_throttle(&mut self, sent: SentAttempt, outcome: &Outcome, now: Nanos) -> LimitChange {
        let evidence = match outcome.effect() {
            OutcomeClass::Throttled => ThrottleEvidence::Throttled { sent: sent.at },
            OutcomeClass::Banned => {
                let until = now.saturating_add(outcome.retry_after().unwrap_or_default());
                ThrottleEvidence::Banned { sent: sent.at, until }
            }
            _ => return LimitChange::Unmoved,
        };
        let share = self.fleet_share.current(now);
        let own = self.own(sent.group, now).fullness(now);
        if self.limits.shared.fullness(now) > own {
            return self.limits.shared.record_throttle(now, &evidence, share);
        }
        self.own(sent.group, now).record_throttle(now, &evidence, share)
    }

    /// Takes back the shrink of an instant, whose throttle was about one path.
    pub(super) fn retract_shrink(&mut self, group: u32, lowered_at: Option<Nanos>, now: Nanos) -> LimitChange {
        let Some(at) = lowered_at else {
            return LimitChange::Unmoved;
        };
        let own = self.own(group, now).retract_shrink(at);
        let shared = self.limits.shared.retract_shrink(at);
        if own || shared {
            LimitChange::Raised
        } else {
            LimitChange::Unmoved
        }
    }

    /// Puts a changed limit into effect.
    pub(super) fn apply_limit_change(&mut self, group: u32, change: LimitChange, now: Nanos) {
        match change {
            LimitChange::Shrunk => self.limit_lowered(group, now),
            LimitChange::Raised | LimitChange::FullWindow => self.retune_and_emit(group, now),
            LimitChange::SameBurst | LimitChange::Unmoved => {}
        }
    }

    /// Lets limits grow back after a success.
    pub(super) fn learn_success(&mut self, sent: SentAttempt, now: Nanos) {
        if self.settings.terms.adaptive == AdaptiveMode::Off {
            return;
        }
        let circuit = self.circuits.get_for(sent.group);
        circuit.slow_start.record_pass(now);
        let share = self.fleet_share.current(now);
        let limits = self.own(sent.group, now);
        let own = limits.record_success(now, sent, share);
        let shared = self.limits.shared.record_success(now, sent, share);
        if own || shared {
            self.retune_and_emit(sent.group, now);
        }
    }

    fn retune_and_emit(&mut self, group: u32, now: Nanos) {
        self.retune(self.circuits.index_for(group), now);
        self.emit_drift(now);
        self.offer_facts(now);
    }

    /// Begins a new throttle burst: attempts in flight were sent under the old limit and prove nothing.
    fn limit_lowered(&mut self, group: u32, now: Nanos) {
        let circuit = self.circuits.get_for(group);
        circuit.health.begin_generation(now);
        circuit.restart_slowly(now);
        self.retune_and_emit(group, now);
    }

    fn emit_drift(&mut self, now: Nanos) {
        if !self.effects.has_observers() {
            return;
        }
        let Self { limits, effects, .. } = self;
        for (drift, change) in limits.shared.take_drift(now) {
            let group = None;
            effects.emit(EventKind::Drifting { group, drift, change });
        }
        for state in &mut limits.groups {
            let name = state.name.clone();
            for (drift, change) in state
                .used_limits()
                .into_iter()
                .flat_map(|limits| limits.take_drift(now))
            {
                let group = Some(name.clone());
                effects.emit(EventKind::Drifting { group, drift, change });
            }
        }
    }
}
