//! One shared count of the limits of one scope, for several processes.
//!
//! Each process is a holder: it leases units, sends calls with them and reports their arrivals. A
//! lease is a call in flight of a whole process: its units count from the grant until one window
//! after their arrival, and units of a dead holder arrive at the last possible moment. Counting at
//! the grant instead would forget a call that is sent late. Only ages travel, so clocks may differ.
//!
//! [`Account::renew`] is the only operation, and repeating it changes nothing. An account has no
//! file, no lock and no clock; its numbers can be stored as [words](Account::to_words).

mod account_words;
mod arrival_ring;
mod counted_limit;
mod fair_order;
mod holder;
mod ledger;
mod quota_lease;
mod renewal;
mod stored_facts;

use alloc::vec::Vec;
use core::time::Duration;

pub use account_words::InvalidAccount;
use counted_limit::{ArrivalHistory, CountedLimit, LimitRule};
use fair_order::FairBounds;
use holder::Holder;
pub use ledger::{FactsObserver, LeaseRequest, LedgerError, LedgerTerms, QuotaLedger, RenewalReply};
pub use quota_lease::{LeaseMark, LeaseTerms, QuotaLease};
pub use renewal::{
    CallArrivals, FactUpdate, LeaseAnswer, LeaseRenewal, LeaseUnits, LimitUsage, QuotaWant, RenewalRefusal, SharedFacts,
};
pub use stored_facts::MAX_FACT_WORDS;
use stored_facts::StoredFacts;

use crate::time::span_nanos;
use crate::{ClockPair, Nanos};

/// Shared count of one scope's limits, with its holders.
///
/// ```
/// use core::time::Duration;
/// use outflow_core::{Account, CallArrivals, ClockPair, LeaseRenewal, LeaseUnits, Limit, Nanos, QuotaWant};
///
/// let limits = [Limit::sliding("10/s".parse()?)];
/// let mut account = Account::new(ClockPair::default());
/// let first = LeaseRenewal {
///     holder: 1,
///     number: 1,
///     joined: 0,
///     limits: &limits,
///     arrived: &[],
///     returned: LeaseUnits::ZERO,
///     wanted: QuotaWant::calls(8),
///     ttl: Duration::from_secs(2),
///     timeout: Duration::from_secs(10),
///     facts_seen: 0,
///     facts: None,
/// };
/// let leased = account.renew(Nanos::ZERO, &first)?;
/// assert_eq!(leased.granted.calls, 8);
///
/// let other = LeaseRenewal { holder: 2, ..first };
/// let answer = account.renew(Nanos::ZERO, &other)?;
/// assert_eq!((answer.granted.calls, answer.peers), (2, 1), "eight are held");
///
/// // The first holder sent three, which arrived 5 ms ago, and returns the others.
/// let arrived = CallArrivals {
///     units: LeaseUnits::new(3, 3),
///     ages: [Duration::from_millis(5); outflow_core::MAX_LIMITS],
/// };
/// let second = LeaseRenewal {
///     number: 2,
///     joined: leased.joined,
///     arrived: &[arrived],
///     returned: LeaseUnits::new(5, 5),
///     wanted: QuotaWant::calls(0),
///     ..first
/// };
/// let answer = account.renew(Nanos::from_millis(20), &second)?;
/// assert_eq!((answer.limits[0].arrived, answer.limits[0].held), (3, 2));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    latest: u64,
    /// Civil time minus the account's.
    wall_offset: u64,
    /// Place from which new holders start in the fair order.
    fair_clock: u64,
    /// Number of holders that ever joined.
    joins: u64,
    /// Arrivals before this time are unknown; 0 if all are known.
    unknown_before: u64,
    limits: Vec<CountedLimit>,
    holders: Vec<Holder>,
    facts: StoredFacts,
}

