//! The part of an account that one process holds, and spends without asking.
//!
//! A lease takes units ahead of their use, so that a call needs no transfer: about as many as the process
//! used in the last moments. It reports arrivals, returns what it does not use, and sends nothing after
//! its deadline. It sends one renewal at a time and repeats it unchanged until it is answered; after a
//! refusal it drops everything and begins under a new name, because the account has counted it already.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::account::{LeaseAnswer, LeaseRequest, LeaseUnits, LedgerError, LimitUsage, QuotaWant, SharedFacts};
use crate::{CallArrivals, Cost, Limit, MAX_LIMITS, Nanos};

/// Terms of a process's leases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseTerms {
    /// Term of the lease: units are spent for this long after a renewal.
    pub ttl: Duration,
    /// Longest time from sending a call to its last possible arrival.
    pub timeout: Duration,
    /// Time after which an unanswered renewal is repeated.
    pub repeat: Duration,
}

/// Life of the lease that paid for a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseMark(u32);

/// Units of an account in the hands of one process.
#[derive(Debug)]
pub struct QuotaLease {
    terms: LeaseTerms,
    limits: Vec<Limit>,
    seed: u64,
    life: u32,
    number: u64,
    joined: u64,
    /// Units that may be spent before the deadline.
    free: LeaseUnits,
    /// Units of calls that have not arrived.
    in_flight: LeaseUnits,
    deadline: Nanos,
    arrivals: Vec<ArrivalRun>,
    /// Cost of a call that found too few units.
    unmet: Option<u64>,
    /// True if a call lacked units since the last renewal began, also while that one was on its way.
    ran_dry: bool,
    /// Units that a renewal asks for.
    chunk: u64,
    largest_chunk: u64,
    last_spent: Nanos,
    last_renewed: Nanos,
    last_granted: Nanos,
    /// Time before which the account has nothing to grant.
    opens_at: Nanos,
    unanswered: Option<UnansweredRenewal>,
    /// True if limits changed since the last renewal.
    has_new_limits: bool,
    facts: FactExchange,
    usage: Vec<LimitUsage>,
    peers: usize,
}

#[derive(Debug)]
struct UnansweredRenewal {
    request: Arc<LeaseRequest>,
    first_sent: Nanos,
    /// Time of the next repetition, once the ledger reported a failure.
    repeat_at: Nanos,
    failures: u32,
    /// Reason of the last failure.
    reason: String,
}

/// Calls that arrived at about the same time.
#[derive(Debug, Clone, Copy)]
struct ArrivalRun {
    units: LeaseUnits,
    /// Latest possible arrival for each limit.
    at: [Nanos; MAX_LIMITS],
    recorded: Nanos,
}

#[derive(Debug, Default)]
struct FactExchange {
    seen: u64,
    offered: Option<(Vec<u64>, Duration)>,
}

impl QuotaLease {
    /// Builds a lease that holds nothing. `seed` must differ for each process and lease.
    pub fn new(terms: LeaseTerms, limits: &[Limit], seed: u64) -> Self {
        Self {
            terms,
            limits: limits.to_vec(),
            seed,
            life: 0,
            number: 0,
            joined: 0,
            free: LeaseUnits::ZERO,
            in_flight: LeaseUnits::ZERO,
            deadline: Nanos::ZERO,
            arrivals: Vec::new(),
            unmet: None,
            ran_dry: false,
            chunk: 1,
            largest_chunk: 1,
            last_spent: Nanos::ZERO,
            last_renewed: Nanos::ZERO,
            last_granted: Nanos::ZERO,
            opens_at: Nanos::ZERO,
            unanswered: None,
            has_new_limits: false,
            facts: FactExchange::default(),
            usage: Vec::new(),
            peers: 0,
        }
    }

    /// Spends units for one call, or remembers that they are missing.
    #[inline]
    pub fn spend(&mut self, now: Nanos, cost: Cost) -> Option<LeaseMark> {
        let units = LeaseUnits::new(1, cost.units());
        if now < self.deadline && self.free.covers(units) {
            self.free = self.free.minus(units);
            self.in_flight = self.in_flight.plus(units);
            self.last_spent = now;
            return Some(LeaseMark(self.life));
        }
        self.want_units(cost);
        None
    }

    /// Returns true if the units for a call are here now.
    #[inline]
    pub fn covers(&self, now: Nanos, cost: Cost) -> bool {
        now < self.deadline && self.free.covers(LeaseUnits::new(1, cost.units()))
    }

