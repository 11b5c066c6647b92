//! The live state of one limit.
//!
//! A meter takes the time and a cost and returns a [`Decision`]. Allowing and taking are one step,
//! so there is no check whose result can be lost. The kind of meter is chosen here, once, from the
//! limit. It is a closed enum, because callers choose limits at run time and should not carry a
//! type parameter.
//!
//! A meter counts plain numbers and does not know the unit of its limit: the owner of several
//! converts a request's cost for each.
//!
//! Time may step backwards: a meter stays at the latest time it has seen, so a step back refuses
//! more and never grants more.

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

/// Live state of one limit of any kind.
///
/// ```
/// use outflow_core::{Accounting, Cost, Decision, Limit, Meter, ClockPair, Nanos};
///
/// let limit = Limit::sliding("2/s".parse()?).counted(Accounting::Send);
/// let mut meter = Meter::new(&limit, ClockPair::default());
/// let first = meter.take(Nanos::ZERO, Cost::ONE).allowed().expect("an unused window");
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
    /// Time at which it became another kind of meter. Units taken from the earlier kind are part of
    /// the inherited usage and can no longer be refunded one by one.
    changed_at: Option<Nanos>,
}

#[derive(Debug, Clone)]
enum MeterKind {
    Sliding(SlidingWindow),
    Fixed(FixedWindow),
    Bucket(TokenBucket),
}

/// Calls one method of the actual meter.
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
    /// Builds an unused meter. `moment` places wall-aligned windows on the timeline.
    ///
    /// A fixed window that begins with use and is counted by arrival becomes a sliding one. The
    /// server's window begins at an unknown arrival, and only a sliding window stays within every
    /// possible one.
    pub fn new(limit: &Limit, moment: ClockPair) -> Self {
        let live = match (limit.kind(), WindowStart::from_limit(limit)) {
            (LimitKind::Bucket { .. }, _) => MeterKind::Bucket(TokenBucket::new(limit)),
            (LimitKind::Sliding, _) | (LimitKind::Fixed, WindowStart::FromArrival) => {
                MeterKind::Sliding(SlidingWindow::new(limit))
            }
            (LimitKind::Fixed | LimitKind::Aligned, _) => MeterKind::Fixed(FixedWindow::new(limit, moment)),
        };
        Self { live, changed_at: None }
    }

    /// Checks if `cost` fits now; takes nothing.
    #[inline]
    pub fn check(&mut self, now: Nanos, cost: Cost) -> Decision {
        each!(&mut self.live, meter => meter.check(now, cost))
    }

    /// Takes `cost` if all of it fits now, or takes nothing.
    pub fn take(&mut self, now: Nanos, cost: Cost) -> Decision<Receipt> {
        self.check(now, cost).map(|()| self.commit(cost, now))
    }

    /// Takes a cost that [`check`](Self::check) has just allowed, to be sent at `send_at`.
    #[inline]
    pub(crate) fn commit(&mut self, cost: Cost, send_at: Nanos) -> Receipt {
        each!(&mut self.live, meter => meter.commit(cost, send_at))
    }

    /// Removes the consumption if it still counts, and returns true if it did. Refund a receipt to
    /// its own meter, and only if the request provably never left; a request that may have reached
    /// the server is settled instead.
    ///
    /// Tokens of a bucket refill in the order in which they were taken: the refilled part of a
    /// refunded cost is not returned twice.
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

    /// Removes a consumption known only by its time and cost, for callers without a receipt, and
    /// returns true if it still counted. Returns false once its units have expired, its window was
    /// reset, or the meter became another kind. Only limits counted from sending know their entries
    /// by time.
    ///
    /// A sliding window removes the latest entry of this cost within a millisecond of `at`. A fixed
    /// window refunds what was taken in the current window, at most its usage. A bucket refunds the
    /// tokens that cannot have refilled since `at`.
    ///
    /// ```
    /// use outflow_core::{Accounting, ClockPair, Cost, Limit, Meter, Nanos};
    ///
    /// let limit = Limit::fixed("5/s".parse()?).counted(Accounting::Send);
    /// let mut meter = Meter::new(&limit, ClockPair::default());
    /// let taken = Nanos::from_millis(100);
    /// assert!(meter.take(taken, Cost::new(3)).is_allow());
    /// assert!(meter.refund_at(Nanos::from_millis(200), taken, Cost::new(3)));
    /// assert!(!meter.refund_at(Nanos::from_millis(200), taken, Cost::new(3)), "nothing is left of it");
    ///
    /// assert!(meter.take(Nanos::from_millis(300), Cost::ONE).is_allow());
    /// assert!(meter.take(Nanos::from_secs(2), Cost::ONE).is_allow());
    /// assert!(!meter.refund_at(Nanos::from_secs(2), Nanos::from_millis(300), Cost::ONE), "a reset came first");
    /// # Ok::<(), outflow_core::InvalidRate>(())
    /// ```
    pub fn refund_at(&mut self, now: Nanos, at: Nanos, cost: Cost) -> bool {
        if self.changed_at.is_some_and(|changed| at <= changed) {
            return false;
        }
        each!(&mut self.live, meter => meter.refund_at(now, at, cost))
    }

    /// Ends a request's time in flight. It reached the server at `arrived` at the latest, which may
    /// be in the future if the request was given up. Limits counted from sending have nothing to
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

    /// Counts units that were used without asking, for example by another program with this key.
    /// Usage may exceed the limit afterwards.
    pub fn charge(&mut self, now: Nanos, units: u64) {
        each!(&mut self.live, meter => meter.charge(now, units));
    }

    /// Applies another limit and keeps the usage. A limit of another kind takes over all usage that
    /// still counts as if it had happened just now.
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
                let status = self.status(now);
                let landed = status.used - status.in_flight;
                next.charge(now, u64::try_from(landed).unwrap_or(u64::MAX));
                let held = each!(&mut self.live, meter => mem::take(meter.in_flight_mut()));
                each!(&mut next.live, meter => {
                    *meter.in_flight_mut() = held;
                    meter.inherit(&status);
                });
                next.changed_at = Some(now);
                *self = next;
            }
        }
    }

    /// Turns a request in flight into one without a response, which can arrive until then.
    pub(crate) fn lose(&mut self, cost: Cost, until: Nanos) {
        let in_flight = each!(&mut self.live, meter => meter.in_flight_mut());
        in_flight.release(cost.units());
        in_flight.lose(until.as_nanos(), cost.units());
    }

    /// Drops requests in flight that another meter will settle; requests that were given up and may
    /// yet arrive stay.
    pub(crate) fn forget_held(&mut self, now: Nanos) {
        let _brought_to_now = self.status(now);
        each!(&mut self.live, meter => meter.in_flight_mut().forget_held());
    }

    /// Places wall-aligned windows again after the civil clock was set; other kinds ignore it.
    pub fn realign(&mut self, moment: ClockPair) {
        if let MeterKind::Fixed(meter) = &mut self.live {
            meter.realign(moment);
        }
    }

    /// Returns the time at which units return next; `None` if nothing was used or the timeline ends
    /// first.
    pub fn recovery(&mut self, now: Nanos) -> Option<Nanos> {
        each!(&mut self.live, meter => meter.recovery(now))
    }

    /// Returns the meter's status.
    pub fn status(&mut self, now: Nanos) -> MeterStatus {
        each!(&mut self.live, meter => meter.status(now))
    }

    /// Returns the highest usage since the last call.
    pub fn take_peak(&mut self) -> u128 {
        each!(&mut self.live, meter => meter.take_peak())
    }

    /// Releases unused memory. No decision depends on it.
    pub fn prune(&mut self, now: Nanos) {
        each!(&mut self.live, meter => meter.prune(now));
    }
}

