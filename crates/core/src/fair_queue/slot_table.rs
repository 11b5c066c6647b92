//! Where tenants sit: what the order knows of each, and whose seat it is.
//!
//! Seats are used again, so a handle carries the generation of its seat, and one that is out of
//! date finds nothing.

use alloc::vec::Vec;

use super::heap::index;
use super::order_key::OrderKey;
use super::tenant::Tenant;
use super::virtual_time::{TenantShare, VirtualTime};
use crate::Nanos;

/// All seats, taken and free.
#[derive(Clone, Debug)]
pub(super) struct SlotTable {
    slots: Vec<SlotEntry>,
    free: Vec<u32>,
}

#[derive(Clone, Default, Debug)]
struct SlotEntry {
    generation: u32,
    seat: Option<TenantSlot>,
}

/// What is known of one tenant.
#[derive(Clone, Debug)]
pub(super) struct TenantSlot {
    pub(super) claim: TenantShare,
    /// Where its next service begins.
    pub(super) place: VirtualTime,
    /// How far it was behind the clock when it was put aside, which only a refund can bring about.
    /// It is kept for its return: the service was charged and not given.
    pub(super) owed: u128,
    /// How much service it must be charged before refunds are given in full again: twice what was
    /// given, so that half of every charge stays whatever is taken back.
    pub(super) unearned: u64,
    /// By how much it may go ahead of its place.
    pub(super) lead: u128,
    /// When it came to its place: of two tenants at one place, the earlier is next. Zero if not
    /// yet.
    pub(super) entry: u64,
    pub(super) has_work: bool,
    pub(super) paused: bool,
    pub(super) parked: Option<Nanos>,
}

impl SlotTable {
    pub(super) const fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Seats someone with this claim.
    pub(super) fn give(&mut self, claim: TenantShare) -> Tenant {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(SlotEntry::default());
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        let mut generation = 0;
        if let Some(free) = self.slots.get_mut(index(slot)) {
            free.seat = Some(TenantSlot::new(claim));
            generation = free.generation;
        }
        Tenant { slot, generation }
    }

    /// Frees the tenant's seat, if it is still its own.
    pub(super) fn vacate(&mut self, tenant: Tenant) {
        if self.get(tenant).is_none() {
            return;
        }
        if let Some(slot) = self.slots.get_mut(index(tenant.slot)) {
            slot.seat = None;
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(tenant.slot);
        }
    }

    pub(super) fn get(&self, tenant: Tenant) -> Option<&TenantSlot> {
        let slot = self.slots.get(index(tenant.slot))?;
        let seat = slot.seat.as_ref();
        seat.filter(|_| slot.generation == tenant.generation)
    }

    pub(super) fn of_mut(&mut self, tenant: Tenant) -> Option<&mut TenantSlot> {
        let slot = self.slots.get_mut(index(tenant.slot))?;
        let seat = slot.seat.as_mut();
        seat.filter(|_| slot.generation == tenant.generation)
    }

    /// Who sits there now.
    pub(super) fn holder(&self, slot: u32) -> Option<Tenant> {
        let generation = self.slots.get(index(slot))?.generation;
        Some(Tenant { slot, generation })
    }
}

impl TenantSlot {
    const fn new(claim: TenantShare) -> Self {
        Self {
            claim,
            place: VirtualTime::ORIGIN,
            owed: 0,
            unearned: 0,
            lead: 0,
            entry: 0,
            has_work: false,
            paused: false,
            parked: None,
        }
    }

    /// Moves it by a service of `cost`.
    pub(super) fn serve(&mut self, cost: u64) {
        self.place.advance(self.claim.stretch(cost));
        self.unearned = self.unearned.saturating_sub(cost);
    }

    /// Moves it back for a service of `cost` that it did not have, by no more than leaves this one
    /// unearned. Answers how much of the cost was given back.
    pub(super) fn give_back(&mut self, cost: u64) -> u64 {
        let given = cost.saturating_sub(self.unearned.div_ceil(2));
        self.unearned = self.unearned.saturating_add(given.saturating_mul(2));
        self.place.retreat(self.claim.stretch(given));
        given
    }

    /// Changes its claim, and measures all that was measured by the old one anew.
    pub(super) fn reclaim(&mut self, claim: TenantShare, clock: u128) {
        let anew = |distance| claim.rescale(distance, self.claim);
        let ahead = anew(self.place.whole.saturating_sub(clock));
        let behind = anew(clock.saturating_sub(self.place.whole));
        self.lead = anew(self.lead);
        self.place = VirtualTime::at(clock.saturating_add(ahead).saturating_sub(behind));
        self.claim = claim;
    }

    /// Notes what it is owed while it is out of the order, at this time of the clock. Who has no
    /// work is owed nothing.
    pub(super) const fn bank(&mut self, clock: u128) {
        self.owed = if self.has_work {
            clock.saturating_sub(self.place.whole)
        } else {
            0
        };
    }

    /// Brings its place up to the clock, but for what it is owed. If that moves it, it has yet to
    /// come to its new place.
    pub(super) fn catch_up(&mut self, clock: u128) {
        let floor = clock.saturating_sub(self.owed);
        if self.place.whole < floor {
            self.place = VirtualTime::at(floor);
            self.entry = 0;
        }
    }

    /// What it is sorted by.
    pub(super) fn turn(&self) -> OrderKey {
        OrderKey::new(self.place.whole.saturating_sub(self.lead), self.entry)
    }
}