impl Account {
    /// Builds an unused account. `moment` places UTC windows on its timeline.
    pub fn new(moment: ClockPair) -> Self {
        Self {
            latest: moment.now.as_nanos(),
            wall_offset: wall_offset(moment),
            fair_clock: 0,
            joins: 0,
            unknown_before: 0,
            limits: Vec::new(),
            holders: Vec::new(),
            facts: StoredFacts::default(),
        }
    }

    /// Builds an account whose history was lost: each limit starts full, and opens one window later.
    pub fn with_unknown_history(moment: ClockPair) -> Self {
        Self {
            unknown_before: moment.now.as_nanos().max(1),
            ..Self::new(moment)
        }
    }

    /// Counts, on each limit, the units that it allows in this time, and no more than its capacity. For a
    /// copy that lacks the last moments before a crash.
    pub fn charge_lost_time(&mut self, lost: Duration) {
        let latest = self.latest;
        for limit in &mut self.limits {
            let units = limit.rule.units_in(span_nanos(lost)).saturating_add(1);
            limit.count(latest, units.min(limit.rule.capacity));
        }
    }

    /// Counts, on each limit, what one lease may hold. For a copy that lacks the last renewal.
    pub fn charge_lost_grant(&mut self) {
        let latest = self.latest;
        for limit in &mut self.limits {
            limit.count(latest, limit.rule.capacity.div_ceil(quota_lease::LARGEST_PART));
        }
    }

    /// Makes each limit full, because arrivals of the last window may be unknown. It opens one window later.
    pub fn lose_history(&mut self) {
        let latest = self.latest;
        self.unknown_before = latest.max(1);
        for limit in &mut self.limits {
            let missing = limit.rule.capacity.saturating_sub(limit.arrived(latest));
            limit.count(latest, missing);
        }
    }

    /// Forgets all arrivals, so that every limit is open but for the units that holders have.
    pub fn forget_arrivals(&mut self) {
        self.unknown_before = 0;
        for limit in &mut self.limits {
            limit.history = CountedLimit::new(limit.rule).history;
            limit.advance(self.latest, self.wall_offset);
        }
    }

    /// Returns the latest time it has seen.
    pub const fn latest(&self) -> Nanos {
        Nanos::from_nanos(self.latest)
    }

    /// Returns the generation of the shared facts: it grows with each update.
    pub const fn facts_generation(&self) -> u64 {
        self.facts.generation
    }

    /// Returns true if something of it counts for longer than this.
    pub fn remembers_beyond(&self, span: Duration) -> bool {
        let span = span_nanos(span);
        let has_facts = !self.facts.words.is_empty() && self.facts.until.saturating_sub(self.latest) > span;
        let is_long = |limit: &CountedLimit| limit.rule.key.window > span && limit.arrived(self.latest) > 0;
        let holds = || self.held() != LeaseUnits::ZERO && self.limits.iter().any(|limit| limit.rule.key.window > span);
        has_facts || self.limits.iter().any(is_long) || holds()
    }

    /// Returns every limit that counts, with its usage by all holders.
    pub fn usage(&self) -> Vec<LimitUsage> {
        let held = self.held();
        self.limits
            .iter()
            .filter_map(|limit| self.usage_of(limit, held))
            .collect()
    }

    /// Returns the units that each holder holds.
    pub fn leases(&self) -> Vec<LeaseUnits> {
        self.holders.iter().map(|holder| holder.held).collect()
    }

    /// Returns true if nothing of it counts any more, so that a new account would be the same.
    pub fn is_unused(&mut self, now: Nanos) -> bool {
        self.advance(now);
        let latest = self.latest;
        self.holders.is_empty()
            && self.facts.words.is_empty()
            && self.limits.iter().all(|limit| limit.arrived(latest) == 0)
    }

    /// Places UTC windows again if the civil clock was set meanwhile.
    pub fn follow_wall(&mut self, moment: ClockPair) {
        if wall_offset(moment).abs_diff(self.wall_offset) > WALL_DRIFT {
            self.realign(moment);
        }
    }

