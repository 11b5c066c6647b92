//! The messages between a holder and an account.
//!
//! Only ages and spans travel, never instants: a holder and an account need no common clock. All
//! values are plain numbers, so that a file or a script can carry them.

use alloc::vec::Vec;
use core::time::Duration;

use crate::{CountBy, Limit, LimitKind, MAX_LIMITS, Rate};

/// Units of a quota lease: a number of calls and their cost. Each limit counts one of both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LeaseUnits {
    /// Number of calls.
    pub calls: u64,
    /// Total cost of these calls.
    pub cost: u64,
}

impl LeaseUnits {
    /// No units.
    pub const ZERO: Self = Self { calls: 0, cost: 0 };
    pub(super) const MAX: Self = Self {
        calls: u64::MAX,
        cost: u64::MAX,
    };

    /// Builds the units of `calls` calls with this total cost.
    pub const fn new(calls: u64, cost: u64) -> Self {
        Self { calls, cost }
    }

    /// Adds units, up to the largest number.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self::new(
            self.calls.saturating_add(other.calls),
            self.cost.saturating_add(other.cost),
        )
    }

    /// Subtracts units, down to zero.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self::new(
            self.calls.saturating_sub(other.calls),
            self.cost.saturating_sub(other.cost),
        )
    }

    /// Returns true if both numbers are at least as large.
    pub const fn covers(self, other: Self) -> bool {
        self.calls >= other.calls && self.cost >= other.cost
    }

    pub(super) fn at_most(self, other: Self) -> Self {
        Self::new(self.calls.min(other.calls), self.cost.min(other.cost))
    }

    pub(super) fn at_least(self, other: Self) -> Self {
        Self::new(self.calls.max(other.calls), self.cost.max(other.cost))
    }
}

/// Leased calls that have reached the API.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallArrivals {
    /// Calls, and their cost.
    pub units: LeaseUnits,
    /// Time since their latest possible arrival for each limit of the renewal, in its order.
    /// Measured up to the moment at which the renewal was first sent, so that a slow transfer only
    /// makes an arrival younger.
    pub ages: [Duration; MAX_LIMITS],
}

/// Units that a holder wants to lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QuotaWant {
    /// Most units of use now.
    pub units: LeaseUnits,
    /// Cost of the next call: less is not granted.
    pub first: u64,
}

impl QuotaWant {
    /// Builds the want of calls that cost one each.
    pub const fn calls(calls: u64) -> Self {
        Self {
            units: LeaseUnits::new(calls, calls),
            first: if calls == 0 { 0 } else { 1 },
        }
    }

    /// Returns the least useful grant: one call with its whole cost.
    pub(super) const fn least(self) -> LeaseUnits {
        LeaseUnits::new(1, self.first)
    }

    pub(super) const fn is_none(self) -> bool {
        self.units.calls == 0
    }

    /// Raises the total to the cost of the next call.
    pub(super) fn normalized(self) -> Self {
        if self.is_none() {
            return Self::default();
        }
        Self {
            units: self.units.at_least(self.least()),
            ..self
        }
    }

    /// Returns the part that is left after a grant.
    pub(super) fn after(self, granted: LeaseUnits) -> Self {
        let units = self.units.minus(granted);
        Self {
            units,
            first: self.first.min(units.cost),
        }
    }

    /// Returns the largest part within `most`, in the want's proportion of calls and cost, or
    /// nothing if the next call does not fit.
    pub(super) fn part_within(self, most: LeaseUnits) -> LeaseUnits {
        if self.is_none() || most.calls == 0 || most.cost < self.first {
            return LeaseUnits::ZERO;
        }
        let by_cost = proportion(self.units.calls, most.cost, self.units.cost).max(1);
        let calls = most.calls.min(self.units.calls).min(by_cost);
        let by_calls = proportion(self.units.cost, calls, self.units.calls).max(self.first);
        LeaseUnits::new(calls, most.cost.min(self.units.cost).min(by_calls))
    }
}

