//! Circuits: the health of an API or group, its calls in flight, and the recovery after a cooldown.
//!
//! An API has one circuit, or one for each group if the rules say so.

mod slow_start;
mod throttled_paths;
mod transitions;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use outflow_core::{
    Accounting, ClockPair, Cost, Decision, Health, HealthConfig, HealthDecision, HealthState, HealthTicket,
    HealthTransition, Limit, Meter, Nanos,
};

use super::explain::{ConcurrencyRule, OverrideNote};
use super::group_slot;
use crate::rules::{HealthScope, Rules};
use slow_start::SlowStart;
pub(super) use throttled_paths::PathThrottle;
use throttled_paths::ThrottledPaths;

/// All circuits of an API.
#[derive(Debug)]
pub(super) struct Circuits {
    all: Vec<Circuit>,
    pub(super) scope: HealthScope,
    /// The highest `revoked_below` of all circuits, for permits to read without the lock.
    revoked_below: Arc<AtomicU64>,
    random: fastrand::Rng,
}

impl Circuits {
    pub(super) fn new(groups: usize, rules: &Rules, moment: ClockPair) -> Self {
        let count = match rules.health_scope {
            HealthScope::Api => 1,
            HealthScope::Group => groups,
        };
        Self {
            all: (0..count).map(|_| Circuit::new(rules, moment)).collect(),
            scope: rules.health_scope,
            revoked_below: Arc::default(),
            random: fastrand::Rng::new(),
        }
    }

    /// Gives a new group its circuit, which a former group of this number may have had.
    pub(super) fn add_group(&mut self, group: u32, rules: &Rules, moment: ClockPair) {
        if self.scope == HealthScope::Group {
            let circuit = Circuit::new(rules, moment);
            match self.all.get_mut(group_slot(group)) {
                Some(slot) => *slot = circuit,
                None => self.all.push(circuit),
            }
        }
    }

    pub(super) fn indexes(&self) -> std::ops::Range<usize> {
        0..self.all.len()
    }

    /// Returns the index of a group's circuit.
    #[inline]
    pub(super) fn index_for(&self, group: u32) -> usize {
        circuit_index(self.scope, group)
    }

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "this state assigned the circuit's index")]
    pub(super) fn get(&self, circuit: usize) -> &Circuit {
        &self.all[circuit]
    }

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "this state assigned the circuit's index")]
    pub(super) fn get_mut(&mut self, circuit: usize) -> &mut Circuit {
        &mut self.all[circuit]
    }

    pub(super) fn get_for(&mut self, group: u32) -> &mut Circuit {
        self.get_mut(self.index_for(group))
    }

    pub(super) fn entropy(&mut self) -> u64 {
        self.random.u64(..)
    }

    /// Returns true if no call is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.all.iter().all(|circuit| circuit.in_flight == 0)
    }

    /// Returns true if the timer of this circuit's health is due.
    #[inline]
    pub(super) fn is_due(&self, circuit: usize, now: Nanos) -> bool {
        let due = self.get(circuit).health.next_wakeup();
        due.is_some_and(|due| due <= now)
    }

    /// Serves the due timer of a circuit's health.
    fn wake(&mut self, circuit: usize, now: Nanos) -> Option<HealthTransition> {
        let entropy = self.entropy();
        self.get_mut(circuit).health.wake(now, entropy)
    }

    /// Starts a cooldown: no call starts before `until`, and then one after the other.
    fn cool(&mut self, circuit: usize, until: Nanos) {
        let entropy = self.entropy();
        self.get_mut(circuit).cool(until, entropy);
    }

    /// Delays the next start after a cooldown by a random part of the remaining recovery.
    pub(super) fn space_starts(&mut self, circuit: usize, waiting: usize, now: Nanos) {
        if self.get(circuit).is_recovering(now) {
            let (entropy, waiting) = (self.entropy(), u64::try_from(waiting).unwrap_or(u64::MAX));
            self.get_mut(circuit).space_starts(now, waiting, entropy);
        }
    }

    /// Revokes the unsent permits of a circuit, all of which have numbers below `permit`.
    fn revoke(&mut self, circuit: usize, permit: u64) {
        self.get_mut(circuit).revoked_below = permit;
        self.revoked_below.fetch_max(permit, Ordering::Release);
    }

    pub(super) fn is_revoked(&self, circuit: usize, permit: u64) -> bool {
        permit < self.get(circuit).revoked_below
    }

    /// Returns the number below which permits may be revoked, as it changes.
    pub(super) fn revoked_below(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.revoked_below)
    }
}

