//! Collection of reports and alerts.

use outflow_core::{AlertChange, Cost, HealthState, Nanos};
use smol_str::SmolStr;

use super::super::circuit::Circuit;
use super::super::explain::OwnedRates;
use super::super::group::{GroupState, unused_limits};
use super::super::group_slot;
use super::super::limits::{FitPace, FitTime, ScopeLimits};
use super::super::permit_pool::PermitPool;
use super::super::wait_queue::{QueueAhead, WaitEstimator, WaitQueues};
use super::{ConcurrencyBound, EffectiveLimit, GroupReport, HealthReport, LimitScope, RemainingQuota, UpstreamReport};
use crate::event::EventKind;
use crate::rules::HealthScope;

/// Reads the state of an API at one instant.
#[derive(Debug)]
pub(in crate::upstream) struct ReportCollector<'a> {
    pub(in crate::upstream) pool: &'a mut PermitPool,
    pub(in crate::upstream) wait: &'a WaitQueues,
    pub(in crate::upstream) now: Nanos,
}

impl ReportCollector<'_> {
    pub(in crate::upstream) fn report(mut self) -> UpstreamReport {
        let circuits = self.pool.circuits.indexes();
        let current = circuits.filter(|circuit| !self.is_retired(*circuit));
        let current: Vec<_> = current.collect();
        let health = current.into_iter().map(|one| self.health_report(one));
        let health = health.collect();
        let groups = self.group_reports();
        let waiting = self.wait.waiting();
        let follows_health = self.pool.circuits.scope == HealthScope::Api;
        let shared_health = follows_health.then(|| self.pool.circuits.get_mut(0).health.snapshot(self.now));
        let all_waiting = u64::try_from(waiting).unwrap_or(u64::MAX);
        UpstreamReport {
            at: self.now,
            waiting,
            health,
            limits: self
                .pool
                .limits
                .shared
                .reports(self.now, all_waiting, shared_health.as_ref()),
            groups,
        }
    }

    /// Returns all groups of the rules. A group without calls is shown as its first call would find it,
    /// and stays without meters.
    fn group_reports(&mut self) -> Vec<GroupReport> {
        let (now, wait) = (self.now, self.wait);
        let (terms, moment) = (self.pool.settings.terms, self.pool.clock.moment(now));
        let PermitPool { limits, circuits, .. } = &mut *self.pool;
        let groups = (0_u32..).zip(&mut limits.groups);
        let current = groups.filter(|(number, group)| group.successor == *number);
        let report = |(number, group): (u32, &mut GroupState)| {
            let circuit = circuits.get_mut(circuits.index_for(number));
            let snapshot = Some(circuit.health.snapshot(now));
            let health = &circuit.health;
            let waiting = wait.waiting_in(number);
            let snapshot = snapshot.as_ref();
            let limits = match group.used_limits() {
                Some(limits) => limits.reports(now, waiting, snapshot),
                None => unused_limits(&group.configured, terms, moment, health).reports(now, waiting, snapshot),
            };
            GroupReport {
                name: group.name.clone(),
                waiting,
                admitted: group.admitted,
                refused: group.refused,
                limits,
            }
        };
        current.map(report).collect()
    }

    /// Returns true if a circuit belongs to a group that the rules dropped.
    fn is_retired(&self, circuit: usize) -> bool {
        let per_group = self.pool.circuits.scope == HealthScope::Group;
        let group = self.pool.limits.groups.get(circuit);
        group.is_some_and(|group| per_group && group_slot(group.successor) != circuit)
    }

    fn health_report(&mut self, circuit: usize) -> HealthReport {
        let group = self.pool.circuit_group(circuit);
        let bound = self.concurrency_bound(circuit);
        let (reason, rate) = self.status(circuit);
        let circuit = self.pool.circuits.get_mut(circuit);
        let snapshot = circuit.health.snapshot(self.now);
        HealthReport {
            group,
            in_flight: circuit.in_flight,
            concurrency: circuit.health.concurrency(),
            bound,
            rate,
            forced_by: snapshot.hold.map(|_| circuit.note.clone()),
            reason,
            snapshot,
        }
    }

    /// Returns an estimator. A due timer was served when the report began.
    pub(in crate::upstream) fn estimator(&mut self) -> WaitEstimator<'_> {
        WaitEstimator {
            pool: self.pool,
            wait: self.wait,
            now: self.now,
        }
    }

    pub(in crate::upstream) fn concurrency_bounds(mut self) -> Vec<(Option<SmolStr>, ConcurrencyBound)> {
        let circuits = self.pool.circuits.indexes();
        let bounds = circuits.filter_map(|circuit| {
            let bound = self.concurrency_bound(circuit)?;
            Some((self.pool.circuit_group(circuit), bound))
        });
        bounds.collect()
    }

    /// Returns the concurrency of a healthy circuit if all of it is in flight and the limits would allow a
    /// waiting call.
    pub(in crate::upstream) fn concurrency_bound(&mut self, circuit: usize) -> Option<ConcurrencyBound> {
        let Circuit { health, in_flight, .. } = self.pool.circuits.get(circuit);
        let concurrency = health.concurrency();
        if health.state() != HealthState::Normal || *in_flight < concurrency {
            return None;
        }
        let mut waiting = self.wait.busy_groups().iter().copied();
        let allowed = waiting.any(|group| self.pool.circuits.index_for(group) == circuit && self.has_quota(group));
        allowed.then(|| ConcurrencyBound {
            concurrency,
            rate: self.pool.slowest_rate(circuit, self.now),
        })
    }

    /// Returns true if the limits allow one more call of a group now.
    fn has_quota(&mut self, group: u32) -> bool {
        self.used_up_limit(group).is_none()
    }

    /// Returns the limit that allows no call of a group now, the one that does so longest.
    pub(in crate::upstream) fn used_up_limit(&mut self, group: u32) -> Option<OwnedRates> {
        let (now, none) = (self.now, QueueAhead::default());
        let time = FitTime {
            now,
            from: now,
            pace: FitPace::Current,
        };
        let own = self.pool.own(group, now).find_fit(time, none, Cost::ONE);
        let shared = self.pool.limits.shared.find_fit(time, none, Cost::ONE);
        if own.at.max(shared.at) <= now {
            None
        } else if shared.at > own.at {
            let rates = self.pool.limits.shared.rates_of(shared.limit?, now)?;
            Some(OwnedRates { group: None, rates })
        } else {
            let rates = self.pool.own(group, now).rates_of(own.limit?, now)?;
            let group = Some(self.pool.limits.group(group).name.clone());
            Some(OwnedRates { group, rates })
        }
    }

    /// Returns the quota of the fullest limit that counts a group's calls.
    pub(in crate::upstream) fn remaining(self, group: u32) -> Option<RemainingQuota> {
        let group = self.pool.limits.resolve(group);
        let shared = self.pool.limits.shared.remaining(self.now);
        let own = self.pool.own(group, self.now).remaining(self.now);
        own.into_iter().chain(shared).reduce(RemainingQuota::fuller)
    }

    /// Returns the limits in effect for a group, the shared ones first.
    pub(in crate::upstream) fn effective_limits(self, group: u32) -> Vec<EffectiveLimit> {
        let group = self.pool.limits.resolve(group);
        let shared = &mut self.pool.limits.shared;
        let mut limits: Vec<_> = shared.effective_limits(LimitScope::Api, self.now).collect();
        let own = self.pool.own(group, self.now);
        limits.extend(own.effective_limits(LimitScope::Group, self.now));
        limits
    }

    /// Prunes all limits and emits the changes of their alerts.
    pub(in crate::upstream) fn prune_limits(self) {
        let (now, wait) = (self.now, self.wait);
        let waiting = u64::try_from(wait.waiting()).unwrap_or(u64::MAX);
        let PermitPool { limits, effects, .. } = self.pool;
        let mut alerts = prune_scope(&mut limits.shared, None, now, waiting);
        for (number, group) in (0_u32..).zip(&mut limits.groups) {
            let name = group.name.clone();
            if let Some(limits) = group.used_limits() {
                let waiting = wait.waiting_in(number);
                alerts.extend(prune_scope(limits, Some(name), now, waiting));
            }
        }
        for alert in alerts {
            effects.emit(alert);
        }
    }

    /// Returns true if the meters use more memory than the threshold, and emits a change of that.
    pub(in crate::upstream) fn check_memory(self, alerted: bool) -> bool {
        let limits = &mut self.pool.limits;
        let own = limits.groups.iter_mut().filter_map(GroupState::used_limits);
        let own: u64 = own.map(|limits| limits.memory(self.now)).sum();
        let bytes = own.saturating_add(limits.shared.memory(self.now));
        let raised = bytes > self.pool.settings.terms.thresholds.memory;
        if raised != alerted {
            self.pool.effects.emit(EventKind::Memory { raised, bytes });
        }
        raised
    }
}

fn prune_scope(limits: &mut ScopeLimits, group: Option<SmolStr>, now: Nanos, waiting: u64) -> Vec<EventKind> {
    limits.prune(now);
    let changes = limits.check_alerts(now, waiting).into_iter();
    let event = |(change, used_ppm)| EventKind::Usage {
        group: group.clone(),
        raised: change == AlertChange::Raised,
        used_ppm,
    };
    changes.map(event).collect()
}
