//! Everything that decides whether a call may start, except the waiters.

use std::sync::Arc;
use std::time::Duration;

use outflow_core::{AttemptEnd, CircuitState, ClockPair, Dialects, Nanos, OutcomeClass, Policy, Rate};
use smol_str::SmolStr;

use super::circuit::Circuits;
use super::effects::EffectQueue;
use super::endpoint::{CallSubject, EndpointTable};
use super::fleet_share::ShareEstimate;
use super::group;
use super::in_flight::{InFlight, ReportedEnd, ResponseInProgress, ResponseReader, SentAttempt};
use super::limits::{self, LimitScopes, LimitTerms, ScopeLimits};
use super::sharing::LeaseSource;
use super::wall_clock::WallClock;
use crate::event::{EventKind, HealthGauges};
use crate::rules::{Group, HealthScope, Rules, WhenAsleep};

/// Circuits, limits and attempts in flight.
#[derive(Debug)]
pub(super) struct PermitPool {
    pub(super) circuits: Circuits,
    pub(super) limits: LimitScopes,
    pub(super) in_flight: InFlight,
    pub(super) settings: AdmissionSettings,
    pub(super) clock: WallClock,
    pub(super) fleet_share: ShareEstimate,
    /// Settings of leases, where processes share the limits.
    pub(super) leases: Option<LeaseSource>,
    /// True once a response of this API had rate-limit hints.
    pub(super) sends_hints: bool,
    pub(super) effects: EffectQueue,
    pub(super) endpoints: Arc<EndpointTable>,
}

/// Rules that admission reads for each call.
#[derive(Debug)]
pub(super) struct AdmissionSettings {
    pub(super) queue: usize,
    pub(super) timeout: Duration,
    pub(super) when_asleep: WhenAsleep,
    pub(super) policy: Policy,
    pub(super) dialects: Dialects,
    pub(super) terms: LimitTerms,
}

impl AdmissionSettings {
    pub(super) fn from_rules(rules: &Rules) -> Self {
        Self {
            queue: rules.queue,
            timeout: rules.timeout,
            when_asleep: rules.when_asleep,
            policy: rules.policy.clone(),
            dialects: rules.dialects,
            terms: LimitTerms::from_rules(rules),
        }
    }
}

impl PermitPool {
    pub(super) fn new(groups: &[Group], rules: &Rules, moment: ClockPair) -> Self {
        let shared = ScopeLimits::new(&rules.limits, LimitTerms::from_rules(rules), moment);
        Self {
            circuits: Circuits::new(groups.len(), rules, moment),
            limits: LimitScopes::new(shared, groups, rules),
            in_flight: InFlight::new(),
            settings: AdmissionSettings::from_rules(rules),
            clock: WallClock::new(moment),
            fleet_share: ShareEstimate::NOTHING,
            leases: None,
            sends_hints: false,
            effects: EffectQueue::default(),
            endpoints: Arc::default(),
        }
    }

    /// Returns the limits of a group, created on first use.
    #[inline]
    pub(super) fn own(&mut self, group: u32, now: Nanos) -> &mut ScopeLimits {
        let Self {
            limits,
            circuits,
            settings,
            clock,
            leases,
            ..
        } = self;
        limits.group_mut(group).limits(|configured| {
            let health = &circuits.get(circuits.index_for(group)).health;
            let mut limits = group::unused_limits(configured, settings.terms, clock.moment(now), health);
            if let Some(source) = leases.as_mut().filter(|_| !limits.is_empty()) {
                source.begin_lease(&mut limits, settings.timeout);
            }
            limits
        })
    }

    /// Returns a reader for the headers of a response that came now.
    pub(super) const fn reader(&self) -> ResponseReader {
        ResponseReader {
            dialects: self.settings.dialects,
            wall: self.clock.seen.wall,
        }
    }

    /// Returns the group of a circuit, where each group has its own.
    pub(super) fn circuit_group(&self, circuit: usize) -> Option<SmolStr> {
        match self.circuits.scope {
            HealthScope::Api => None,
            HealthScope::Group => {
                let group = self.limits.groups.get(circuit);
                group.map(|group| group.name.clone())
            }
        }
    }

    /// Puts the rates into effect that health and evidence leave of the limits under a circuit.
    pub(super) fn retune(&mut self, circuit: usize, now: Nanos) {
        self.limits.unblock();
        let moment = self.clock.moment(now);
        let is_whole_api = self.circuits.scope == HealthScope::Api;
        let Self { circuits, limits, .. } = self;
        let health = &circuits.get(circuit).health;
        for (number, group) in (0_u32..).zip(&mut limits.groups) {
            if circuits.index_for(number) == circuit
                && let Some(limits) = group.used_limits()
            {
                limits.retune(moment, Some(health));
            }
        }
        // Limits that several circuits share follow none of them, only the evidence.
        limits.shared.retune(moment, is_whole_api.then_some(health));
    }