/// Returns the index of a group's circuit: with one circuit per group, they share their numbers.
#[inline]
pub(super) fn circuit_index(scope: HealthScope, group: u32) -> usize {
    match scope {
        HealthScope::Api => 0,
        HealthScope::Group => group_slot(group),
    }
}

/// One health and the calls in flight under it.
#[derive(Debug)]
pub(super) struct Circuit {
    pub(super) health: Health,
    pub(super) in_flight: u32,
    /// Permits below this number are revoked unless they were sent.
    revoked_below: u64,
    recovery: Recovery,
    pub(super) slow_start: SlowStart,
    pub(super) throttled_paths: ThrottledPaths,
    /// Sending of the last call that succeeded.
    pub(super) last_served: Option<Nanos>,
    /// The author of the last override.
    pub(super) note: OverrideNote,
    /// Probes may have a rate of their own, even where nothing else is limited.
    probes: Option<Meter>,
}

/// Spaced starts after a cooldown.
#[derive(Clone, Copy, Debug, Default)]
struct Recovery {
    next: Nanos,
    end: Nanos,
}

/// A ramp of seconds; that of a cautious profile takes 40 minutes.
const SHORT_RAMP: Duration = Duration::from_secs(30);

impl Circuit {
    fn new(rules: &Rules, moment: ClockPair) -> Self {
        let config = &rules.health;
        let mut health = Health::new(*config, moment.now);
        health.set_limits(rules.limit_context());
        Self {
            slow_start: SlowStart::from_rules(rules),
            note: OverrideNote::default(),
            health,
            probes: probe_limit(config).map(|limit| Meter::new(&limit, moment)),
            in_flight: 0,
            throttled_paths: ThrottledPaths::default(),
            last_served: None,
            revoked_below: 0,
            recovery: Recovery::default(),
        }
    }

    /// Returns true while a ramp ends so soon that the calls ahead of a new one see the full rate.
    pub(super) fn is_ramping(&self, now: Nanos) -> bool {
        self.health.ramp_end().is_some_and(|end| end.since(now) <= SHORT_RAMP)
    }

    /// Continues in its state under another configuration.
    pub(super) fn reconfigure(&mut self, rules: &Rules, moment: ClockPair) {
        self.health.set_limits(rules.limit_context());
        let config = &rules.health;
        if self.health.config() == config {
            return;
        }
        self.health.configure(moment.now, *config);
        self.probes = match (self.probes.take(), probe_limit(config)) {
            (Some(mut probes), Some(limit)) => {
                probes.reconfigure(moment, &limit);
                Some(probes)
            }
            (_, limit) => limit.map(|limit| Meter::new(&limit, moment)),
        };
    }

    /// Decides whether health, cooldown and concurrency allow one more call.
    #[inline]
    pub(super) fn check(&mut self, now: Nanos) -> Result<HealthTicket, BlockReason> {
        match self.health.admission(now) {
            HealthDecision::Go(ticket) if ticket.is_probe() => self.check_probe(now, ticket),
            HealthDecision::Go(ticket) if now < self.recovery.next => {
                self.health.abandon(now, ticket);
                Err(BlockReason::Cooling {
                    until: self.recovery.next,
                })
            }
            HealthDecision::Go(ticket) if self.in_flight >= self.health.concurrency() => {
                self.health.abandon(now, ticket);
                Err(BlockReason::Full {
                    max: self.health.concurrency(),
                    rule: self.concurrency_rule(),
                    until: Nanos::MAX,
                })
            }
            HealthDecision::Go(ticket) if self.in_flight >= self.slow_start.max_in_flight(now) => {
                self.health.abandon(now, ticket);
                Err(BlockReason::Full {
                    max: self.slow_start.max_in_flight(now),
                    rule: ConcurrencyRule::SlowStart,
                    until: self.slow_start.ends,
                })
            }
            HealthDecision::Go(ticket) => Ok(ticket),
            HealthDecision::Cooling { until } => Err(BlockReason::Cooling {
                until: until.max(self.recovery.next),
            }),
            HealthDecision::Blocked {
                state: HealthState::HalfOpen,
                until,
            } => Err(BlockReason::Probing { until }),
            HealthDecision::Blocked { state, until } => Err(BlockReason::Asleep { state, until }),
            HealthDecision::Overdue => Err(BlockReason::Overdue),
        }
    }