/// Returns `amount * part / whole`, rounded up, and all of it for no whole.
fn proportion(amount: u64, part: u64, whole: u64) -> u64 {
    if part >= whole {
        return amount;
    }
    let scaled = (u128::from(amount) * u128::from(part)).div_ceil(u128::from(whole));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// One renewal of a quota lease: the whole conversation between a holder and an account.
///
/// A renewal without an answer is repeated unchanged before any other. A holder leaves by a renewal
/// with a `ttl` of zero that returns its units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseRenewal<'a> {
    /// Name of the holder, unique for each life of a process.
    pub holder: u64,
    /// Number of the renewal: 1 for the first, then rising.
    pub number: u64,
    /// Join number from the first answer; 0 in the first renewal. It tells a holder whose lease ran
    /// out from a delayed copy of its first renewal, which joins again under the same name.
    pub joined: u64,
    /// Limits of the holder's configuration, at most [`MAX_LIMITS`] of them.
    pub limits: &'a [Limit],
    /// Leased calls that arrived since the last renewal.
    pub arrived: &'a [CallArrivals],
    /// Leased units that were never sent.
    pub returned: LeaseUnits,
    /// Units wanted now, in addition to those held.
    pub wanted: QuotaWant,
    /// Term of the lease. The holder sends nothing after its own deadline, which is the moment at
    /// which it first sent this renewal plus this term.
    pub ttl: Duration,
    /// Longest time from sending a call to its last possible arrival.
    pub timeout: Duration,
    /// Generation of the shared facts that the holder knows; 0 for none.
    pub facts_seen: u64,
    /// Facts to share with the other holders.
    pub facts: Option<FactUpdate<'a>>,
}

/// Facts that a holder writes for all. Nothing is written if others wrote a later generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FactUpdate<'a> {
    /// Generation that these facts replace.
    pub based_on: u64,
    /// The facts, at most [`MAX_FACT_WORDS`](crate::MAX_FACT_WORDS) words.
    pub words: &'a [u64],
    /// Time for which they are worth keeping.
    pub lifetime: Duration,
}

/// Answer to a renewal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseAnswer {
    /// Join number of this lease, for all later renewals.
    pub joined: u64,
    /// Units added to the lease.
    pub granted: LeaseUnits,
    /// Time until the rest of the want is worth another renewal; `None` if all was granted, and
    /// [`Duration::MAX`] if the next call costs more than a whole limit.
    pub wait: Option<Duration>,
    /// Number of other holders that hold or want units.
    pub peers: usize,
    /// Limits in force: those of all live holders, each at its lowest.
    pub limits: Vec<LimitUsage>,
    /// The shared facts, if the holder does not know their generation.
    pub facts: Option<SharedFacts>,
}

/// Facts that the holders of an account share. The account stores the words and does not read them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SharedFacts {
    /// Number of updates so far.
    pub generation: u64,
    /// Time since the last update.
    pub age: Duration,
    /// The facts; empty once their lifetime has ended.
    pub words: Vec<u64>,
}

/// Usage of one limit in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LimitUsage {
    /// Way in which the quantity returns; a fixed window is counted as a sliding one.
    pub kind: LimitKind,
    /// Quantity that counts.
    pub measure: CountBy,
    /// Lowest quantity of all holders, per window.
    pub rate: Rate,
    /// Units that arrived and still count.
    pub arrived: u64,
    /// Units held by all holders, sent or not.
    pub held: u64,
}

error_enum! {
    /// Reason that an account refuses a renewal. Nothing of the renewal was counted.
    pub enum RenewalRefusal {
        /// The account has no such holder: its lease ran out, and all it held counts as arrived.
        UnknownHolder = "the lease of this holder ran out: drop its units and begin under a new name",
        /// A later renewal was answered already.
        OldNumber = "a later renewal was answered already: drop this one",
    }
}
