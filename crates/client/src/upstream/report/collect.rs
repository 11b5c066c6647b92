//! The gate's own account of itself, and its housekeeping.

use outflow_core::{AlertChange, Decision, HealthState};
use smol_str::SmolStr;

use super::super::report::{
    Alerted, EffectiveLimit, GroupReport, HealthReport, LimitReport, LimitScope, RemainingQuota,
    UpstreamReport,
};
use super::{
    AcquireRequest, AdmissionState, EventKind, GroupState, HealthScope, InFlightAttempt, Lifecycle,
    Nanos, ScopeLimits, Waiter,
};
use crate::refusal::WaitEstimate;

impl AdmissionState {
    pub(in crate::upstream) fn report(&mut self, now: Nanos) -> UpstreamReport {
        let health = (0..self.wards.len())
            .filter(|ward| !self.is_retired(*ward))
            .collect::<Vec<_>>();
        let health = health
            .into_iter()
            .map(|ward| self.health_report(ward, now))
            .collect();
        let groups = self.group_reports(now);
        let waiting = self.waiting();
        let everybody = u64::try_from(waiting).unwrap_or(u64::MAX);
        UpstreamReport {
            at: now,
            waiting,
            health,
            limits: limit_reports(&mut self.shared, now, everybody),
            groups,
        }
    }

    /// Every group that the rules know. One that nobody called is shown as it would be if somebody did
    /// now, and stays untouched.
    fn group_reports(&mut self, now: Nanos) -> Vec<GroupReport> {
        let (terms, moment) = (self.rules.terms(), self.moment(now));
        let Self { lanes, wards, .. } = self;
        let known = (0_u32..).zip(lanes);
        let known = known.filter(|(number, lane)| lane.leads_to == *number);
        let report = |(_, lane): (u32, &mut GroupState)| {
            let health = &wards.get(lane.ward)?.health;
            let waiting = lane.waiting();
            let limits = match lane.used_limits() {
                Some(limits) => limit_reports(limits, now, waiting),
                None => limit_reports(&mut lane.untouched(terms, moment, health), now, waiting),
            };
            Some(GroupReport {
                name: lane.name.clone(),
                waiting,
                admitted: lane.admitted,
                refused: lane.refused,
                limits,
            })
        };
        known.filter_map(report).collect()
    }

    /// Whether a ward is of a group that the rules no longer know.
    fn is_retired(&self, ward: usize) -> bool {
        let own = self.rules.scope == HealthScope::Group;
        let lane = self.lanes.get(ward).filter(|_| own);
        lane.is_some_and(|lane| super::place(lane.leads_to) != ward)
    }

    fn health_report(&mut self, ward: usize, now: Nanos) -> HealthReport {
        let group = self.ward_group(ward);
        let ward = self.circuit_mut(ward);
        HealthReport {
            group,
            snapshot: ward.health.snapshot(now),
            in_flight: ward.in_flight,
            concurrency: ward.health.concurrency(),
        }
    }

    /// The state that calls of a lane meet.
    pub(in crate::upstream) fn state(&mut self, lane: u32) -> HealthState {
        self.circuit_for(self.current(lane)).health.state()
    }

    /// The limit with the smallest part left, of those that a lane's calls count against.
    pub(in crate::upstream) fn remaining(
        &mut self,
        lane: u32,
        now: Nanos,
    ) -> Option<RemainingQuota> {
        let lane = self.current(lane);
        let shared = self.shared.remaining(now);
        let own = self.own(lane, now).remaining(now);
        own.into_iter().chain(shared).reduce(RemainingQuota::fuller)
    }

    /// The limits in effect for a lane, those of the whole API first.
    pub(in crate::upstream) fn ceilings(&mut self, lane: u32, now: Nanos) -> Vec<EffectiveLimit> {
        let lane = self.current(lane);
        let mut ceilings: Vec<_> = self.shared.ceilings(LimitScope::Api, now).collect();
        ceilings.extend(self.own(lane, now).ceilings(LimitScope::Group, now));
        ceilings
    }

