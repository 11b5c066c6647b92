//! New limits for a set in use, and the state each one carries over.
//!
//! A limit is not its index in a list: another may be added before it. So the caller says for each
//! new limit which state it continues. Without any state a new limit would grant its full quota on
//! top of requests sent a moment ago. That is why a really new limit starts with a copy of a meter
//! that has seen them.
//!
//! A request in flight holds receipts of the old list, which must be renewed. It keeps the receipts
//! of limits that stay, takes from new ones, however full, and drops those of removed limits.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem;

use super::{MeterSet, MeterSlot, TooManyLimits};
use crate::receipt_set::{MAX_LIMITS, ReceiptSet};
use crate::{ClockPair, Cost, Limit, Meter, Nanos};

/// State that a limit of a new list continues.
#[derive(Debug, Clone)]
pub enum CarryOver {
    /// The limit at this index of the old list, perhaps with other numbers.
    Keeps(usize),
    /// A new limit that starts with the usage of this meter, as returned by [`MeterSet::landed`].
    Learns(Box<Meter>),
    /// A new limit without usage.
    Nothing,
}

impl MeterSet {
    /// Applies another list of limits, each with its carried state. Two cannot keep the same one:
    /// the second starts unused. Outstanding receipts must be [renewed](Self::renew), or they lose
    /// limits that moved.
    ///
    /// ```
    /// use outflow_core::{Accounting, Cost, CarryOver, Limit, MeterSet, ClockPair, Nanos};
    ///
    /// let second = Limit::sliding("2/s".parse()?).counted(Accounting::Send);
    /// let minute = Limit::sliding("9/min".parse()?).counted(Accounting::Send);
    /// let mut set = MeterSet::new(&[second], ClockPair::default())?;
    /// assert!(set.take(Nanos::ZERO, Cost::new(2)).is_allow());
    ///
    /// let known = set.landed(Nanos::ZERO, 0).expect("it exists");
    /// let list = [(minute, CarryOver::Learns(Box::new(known))), (second, CarryOver::Keeps(0))];
    /// set.succeed(ClockPair::default(), list.into())?;
    /// let used: Vec<_> = set.statuses(Nanos::ZERO).map(|(_, status)| status.used).collect();
    /// assert_eq!(used, [2, 2]);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If there are more than [`MAX_LIMITS`]; nothing changes then.
    pub fn succeed(&mut self, moment: ClockPair, list: Vec<(Limit, CarryOver)>) -> Result<(), TooManyLimits> {
        if list.len() > MAX_LIMITS {
            return Err(TooManyLimits);
        }
        let now = self.see(moment.now);
        let before: Vec<MeterSlot> = mem::take(&mut self.slots);
        let mut before: Vec<Option<MeterSlot>> = before.into_iter().map(Some).collect();
        self.slots.reserve_exact(list.len());
        for (place, (limit, carry_over)) in list.into_iter().enumerate() {
            let carried = match &carry_over {
                CarryOver::Keeps(old) => before.get_mut(*old).and_then(Option::take),
                CarryOver::Learns(_) | CarryOver::Nothing => None,
            };
            let mut slot = carried.unwrap_or_else(|| self.fresh(&limit, carry_over, moment));
            slot.adopt(&limit, moment);
            slot.observe(place, now);
            self.slots.push(slot);
        }
        Ok(())
    }

    /// Returns the meter at an index without its requests in flight: the state that a new limit
    /// learns from. The new limit counts those requests when their receipts are renewed.
    pub fn landed(&mut self, now: Nanos, place: usize) -> Option<Meter> {
        let now = self.see(now);
        let mut meter = self.slots.get(place)?.meter.clone();
        meter.forget_held(now);
        Some(meter)
    }

    /// Converts a receipt set to the current limits.
    #[must_use = "a grant is settled or refunded; dropped, its cost is never seen to arrive"]
    pub fn renew(&mut self, now: Nanos, receipts: ReceiptSet) -> ReceiptSet {
        let now = self.see(now);
        let mut next = receipts.without_receipts();
        let receipts: Vec<_> = receipts.receipts().collect();
        for (place, slot) in self.slots.iter_mut().enumerate() {
            let mut known = receipts.iter();
            if let Some(held) = known.find_map(|known| known.receipt_for(slot.number)) {
                next.hold(place, slot.number, held);
            } else {
                let taken = slot.burden(now, &next);
                next.hold(place, slot.number, &taken);
            }
        }
        next
    }

    /// Builds a receipt set for a call already in flight, however full the limits are.
    #[must_use = "a grant is settled or refunded; dropped, its cost is never seen to arrive"]
    pub fn burden(&mut self, now: Nanos, cost: Cost) -> ReceiptSet {
        let now = self.see(now);
        self.renew(now, ReceiptSet::new(now, cost))
    }

    fn fresh(&mut self, limit: &Limit, carry_over: CarryOver, moment: ClockPair) -> MeterSlot {
        self.made = self.made.wrapping_add(1).max(1);
        let mut slot = MeterSlot::new(self.made, limit, moment);
        if let CarryOver::Learns(mut meter) = carry_over {
            meter.reconfigure(moment, limit);
            slot.meter = *meter;
        }
        slot
    }
}
