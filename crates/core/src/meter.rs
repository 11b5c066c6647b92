//! The live state of one limit.
//!
//! A meter is handed the time and a cost and answers with a [`Decision`]; what it allows it has
//! taken in the same step, so there is nothing to check first and lose afterwards. Which meter a
//! limit gets is decided here, once, from its configuration: a closed enum, because callers choose
//! limits at run time and should not carry a type parameter for it.
//!
//! A meter counts numbers, and knows nothing of what its limit measures: whoever holds several
//! says to each what a request comes to there.
//!
//! Time may step backwards: a meter lives at the latest time it was ever shown, so a step back
//! refuses more and never grants more.

mod fixed_window;
mod in_flight;
mod refill_queue;
mod sliding_log;
mod sliding_window;
mod token_bucket;

use core::mem;
use core::time::Duration;

use fixed_window::FixedWindow;
use sliding_window::SlidingWindow;
use token_bucket::TokenBucket;

use crate::{Accounting, ClockPair, Cost, Decision, Limit, LimitKind, Nanos, UnitCost};

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
pub struct Meter {
    live: MeterKind,
    /// When it became another kind of meter. What was taken from the kind before is part of what
    /// was taken over, and can no longer be told apart to be given back.
    changed_at: Option<Nanos>,
}

#[derive(Debug, Clone)]
enum MeterKind {
    Sliding(SlidingWindow),
    Fixed(FixedWindow),
    Bucket(TokenBucket),
}

/// Calls the same method of whichever meter it is.
macro_rules! each {
    ($live:expr, $meter:ident => $call:expr) => {
        match $live {
            MeterKind::Sliding($meter) => $call,
            MeterKind::Fixed($meter) => $call,
            MeterKind::Bucket($meter) => $call,
        }
    };
}

impl Meter {
    /// A meter of which nothing was used. `moment` places wall-aligned windows on the timeline.
    ///
    /// A fixed window that begins with use and is counted by arrival becomes a sliding one: the
    /// server's window begins at an arrival that we cannot know, and only a sliding window stays
    /// within every place it can have.
    pub fn new(limit: &Limit, moment: ClockPair) -> Self {
        let live = match (limit.kind(), WindowStart::from_limit(limit)) {
            (LimitKind::Bucket { .. }, _) => MeterKind::Bucket(TokenBucket::new(limit)),
            (LimitKind::Sliding, _) | (LimitKind::Fixed, WindowStart::FromArrival) => {
                MeterKind::Sliding(SlidingWindow::new(limit))
            }
            (LimitKind::Fixed | LimitKind::Aligned, _) => {
                MeterKind::Fixed(FixedWindow::new(limit, moment))
            }
        };
        Self {
            live,
            changed_at: None,
        }
    }

    /// Whether `cost` fits now; takes nothing.
    #[inline]
    pub fn check(&mut self, now: Nanos, cost: Cost) -> Decision {
        each!(&mut self.live, meter => meter.check(now, cost))
    }

    /// Takes `cost` if all of it fits now, or takes nothing.
    pub fn take(&mut self, now: Nanos, cost: Cost) -> Decision<Receipt> {
        self.check(now, cost).map(|()| self.commit(cost, now))
    }

    /// Takes what [`check`](Self::check) has just allowed, to be sent at `send_at`.
    #[inline]
    pub(crate) fn commit(&mut self, cost: Cost, send_at: Nanos) -> Receipt {
        each!(&mut self.live, meter => meter.commit(cost, send_at))
    }

    /// Removes that consumption if it still counts; tells whether it did. Give a receipt back to the
    /// meter that gave it, and only for what provably never left: what may have reached the server
    /// is to be settled instead.
    ///
    /// Tokens of a bucket refill in the order in which they were taken: of one given back, what has
    /// refilled meanwhile is not returned twice.
    pub fn refund(&mut self, now: Nanos, receipt: Receipt) -> bool {
        self.give_back(now, &receipt)
    }

    pub(crate) fn give_back(&mut self, now: Nanos, receipt: &Receipt) -> bool {
        let taken_over = self.changed_at.is_some_and(|at| receipt.at() <= at);
        if taken_over && receipt.counting() == WindowStart::FromSend {
            return false;
        }
        each!(&mut self.live, meter => meter.refund(now, receipt))
    }

    /// Removes a consumption known by its time (within a millisecond) and cost alone, for callers
    /// that kept no receipt. A sliding window removes the latest match; the other kinds ignore the
    /// time. Only limits counted from sending know their entries by time.
    pub fn refund_at(&mut self, at: Nanos, cost: Cost) -> bool {
        match &mut self.live {
            MeterKind::Sliding(meter) => meter.refund_at(at, cost),
            MeterKind::Fixed(meter) => meter.refund_at(cost),
            MeterKind::Bucket(meter) => meter.refund_at(cost),
        }
    }

    /// Ends a request's time in flight: it reached the server at `arrived` at the latest, which may
    /// still be to come if the request was given up. Limits counted from sending have nothing to
    /// settle.
    pub fn settle(&mut self, now: Nanos, receipt: Receipt, arrived: Nanos) {
        self.land(now, &receipt, arrived);
    }

