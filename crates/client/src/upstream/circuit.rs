//! What falls ill together: a state of health, what is in flight under it, and how callers are let
//! back after the server asked all of them to wait.
//!
//! Usually one for the whole API; one for each group where the rules say so.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use outflow_core::{
    Accounting, ClockPair, Cost, Decision, Health, HealthConfig, HealthDecision, HealthState,
    HealthTicket, Limit, Meter, Nanos,
};

use super::slow_start::SlowStart;
use crate::rules::Rules;

/// One state of health and those under it.
#[derive(Debug)]
pub(super) struct Circuit {
    pub(super) health: Health,
    pub(super) in_flight: u32,
    pub(super) waiting: usize,
    /// Permits below this number were given before nobody was to go any more.
    pub(super) called_off: u64,
    /// When those who wait must have gone, earliest first; some have gone already.
    deadlines: BinaryHeap<Reverse<(Nanos, u64, usize)>>,
    release: Recovery,
    pub(super) caution: SlowStart,
    /// Probes keep to a rate of their own, also where nothing else is limited.
    probes: Meter,
}

/// How callers are let back after a wait that the server asked for: one after the other.
#[derive(Clone, Copy, Debug)]
struct Recovery {
    next: Nanos,
    end: Nanos,
}

impl Circuit {
    pub(super) fn new(rules: &Rules, moment: ClockPair) -> Self {
        let config = &rules.health;
        Self {
            caution: SlowStart::with(rules),
            health: Health::new(*config, moment.now),
            probes: Meter::new(&probing(config), moment),
            in_flight: 0,
            waiting: 0,
            called_off: 0,
            deadlines: BinaryHeap::new(),
            release: Recovery {
                next: Nanos::ZERO,
                end: Nanos::ZERO,
            },
        }
    }

    /// Goes on with other variables, in the state that it is in.
    pub(super) fn configure(&mut self, config: &HealthConfig, moment: ClockPair) {
        if self.health.config() != config {
            self.health.configure(moment.now, *config);
            self.probes.reconfigure(moment, &probing(config));
        }
    }

    /// Whether one more may go, as far as health and concurrency say.
    #[inline]
    pub(super) fn admission(&mut self, now: Nanos) -> Result<HealthTicket, BlockReason> {
        match self.health.admission(now) {
            HealthDecision::Go(ticket) if ticket.is_probe() => self.probing(now, ticket),
            HealthDecision::Go(ticket) if now < self.release.next => {
                self.health.abandon(now, ticket);
                Err(BlockReason::Cooling {
                    until: self.release.next,
                })
            }
            HealthDecision::Go(ticket) if self.in_flight >= self.health.concurrency() => {
                self.health.abandon(now, ticket);
                Err(BlockReason::Full {
                    most: self.health.concurrency(),
                    until: Nanos::MAX,
                })
            }
            HealthDecision::Go(ticket) if self.in_flight >= self.caution.max_in_flight(now) => {
                self.health.abandon(now, ticket);
                Err(BlockReason::Full {
                    most: self.caution.max_in_flight(now),
                    until: self.caution.ends,
                })
            }
            HealthDecision::Go(ticket) => Ok(ticket),
            HealthDecision::Cooling { until } => Err(BlockReason::Cooling {
                until: until.max(self.release.next),
            }),
            HealthDecision::Blocked {
                state: HealthState::HalfOpen,
                until,
            } => Err(BlockReason::Probing { until }),
            HealthDecision::Blocked { state, until } => Err(BlockReason::Asleep { state, until }),
            HealthDecision::Overdue => Err(BlockReason::Overdue),
        }
    }

    fn probing(&mut self, now: Nanos, ticket: HealthTicket) -> Result<HealthTicket, BlockReason> {
        match self.probes.check(now, Cost::ONE) {
            Decision::WaitUntil(at) => {
                self.health.abandon(now, ticket);
                Err(BlockReason::Probing { until: Some(at) })
            }
            Decision::Allow(()) | Decision::Never => Ok(ticket),
        }
    }

    /// One more is in flight.
    #[inline]
    pub(super) fn sets_out(&mut self, now: Nanos, ticket: &HealthTicket) {
        self.in_flight += 1;
        self.caution.sets_out(now);
        if ticket.is_probe() {
            // It was checked a moment ago, under the same lock.
            let _receipt = self.probes.take(now, Cost::ONE);
        }
    }

    /// One that set out at `from` is only sent now. A probe counts when it is sent, even where so many
    /// others have set out meanwhile that there is no room for it.
    pub(super) fn sets_out_again(&mut self, ticket: &HealthTicket, from: Nanos, now: Nanos) {
        if !ticket.is_probe() {
            return;
        }
        self.probes.refund_at(from, Cost::ONE);
        if !matches!(self.probes.take(now, Cost::ONE), Decision::Allow(_)) {
            self.probes.charge(now, Cost::ONE.units());
        }
    }

