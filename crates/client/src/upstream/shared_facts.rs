//! What processes with one account tell each other besides usage: waits that the API asked for, and
//! limits that evidence lowered.
//!
//! The server's word holds for every process with the same key, and after a restart. Trouble that a
//! process infers from failures stays its own: its network may be the cause. Facts are merged: a wait
//! grows to the later end, a limit falls to the lower rate. Spans are stored, never instants.

use std::time::Duration;

use outflow_core::{AdaptiveSnapshot, CountBy, MAX_FACT_WORDS, Nanos, Rate, SharedFacts, SharedWait, TransitionReason};

use super::limits::ScopeWait;
use super::permit_pool::PermitPool;
use super::state::AdmissionState;

/// One fact.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fact {
    /// The API asked a circuit to wait.
    CircuitWait { group: u64, left: Duration, is_ban: bool },
    /// The API said that a limit has nothing left.
    LimitWait { group: u64, left: Duration, rate: Rate },
    /// Evidence lowered a limit.
    Lowered {
        group: u64,
        measure: CountBy,
        window: u64,
        snapshot: AdaptiveSnapshot,
    },
}

impl PermitPool {
    /// Offers this process's facts to the others, after it learned a new one from the API.
    pub(super) fn offer_facts(&mut self, now: Nanos) {
        if self.leases.is_none() {
            return;
        }
        let facts = self.collect_facts(now);
        let lifetime = facts.iter().map(Fact::lifetime).max().unwrap_or_default();
        let mut words = vec![FORMAT];
        for fact in &facts {
            let before = words.len();
            fact.write(&mut words);
            if words.len() > MAX_FACT_WORDS {
                words.truncate(before);
            }
        }
        if let Some(lease) = self.limits.shared.lease_mut() {
            lease.offer_facts(words, lifetime);
        }
        self.effects.arm_timer(now);
    }

    fn collect_facts(&mut self, now: Nanos) -> Vec<Fact> {
        let mut facts = Vec::new();
        for circuit in self.circuits.indexes() {
            let group = self.circuit_group(circuit).map_or(WHOLE_API, |name| group_key(&name));
            let snapshot = self.circuits.get_mut(circuit).health.snapshot(now);
            if let Some(until) = snapshot.cooling_until {
                let is_ban = snapshot.reason == Some(TransitionReason::Banned);
                let left = until.since(now);
                facts.push(Fact::CircuitWait { group, left, is_ban });
            }
        }
        let groups = self.limits.groups.iter_mut();
        let groups = groups.filter_map(|group| {
            let key = group_key(&group.name);
            Some((key, group.used_limits()?))
        });
        let scopes = groups.chain([(WHOLE_API, &mut self.limits.shared)]);
        for (group, limits) in scopes {
            if let Some(wait) = limits.server_wait(now) {
                let left = wait.until.since(now);
                facts.extend(wait.limit.map(|rate| Fact::LimitWait { group, left, rate }));
            }
            let lowered = limits.lowered_limits(now);
            facts.extend(lowered.map(|(limit, snapshot)| Fact::Lowered {
                group,
                measure: limit.measure(),
                window: span_nanos(limit.rate().per()),
                snapshot,
            }));
        }
        facts
    }
}

impl AdmissionState {
    /// Takes over the facts of other processes, or those from before a restart.
    pub(super) fn apply_facts(&mut self, facts: &SharedFacts, now: Nanos) {
        let Some((&FORMAT, mut words)) = facts.words.split_first() else {
            return;
        };
        while let Some((fact, rest)) = Fact::read(words) {
            words = rest;
            if let Some(fact) = fact.aged(facts.age) {
                self.apply_fact(fact, now);
            }
        }
    }

    fn apply_fact(&mut self, fact: Fact, now: Nanos) {
        match fact {
            Fact::CircuitWait { group, left, is_ban } => {
                let until = now.saturating_add(left);
                for circuit in self.pool.circuits.indexes() {
                    let name = self.pool.circuit_group(circuit);
                    if name.map_or(WHOLE_API, |name| group_key(&name)) == group {
                        let health = &mut self.pool.circuits.get_mut(circuit).health;
                        let change = health.obey_shared(now, SharedWait { until, is_ban });
                        self.apply_change(circuit, change, now);
                    }
                }
            }
            Fact::LimitWait { group, left, rate } => {
                let until = now.saturating_add(left);
                let wait = ScopeWait {
                    until,
                    limit: Some(rate),
                };
                self.for_scope(group, now, |limits| limits.extend_wait(wait));
            }
            Fact::Lowered {
                group,
                measure,
                window,
                snapshot,
            } => {
                let mode = self.pool.settings.terms.adaptive;
                self.for_scope(group, now, |limits| {
                    limits.adopt_lower(now, (measure, Duration::from_nanos(window)), mode, &snapshot);
                });
                for circuit in self.pool.circuits.indexes() {
                    self.pool.retune(circuit, now);
                }
            }
        }
    }

    fn for_scope(&mut self, group: u64, now: Nanos, apply: impl FnOnce(&mut super::limits::ScopeLimits)) {
        if group == WHOLE_API {
            return apply(&mut self.pool.limits.shared);
        }
        let mut groups = (0_u32..).zip(&self.pool.limits.groups);
        let found = groups.find(|(_, state)| group_key(&state.name) == group);
        if let Some(number) = found.map(|(number, _)| number) {
            apply(self.pool.own(number, now));
        }
    }
}

impl Fact {
    /// Returns the time for which it is worth keeping.
    fn lifetime(&self) -> Duration {
        match self {
            Self::CircuitWait { left, .. } | Self::LimitWait { left, .. } => *left,
            Self::Lowered { .. } => LOWERED_LIFETIME,
        }
    }

