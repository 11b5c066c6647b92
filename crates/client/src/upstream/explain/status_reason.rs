//! What binds the calls of a circuit now, for reports.

use outflow_core::{HealthSnapshot, HealthState, Nanos};

use super::super::permit_pool::PermitPool;
use super::super::report::{CircuitRate, ReportCollector};
use super::{LimitRates, LoweredLimit, ReadableSpan, StateCause, WaitReason};
use crate::rules::HealthScope;

impl PermitPool {
    /// Returns the state of a circuit with its reason.
    pub(in crate::upstream) fn state_cause(&mut self, circuit: usize, now: Nanos) -> StateCause {
        let circuit = self.circuits.get_mut(circuit);
        let snapshot = circuit.health.snapshot(now);
        StateCause::from_snapshot(&snapshot, &circuit.note, now)
    }

    /// Returns the rates of all limits under a circuit.
    fn circuit_rates(&mut self, circuit: usize, now: Nanos) -> Vec<LimitRates> {
        let Self { circuits, limits, .. } = self;
        let health = &circuits.get(circuit).health;
        let mut all: Vec<LimitRates> = limits.shared.rates(now).collect();
        // A circuit of its own has the number of its group.
        let (first, count) = match circuits.scope {
            HealthScope::Api => (0, usize::MAX),
            HealthScope::Group => (circuit, 1),
        };
        let groups = (0_u32..).zip(&mut limits.groups).skip(first).take(count);
        for (_, group) in groups.filter(|(number, group)| group.successor == *number) {
            all.extend(group.rates(now, health));
        }
        all
    }

    /// Returns the slowest limit under a circuit, as it is in effect and as it is configured.
    pub(in crate::upstream) fn circuit_rate(&mut self, circuit: usize, now: Nanos) -> Option<CircuitRate> {
        let rates = self.circuit_rates(circuit, now).into_iter();
        let slowest = rates.min_by(|one, other| one.effective.cmp_speed(other.effective))?;
        Some(CircuitRate {
            effective: slowest.effective,
            configured: slowest.configured,
        })
    }

    /// Returns the lowered limit under a circuit that is slowest.
    fn lowered_limit(&mut self, circuit: usize, health: &HealthSnapshot, now: Nanos) -> Option<LoweredLimit> {
        let rates = self.circuit_rates(circuit, now).into_iter();
        let lowered = rates.filter_map(|rates| rates.lowered(Some(health), now));
        lowered.min_by(|one, other| one.effective.cmp_speed(other.effective))
    }
}

impl ReportCollector<'_> {
    /// Returns the sentence that names what binds the calls of a circuit now, in the order of the module. A
    /// lowered limit is named even while no call waits for it.
    pub(in crate::upstream) fn status_reason(&mut self, circuit: usize) -> Option<String> {
        let now = self.now;
        let snapshot = self.pool.circuits.get_mut(circuit).health.snapshot(now);
        if snapshot.hold.is_some() || snapshot.state != HealthState::Normal {
            return Some(self.pool.state_cause(circuit, now).to_string());
        }
        if let Some(until) = snapshot.cooling_until {
            let left = ReadableSpan(until.since(now));
            return Some(format!("the API asked to wait for another {left}"));
        }
        if let Some(lowered) = self.pool.lowered_limit(circuit, &snapshot, now) {
            return Some(format!("the limit is {lowered}"));
        }
        if let Some(bound) = self.concurrency_bound(circuit) {
            return Some(bound.to_string());
        }
        let reason = self.reason_of_waiters(circuit);
        reason.or_else(|| self.reason_of_refusals(circuit))
    }

    /// Names a used up limit while no call waits for it: calls that cannot wait are refused.
    fn reason_of_refusals(&mut self, circuit: usize) -> Option<String> {
        // Only groups with calls: a report creates no meters.
        let groups = (0_u32..).zip(&mut self.pool.limits.groups);
        let current = groups.filter(|(number, group)| group.successor == *number);
        let used = current.filter_map(|(number, group)| group.used_limits().map(|_| number));
        let mut numbers: Vec<_> = used.collect();
        numbers.retain(|group| self.pool.circuits.index_for(*group) == circuit);
        let used_up = numbers.into_iter().find_map(|group| self.used_up_limit(group))?;
        let reason = WaitReason::Limit {
            rate: used_up.effective,
            lowered: None,
        };
        Some(format!("{reason}: calls that cannot wait are refused"))
    }

    fn reason_of_waiters(&mut self, circuit: usize) -> Option<String> {
        let waiting = self.wait.waiting_under(circuit);
        let mut groups = self.wait.busy_groups().iter().copied();
        let group = groups.find(|group| self.pool.circuits.index_for(*group) == circuit)?;
        let reason = self.estimator().first_reason(group)?;
        let calls = if waiting == 1 { "call waits" } else { "calls wait" };
        Some(format!("{waiting} {calls}: {reason}"))
    }
}