    /// One that was to set out at `granted` never did.
    pub(super) fn stays(&mut self, now: Nanos, ticket: HealthTicket, granted: Nanos) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if ticket.is_probe() {
            self.probes.refund_at(granted, Cost::ONE);
        }
        self.health.abandon(now, ticket);
    }

    /// Nobody goes before `until`, and then one after the other.
    pub(super) fn cool(&mut self, until: Nanos, entropy: u64) {
        let end = until.saturating_add(self.health.config().settings().release_jitter);
        if end <= self.release.end {
            return;
        }
        self.release = Recovery { next: until, end };
        self.space_out(until, BEHIND_THE_FIRST, entropy);
    }

    /// A limit was lowered: whether far enough is tried with care, once callers are let back.
    pub(super) fn lowered(&mut self, now: Nanos) {
        self.caution.begin_again(self.release.next.max(now));
    }

    /// Whether callers are being let back one after the other.
    #[inline]
    pub(super) fn is_releasing(&self, now: Nanos) -> bool {
        now < self.release.end
    }

    /// One has gone: the next of those who wait follows after a random part of the time that is left.
    pub(super) fn gone(&mut self, now: Nanos, entropy: u64) {
        let crowd = u64::try_from(self.waiting).unwrap_or(u64::MAX);
        self.space_out(now, crowd, entropy);
    }

    fn space_out(&mut self, from: Nanos, crowd: u64, entropy: u64) {
        let left = u64::try_from(self.release.end.since(from).as_nanos()).unwrap_or(u64::MAX);
        let most = (left / crowd.max(1)).saturating_mul(2).min(left);
        let gap = if most == 0 { 0 } else { entropy % most };
        self.release.next = from.saturating_add(Duration::from_nanos(gap));
    }

    pub(super) fn expect_by(&mut self, deadline: Nanos, number: u64, key: usize) {
        if deadline < Nanos::MAX {
            self.deadlines.push(Reverse((deadline, number, key)));
        }
    }

    pub(super) fn first_deadline(&self) -> Nanos {
        self.deadlines
            .peek()
            .map_or(Nanos::MAX, |Reverse((at, ..))| *at)
    }

    /// The next whose deadline is before `end`, if any is left.
    pub(super) fn late(&mut self, end: Nanos) -> Option<(u64, usize)> {
        if self.first_deadline() >= end {
            return None;
        }
        self.deadlines
            .pop()
            .map(|Reverse((_, number, key))| (number, key))
    }

    /// Forgets deadlines of those who have gone, once they are most of what is kept.
    pub(super) fn tidy_deadlines(&mut self, waits: impl Fn(u64, usize) -> bool) {
        if self.deadlines.len() > FEW && self.deadlines.len() / 2 > self.waiting {
            self.deadlines
                .retain(|Reverse((_, number, key))| waits(*number, *key));
        }
    }

    /// What is kept on the heap, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.deadlines.capacity() * size_of::<Reverse<(Nanos, u64, usize)>>()
    }

    /// Gives unused memory back.
    pub(super) fn tidy(&mut self) {
        self.deadlines.shrink_to_fit();
    }

    /// When something is due that nobody asks for.
    pub(super) fn next_wakeup(&self) -> Nanos {
        let health = self.health.next_wakeup().unwrap_or(Nanos::MAX);
        health.min(self.first_deadline())
    }
}

fn probing(config: &HealthConfig) -> Limit {
    Limit::sliding(config.settings().probe_rate).counted(Accounting::Send)
}

/// Why a ward lets nobody go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BlockReason {
    /// The server asked to wait, or others are being let back.
    Cooling { until: Nanos },
    /// The state lets nothing go.
    Asleep {
        state: HealthState,
        until: Option<Nanos>,
    },
    /// All probes are out.
    Probing { until: Option<Nanos> },
    /// As many as may be are in flight, and no more may be before this instant.
    Full { most: u32, until: Nanos },
    /// A timer is due that nobody served.
    Overdue,
}

impl BlockReason {
    /// When it opens by itself, if that is known. A probe that is out comes back when it likes.
    pub(super) const fn opens(self) -> Option<Nanos> {
        match self {
            Self::Cooling { until } => Some(until),
            Self::Asleep { until, .. } => until,
            Self::Probing { .. } | Self::Full { .. } | Self::Overdue => None,
        }
    }
}

/// As if so many waited when the first is let back, whoever comes until then: it goes within an eighth
/// of the time, and those behind it have the rest. A first one that took any instant would now and
/// then take the last, and all others would follow at once.
const BEHIND_THE_FIRST: u64 = 16;

/// Below this many, keeping a deadline too long costs nothing.
const FEW: usize = 64;
