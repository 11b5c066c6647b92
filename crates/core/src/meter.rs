//! The live state of one limit.
//!
//! A meter is handed the time and a cost and answers with a [`Decision`]; what it allows it has
//! taken in the same step, so there is nothing to check first and lose afterwards. Which meter a
//! limit gets is decided here, once, from its configuration: a closed enum, because callers choose
//! limits at run time and should not carry a type parameter for it.
//!
//! Time may step backwards: a meter lives at the latest time it was ever shown, so a step back
//! refuses more and never grants more.

mod fixed_window;
mod in_flight;
mod log;
mod sliding_window;
mod token_bucket;

use core::mem;
use core::time::Duration;

pub use fixed_window::FixedWindow;
pub use sliding_window::SlidingWindow;
pub use token_bucket::TokenBucket;

use in_flight::InFlight;

use crate::{Accounting, Cost, Decision, Kind, Limit, Moment, Nanos};

/// The live state of one limit, of whichever kind.
///
/// ```
/// use outflow_core::{Accounting, Cost, Decision, Limit, Meter, Moment, Nanos};
///
/// let limit = Limit::sliding("2/s".parse()?).counted(Accounting::Send);
/// let mut meter = Meter::new(&limit, Moment::default());
/// let first = meter.take(Nanos::ZERO, Cost::ONE).allowed().expect("an untouched window");
/// assert!(meter.take(Nanos::from_millis(300), Cost::ONE).is_allow());
/// assert_eq!(meter.check(Nanos::from_millis(400), Cost::ONE), Decision::WaitUntil(Nanos::from_secs(1)));
///
/// meter.refund(Nanos::from_millis(400), first);
/// assert!(meter.check(Nanos::from_millis(400), Cost::ONE).is_allow());
/// assert_eq!(meter.check(Nanos::from_millis(400), Cost::new(3)), Decision::Never);
/// # Ok::<(), outflow_core::InvalidRate>(())
/// ```
#[derive(Debug, Clone)]
pub enum Meter {
    /// Each unit returns one window after it was taken.
    Sliding(SlidingWindow),
    /// All units return together.
    Fixed(FixedWindow),
    /// Units return one by one.
    Bucket(TokenBucket),
}

impl Meter {
    /// A meter of which nothing was used. `moment` places wall-aligned windows on the timeline.
    ///
    /// A fixed window that begins with use and is counted by arrival becomes a sliding one: the
    /// server's window begins at an arrival that we cannot know, and only a sliding window stays
    /// within every place it can have.
    pub fn new(limit: &Limit, moment: Moment) -> Self {
        match (limit.kind(), Counting::of(limit)) {
            (Kind::Bucket { .. }, _) => Self::Bucket(TokenBucket::new(limit)),
            (Kind::Sliding, _) | (Kind::Fixed, Counting::FromArrival) => {
                Self::Sliding(SlidingWindow::new(limit))
            }
            (Kind::Fixed | Kind::Aligned, _) => Self::Fixed(FixedWindow::new(limit, moment)),
        }
    }

    /// Whether `cost` fits now; takes nothing.
    pub fn check(&mut self, now: Nanos, cost: Cost) -> Decision {
        match self {
            Self::Sliding(meter) => meter.check(now, cost),
            Self::Fixed(meter) => meter.check(now, cost),
            Self::Bucket(meter) => meter.check(now, cost),
        }
    }

    /// Takes `cost` if all of it fits now, or takes nothing.
    pub fn take(&mut self, now: Nanos, cost: Cost) -> Decision<Receipt> {
        self.check(now, cost).map(|()| self.commit(cost))
    }

    /// Takes what [`check`](Self::check) has just allowed.
    pub(crate) fn commit(&mut self, cost: Cost) -> Receipt {
        match self {
            Self::Sliding(meter) => meter.commit(cost),
            Self::Fixed(meter) => meter.commit(cost),
            Self::Bucket(meter) => meter.commit(cost),
        }
    }

    /// Removes that consumption if it still counts; tells whether it did. Give back only what
    /// provably never left: what may have reached the server is to be settled instead.
    pub fn refund(&mut self, now: Nanos, receipt: Receipt) -> bool {
        self.give_back(now, &receipt)
    }

    pub(crate) fn give_back(&mut self, now: Nanos, receipt: &Receipt) -> bool {
        match self {
            Self::Sliding(meter) => meter.refund(now, receipt),
            Self::Fixed(meter) => meter.refund(now, receipt),
            Self::Bucket(meter) => meter.refund(now, receipt),
        }
    }

    /// Removes a consumption known by its time (within a millisecond) and cost alone, for callers
    /// that kept no receipt. A sliding window removes the latest match; the other kinds ignore the
    /// time. Only limits counted from sending know their entries by time.
    pub fn refund_at(&mut self, at: Nanos, cost: Cost) -> bool {
        match self {
            Self::Sliding(meter) => meter.refund_at(at, cost),
            Self::Fixed(meter) => meter.refund_at(cost),
            Self::Bucket(meter) => meter.refund_at(cost),
        }
    }

    /// Ends a request's time in flight: it reached the server at `arrived` at the latest, which may
    /// still be to come if the request was given up. Limits counted from sending have nothing to
    /// settle.
    pub fn settle(&mut self, now: Nanos, receipt: Receipt, arrived: Nanos) {
        self.land(now, &receipt, arrived);
    }

    pub(crate) fn land(&mut self, now: Nanos, receipt: &Receipt, arrived: Nanos) {
        match self {
            Self::Sliding(meter) => meter.settle(now, receipt, arrived),
            Self::Fixed(meter) => meter.settle(now, receipt, arrived),
            Self::Bucket(meter) => meter.settle(now, receipt, arrived),
        }
    }