    pub(super) fn health_gauges(&mut self, circuit: usize, now: Nanos) -> HealthGauges {
        let snapshot = self.circuits.get_mut(circuit).health.snapshot(now);
        let rate = self.slowest_rate(circuit, now);
        let sleep = snapshot.until.filter(|_| snapshot.circuit == CircuitState::Open);
        HealthGauges {
            state: snapshot.state,
            streak: snapshot.streak,
            error_ppm: snapshot.counts.failure_ppm(),
            rate: rate.map_or(0.0, Rate::as_per_second),
            concurrency: self.circuits.get(circuit).health.concurrency(),
            sleep: sleep.map(|until| until.since(now)),
            retry_after: snapshot.cooling_until.map(|until| until.since(now)),
        }
    }

    /// Returns the slowest rate in effect for calls under a circuit.
    pub(super) fn slowest_rate(&mut self, circuit: usize, now: Nanos) -> Option<Rate> {
        let Self { circuits, limits, .. } = self;
        let health = &circuits.get(circuit).health;
        let groups = (0_u32..).zip(&mut limits.groups);
        let groups = groups.filter(|(number, _)| circuits.index_for(*number) == circuit);
        let own = groups.filter_map(|(_, group)| group.slowest_rate(now, health));
        limits::slowest_rate(own.chain(limits.shared.slowest_rate(now)))
    }

    pub(super) fn emit_meter_events(&mut self, group: u32) {
        if !self.effects.has_observers() {
            return;
        }
        let state = self.limits.group_mut(group);
        while let Some((limit, event)) = state.poll_event() {
            let group = Some(state.name.clone());
            self.effects.emit(EventKind::Meter { group, limit, event });
        }
        while let Some((limit, event)) = self.limits.shared.poll_event() {
            let group = None;
            self.effects.emit(EventKind::Meter { group, limit, event });
        }
    }

    /// Returns the names of a call's group and endpoint, for an event.
    pub(super) fn subject_names(&self, subject: CallSubject) -> (SmolStr, Option<SmolStr>) {
        let group = self.limits.group(subject.group).name.clone();
        (group, self.endpoints.name(subject.label.endpoint))
    }

    pub(super) fn emit_broken(&mut self, response: &ResponseInProgress, end: ReportedEnd, now: Nanos) {
        if self.effects.has_observers() {
            let (group, endpoint) = self.subject_names(response.subject);
            let broken = EventKind::Broken {
                group,
                endpoint,
                permit: response.id,
                attempt: end.attempt,
                effect: end.effect,
                vitals: self.gauges_at(response.circuit, end, now),
            };
            self.effects.emit_call(response.subject.label.trace, broken);
        }
    }

    /// Returns the gauges for the line of a bad end: the figures that counted it, and the wait that the server
    /// asked for with it.
    fn gauges_at(&mut self, circuit: usize, end: ReportedEnd, now: Nanos) -> HealthGauges {
        let mut gauges = self.health_gauges(circuit, now);
        if let Some(figures) = end.figures {
            (gauges.streak, gauges.error_ppm) = (figures.streak, figures.counts.failure_ppm());
        }
        gauges.retry_after = end.attempt.retry_after().or(gauges.retry_after);
        gauges
    }

    pub(super) fn emit_settled(&mut self, sent: SentAttempt, end: ReportedEnd, now: Nanos) {
        if !self.effects.has_observers() {
            return;
        }
        let answered = matches!(end.attempt.ended(), AttemptEnd::Status(_));
        let (group, endpoint) = self.subject_names(CallSubject {
            group: sent.group,
            label: sent.label,
        });
        let failed = !matches!(
            end.effect,
            OutcomeClass::Success | OutcomeClass::Neutral | OutcomeClass::Cancelled
        );
        let circuit = self.circuits.index_for(sent.group);
        let vitals = failed.then(|| self.gauges_at(circuit, end, now));
        let settled = EventKind::Settled {
            group,
            endpoint,
            permit: sent.id,
            attempt: end.attempt,
            effect: end.effect,
            round_trip: answered.then(|| now.since(sent.at)),
            vitals,
        };
        self.effects.emit_call(sent.label.trace, settled);
        self.emit_meter_events(sent.group);
    }
}