    /// Remembers that the units of a call are missing: the next renewal asks for them.
    pub const fn want_units(&mut self, cost: Cost) {
        self.unmet = Some(cost.units());
        self.ran_dry = true;
    }

    /// Returns the end of the lease of a call: it must not be sent from here on.
    pub fn deadline(&self, mark: LeaseMark) -> Nanos {
        if mark.0 == self.life {
            self.deadline
        } else {
            Nanos::ZERO
        }
    }

    /// Takes back the units of a call that was never sent.
    pub fn refund(&mut self, mark: LeaseMark, cost: Cost) {
        if mark.0 == self.life {
            let units = LeaseUnits::new(1, cost.units());
            self.in_flight = self.in_flight.minus(units);
            self.free = self.free.plus(units);
        }
    }

    /// Records the latest possible arrival of a call, for each limit.
    pub fn arrive(&mut self, now: Nanos, mark: LeaseMark, cost: Cost, at: [Nanos; MAX_LIMITS]) {
        if mark.0 != self.life {
            return;
        }
        let units = LeaseUnits::new(1, cost.units());
        self.in_flight = self.in_flight.minus(units);
        self.record(ArrivalRun {
            units,
            at,
            recorded: now,
        });
    }

    /// Records units beyond those of the lease, which arrived now.
    pub fn overdraw(&mut self, now: Nanos, units: LeaseUnits) {
        if units != LeaseUnits::ZERO {
            self.record(ArrivalRun {
                units,
                at: [now; MAX_LIMITS],
                recorded: now,
            });
        }
    }

    fn record(&mut self, run: ArrivalRun) {
        let is_full = self.arrivals.len() >= MOST_RUNS;
        match self.arrivals.last_mut() {
            Some(last) if is_full || run.recorded.since(last.recorded) < SAME_TIME => last.join(&run),
            _ => self.arrivals.push(run),
        }
    }

    /// Replaces the limits; the next renewal has them.
    pub fn set_limits(&mut self, limits: &[Limit]) {
        if self.limits != limits {
            self.limits = limits.to_vec();
            self.has_new_limits = true;
        }
    }

    /// Offers facts to the other holders, in place of what it offered before.
    pub fn offer_facts(&mut self, words: Vec<u64>, lifetime: Duration) {
        self.facts.offered = Some((words, lifetime));
    }

    /// Asks for a renewal as soon as possible: other holders changed the facts.
    pub const fn refresh(&mut self) {
        self.has_new_limits = true;
    }

    /// Returns the time at which a renewal is due; `Nanos::MAX` if nothing is held or wanted.
    pub fn due_at(&self) -> Nanos {
        if let Some(unanswered) = &self.unanswered {
            return unanswered.repeat_at;
        }
        if self.has_new_limits || self.facts.offered.is_some() {
            return Nanos::ZERO;
        }
        let pause = self.pause();
        let wanted = if self.wants_units() { self.opens_at } else { Nanos::MAX };
        let holds = self.free.plus(self.in_flight) != LeaseUnits::ZERO;
        let heartbeat = self.last_renewed.saturating_add(self.terms.ttl / HEARTBEATS);
        let idle = self.last_spent.max(self.last_granted).saturating_add(pause);
        let report = self.arrivals.first().map(|run| run.recorded.saturating_add(pause));
        let mut at = wanted.min(report.unwrap_or(Nanos::MAX));
        if holds || self.unmet.is_some() {
            at = at.min(heartbeat);
        }
        if self.free != LeaseUnits::ZERO {
            at = at.min(idle);
        }
        at
    }

    /// Returns the renewal to send now, if one is due.
    pub fn next_renewal(&mut self, now: Nanos) -> Option<Arc<LeaseRequest>> {
        if self.due_at() > now {
            return None;
        }
        if let Some(unanswered) = &mut self.unanswered {
            unanswered.repeat_at = Nanos::MAX;
            return Some(Arc::clone(&unanswered.request));
        }
        Some(self.begin_renewal(now, self.terms.ttl))
    }

    /// Returns the renewal by which the holder leaves: it reports, and returns all units.
    pub fn leave(&mut self, now: Nanos) -> Option<Arc<LeaseRequest>> {
        if self.unanswered.is_some() || self.number == 0 {
            return None;
        }
        self.unmet = None;
        self.last_spent = Nanos::ZERO;
        self.last_granted = Nanos::ZERO;
        Some(self.begin_renewal(now, Duration::ZERO))
    }