    /// Watches how full the limits are, and gives back memory that nobody uses.
    pub(in crate::upstream) fn tidy(&mut self, now: Nanos) {
        let waiting = u64::try_from(self.waiting()).unwrap_or(u64::MAX);
        let mut alerts = watched(&mut self.shared, None, now, waiting);
        for lane in &mut self.lanes {
            let (name, waiting) = (lane.name.clone(), lane.waiting());
            if let Some(limits) = lane.used_limits() {
                alerts.extend(watched(limits, Some(name), now, waiting));
            }
        }
        for alert in alerts {
            self.emit(alert);
        }
        self.weigh(now);
        self.wards.iter_mut().for_each(super::Circuit::tidy);
        self.waiters.shrink_to_fit();
        self.flights.shrink_to_fit();
    }

    pub(in crate::upstream) fn memory(&self) -> usize {
        let deadlines: usize = self.wards.iter().map(super::Circuit::memory).sum();
        let waiters = self.waiters.capacity() * size_of::<Waiter>();
        waiters + self.flights.capacity() * size_of::<InFlightAttempt>() + deadlines
    }

    /// Tells when the meters take more memory than is thought good, and when they no longer do.
    fn weigh(&mut self, now: Nanos) {
        let lanes = self.lanes.iter_mut().filter_map(GroupState::used_limits);
        let lanes: u64 = lanes.map(|limits| limits.memory(now)).sum();
        let bytes = lanes.saturating_add(self.shared.memory(now));
        let heavy = if bytes > self.rules.thresholds.memory {
            Alerted::Yes
        } else {
            Alerted::No
        };
        if std::mem::replace(&mut self.swollen, heavy) != heavy {
            let raised = heavy == Alerted::Yes;
            self.emit(EventKind::Memory { raised, bytes });
        }
    }

    /// Whether a call could go now, and otherwise when. What no time ends is never over as far as
    /// anyone knows.
    pub(in crate::upstream) fn check(
        &mut self,
        mut caller: AcquireRequest,
        now: Nanos,
    ) -> Decision {
        caller.lane = self.current(caller.lane);
        let closed = self.entry != Lifecycle::Open;
        if closed || self.impossible(caller.lane, caller.cost).is_some() {
            return Decision::Never;
        }
        let ward = self.lane(caller.lane).ward;
        match self.forecast(caller, now).eta {
            Some(at) => Decision::WaitUntil(at),
            None if self.closed(ward, now).is_some() => Decision::WaitUntil(Nanos::MAX),
            None => Decision::Allow(()),
        }
    }

    /// What a call would wait for, if it could not go now.
    pub(in crate::upstream) fn estimate_wait(
        &mut self,
        caller: AcquireRequest,
        now: Nanos,
    ) -> Option<WaitEstimate> {
        if self.check(caller, now).is_allow() {
            return None;
        }
        Some(self.forecast(caller, now))
    }
}

fn limit_reports(limits: &mut ScopeLimits, now: Nanos, waiting: u64) -> Vec<LimitReport> {
    let usage = limits.usage(now, waiting);
    let drifts = limits.drift_of_each(now);
    let effective = limits.effective(now);
    let all = effective.into_iter().zip(usage).zip(drifts);
    all.zip(limits.histories())
        .map(|(((limit, usage), drift), history)| LimitReport {
            limit,
            usage,
            drift,
            history,
        })
        .collect()
}

fn watched(
    limits: &mut ScopeLimits,
    group: Option<SmolStr>,
    now: Nanos,
    waiting: u64,
) -> Vec<EventKind> {
    limits.tidy(now);
    let told = limits.watch(now, waiting).into_iter();
    let what = |(change, used_ppm)| EventKind::Usage {
        group: group.clone(),
        raised: change == AlertChange::Raised,
        used_ppm,
    };
    told.map(what).collect()
}
