//! State changes of a circuit and their effect on its waiters: transitions, cooldowns, overrides.

use outflow_core::{CircuitState, HealthChange, HealthOverride, HealthTransition, Nanos};

use super::super::explain::OverrideNote;
use super::super::state::AdmissionState;
use crate::event::{EventKind, HealthGauges};
use crate::refusal::RefusalReason;
use crate::rules::WhenAsleep;

impl AdmissionState {
    pub(in crate::upstream) fn serve_timers(&mut self, now: Nanos) {
        for circuit in self.pool.circuits.indexes() {
            self.serve_timer(circuit, now);
        }
    }

    /// Serves the due timers of a circuit. A due timer may lead to a state with another due timer.
    #[inline]
    pub(in crate::upstream) fn serve_timer(&mut self, circuit: usize, now: Nanos) {
        for _ in 0..MAX_DUE_TIMERS {
            if !self.pool.circuits.is_due(circuit, now) {
                return;
            }
            match self.pool.circuits.wake(circuit, now) {
                Some(transition) => self.apply_transition(circuit, transition, now),
                None => self.pool.retune(circuit, now),
            }
        }
    }

    /// Applies a health change that an outcome or an operator caused.
    pub(in crate::upstream) fn apply_change(&mut self, circuit: usize, change: HealthChange, now: Nanos) {
        match change {
            HealthChange::None => {}
            HealthChange::Cooling { until } => self.apply_cooldown(circuit, until, now),
            HealthChange::Moved(transition) => self.apply_transition(circuit, transition, now),
        }
        let wakeup = self.next_wakeup(circuit);
        self.pool.effects.arm_timer(wakeup);
    }

    /// Returns the instant of a circuit's next timer or deadline.
    pub(in crate::upstream) fn next_wakeup(&self, circuit: usize) -> Nanos {
        let health = self.pool.circuits.get(circuit).health.next_wakeup();
        let deadline = self.wait.first_deadline(circuit);
        health.unwrap_or(Nanos::MAX).min(deadline)
    }

    fn apply_transition(&mut self, circuit: usize, transition: HealthTransition, now: Nanos) {
        let pool = &mut self.pool;
        pool.retune(circuit, now);
        let snapshot = pool.circuits.get_mut(circuit).health.snapshot(now);
        if let Some(until) = snapshot.cooling_until {
            pool.circuits.cool(circuit, until);
        }
        if pool.effects.has_observers() {
            let group = pool.circuit_group(circuit);
            // The state has counted nothing yet; the line shows what led to it.
            let vitals = HealthGauges {
                streak: transition.figures.streak,
                error_ppm: transition.figures.counts.failure_ppm(),
                ..pool.health_gauges(circuit, now)
            };
            pool.effects.emit(EventKind::Moved {
                group,
                transition,
                vitals,
            });
        }
        self.recall(circuit, now);
        let snapshot = self.pool.circuits.get_mut(circuit).health.snapshot(now);
        if snapshot.circuit == CircuitState::Open {
            self.revoke_permits(circuit);
        }
        self.refuse_blocked_waiters(circuit, now);
    }

    fn apply_cooldown(&mut self, circuit: usize, until: Nanos, now: Nanos) {
        let pool = &mut self.pool;
        pool.limits.unblock();
        pool.circuits.cool(circuit, until);
        if pool.effects.has_observers() {
            let group = pool.circuit_group(circuit);
            let vitals = pool.health_gauges(circuit, now);
            pool.effects.emit(EventKind::Cooling {
                group,
                until,
                wait: until.since(now),
                vitals,
            });
        }
        self.recall(circuit, now);
        self.revoke_permits(circuit);
        self.refuse_late_waiters(circuit, until, now);
    }

    /// Revokes all permits of a circuit that were not sent.
    fn revoke_permits(&mut self, circuit: usize) {
        let next = self.pool.in_flight.next_permit;
        self.pool.circuits.revoke(circuit, next);
    }

    /// Refuses waiters that would wait in vain while an open circuit allows no start.
    fn refuse_blocked_waiters(&mut self, circuit: usize, now: Nanos) {
        let snapshot = self.pool.circuits.get_mut(circuit).health.snapshot(now);
        if snapshot.circuit != CircuitState::Open {
            return;
        }
        if self.pool.settings.when_asleep == WhenAsleep::Wait
            && let Some(until) = snapshot.until
        {
            return self.refuse_late_waiters(circuit, until, now);
        }
        let wait = snapshot.until.map(|until| until.since(now));
        let reason = RefusalReason::Blocked(Box::new(self.pool.state_cause(circuit, now)));
        self.refuse_waiters(circuit, &reason, wait, now);
    }

    /// Forces the health of all circuits, or of one group's.
    pub(in crate::upstream) fn force_health(
        &mut self,
        group: Option<u32>,
        state: HealthOverride,
        note: &OverrideNote,
        now: Nanos,
    ) {
        for circuit in self.circuits_for(group) {
            let forced = self.pool.circuits.get_mut(circuit);
            forced.note = note.clone();
            let transition = forced.health.force(now, state);
            self.apply_override(circuit, Some(transition), now);
        }
    }

    /// Ends the override of all circuits, or of one group's.
    pub(in crate::upstream) fn release_health(&mut self, group: Option<u32>, now: Nanos) {
        for circuit in self.circuits_for(group) {
            let health = &mut self.pool.circuits.get_mut(circuit).health;
            let transition = health.release(now);
            self.apply_override(circuit, transition, now);
        }
        self.pool.offer_facts(now);
    }

    fn apply_override(&mut self, circuit: usize, transition: Option<HealthTransition>, now: Nanos) {
        if let Some(transition) = transition {
            self.apply_change(circuit, HealthChange::Moved(transition), now);
        }
        self.pool.retune(circuit, now);
        self.dispatch(now);
    }

    fn circuits_for(&self, group: Option<u32>) -> std::ops::Range<usize> {
        let circuits = &self.pool.circuits;
        match group {
            Some(group) => {
                let circuit = circuits.index_for(self.pool.limits.resolve(group));
                circuit..circuit + 1
            }
            None => circuits.indexes(),
        }
    }
}

/// More than there are states, so that no circuit serves timers for ever.
const MAX_DUE_TIMERS: u32 = 8;