    fn begin_renewal(&mut self, now: Nanos, ttl: Duration) -> Arc<LeaseRequest> {
        let wanted = self.want(now);
        let is_idle = self.last_spent.max(self.last_granted).saturating_add(self.pause()) <= now;
        let returned = if is_idle && wanted == QuotaWant::default() {
            self.chunk = (self.chunk / 2).max(1);
            core::mem::take(&mut self.free)
        } else {
            LeaseUnits::ZERO
        };
        self.number += 1;
        self.has_new_limits = false;
        let seen = self.facts.seen;
        let runs = core::mem::take(&mut self.arrivals);
        let request = Arc::new(LeaseRequest {
            holder: self.holder(),
            number: self.number,
            joined: self.joined,
            limits: self.limits.clone(),
            arrived: runs.iter().map(|run| run.aged(now)).collect(),
            returned,
            wanted,
            ttl,
            timeout: self.terms.timeout,
            facts_seen: seen,
            facts: self
                .facts
                .offered
                .take()
                .map(|(words, lifetime)| (seen, words, lifetime)),
        });
        self.last_renewed = now;
        self.unanswered = Some(UnansweredRenewal {
            request: Arc::clone(&request),
            first_sent: now,
            repeat_at: Nanos::MAX,
            failures: 0,
            reason: String::new(),
        });
        request
    }

    /// Takes over the answer to its unanswered renewal; any other is dropped. Returns the shared facts if
    /// they are new.
    pub fn deposit(&mut self, now: Nanos, to: &Arc<LeaseRequest>, answer: LeaseAnswer) -> Option<SharedFacts> {
        let sent = self.unanswered.take_if(|sent| Arc::ptr_eq(&sent.request, to))?;
        self.joined = answer.joined;
        self.deadline = sent.first_sent.saturating_add(sent.request.ttl);
        self.free = self.free.plus(answer.granted);
        self.peers = answer.peers;
        self.usage = answer.limits;
        self.opens_at = now.saturating_add(answer.wait.unwrap_or_default());
        if answer.granted != LeaseUnits::ZERO {
            self.last_granted = now;
            self.unmet = None;
        }
        let capacity = self.usage.iter().map(|usage| usage.rate.quantity()).min();
        let parts = u64::try_from(self.peers).unwrap_or(u64::MAX).saturating_add(1);
        self.largest_chunk = (capacity.unwrap_or(1) / parts.saturating_mul(LARGEST_PART)).max(1);
        let facts = answer.facts.filter(|facts| facts.generation != self.facts.seen)?;
        self.facts.seen = facts.generation;
        let offered = sent.request.facts.as_ref();
        let is_own = offered.is_some_and(|(_, words, _)| *words == facts.words);
        (!is_own).then_some(facts)
    }

    /// Takes over a failed renewal: it is repeated, or the lease begins under a new name.
    pub fn fail(&mut self, now: Nanos, to: &Arc<LeaseRequest>, error: &LedgerError) {
        let unanswered = self.unanswered.as_mut();
        match (error, unanswered.filter(|sent| Arc::ptr_eq(&sent.request, to))) {
            (LedgerError::Unreachable(reason), Some(sent)) => {
                sent.reason.clone_from(reason);
                let wait = self.terms.repeat.saturating_mul(1 << sent.failures.min(MOST_DOUBLINGS));
                sent.failures = sent.failures.saturating_add(1);
                sent.repeat_at = now.saturating_add(wait.min(LONGEST_BACKOFF));
            }
            (LedgerError::Refused(_), Some(_)) => self.begin_life(now),
            (_, None) => {}
        }
    }

    fn begin_life(&mut self, now: Nanos) {
        self.life = self.life.wrapping_add(1);
        (self.number, self.joined) = (0, 0);
        (self.free, self.in_flight) = (LeaseUnits::ZERO, LeaseUnits::ZERO);
        self.arrivals.clear();
        self.unanswered = None;
        self.deadline = Nanos::ZERO;
        self.opens_at = now;
        self.facts.seen = 0;
        // Calls wait for the facts, and without limits none of them asks for units.
        self.refresh();
    }

    /// Returns the earliest time at which a call without units may find some, as far as the last answer
    /// shows. An unanswered renewal may bring them at any moment.
    pub fn opens_at(&self, now: Nanos) -> Nanos {
        match &self.unanswered {
            Some(sent) if sent.failures == 0 => now,
            _ => self.opens_at.max(now),
        }
    }

