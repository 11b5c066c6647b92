//! Admission of one API, decided under one lock.
//!
//! Every decision needs health, limits, waiters and attempts together, holds the lock for well under a
//! microsecond and never blocks inside; several locks would only cost more. Effects outside the lock
//! (wakes, events, the timer) are collected here and run by `SharedState` afterwards.

use std::time::Duration;

use outflow_core::{ClockPair, Decision, HealthState, Limit, Nanos};
use smol_str::SmolStr;

use super::permit_pool::PermitPool;
use super::reconfigure::Reconfiguration;
use super::report::{ConcurrencyBound, ReportCollector, UpstreamReport};
use super::routing::GroupIndex;
use super::timer::ArmedTimer;
use super::wait_queue::{AcquireRequest, WaitEstimator, WaitQueues};
use crate::refusal::RefusalReason;
use crate::rules::{Group, Rules};
use crate::upstream::WaitEstimate;

/// Admission state of one API.
#[derive(Debug)]
pub(super) struct AdmissionState {
    pub(super) pool: PermitPool,
    pub(super) wait: WaitQueues,
    lifecycle: Lifecycle,
    /// True while the meters use more memory than the threshold.
    pub(super) memory_alert: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lifecycle {
    Open,
    /// The client is shutting down.
    Closed,
    /// The configuration no longer has the API.
    Removed,
}

impl AdmissionState {
    /// Creates the state for valid rules.
    pub(super) fn new(groups: &[Group], rules: &Rules, moment: ClockPair) -> Self {
        Self {
            pool: PermitPool::new(groups, rules, moment),
            wait: WaitQueues::new(groups.len(), rules.health_scope),
            lifecycle: Lifecycle::Open,
            memory_alert: false,
        }
    }

    /// Begins a turn under the lock.
    #[inline]
    pub(super) fn begin(&mut self, observed: bool) {
        self.pool.effects.observed = observed;
    }

    /// Serves all timers and deadlines that are due.
    pub(super) fn fire_timer(&mut self, now: Nanos) {
        self.pool.effects.timer.fired(now);
        self.serve_timers(now);
        self.serve_leases(now);
        self.wake_paced(now);
        self.dispatch(now);
        // A waiter with a deadline of now starts now or is late. Those behind it may be next.
        for circuit in self.pool.circuits.indexes() {
            self.refuse_late_waiters(circuit, now.saturating_add(INSTANT), now);
        }
        self.dispatch(now);
        self.arm_next_wakeup();
    }

    /// Forgets what was armed and serves what is due, which arms the timer for the rest.
    pub(super) fn restart_timer(&mut self, now: Nanos) {
        self.pool.effects.timer = ArmedTimer::default();
        self.fire_timer(now);
    }

    pub(super) fn arm_next_wakeup(&mut self) {
        let circuits = self.pool.circuits.indexes();
        let next = circuits.map(|circuit| self.next_wakeup(circuit)).min();
        self.pool.effects.arm_timer(next.unwrap_or(Nanos::MAX));
    }

    /// Accepts calls again after a removal.
    pub(super) fn restore(&mut self) {
        if self.lifecycle == Lifecycle::Removed {
            self.lifecycle = Lifecycle::Open;
        }
    }

    pub(super) fn refuse_all(&mut self, lifecycle: Lifecycle, now: Nanos) {
        self.lifecycle = lifecycle;
        let Some(reason) = self.refusal_of_all() else {
            return;
        };
        for circuit in self.pool.circuits.indexes() {
            self.recall(circuit, now);
            self.refuse_waiters(circuit, &reason, None, now);
        }
    }

    /// Returns the reason for which every call is refused, if there is one.
    #[inline]
    pub(super) const fn refusal_of_all(&self) -> Option<RefusalReason> {
        match self.lifecycle {
            Lifecycle::Open => None,
            Lifecycle::Closed => Some(RefusalReason::ShuttingDown),
            Lifecycle::Removed => Some(RefusalReason::Removed),
        }
    }

    /// Applies other rules and returns the numbers of their groups.
    pub(super) fn reconfigure(&mut self, groups: &[Group], rules: &Rules, moment: ClockPair) -> GroupIndex {
        let reconfiguration = Reconfiguration {
            state: self,
            groups,
            rules,
            moment,
        };
        reconfiguration.apply()
    }