    /// Places UTC windows again after the civil clock was set. Their usage stays until the next edge.
    pub fn realign(&mut self, moment: ClockPair) {
        self.advance(moment.now);
        self.wall_offset = wall_offset(moment);
        for limit in &mut self.limits {
            limit.realign(self.latest, self.wall_offset);
        }
    }

    /// Counts what a holder reports and grants what it wants, as far as every limit has room.
    ///
    /// A repeated number gets the same grant and changes nothing. Time may step backwards: the
    /// account stays at the latest time it has seen.
    ///
    /// # Errors
    /// If the holder is unknown, and this is not its first renewal, or if a later renewal was
    /// answered already.
    pub fn renew(&mut self, now: Nanos, renewal: &LeaseRenewal<'_>) -> Result<LeaseAnswer, RenewalRefusal> {
        self.advance(now);
        let known = self.holders.iter().find(|holder| holder.id == renewal.holder);
        // A number is missing if the account is an older copy: what it reported and was granted is unknown.
        let is_next = |holder: &Holder| renewal.joined == holder.joined && renewal.number == holder.number + 1;
        if known.is_some_and(|holder| renewal.number > holder.number && !is_next(holder)) {
            return Err(RenewalRefusal::UnknownHolder);
        }
        match known.map(|holder| renewal.number.cmp(&holder.number)) {
            Some(core::cmp::Ordering::Less) => return Err(RenewalRefusal::OldNumber),
            None if renewal.number != FIRST_NUMBER => return Err(RenewalRefusal::UnknownHolder),
            Some(core::cmp::Ordering::Equal) => {}
            Some(core::cmp::Ordering::Greater) | None => self.apply(renewal),
        }
        Ok(self.answer(renewal.holder, renewal.facts_seen))
    }

    fn apply(&mut self, renewal: &LeaseRenewal<'_>) {
        let place = self.holders.iter().position(|holder| holder.id == renewal.holder);
        let mut holder = if let Some(place) = place {
            self.holders.swap_remove(place)
        } else {
            self.joins += 1;
            Holder::new(renewal.holder, self.joins, self.fair_clock)
        };
        holder.begin(renewal, self.latest);
        if let Some(facts) = &renewal.facts {
            self.facts.update(facts, self.latest);
        }
        self.holders.push(holder.clone());
        self.refresh_limits();
        self.holders.pop();
        for arrivals in renewal.arrived {
            self.count(&holder, arrivals);
            holder.held = holder.held.minus(arrivals.units);
        }
        let returned = renewal.returned.at_most(holder.held);
        holder.held = holder.held.minus(returned);
        holder.tag = holder.tag.saturating_sub(self.time_of(returned));
        if holder.held == LeaseUnits::ZERO {
            holder.deadline = self.latest.saturating_add(span_nanos(renewal.ttl));
        }
        self.grant(&mut holder);
        self.holders.push(holder);
    }

    fn count(&mut self, holder: &Holder, arrivals: &CallArrivals) {
        for limit in &mut self.limits {
            let at = self.latest.saturating_sub(holder.age_of(arrivals, &limit.rule));
            limit.count(at, limit.rule.units(arrivals.units));
        }
    }

    /// Grants what fits; the holder is not among the others at this moment.
    fn grant(&mut self, holder: &mut Holder) {
        (holder.granted, holder.wait, holder.due) = (LeaseUnits::ZERO, None, 0);
        if holder.wanted.is_none() {
            return;
        }
        let quantum = self.quantum();
        holder.tag = fair_order::resumed_tag(holder.tag, self.fair_clock, quantum);
        let bounds = FairBounds::new(holder, &self.holders, self.latest, quantum, self.units_in(quantum));
        let most = match bounds.allowance {
            None => LeaseUnits::MAX,
            Some(0) => LeaseUnits::ZERO,
            Some(nanos) => self.units_in(nanos).at_least(holder.wanted.least()),
        };
        let held = self.held().plus(holder.held);
        let granted = holder
            .wanted
            .part_within(self.room(held).minus(bounds.ahead).at_most(most));
        if granted != LeaseUnits::ZERO {
            self.fair_clock = self.fair_clock.max(bounds.smallest);
            holder.tag = holder.tag.saturating_add(self.time_of(granted));
            holder.held = holder.held.plus(granted);
        }
        holder.granted = granted;
        holder.wanted = holder.wanted.after(granted);
        if !holder.wanted.is_none() {
            let wait = self.wait_for(held.plus(granted).plus(bounds.ahead), holder.wanted.least());
            holder.wait = Some(wait);
            holder.due = self.latest.saturating_add(span_nanos(wait));
        }
    }