    fn concurrency_rule(&self) -> ConcurrencyRule {
        match self.health.state() {
            HealthState::Throttle => ConcurrencyRule::Throttle,
            _ => ConcurrencyRule::Setting,
        }
    }

    fn check_probe(&mut self, now: Nanos, ticket: HealthTicket) -> Result<HealthTicket, BlockReason> {
        match self.probes.as_mut().map(|probes| probes.check(now, Cost::ONE)) {
            Some(Decision::WaitUntil(at)) => {
                self.health.abandon(now, ticket);
                Err(BlockReason::Probing { until: Some(at) })
            }
            Some(Decision::Allow(()) | Decision::Never) | None => Ok(ticket),
        }
    }

    /// Counts a call that starts now.
    #[inline]
    pub(super) fn start(&mut self, now: Nanos, ticket: &HealthTicket) {
        self.in_flight += 1;
        self.slow_start.start(now);
        if ticket.is_probe()
            && let Some(probes) = &mut self.probes
        {
            // `check` allowed it under the same lock.
            let _receipt = probes.take(now, Cost::ONE);
        }
    }

    /// Counts a call that started at `from` from its sending. A probe counts when it is sent, even if
    /// other probes used up the rate in between.
    pub(super) fn restart(&mut self, ticket: &HealthTicket, from: Nanos, now: Nanos) {
        let Some(probes) = self.probes.as_mut().filter(|_| ticket.is_probe()) else {
            return;
        };
        probes.refund_at(now, from, Cost::ONE);
        if !matches!(probes.take(now, Cost::ONE), Decision::Allow(_)) {
            probes.charge(now, Cost::ONE.units());
        }
    }

    /// Undoes the start of a call that was granted at `granted` and never sent.
    pub(super) fn undo_start(&mut self, now: Nanos, ticket: HealthTicket, granted: Nanos) {
        self.end_call();
        if let Some(probes) = self.probes.as_mut().filter(|_| ticket.is_probe()) {
            probes.refund_at(now, granted, Cost::ONE);
        }
        self.health.abandon(now, ticket);
    }

    pub(super) fn end_call(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    fn cool(&mut self, until: Nanos, entropy: u64) {
        let end = until.saturating_add(self.health.config().settings().release_jitter);
        if end <= self.recovery.end {
            return;
        }
        self.recovery = Recovery { next: until, end };
        self.space_starts(until, BEHIND_THE_FIRST, entropy);
    }

    /// Restarts the slow start after a limit was lowered: the new limit is unproven.
    pub(super) fn restart_slowly(&mut self, now: Nanos) {
        self.slow_start.restart(self.recovery.next.max(now));
    }

    fn is_recovering(&self, now: Nanos) -> bool {
        now < self.recovery.end
    }

    fn space_starts(&mut self, from: Nanos, waiting: u64, entropy: u64) {
        let left = u64::try_from(self.recovery.end.since(from).as_nanos()).unwrap_or(u64::MAX);
        let max = (left / waiting.max(1)).saturating_mul(2).min(left);
        let gap = if max == 0 { 0 } else { entropy % max };
        self.recovery.next = from.saturating_add(Duration::from_nanos(gap));
    }
}

fn probe_limit(config: &HealthConfig) -> Option<Limit> {
    let rate = config.settings().probe_rate;
    rate.map(|rate| Limit::sliding(rate).counted(Accounting::Send))
}

/// Reason why a circuit allows no start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BlockReason {
    /// The API asked for a cooldown, or recovery from one spaces the starts.
    Cooling { until: Nanos },
    /// The health state allows no call.
    Asleep { state: HealthState, until: Option<Nanos> },
    /// All probes are in flight.
    Probing { until: Option<Nanos> },
    /// The allowed number of calls is in flight, until this instant at least.
    Full {
        max: u32,
        rule: ConcurrencyRule,
        until: Nanos,
    },
    /// A timer is due and was not served.
    Overdue,
}

impl BlockReason {
    /// Returns the instant at which the circuit opens by itself. A probe in flight has none.
    pub(super) const fn opens_at(self) -> Option<Nanos> {
        match self {
            Self::Cooling { until } => Some(until),
            Self::Asleep { until, .. } => until,
            Self::Probing { .. } | Self::Full { .. } | Self::Overdue => None,
        }
    }
}

/// Assumed number of waiters when a cooldown ends: the first call starts within an eighth of the
/// recovery and leaves the rest to those behind it. A uniform draw could take the last instant, and all
/// others would follow at once.
const BEHIND_THE_FIRST: u64 = 16;