    /// Returns true if the ledger has not answered for so long that nothing may be sent.
    pub fn is_silent(&self, now: Nanos) -> bool {
        self.is_failing() && now >= self.deadline
    }

    /// Returns true if the last renewal failed and is still unanswered.
    pub fn is_failing(&self) -> bool {
        self.failure().is_some()
    }

    /// Returns the reason why the last renewal failed, if it did.
    pub fn failure(&self) -> Option<&str> {
        let unanswered = self.unanswered.as_ref().filter(|sent| sent.failures > 0);
        unanswered.map(|sent| sent.reason.as_str())
    }

    /// Returns true until the first answer.
    pub const fn is_unknown(&self) -> bool {
        self.joined == 0
    }

    /// Returns the limits in force with their usage by all holders, as of the last answer.
    pub fn usage(&self) -> &[LimitUsage] {
        &self.usage
    }

    /// Returns the number of other holders that hold or want units, as of the last answer.
    pub const fn peers(&self) -> usize {
        self.peers
    }

    /// Returns the units held by this process, unsent ones and those in flight.
    pub const fn held(&self) -> (LeaseUnits, LeaseUnits) {
        (self.free, self.in_flight)
    }

    fn wants_units(&self) -> bool {
        let is_low = self.free.calls < self.chunk / 2 && self.last_spent >= self.last_renewed;
        self.unmet.is_some() || is_low
    }

    /// Returns what to ask for: a chunk, which doubles while it is used up at once.
    fn want(&mut self, now: Nanos) -> QuotaWant {
        if !self.wants_units() {
            return QuotaWant::default();
        }
        let is_dry = core::mem::take(&mut self.ran_dry) && now.since(self.last_granted) < self.pause();
        if is_dry {
            self.chunk = self.chunk.saturating_mul(2);
        }
        self.chunk = self.chunk.min(self.largest_chunk);
        let calls = self.chunk.saturating_sub(self.free.calls).max(1);
        let first = self.unmet.map_or(1, |cost| cost.saturating_sub(self.free.cost).max(1));
        QuotaWant {
            units: LeaseUnits::new(calls, calls.saturating_mul(self.unmet.unwrap_or(1).max(1))),
            first,
        }
    }

    /// Returns the time for which units may lie unused, and arrivals unreported.
    fn pause(&self) -> Duration {
        let windows = self.limits.iter().map(|limit| limit.rate().per());
        let shortest = windows.min().unwrap_or(SHORT_WINDOWS);
        if shortest > SHORT_WINDOWS {
            return LONG_PAUSE;
        }
        (shortest / PAUSES_PER_WINDOW).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
    }

    /// Returns the name of this life.
    fn holder(&self) -> u64 {
        // SplitMix64: lives of one seed and neighbouring seeds have names far apart.
        let life = u64::from(self.life).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut name = self.seed.wrapping_add(life);
        name = (name ^ (name >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        name = (name ^ (name >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        name ^ (name >> 31)
    }
}

impl ArrivalRun {
    /// Adds a later run: both count from their latest arrival.
    fn join(&mut self, later: &Self) {
        self.units = self.units.plus(later.units);
        for (at, other) in self.at.iter_mut().zip(&later.at) {
            *at = (*at).max(*other);
        }
    }

    fn aged(&self, now: Nanos) -> CallArrivals {
        CallArrivals {
            units: self.units,
            ages: self.at.map(|at| now.since(at)),
        }
    }
}

/// Renewals per term, so that two may be lost.
const HEARTBEATS: u32 = 3;

/// Part of a limit, and of each other holder's share, that a process may hold unspent.
pub(super) const LARGEST_PART: u64 = 4;

/// A report is one message of bounded size; later runs join the last one.
const MOST_RUNS: usize = 32;

/// Arrivals this close make one run. It delays the end of a window by no more.
const SAME_TIME: Duration = Duration::from_millis(1);

/// A ledger that is back is noticed within this.
const LONGEST_BACKOFF: Duration = Duration::from_secs(1);
const MOST_DOUBLINGS: u32 = 6;

const PAUSES_PER_WINDOW: u32 = 50;
/// A ledger on the same host answers within this time.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
/// Other holders wait no longer for unused units.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);
/// Where the shortest window is longer than this, a second is a small part of it.
const SHORT_WINDOWS: Duration = Duration::from_mins(1);
const LONG_PAUSE: Duration = Duration::from_secs(1);
