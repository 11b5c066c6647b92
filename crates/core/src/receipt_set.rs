//! Receipts of an allowed request, one for every limit it passed.
//!
//! Each receipt names its limit by slot number, not by index alone: limits may change while
//! requests are in flight, and units of one must not be refunded to another.

use core::time::Duration;

use crate::meter::WindowStart;
use crate::{Cost, Nanos, Receipt, UnitCost};

/// Right to send once, taken from every limit of a set. Settling or refunding consumes it.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a grant is settled or refunded; dropped, its cost is never seen to arrive"]
pub struct ReceiptSet {
    at: Nanos,
    send_at: Nanos,
    cost: Cost,
    slots: [u32; MAX_LIMITS],
    marks: [u64; MAX_LIMITS],
    held: [bool; MAX_LIMITS],
}

impl ReceiptSet {
    pub(crate) const fn new(now: Nanos, cost: Cost) -> Self {
        Self {
            at: now,
            send_at: now,
            cost,
            slots: [0; MAX_LIMITS],
            marks: [0; MAX_LIMITS],
            held: [false; MAX_LIMITS],
        }
    }

    /// Returns the time at which it was taken.
    pub const fn at(&self) -> Nanos {
        self.at
    }

    /// Returns the time to send: at once, or a little later where a limit is paced. It counts from
    /// then on.
    pub const fn send_at(&self) -> Nanos {
        self.send_at
    }

    /// Returns the cost taken from each limit that counts costs.
    pub const fn cost(&self) -> Cost {
        self.cost
    }

    /// Returns a copy without receipts.
    pub(crate) const fn without_receipts(&self) -> Self {
        let mut empty = Self::new(self.at, self.cost);
        empty.send_at = self.send_at;
        empty
    }

    pub(crate) fn postpone(&mut self, pause: Duration) {
        self.send_at = self.send_at.max(self.at.saturating_add(pause));
    }

    #[inline]
    pub(crate) fn hold(&mut self, place: usize, slot: u32, receipt: &Receipt) {
        if let Some(number) = self.slots.get_mut(place) {
            *number = slot;
        }
        if let Some(mark) = self.marks.get_mut(place) {
            *mark = receipt.mark();
        }
        if let Some(held) = self.held.get_mut(place) {
            *held = receipt.counting() == WindowStart::FromArrival;
        }
    }

    pub(crate) fn receipts(self) -> impl Iterator<Item = SlotReceipt> {
        let places = self.slots.into_iter().zip(self.marks).zip(self.held);
        places.map(move |((slot, mark), held)| {
            let counting = if held {
                WindowStart::FromArrival
            } else {
                WindowStart::FromSend
            };
            let receipt = Receipt::new(self.send_at, self.cost, counting).marked(mark);
            SlotReceipt { slot, receipt }
        })
    }
}

/// Receipt and its slot: another limit may be at that index by now.
pub(crate) struct SlotReceipt {
    slot: u32,
    receipt: Receipt,
}

impl SlotReceipt {
    /// Returns the receipt for the slot of this number, in the units it counts.
    pub(crate) fn apply(self, slot: u32, unit_cost: UnitCost) -> Option<Receipt> {
        (self.slot == slot).then(|| self.receipt.with_unit_cost(unit_cost))
    }

    /// Returns a reference to the receipt for the slot of this number.
    pub(crate) fn receipt_for(&self, slot: u32) -> Option<&Receipt> {
        (self.slot == slot).then_some(&self.receipt)
    }
}

/// Maximum number of limits of one request. Real providers publish up to five at once; a receipt
/// set stays small enough for the stack.
pub const MAX_LIMITS: usize = 8;