    /// Returns the time until `least` fits beside the arrivals and all that is held or reserved.
    fn wait_for(&self, taken: LeaseUnits, least: LeaseUnits) -> Duration {
        let mut at = self.latest.saturating_add(span_nanos(LEAST_WAIT));
        for CountedLimit { rule, .. } in self.in_force() {
            if rule.units(least) > rule.capacity {
                return Duration::MAX;
            }
        }
        for limit in self.in_force() {
            let free_at = limit.time_for(self.latest, limit.rule.units(taken.plus(least)));
            // Held units may be returned at any moment, so nothing better is known.
            let poll = Duration::from_nanos(limit.rule.key.window / POLLS).clamp(LEAST_WAIT, LONGEST_POLL);
            at = at.max(free_at.unwrap_or_else(|| self.latest.saturating_add(span_nanos(poll))));
        }
        Duration::from_nanos(at - self.latest)
    }

    fn answer(&self, id: u64, facts_seen: u64) -> LeaseAnswer {
        let held = self.held();
        let holder = self.holders.iter().find(|holder| holder.id == id);
        let others = self.holders.iter().filter(|holder| holder.id != id);
        LeaseAnswer {
            joined: holder.map_or(0, |holder| holder.joined),
            granted: holder.map(|holder| holder.granted).unwrap_or_default(),
            wait: holder.and_then(|holder| holder.wait),
            peers: others.filter(|holder| holder.is_active()).count(),
            limits: self.in_force().filter_map(|limit| self.usage_of(limit, held)).collect(),
            facts: self.facts.unseen(facts_seen, self.latest),
        }
    }

    fn usage_of(&self, limit: &CountedLimit, held: LeaseUnits) -> Option<LimitUsage> {
        Some(LimitUsage {
            kind: limit.rule.kind(),
            measure: limit.rule.key.measure,
            rate: limit.rule.rate()?,
            arrived: limit.arrived(self.latest),
            held: limit.rule.units(held),
        })
    }

    /// Moves to `now`. Units of holders that can no longer send arrive at their last moment.
    fn advance(&mut self, now: Nanos) {
        self.latest = self.latest.max(now.as_nanos());
        let (latest, wall_offset) = (self.latest, self.wall_offset);
        self.facts.advance(latest);
        for limit in &mut self.limits {
            limit.advance(latest, wall_offset);
        }
        let mut gone: Vec<_> = self.holders.iter().filter(|holder| holder.is_gone(latest)).collect();
        gone.sort_unstable_by_key(|holder| (holder.last_arrival(), holder.id));
        for holder in gone {
            for limit in &mut self.limits {
                limit.count(holder.last_arrival(), limit.rule.units(holder.held));
            }
        }
        let before = self.holders.len();
        self.holders.retain(|holder| !holder.is_gone(latest));
        if self.holders.len() < before {
            self.refresh_limits();
        }
    }

