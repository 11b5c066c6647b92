//! A fixed window: the whole quantity returns at once.
//!
//! The window begins with its first use, or at whole multiples of its length in UTC. Across the
//! edge of two windows twice the limit can pass; that is the provider's rule, not an error here.
//! Unused windows are skipped by division, never by a loop.

use crate::meter::in_flight::InFlight;
use crate::meter::{MeterStatus, Receipt, WindowStart};
use crate::{ClockPair, Cost, Decision, Limit, LimitKind, Nanos};

/// Live state of a fixed or aligned limit.
///
/// Counted by arrival, a cost is charged to the window of sending, to every window it is in flight
/// in, and to that of its response.
#[derive(Debug, Clone)]
pub(crate) struct FixedWindow {
    quantity: u64,
    window: u64,
    counting: WindowStart,
    /// Start of aligned windows, as a remainder of the window; `None` if they begin with use.
    phase: Option<u64>,
    /// Start and length of the current window; `None` before the first use.
    current: Option<FixedSpan>,
    spent: u128,
    requests: usize,
    in_flight: InFlight,
    latest: u64,
    peak: u128,
    expired: u64,
}

#[derive(Debug, Clone, Copy)]
struct FixedSpan {
    start: u64,
    length: u64,
    /// Time at which `spent` was last zero; an earlier receipt has nothing left to refund.
    opened: u64,
}

impl FixedWindow {
    /// Builds an unused window. `moment` places aligned windows on the timeline.
    pub(crate) fn new(limit: &Limit, moment: ClockPair) -> Self {
        let mut fixed = Self {
            quantity: limit.rate().quantity(),
            window: limit.rate().per_nanos(),
            counting: WindowStart::from_limit(limit),
            phase: None,
            current: None,
            spent: 0,
            requests: 0,
            in_flight: InFlight::default(),
            latest: 0,
            peak: 0,
            expired: 0,
        };
        fixed.phase = fixed.phase_for(limit, moment);
        fixed
    }

    pub(crate) fn check(&mut self, now: Nanos, cost: Cost) -> Decision {
        self.advance(now);
        let cost = cost.units();
        if cost == 0 {
            return Decision::Allow(());
        }
        if cost > self.quantity {
            return Decision::Never;
        }
        if self.used() + u128::from(cost) <= u128::from(self.quantity) {
            return Decision::Allow(());
        }
        self.returns(u128::from(cost))
            .map_or(Decision::Never, |at| Decision::WaitUntil(Nanos::from_nanos(at)))
    }

    /// Takes a cost that [`check`](Self::check) has just allowed, to be sent at `send_at`.
    pub(crate) fn commit(&mut self, cost: Cost, send_at: Nanos) -> Receipt {
        let (units, send_at) = (cost.units(), send_at.as_nanos());
        let beyond = self.reset_at().is_some_and(|edge| send_at >= edge);
        match self.counting {
            _ if units == 0 => {}
            WindowStart::FromArrival => self.in_flight.hold(units),
            // A request sent after the edge counts on both sides of it.
            WindowStart::FromSend if beyond => self.in_flight.lose(send_at, units),
            WindowStart::FromSend => self.spend(units),
        }
        self.peak = self.peak.max(self.used());
        let receipt = Receipt::new(Nanos::from_nanos(self.latest), cost, self.counting);
        receipt.marked(if beyond { KEPT } else { 0 })
    }

    pub(crate) fn charge(&mut self, now: Nanos, units: u64) {
        self.advance(now);
        self.spend(units);
    }

    pub(crate) fn refund(&mut self, now: Nanos, receipt: &Receipt) -> bool {
        self.advance(now);
        let cost = receipt.cost().units();
        if cost == 0 {
            return false;
        }
        if receipt.counting() == WindowStart::FromArrival {
            self.in_flight.release(cost);
            return true;
        }
        let this_window = receipt.mark() != KEPT && self.is_current(receipt.at());
        if this_window {
            self.unspend(cost);
        }
        this_window
    }

    /// Refunds without a receipt what was taken in this window; never more than its usage.
    pub(crate) fn refund_at(&mut self, now: Nanos, at: Nanos, cost: Cost) -> bool {
        self.advance(now);
        let refunds = cost > Cost::ZERO && self.spent > 0 && self.is_current(at);
        if refunds {
            self.unspend(cost.units());
        }
        refunds
    }

    pub(crate) fn settle(&mut self, now: Nanos, receipt: &Receipt, arrived: Nanos) {
        self.advance(now);
        let (cost, arrived) = (receipt.cost().units(), arrived.as_nanos());
        let counted = receipt.counting() == WindowStart::FromArrival;
        let lands = counted || self.counting == WindowStart::FromArrival;
        if cost == 0 || !lands {
            return;
        }
        // Sent while sendings were counted, and the limit changed since. The request may have
        // arrived in this window though it was sent in the one before.
        self.refund(now, receipt);
        if arrived > self.latest {
            self.in_flight.lose(arrived, cost);
        } else {
            self.spend(cost);
        }
    }

    pub(crate) fn reconfigure(&mut self, moment: ClockPair, limit: &Limit) {
        self.advance(moment.now);
        let was_aligned = self.phase.is_some();
        self.quantity = limit.rate().quantity();
        self.window = limit.rate().per_nanos();
        self.counting = WindowStart::from_limit(limit);
        self.phase = self.phase_for(limit, moment);
        self.relocate();
        if was_aligned && self.phase.is_none() {
            self.restart();
        }
    }

    /// Places aligned windows again after the civil clock was set. Spent units stay spent until the
    /// next edge, wherever it now is.
    pub(crate) fn realign(&mut self, moment: ClockPair) {
        self.advance(moment.now);
        if self.phase.is_some() {
            self.phase = Some(phase_of(self.window, moment));
            self.relocate();
        }
    }