    /// Returns the health of a group.
    pub(super) fn health_state(&mut self, group: u32) -> HealthState {
        let group = self.pool.limits.resolve(group);
        self.pool.circuits.get_for(group).health.state()
    }

    /// Returns true if a group's circuit lets no call go. A sleep that is over has ended, also if no call noticed.
    pub(super) fn is_asleep(&mut self, group: u32, now: Nanos) -> bool {
        let group = self.pool.limits.resolve(group);
        self.serve_timer(self.pool.circuits.index_for(group), now);
        matches!(
            self.pool.circuits.get_for(group).health.state(),
            HealthState::Sleep | HealthState::CacheOnly
        )
    }

    /// Returns true if an operator forces the health of a group's circuit.
    pub(super) fn is_forced(&mut self, group: u32) -> bool {
        let group = self.pool.limits.resolve(group);
        let circuit = self.pool.circuits.get_for(group);
        circuit.health.operator_override().is_some()
    }

    /// Returns an estimator for calls of a group, after serving the timers that it depends on.
    pub(super) fn estimator(&mut self, group: u32, now: Nanos) -> WaitEstimator<'_> {
        self.serve_timer(self.pool.circuits.index_for(group), now);
        for index in 0..self.wait.busy_groups().len() {
            if let Some(group) = self.wait.busy_groups().get(index).copied() {
                self.serve_timer(self.pool.circuits.index_for(group), now);
            }
        }
        WaitEstimator {
            pool: &mut self.pool,
            wait: &self.wait,
            now,
        }
    }

    /// Decides whether a call could start now, or when.
    pub(super) fn check(&mut self, mut request: AcquireRequest, now: Nanos) -> Decision {
        request.group = self.pool.limits.resolve(request.group);
        if self.lifecycle != Lifecycle::Open {
            return Decision::Never;
        }
        self.estimator(request.group, now).check(request)
    }

    /// Decides when units fit one configured limit, if the group or the API has it.
    pub(super) fn check_limit(&mut self, (group, limit): (u32, &Limit), units: u64, now: Nanos) -> Option<Decision> {
        let group = self.pool.limits.resolve(group);
        let own = self.pool.own(group, now).check_limit(limit, units, now);
        own.or_else(|| self.pool.limits.shared.check_limit(limit, units, now))
    }

    /// Estimates the wait of a call that cannot start now.
    pub(super) fn explain_request(&mut self, mut request: AcquireRequest, now: Nanos) -> Option<WaitEstimate> {
        if self.check(request, now).is_allow() {
            return None;
        }
        request.group = self.pool.limits.resolve(request.group);
        Some(self.estimator(request.group, now).estimate(request))
    }

    /// Estimates the remaining wait of a waiter.
    pub(super) fn explain_waiter(&mut self, key: usize, now: Nanos) -> Option<WaitEstimate> {
        let group = self.wait.group_of(key)?;
        self.estimator(group, now).explain_waiter(key)
    }

    pub(super) fn collector(&mut self, now: Nanos) -> ReportCollector<'_> {
        ReportCollector {
            pool: &mut self.pool,
            wait: &self.wait,
            now,
        }
    }

    pub(super) fn report(&mut self, now: Nanos) -> UpstreamReport {
        self.serve_timers(now);
        self.collector(now).report()
    }

    /// Returns each concurrency that delays calls which the limits allow.
    pub(super) fn concurrency_bounds(&mut self, now: Nanos) -> Vec<(Option<SmolStr>, ConcurrencyBound)> {
        self.collector(now).concurrency_bounds()
    }

    /// Raises and ends alerts, and returns unused memory.
    pub(super) fn prune(&mut self, now: Nanos) {
        self.collector(now).prune_limits();
        let memory_alert = self.memory_alert;
        self.memory_alert = self.collector(now).check_memory(memory_alert);
        self.wait.prune();
        self.pool.in_flight.prune();
    }

    /// Returns the heap memory of waiters and attempts in bytes.
    pub(super) fn memory(&self) -> usize {
        self.wait.memory() + self.pool.in_flight.memory()
    }
}

/// The distance between an instant and the next.
const INSTANT: Duration = Duration::from_nanos(1);