    pub(crate) fn land(&mut self, now: Nanos, receipt: &Receipt, arrived: Nanos) {
        let taken_over = self.changed_at.is_some_and(|at| receipt.at() <= at);
        if !taken_over || receipt.counting() == WindowStart::FromArrival {
            each!(&mut self.live, meter => meter.settle(now, receipt, arrived));
        }
    }

    /// Counts units that were used whether we like it or not: by someone else with the same key,
    /// say. The meter may stand above its limit afterwards.
    pub fn charge(&mut self, now: Nanos, units: u64) {
        each!(&mut self.live, meter => meter.charge(now, units));
    }

    /// Adopts another limit and keeps what was used. A limit of another kind takes over all that
    /// still counts as if it had been used just now.
    pub fn reconfigure(&mut self, moment: ClockPair, limit: &Limit) {
        let now = Nanos::from_nanos(each!(&self.live, meter => meter.latest())).max(moment.now);
        let moment = ClockPair {
            now,
            wall: moment.wall.saturating_add(now.since(moment.now)),
        };
        let mut next = Self::new(limit, moment);
        match (&mut self.live, &next.live) {
            (MeterKind::Sliding(meter), MeterKind::Sliding(_)) => meter.reconfigure(now, limit),
            (MeterKind::Fixed(meter), MeterKind::Fixed(_)) => meter.reconfigure(moment, limit),
            (MeterKind::Bucket(meter), MeterKind::Bucket(_)) => meter.reconfigure(now, limit),
            _ => {
                let standing = self.status(now);
                let landed = standing.used - standing.in_flight;
                next.charge(now, u64::try_from(landed).unwrap_or(u64::MAX));
                let held = each!(&mut self.live, meter => mem::take(meter.in_flight_mut()));
                each!(&mut next.live, meter => {
                    *meter.in_flight_mut() = held;
                    meter.inherit(&standing);
                });
                next.changed_at = Some(now);
                *self = next;
            }
        }
    }

    /// Forgets what is in flight and will be settled by others; what was given up and may yet arrive
    /// stays.
    pub(crate) fn forget_held(&mut self, now: Nanos) {
        let _brought_to_now = self.status(now);
        each!(&mut self.live, meter => meter.in_flight_mut().forget_held());
    }

    /// Places wall-aligned windows anew after the civil clock was set; others do not care.
    pub fn realign(&mut self, moment: ClockPair) {
        if let MeterKind::Fixed(meter) = &mut self.live {
            meter.realign(moment);
        }
    }

    /// When something returns next; `None` if nothing was used or time ends first.
    pub fn recovery(&mut self, now: Nanos) -> Option<Nanos> {
        each!(&mut self.live, meter => meter.recovery(now))
    }

    /// Where the meter stands.
    pub fn status(&mut self, now: Nanos) -> MeterStatus {
        each!(&mut self.live, meter => meter.standing(now))
    }

    /// Gives unused memory back. Housekeeping: no decision depends on it.
    pub fn prune(&mut self, now: Nanos) {
        each!(&mut self.live, meter => meter.tidy(now));
    }
}

/// Proof of one consumption: what to give back, or to settle. It is used up by either, so nothing
/// can be given back twice.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a receipt is settled or refunded; dropped, its cost is never seen to arrive"]
pub struct Receipt {
    at: Nanos,
    cost: Cost,
    counting: WindowStart,
    mark: u64,
}

impl Receipt {
    pub(crate) const fn new(at: Nanos, cost: Cost, counting: WindowStart) -> Self {
        Self {
            at,
            cost,
            counting,
            mark: 0,
        }
    }

    /// The same consumption as a limit counts it that takes this toll.
    pub(crate) const fn tolled(mut self, toll: UnitCost) -> Self {
        self.cost = toll.units(self.cost);
        self
    }

    pub(crate) const fn marked(mut self, mark: u64) -> Self {
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

    pub(crate) const fn counting(&self) -> WindowStart {
        self.counting
    }

    pub(crate) const fn mark(&self) -> u64 {
        self.mark
    }
}

/// From which moment an entry's window runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WindowStart {
    FromSend,
    FromArrival,
}

impl WindowStart {
    pub(crate) const fn from_limit(limit: &Limit) -> Self {
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
pub struct MeterStatus {
    /// The instant: the one asked about, or the latest seen if the clock stepped back.
    pub at: Nanos,
    /// The most that can be used.
    pub capacity: u64,
    /// What counts now, in flight included. Above the capacity after a limit shrank.
    pub used: u128,
    /// What was sent and has not come back, when arrivals are counted.
    pub in_flight: u128,
    /// How many requests that is, as far as the meter keeps them apart: those in its log and those
    /// in flight. Fixed windows and buckets keep none of what has landed.
    pub requests: usize,
    /// The most that ever counted at once.
    pub peak: u128,
    /// The oldest entry that counts, of those that have landed.
    pub oldest: Option<Nanos>,
    /// The newest entry that counts, of those that have landed.
    pub newest: Option<Nanos>,
    /// Since when entries count.
    pub window_start: Nanos,
    /// Until when: the instant itself, or the next reset of a fixed window.
    pub window_end: Nanos,
    /// How many entries (or windows) have expired so far.
    pub expired: u64,
    /// Bytes on the heap.
    pub memory: usize,
}

impl MeterStatus {
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
