//! Other limits for a set that is in use: which goes on from which.
//!
//! A limit is not its place in a list: one may be added before it, and it is still the same. So
//! whoever changes a list says for each new limit what it goes on from. What goes on from nothing
//! would let a whole limit through beside what was sent a moment ago; that is why a limit that is
//! really new begins with a copy of a meter that knows that moment.
//!
//! What is in flight has a grant of the old list. It is renewed: it keeps what it holds of limits that
//! stay, takes from those that are new, however full they are, and forgets those that are gone.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem;

use super::{MeterSet, MeterSlot, TooManyLimits};
use crate::receipt_set::{MAX_LIMITS, ReceiptSet};
use crate::{ClockPair, Cost, Limit, Meter, Nanos};

/// What a limit of a new list goes on from.
#[derive(Debug, Clone)]
pub enum CarryOver {
    /// It is the limit at this place of the old list, perhaps with other numbers.
    Keeps(usize),
    /// It is new, and counts what this meter counts, as [`MeterSet::landed`] gives it.
    Learns(Box<Meter>),
    /// It is new, and nothing is known.
    Nothing,
}

impl MeterSet {
    /// Adopts another list of limits, each with what it goes on from. Two cannot keep the same one:
    /// the second begins with nothing. Outstanding grants must be [renewed](Self::renew), or they hold
    /// nothing of what changed its place.
    ///
    /// ```
    /// use outflow_core::{Accounting, Cost, Heritage, Limit, MeterSet, Moment, Nanos};
    ///
    /// let second = Limit::sliding("2/s".parse()?).counted(Accounting::Send);
    /// let minute = Limit::sliding("9/min".parse()?).counted(Accounting::Send);
    /// let mut set = MeterSet::new(&[second], Moment::default())?;
    /// assert!(set.take(Nanos::ZERO, Cost::new(2)).is_allow());
    ///
    /// let known = set.landed(Nanos::ZERO, 0).expect("it is there");
    /// let list = [(minute, Heritage::Learns(Box::new(known))), (second, Heritage::Keeps(0))];
    /// set.succeed(Moment::default(), list.into())?;
    /// let used: Vec<_> = set.standings(Nanos::ZERO).map(|(_, standing)| standing.used).collect();
    /// assert_eq!(used, [2, 2]);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If there are more than [`MAX_LIMITS`]; nothing was changed then.
    pub fn succeed(
        &mut self,
        moment: ClockPair,
        list: Vec<(Limit, CarryOver)>,
    ) -> Result<(), TooManyLimits> {
        if list.len() > MAX_LIMITS {
            return Err(TooManyLimits);
        }
        let now = self.see(moment.now);
        let before: Vec<MeterSlot> = mem::take(&mut self.slots);
        let mut before: Vec<Option<MeterSlot>> = before.into_iter().map(Some).collect();
        self.slots.reserve_exact(list.len());
        for (place, (limit, heritage)) in list.into_iter().enumerate() {
            let kept = match &heritage {
                CarryOver::Keeps(old) => before.get_mut(*old).and_then(Option::take),
                CarryOver::Learns(_) | CarryOver::Nothing => None,
            };
            let mut slot = kept.unwrap_or_else(|| self.fresh(&limit, heritage, moment));
            slot.adopt(&limit, moment);
            slot.observe(place, now);
            self.slots.push(slot);
        }
        Ok(())
    }

    /// The meter at a place without what its calls in flight hold: what a new limit learns from. Those
    /// calls are counted by the new limit when their grants are renewed.
    pub fn landed(&mut self, now: Nanos, place: usize) -> Option<Meter> {
        let now = self.see(now);
        let mut meter = self.slots.get(place)?.meter.clone();
        meter.forget_held(now);
        Some(meter)
    }

    /// The same grant, of the limits that there are now.
    #[must_use = "a grant is settled or refunded; dropped, its cost is never seen to arrive"]
    pub fn renew(&mut self, now: Nanos, grant: ReceiptSet) -> ReceiptSet {
        let now = self.see(now);
        let mut next = grant.emptied();
        let receipts: Vec<_> = grant.receipts().collect();
        for (place, slot) in self.slots.iter_mut().enumerate() {
            let mut known = receipts.iter();
            if let Some(held) = known.find_map(|known| known.shown_to(slot.number)) {
                next.hold(place, slot.number, held);
            } else {
                let taken = slot.burden(now, &next);
                next.hold(place, slot.number, &taken);
            }
        }
        next
    }

    /// A grant for a call that is on its way already, however full the limits are.
    #[must_use = "a grant is settled or refunded; dropped, its cost is never seen to arrive"]
    pub fn burden(&mut self, now: Nanos, cost: Cost) -> ReceiptSet {
        let now = self.see(now);
        self.renew(now, ReceiptSet::new(now, cost))
    }

    fn fresh(&mut self, limit: &Limit, heritage: CarryOver, moment: ClockPair) -> MeterSlot {
        self.made = self.made.wrapping_add(1).max(1);
        let mut slot = MeterSlot::new(self.made, limit, moment);
        if let CarryOver::Learns(mut meter) = heritage {
            meter.reconfigure(moment, limit);
            slot.meter = *meter;
        }
        slot
    }
}