    /// Counts units that were used whether we like it or not: by someone else with the same key,
    /// say. The meter may stand above its limit afterwards.
    pub fn charge(&mut self, now: Nanos, units: u64) {
        match self {
            Self::Sliding(meter) => meter.charge(now, units),
            Self::Fixed(meter) => meter.charge(now, units),
            Self::Bucket(meter) => meter.charge(now, units),
        }
    }

    /// Adopts another limit and keeps what was used. A limit of another kind takes over all that
    /// still counts as if it had been used just now.
    pub fn reconfigure(&mut self, moment: Moment, limit: &Limit) {
        let mut next = Self::new(limit, moment);
        match (&mut *self, &next) {
            (Self::Sliding(meter), Self::Sliding(_)) => meter.reconfigure(moment.now, limit),
            (Self::Fixed(meter), Self::Fixed(_)) => meter.reconfigure(moment, limit),
            (Self::Bucket(meter), Self::Bucket(_)) => meter.reconfigure(moment.now, limit),
            _ => {
                let Standing {
                    used, in_flight, ..
                } = self.standing(moment.now);
                next.charge(
                    moment.now,
                    u64::try_from(used - in_flight).unwrap_or(u64::MAX),
                );
                *next.in_flight_mut() = mem::take(self.in_flight_mut());
                *self = next;
            }
        }
    }

    const fn in_flight_mut(&mut self) -> &mut InFlight {
        match self {
            Self::Sliding(meter) => meter.in_flight_mut(),
            Self::Fixed(meter) => meter.in_flight_mut(),
            Self::Bucket(meter) => meter.in_flight_mut(),
        }
    }

    /// Places wall-aligned windows anew after the civil clock was set; others do not care.
    pub fn realign(&mut self, moment: Moment) {
        if let Self::Fixed(meter) = self {
            meter.realign(moment);
        }
    }

    /// When something returns next; `None` if nothing was used or time ends first.
    pub fn recovery(&mut self, now: Nanos) -> Option<Nanos> {
        match self {
            Self::Sliding(meter) => meter.recovery(now),
            Self::Fixed(meter) => meter.recovery(now),
            Self::Bucket(meter) => meter.recovery(now),
        }
    }

    /// Where the meter stands.
    pub fn standing(&mut self, now: Nanos) -> Standing {
        match self {
            Self::Sliding(meter) => meter.standing(now),
            Self::Fixed(meter) => meter.standing(now),
            Self::Bucket(meter) => meter.standing(now),
        }
    }

    /// Gives unused memory back. Housekeeping: no decision depends on it.
    pub fn tidy(&mut self, now: Nanos) {
        if let Self::Sliding(meter) = self {
            meter.tidy(now);
        }
    }
}

/// Proof of one consumption: what to give back, or to settle. It is used up by either, so nothing
/// can be given back twice.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a receipt is settled or refunded; dropped, its cost is never seen to arrive"]
pub struct Receipt {
    at: Nanos,
    cost: Cost,
    counting: Counting,
    mark: u128,
}

impl Receipt {
    pub(crate) const fn new(at: Nanos, cost: Cost, counting: Counting) -> Self {
        Self {
            at,
            cost,
            counting,
            mark: 0,
        }
    }

    pub(crate) const fn marked(mut self, mark: u128) -> Self {
        self.mark = mark;
        self
    }

    /// When it was taken.
    pub const fn at(&self) -> Nanos {
        self.at
    }

    /// What was taken.
    pub const fn cost(&self) -> Cost {
        self.cost
    }

    pub(crate) const fn counting(&self) -> Counting {
        self.counting
    }

    pub(crate) const fn mark(&self) -> u128 {
        self.mark
    }
}

/// From which moment an entry's window runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counting {
    FromSend,
    FromArrival,
}

impl Counting {
    pub(crate) const fn of(limit: &Limit) -> Self {
        match limit.accounting() {
            Accounting::Send => Self::FromSend,
            Accounting::Safe | Accounting::Tight => Self::FromArrival,
        }
    }

    /// What is added to the window because the arrival is estimated and not known.
    pub(crate) const fn margin(limit: &Limit) -> Duration {
        match limit.accounting() {
            Accounting::Tight => limit.guard(),
            Accounting::Send | Accounting::Safe => Duration::ZERO,
        }
    }
}

/// Where a meter stands at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// The most that can be used.
    pub capacity: u64,
    /// What counts now, in flight included. Above the capacity after a limit shrank.
    pub used: u128,
    /// What was sent and has not come back, when arrivals are counted.
    pub in_flight: u128,
    /// Entries in the log; zero for meters that keep none.
    pub entries: usize,
    /// The most that ever counted at once.
    pub peak: u128,
    /// The oldest entry that counts.
    pub oldest: Option<Nanos>,
    /// The newest entry that counts.
    pub newest: Option<Nanos>,
    /// Since when entries count.
    pub window_start: Nanos,
    /// How many entries (or windows) have expired so far.
    pub expired: u64,
    /// Bytes on the heap.
    pub memory: usize,
}

impl Standing {
    /// What is left.
    pub fn remaining(&self) -> u64 {
        let used = u64::try_from(self.used).unwrap_or(u64::MAX);
        self.capacity.saturating_sub(used)
    }

    /// What is left as a part of the whole, from 0.0 to 1.0.
    #[expect(
        clippy::as_conversions,
        clippy::cast_precision_loss,
        reason = "shown to people; decisions compare whole numbers"
    )]
    pub fn remaining_rate(&self) -> f64 {
        self.remaining() as f64 / self.capacity as f64
    }
}