    /// Returns what is left of it after this time.
    fn aged(self, age: Duration) -> Option<Self> {
        let remaining = |left: Duration| left.checked_sub(age).filter(|left| !left.is_zero());
        Some(match self {
            Self::CircuitWait { group, left, is_ban } => Self::CircuitWait {
                group,
                left: remaining(left)?,
                is_ban,
            },
            Self::LimitWait { group, left, rate } => Self::LimitWait {
                group,
                left: remaining(left)?,
                rate,
            },
            Self::Lowered {
                group,
                measure,
                window,
                snapshot,
            } => Self::Lowered {
                group,
                measure,
                window,
                snapshot: snapshot.aged(age),
            },
        })
    }

    fn write(&self, words: &mut Vec<u64>) {
        match self {
            Self::CircuitWait { group, left, is_ban } => {
                words.extend([CIRCUIT_WAIT, *group, span_nanos(*left), u64::from(*is_ban)]);
            }
            Self::LimitWait { group, left, rate } => {
                words.extend([LIMIT_WAIT, *group, span_nanos(*left)]);
                words.extend(rate_words(*rate));
            }
            Self::Lowered {
                group,
                measure,
                window,
                snapshot,
            } => {
                let measure = CountBy::ALL.iter().position(|one| one == measure).unwrap_or(0);
                words.extend([LOWERED, *group, u64::try_from(measure).unwrap_or(0), *window]);
                write_snapshot(words, snapshot);
            }
        }
    }

    /// Reads the first fact. Unknown words end the list: a later version may know more.
    fn read(words: &[u64]) -> Option<(Self, &[u64])> {
        match words {
            [CIRCUIT_WAIT, group, left, is_ban, rest @ ..] => {
                let fact = Self::CircuitWait {
                    group: *group,
                    left: Duration::from_nanos(*left),
                    is_ban: *is_ban != 0,
                };
                Some((fact, rest))
            }
            [LIMIT_WAIT, group, left, quantity, per, rest @ ..] => {
                let fact = Self::LimitWait {
                    group: *group,
                    left: Duration::from_nanos(*left),
                    rate: rate_of([*quantity, *per])?,
                };
                Some((fact, rest))
            }
            [LOWERED, group, measure, window, rest @ ..] => {
                let (snapshot, rest) = read_snapshot(rest)?;
                let fact = Self::Lowered {
                    group: *group,
                    measure: *CountBy::ALL.get(usize::try_from(*measure).ok()?)?,
                    window: *window,
                    snapshot,
                };
                Some((fact, rest))
            }
            _ => None,
        }
    }
}

fn write_snapshot(words: &mut Vec<u64>, snapshot: &AdaptiveSnapshot) {
    words.extend(rate_words(snapshot.configured));
    words.extend(halves(snapshot.level));
    words.extend(halves(snapshot.upper_bound.map_or(NOTHING_WIDE, |bound| bound)));
    words.extend(snapshot.advertised.map_or([0, 0], rate_words));
    words.push(span_nanos(snapshot.advertised_for));
    words.push(span_nanos(snapshot.held_for));
    words.push(snapshot.drifting_for.map_or(u64::MAX, span_nanos));
}

fn read_snapshot(words: &[u64]) -> Option<(AdaptiveSnapshot, &[u64])> {
    let (own, rest) = words.split_at_checked(SNAPSHOT_WORDS)?;
    let own: &[u64; SNAPSHOT_WORDS] = own.try_into().ok()?;
    let [
        quantity,
        per,
        level_low,
        level_high,
        bound_low,
        bound_high,
        ad_quantity,
        ad_per,
        ad_for,
        held_for,
        drifting,
    ] = *own;
    let bound = whole([bound_low, bound_high]);
    let snapshot = AdaptiveSnapshot {
        configured: rate_of([quantity, per])?,
        level: whole([level_low, level_high]),
        upper_bound: Some(bound).filter(|bound| *bound != NOTHING_WIDE),
        advertised: rate_of([ad_quantity, ad_per]),
        advertised_for: Duration::from_nanos(ad_for),
        held_for: Duration::from_nanos(held_for),
        drifting_for: Some(drifting)
            .filter(|nanos| *nanos != u64::MAX)
            .map(Duration::from_nanos),
    };
    Some((snapshot, rest))
}

fn rate_words(rate: Rate) -> [u64; 2] {
    [rate.quantity(), span_nanos(rate.per())]
}

fn rate_of([quantity, per]: [u64; 2]) -> Option<Rate> {
    Rate::new(quantity, Duration::from_nanos(per)).ok()
}

fn halves(wide: u128) -> [u64; 2] {
    let low = u64::try_from(wide & u128::from(u64::MAX)).unwrap_or(u64::MAX);
    let high = u64::try_from(wide >> 64).unwrap_or(u64::MAX);
    [low, high]
}

fn whole([low, high]: [u64; 2]) -> u128 {
    u128::from(low) | u128::from(high) << 64
}

fn span_nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the key of a group, equal in all processes.
fn group_key(name: &str) -> u64 {
    let hash = blake3::hash(name.as_bytes());
    let (first, _) = hash.as_bytes().split_first_chunk().unwrap_or((&[0; 8], &[]));
    u64::from_le_bytes(*first).max(WHOLE_API + 1)
}

/// Version of the words.
const FORMAT: u64 = 1;
const CIRCUIT_WAIT: u64 = 1;
const LIMIT_WAIT: u64 = 2;
const LOWERED: u64 = 3;
const SNAPSHOT_WORDS: usize = 11;
const NOTHING_WIDE: u128 = u128::MAX;
/// Key of an API as a whole.
const WHOLE_API: u64 = 0;
/// A day: a limit that is still too high shows itself within it.
const LOWERED_LIFETIME: Duration = Duration::from_hours(24);