/// Proof of one consumption, to be refunded or settled. Either one consumes it, so nothing is
/// refunded twice.
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

    /// Converts the consumption to the units that a limit counts.
    pub(crate) const fn with_unit_cost(mut self, unit_cost: UnitCost) -> Self {
        self.cost = unit_cost.units(self.cost);
        self
    }

    pub(crate) const fn marked(mut self, mark: u64) -> Self {
        self.mark = mark;
        self
    }

    /// Returns the time of the consumption.
    pub const fn at(&self) -> Nanos {
        self.at
    }

    /// Returns the consumed cost.
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

/// Start of an entry's window.
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

    /// Returns the extension of the window for an arrival that is estimated, not known.
    pub(crate) const fn margin(limit: &Limit) -> Duration {
        match limit.accounting() {
            Accounting::Tight => limit.guard(),
            Accounting::Send | Accounting::Safe => Duration::ZERO,
        }
    }
}

/// Status of a meter at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeterStatus {
    /// The requested instant, or the latest seen if the clock stepped back.
    pub at: Nanos,
    /// Maximum that can be used.
    pub capacity: u64,
    /// Usage that counts now, in flight included. It exceeds the capacity after a limit shrank.
    pub used: u128,
    /// Usage sent and not finished, when arrivals are counted.
    pub in_flight: u128,
    /// Number of these requests, as far as the meter stores them: those in its log and those in
    /// flight. Fixed windows and buckets store no finished requests.
    pub requests: usize,
    /// Highest usage so far.
    pub peak: u128,
    /// Oldest finished entry that counts.
    pub oldest: Option<Nanos>,
    /// Newest finished entry that counts.
    pub newest: Option<Nanos>,
    /// Start of the period in which entries count.
    pub window_start: Nanos,
    /// End of that period: the instant itself, or the next reset of a fixed window.
    pub window_end: Nanos,
    /// Number of entries (or windows) that have expired so far.
    pub expired: u64,
    /// Bytes on the heap.
    pub memory: usize,
}

impl MeterStatus {
    /// Returns the remaining quota.
    pub fn remaining(&self) -> u64 {
        let used = u64::try_from(self.used).unwrap_or(u64::MAX);
        self.capacity.saturating_sub(used)
    }

    /// Returns the remaining quota as a fraction of the capacity, from 0.0 to 1.0.
    #[expect(
        clippy::as_conversions,
        clippy::cast_precision_loss,
        reason = "shown to people; decisions compare whole numbers"
    )]
    pub fn remaining_rate(&self) -> f64 {
        self.remaining() as f64 / self.capacity as f64
    }
}
