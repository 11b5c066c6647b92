//! The gate's own account of itself, and its housekeeping.

use outflow_core::{AlertChange, Decision, State};
use smol_str::SmolStr;

use super::super::report::{Alerted, GroupReport, HealthReport, LimitReport, UpstreamReport};
use super::{Caller, Entry, Flight, Gate, HealthScope, Lane, Limits, Nanos, Waiter, What};
use crate::refusal::Explanation;

impl Gate {
    pub(in crate::upstream) fn report(&mut self, now: Nanos) -> UpstreamReport {
        let health = (0..self.wards.len())
            .filter(|ward| !self.is_retired(*ward))
            .collect::<Vec<_>>();
        let health = health
            .into_iter()
            .map(|ward| self.health_report(ward, now))
            .collect();
        let waiting = self.waiting();
        let everybody = u64::try_from(waiting).unwrap_or(u64::MAX);
        UpstreamReport {
            at: now,
            waiting,
            health,
            limits: limit_reports(&mut self.shared, now, everybody),
            groups: (0_u32..)
                .zip(&mut self.lanes)
                .filter(|(number, lane)| lane.leads_to == *number)
                .map(|(_, lane)| group_report(lane, now))
                .collect(),
        }
    }

    /// Whether a ward is of a group that the rules no longer know.
    fn is_retired(&self, ward: usize) -> bool {
        let own = self.rules.scope == HealthScope::Group;
        let lane = self.lanes.get(ward).filter(|_| own);
        lane.is_some_and(|lane| super::place(lane.leads_to) != ward)
    }

    fn health_report(&mut self, ward: usize, now: Nanos) -> HealthReport {
        let group = self.ward_group(ward);
        let ward = self.ward(ward);
        HealthReport {
            group,
            snapshot: ward.health.snapshot(now),
            in_flight: ward.in_flight,
            concurrency: ward.health.concurrency(),
        }
    }

    /// The state that calls of a lane meet.
    pub(in crate::upstream) fn state(&mut self, lane: u32) -> State {
        self.ward_of(self.current(lane)).health.state()
    }

    /// Watches how full the limits are, and gives back memory that nobody uses.
    pub(in crate::upstream) fn tidy(&mut self, now: Nanos) {
        let waiting = u64::try_from(self.waiting()).unwrap_or(u64::MAX);
        let mut alerts = watched(&mut self.shared, None, now, waiting);
        for lane in &mut self.lanes {
            let (name, waiting) = (lane.name.clone(), lane.waiting());
            alerts.extend(watched(&mut lane.limits, Some(name), now, waiting));
        }
        for alert in alerts {
            self.tell(alert);
        }
        self.weigh(now);
        self.wards.iter_mut().for_each(super::Ward::tidy);
        self.waiters.shrink_to_fit();
        self.flights.shrink_to_fit();
    }

    pub(in crate::upstream) fn memory(&self) -> usize {
        let deadlines: usize = self.wards.iter().map(super::Ward::memory).sum();
        let waiters = self.waiters.capacity() * size_of::<Waiter>();
        waiters + self.flights.capacity() * size_of::<Flight>() + deadlines
    }

    /// Tells when the meters take more memory than is thought good, and when they no longer do.
    fn weigh(&mut self, now: Nanos) {
        let lanes = self.lanes.iter_mut().map(|lane| lane.limits.memory(now));
        let lanes: u64 = lanes.sum();
        let bytes = lanes.saturating_add(self.shared.memory(now));
        let heavy = if bytes > self.rules.thresholds.memory {
            Alerted::Yes
        } else {
            Alerted::No
        };
        if std::mem::replace(&mut self.swollen, heavy) != heavy {
            let raised = heavy == Alerted::Yes;
            self.tell(What::Memory { raised, bytes });
        }
    }

    /// Whether a call could go now, and otherwise when. What no time ends is never over as far as
    /// anyone knows.
    pub(in crate::upstream) fn check(&mut self, mut caller: Caller, now: Nanos) -> Decision {
        caller.lane = self.current(caller.lane);
        let closed = self.entry != Entry::Open;
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
    pub(in crate::upstream) fn foresee(
        &mut self,
        caller: Caller,
        now: Nanos,
    ) -> Option<Explanation> {
        if self.check(caller, now).is_allow() {
            return None;
        }
        Some(self.forecast(caller, now))
    }
}

fn group_report(lane: &mut Lane, now: Nanos) -> GroupReport {
    let waiting = lane.waiting();
    GroupReport {
        name: lane.name.clone(),
        waiting,
        admitted: lane.admitted,
        refused: lane.refused,
        limits: limit_reports(&mut lane.limits, now, waiting),
    }
}

fn limit_reports(limits: &mut Limits, now: Nanos, waiting: u64) -> Vec<LimitReport> {
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

fn watched(limits: &mut Limits, group: Option<SmolStr>, now: Nanos, waiting: u64) -> Vec<What> {
    limits.tidy(now);
    let told = limits.watch(now, waiting).into_iter();
    let what = |(change, used_ppm)| What::Usage {
        group: group.clone(),
        raised: change == AlertChange::Raised,
        used_ppm,
    };
    told.map(what).collect()
}
