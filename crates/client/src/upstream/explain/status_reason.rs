//! What binds the calls of a circuit now, for reports.

use outflow_core::{Cost, HealthSnapshot, HealthState, Nanos};
use smol_str::SmolStr;

use super::super::permit_pool::PermitPool;
use super::super::report::{CircuitRate, ReportCollector};
use super::super::wait_queue::QueueAhead;
use super::{LimitRates, LoweredLimit, ReadableSpan, StateCause, UnansweredCalls, WaitReason};
use crate::rules::HealthScope;

impl PermitPool {
    /// Returns the state of a circuit with its reason.
    pub(in crate::upstream) fn state_cause(&mut self, circuit: usize, now: Nanos) -> StateCause {
        let circuit = self.circuits.get_mut(circuit);
        let snapshot = circuit.health.snapshot(now);
        StateCause::from_snapshot(&snapshot, &circuit.note, now)
    }

    /// Returns the rates of all limits under a circuit, those of the API first.
    fn circuit_rates(&mut self, circuit: usize, now: Nanos) -> Vec<OwnedRates> {
        let Self { circuits, limits, .. } = self;
        let health = &circuits.get(circuit).health;
        let shared = limits.shared.rates(now);
        let mut all: Vec<_> = shared.map(|rates| OwnedRates { group: None, rates }).collect();
        // A circuit of its own has the number of its group.
        let (first, count) = match circuits.scope {
            HealthScope::Api => (0, usize::MAX),
            HealthScope::Group => (circuit, 1),
        };
        let groups = (0_u32..).zip(&mut limits.groups).skip(first).take(count);
        for (_, group) in groups.filter(|(number, group)| group.successor == *number) {
            let name = Some(group.name.clone());
            let own = group.rates(now, health).into_iter();
            all.extend(own.map(|rates| OwnedRates {
                group: name.clone(),
                rates,
            }));
        }
        all
    }

    /// Returns the slowest limit that holds for every call under a circuit; without one, the slowest of its groups.
    fn slowest_common_limit(&mut self, circuit: usize, now: Nanos) -> Option<OwnedRates> {
        let rates = self.circuit_rates(circuit, now).into_iter();
        rates.min_by(|one, other| {
            let speed = one.rates.effective.cmp_speed(other.rates.effective);
            one.group.is_some().cmp(&other.group.is_some()).then(speed)
        })
    }

    /// Returns the lowered limit under a circuit that is slowest.
    fn lowered_limit(
        &mut self,
        circuit: usize,
        health: &HealthSnapshot,
        now: Nanos,
    ) -> Option<(OwnedRates, LoweredLimit)> {
        let rates = self.circuit_rates(circuit, now).into_iter();
        let lowered = rates.filter_map(|owned| {
            let lowered = owned.rates.lowered(Some(health), now)?;
            Some((owned, lowered))
        });
        lowered.min_by(|one, other| one.1.effective.cmp_speed(other.1.effective))
    }
}

/// The rates of a limit with the group that owns it; without one, it is the API's.
pub(in crate::upstream) struct OwnedRates {
    pub(in crate::upstream) group: Option<SmolStr>,
    pub(in crate::upstream) rates: LimitRates,
}

impl From<OwnedRates> for CircuitRate {
    fn from(owned: OwnedRates) -> Self {
        Self {
            group: owned.group,
            effective: owned.rates.effective,
            configured: owned.rates.configured,
        }
    }
}

impl ReportCollector<'_> {
    /// Returns the sentence that names what binds the calls of a circuit now, and the rate that belongs to it: of the
    /// limit in the sentence, or else of the limit for all calls.
    pub(in crate::upstream) fn status(&mut self, circuit: usize) -> (Option<String>, Option<CircuitRate>) {
        let (sentence, limit) = self.binding_cause(circuit).unzip();
        let limit = limit
            .flatten()
            .or_else(|| self.pool.slowest_common_limit(circuit, self.now));
        (sentence, limit.map(CircuitRate::from))
    }

    /// Returns what binds, in the order of the module, and the limit if it is one. A lowered limit is named even
    /// while no call waits for it.
    fn binding_cause(&mut self, circuit: usize) -> Option<(String, Option<OwnedRates>)> {
        let now = self.now;
        let snapshot = self.pool.circuits.get_mut(circuit).health.snapshot(now);
        if snapshot.hold.is_some() || snapshot.state != HealthState::Normal {
            return Some((self.pool.state_cause(circuit, now).to_string(), None));
        }
        if let Some(until) = snapshot.cooling_until {
            let left = ReadableSpan(until.since(now));
            return Some((format!("the API asked to wait for another {left}"), None));
        }
        if let Some(reason) = self.pool.ledger_failure() {
            return Some((reason, None));
        }
        if let Some((limit, lowered)) = self.pool.lowered_limit(circuit, &snapshot, now) {
            return Some((format!("the limit is {lowered}"), Some(limit)));
        }
        if let Some(bound) = self.concurrency_bound(circuit) {
            return Some((bound.to_string(), None));
        }
        let reason = self.reason_of_waiters(circuit);
        reason.or_else(|| self.reason_of_refusals(circuit))
    }

    /// Names a used up limit while no call waits for it: calls that cannot wait are refused.
    fn reason_of_refusals(&mut self, circuit: usize) -> Option<(String, Option<OwnedRates>)> {
        // Only groups with calls: a report creates no meters.
        let groups = (0_u32..).zip(&mut self.pool.limits.groups);
        let current = groups.filter(|(number, group)| group.successor == *number);
        let used = current.filter_map(|(number, group)| group.used_limits().map(|_| number));
        let mut numbers: Vec<_> = used.collect();
        numbers.retain(|group| self.pool.circuits.index_for(*group) == circuit);
        let (group, used_up) = numbers
            .into_iter()
            .find_map(|group| Some((group, self.used_up_limit(group)?)))?;
        let reason = WaitReason::Limit {
            rate: used_up.rates.effective,
            processes: used_up.rates.processes,
            lowered: None,
        };
        let late = self.estimator().unanswered(group, QueueAhead::default(), Cost::ONE);
        let late = with_late_calls(late);
        Some((
            format!("{reason}{late}: calls that cannot wait are refused"),
            Some(used_up),
        ))
    }

    fn reason_of_waiters(&mut self, circuit: usize) -> Option<(String, Option<OwnedRates>)> {
        let waiting = self.wait.waiting_under(circuit);
        let mut groups = self.wait.busy_groups().iter().copied();
        let group = groups.find(|group| self.pool.circuits.index_for(*group) == circuit)?;
        let wait = self.estimator().first_wait(group)?;
        let limit = match &wait.reason {
            WaitReason::Limit { .. } => self.used_up_limit(group),
            _ => None,
        };
        let calls = if waiting == 1 { "call waits" } else { "calls wait" };
        let late = with_late_calls(wait.unanswered);
        Some((format!("{waiting} {calls}: {}{late}", wait.reason), limit))
    }
}

/// Returns the end of a sentence about a limit that late calls hold.
fn with_late_calls(calls: Option<UnansweredCalls>) -> String {
    let late = calls.filter(UnansweredCalls::are_late);
    late.map_or_else(String::new, |late| format!("; {late}"))
}