    pub(crate) const fn in_flight_mut(&mut self) -> &mut InFlight {
        &mut self.in_flight
    }

    /// Continues from the usage of another kind of meter.
    pub(crate) fn inherit(&mut self, status: &MeterStatus) {
        (self.peak, self.expired) = (status.peak, status.expired);
    }

    pub(crate) const fn latest(&self) -> u64 {
        self.latest
    }

    /// Returns the highest usage since the last call.
    pub(crate) fn take_peak(&mut self) -> u128 {
        let used = self.used();
        core::mem::replace(&mut self.peak, used)
    }

    pub(crate) fn prune(&mut self, now: Nanos) {
        self.advance(now);
        self.in_flight.shrink();
    }

    pub(crate) fn recovery(&mut self, now: Nanos) -> Option<Nanos> {
        self.advance(now);
        if self.used() == 0 {
            return None;
        }
        self.reset_at().map(Nanos::from_nanos)
    }

    pub(crate) fn status(&mut self, now: Nanos) -> MeterStatus {
        self.advance(now);
        let window = self.current.unwrap_or_else(|| self.window_at(self.latest));
        MeterStatus {
            at: Nanos::from_nanos(self.latest),
            capacity: self.quantity,
            used: self.used(),
            in_flight: self.in_flight.weight(),
            requests: self.requests + self.in_flight.requests(),
            peak: self.peak,
            oldest: None,
            newest: None,
            window_start: Nanos::from_nanos(window.start),
            window_end: Nanos::from_nanos(window.start.saturating_add(window.length)),
            expired: self.expired,
            memory: self.in_flight.memory(),
        }
    }

    fn spend(&mut self, cost: u64) {
        if cost > 0 {
            self.open();
            self.spent += u128::from(cost);
            self.requests += 1;
            self.peak = self.peak.max(self.used());
        }
    }

    fn unspend(&mut self, cost: u64) {
        self.spent = self.spent.saturating_sub(u128::from(cost));
        self.requests = self.requests.saturating_sub(1);
    }

    /// Returns true if the usage of this window includes what was taken at this time.
    fn is_current(&self, at: Nanos) -> bool {
        self.current.is_some_and(|window| at.as_nanos() >= window.opened)
    }

    fn open(&mut self) {
        if self.current.is_none() {
            self.current = Some(self.window_at(self.latest));
        }
    }

    fn advance(&mut self, now: Nanos) {
        let until = self.latest.max(now.as_nanos());
        while let Some((by, cost)) = self.in_flight.overdue(until) {
            self.move_to(by);
            self.spend(cost);
        }
        self.move_to(until);
    }

    fn move_to(&mut self, time: u64) {
        self.latest = self.latest.max(time);
        if self.current.is_some_and(|w| self.latest - w.start >= w.length) {
            self.expired = self.expired.saturating_add(u64::from(self.spent > 0));
            (self.spent, self.requests) = (0, 0);
            self.current = None;
        }
    }

    /// Moves the edges of a window in use, keeping its usage.
    fn relocate(&mut self) {
        let Some(old) = self.current else { return };
        if self.phase.is_some() {
            self.current = Some(FixedSpan {
                opened: old.opened,
                ..self.window_at(self.latest)
            });
        } else if self.latest - old.start < self.window {
            self.current = Some(FixedSpan {
                length: self.window,
                ..old
            });
        } else {
            // The shorter window is over already, and recent usage must not be forgotten.
            self.restart();
        }
    }

    /// Restarts the window now, as if all its usage had happened now.
    fn restart(&mut self) {
        if let Some(old) = self.current {
            self.current = Some(FixedSpan {
                start: self.latest,
                length: self.window,
                ..old
            });
        }
    }

    fn window_at(&self, time: u64) -> FixedSpan {
        let Some(phase) = self.phase else {
            return FixedSpan {
                start: time,
                length: self.window,
                opened: time,
            };
        };
        let window = u128::from(self.window);
        let into = (u128::from(time) + window - u128::from(phase)) % window;
        let into = u64::try_from(into).unwrap_or(0);
        // The first window of the timeline began before its origin: only its rest is left.
        let start = time.saturating_sub(into);
        FixedSpan {
            start,
            length: self.window - (into - (time - start)),
            opened: time,
        }
    }

    /// Returns the time at which `cost` fits: the next edge, or that of the window into which the
    /// last blocking request can still fall.
    fn returns(&self, cost: u128) -> Option<u64> {
        let over = (self.in_flight.weight() + cost).saturating_sub(u128::from(self.quantity));
        match self.in_flight.landed_by(over) {
            Some(by) => {
                let window = self.window_at(by);
                window.start.checked_add(window.length)
            }
            None => self.reset_at(),
        }
    }

    fn reset_at(&self) -> Option<u64> {
        let window = self.current.unwrap_or_else(|| self.window_at(self.latest));
        window.start.checked_add(window.length)
    }

    fn used(&self) -> u128 {
        self.spent + self.in_flight.weight()
    }

    fn phase_for(&self, limit: &Limit, moment: ClockPair) -> Option<u64> {
        matches!(limit.kind(), LimitKind::Aligned).then(|| phase_of(self.window, moment))
    }
}

/// Mark of a receipt for a request sent beyond the edge: it cannot be refunded.
const KEPT: u64 = 1;

/// Returns the remainder, by the window, of every instant at which the civil clock shows a whole
/// multiple of the window.
fn phase_of(window: u64, moment: ClockPair) -> u64 {
    let window = u128::from(window);
    let into = moment.wall.as_duration().as_nanos() % window;
    let phase = (u128::from(moment.now.as_nanos()) + window - into) % window;
    u64::try_from(phase).unwrap_or(0)
}