    /// Puts the limits of all holders in force, each at its lowest.
    fn refresh_limits(&mut self) {
        let (latest, wall_offset) = (self.latest, self.wall_offset);
        let mut lowest: Vec<LimitRule> = Vec::new();
        for rule in self.holders.iter().flat_map(|holder| &holder.rules) {
            match lowest.iter_mut().find(|other| other.key == rule.key) {
                Some(other) => *other = other.lower(*rule),
                None => lowest.push(*rule),
            }
        }
        for limit in &mut self.limits {
            let rule = lowest.iter().find(|rule| rule.key == limit.rule.key);
            limit.in_force = rule.is_some();
            if let Some(rule) = rule.filter(|rule| **rule != limit.rule) {
                limit.set_rule(*rule, latest);
            }
        }
        for rule in lowest {
            if !self.limits.iter().any(|limit| limit.rule.key == rule.key) {
                let mut limit = CountedLimit::new(rule);
                limit.advance(latest, wall_offset);
                if let Some(longer) = self.longer_ring(&rule) {
                    limit.inherit(longer, latest);
                } else if self.unknown_before > 0 {
                    limit.count(self.unknown_before, rule.capacity);
                }
                self.limits.push(limit);
            }
        }
        // Held units were granted under all limits of that time and may still arrive.
        let holds = self.held() != LeaseUnits::ZERO;
        let keeps = |limit: &CountedLimit| limit.in_force || holds || limit.arrived(latest) > 0;
        self.limits.retain(keeps);
    }

    /// Returns the shortest ring that knows at least the window of this rule.
    fn longer_ring(&self, rule: &LimitRule) -> Option<&arrival_ring::ArrivalRing> {
        let same_units = self
            .limits
            .iter()
            .filter(|limit| limit.rule.key.measure == rule.key.measure);
        let rings = same_units.filter_map(|limit| match &limit.history {
            ArrivalHistory::Sliding(ring) if ring.window() >= rule.key.window => Some(ring),
            _ => None,
        });
        rings.min_by_key(|ring| ring.window())
    }

    fn in_force(&self) -> impl Iterator<Item = &CountedLimit> {
        self.limits.iter().filter(|limit| limit.in_force)
    }

    /// Returns the units of all holders.
    fn held(&self) -> LeaseUnits {
        let held = self.holders.iter().map(|holder| holder.held);
        held.fold(LeaseUnits::ZERO, LeaseUnits::plus)
    }

    /// Returns the units that every limit has free.
    fn room(&self, held: LeaseUnits) -> LeaseUnits {
        let rooms = self.in_force().map(|limit| {
            let room = limit.room(self.latest, limit.rule.units(held));
            limit.rule.lease_of(room)
        });
        rooms.fold(LeaseUnits::MAX, LeaseUnits::at_most)
    }

    /// Returns the units that every limit returns in this time.
    fn units_in(&self, nanos: u64) -> LeaseUnits {
        let units = self
            .in_force()
            .map(|limit| limit.rule.lease_of(limit.rule.units_in(nanos)));
        units.fold(LeaseUnits::MAX, LeaseUnits::at_most)
    }

    /// Returns the time in which the slowest limit returns these units.
    fn time_of(&self, units: LeaseUnits) -> u64 {
        let times = self.in_force().map(|limit| limit.rule.time_of(limit.rule.units(units)));
        times.max().unwrap_or(0)
    }

    /// Returns the step of the fair order: at least one unit of each limit.
    fn quantum(&self) -> u64 {
        let units = self.in_force().map(|limit| limit.rule.time_of(1));
        units.max().unwrap_or(0).max(span_nanos(fair_order::LEAST_QUANTUM))
    }
}

fn wall_offset(moment: ClockPair) -> u64 {
    span_nanos(moment.wall.as_duration()).saturating_sub(moment.now.as_nanos())
}

/// Clocks of one host differ less, and are corrected by less at a time.
const WALL_DRIFT: u64 = 1_000_000_000;

/// A holder joins by its first renewal. Any other of an unknown holder was left in a network.
const FIRST_NUMBER: u64 = 1;

/// A shorter wait would be spent on transfers.
const LEAST_WAIT: Duration = Duration::from_millis(1);

/// Renewals per window of a holder that waits for units which others hold.
const POLLS: u64 = 50;

/// Units come back soon after their holder became idle, also where windows are long.
const LONGEST_POLL: Duration = Duration::from_millis(20);
