//! Per-tenant state of the order, in reusable slots.
//!
//! Slots are reused, so a handle carries the generation of its slot, and an outdated handle finds
//! nothing.

use alloc::vec::Vec;

use super::heap::index;
use super::order_key::OrderKey;
use super::tenant::Tenant;
use super::virtual_time::{TenantShare, VirtualTime};
use crate::Nanos;

/// All slots, used and free.
#[derive(Clone, Debug)]
pub(super) struct SlotTable {
    slots: Vec<SlotEntry>,
    free: Vec<u32>,
}

#[derive(Clone, Default, Debug)]
struct SlotEntry {
    generation: u32,
    state: Option<TenantSlot>,
}

/// State of one tenant.
#[derive(Clone, Debug)]
pub(super) struct TenantSlot {
    pub(super) share: TenantShare,
    /// Place at which its next service begins.
    pub(super) place: VirtualTime,
    /// Distance behind the clock when it left the order, which only a refund can cause. It is kept
    /// for its return: the service was charged and not given.
    pub(super) owed: u128,
    /// Service that must be charged before refunds are granted in full again. It is twice the
    /// refunds, so that half of every charge stays.
    pub(super) unearned: u64,
    /// Distance by which it may go ahead of its place.
    pub(super) lead: u128,
    /// Order of arrival at its place: of two tenants at one place, the earlier is next. Zero if it
    /// has not arrived.
    pub(super) entry: u64,
    pub(super) has_work: bool,
    pub(super) paused: bool,
    pub(super) blocked: Option<Nanos>,
}

impl SlotTable {
    pub(super) const fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Allocates a slot for a tenant with this share.
    pub(super) fn allocate(&mut self, share: TenantShare) -> Tenant {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(SlotEntry::default());
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        let mut generation = 0;
        if let Some(free) = self.slots.get_mut(index(slot)) {
            free.state = Some(TenantSlot::new(share));
            generation = free.generation;
        }
        Tenant { slot, generation }
    }

    /// Frees the tenant's slot, if the handle is current.
    pub(super) fn release(&mut self, tenant: Tenant) {
        if self.get(tenant).is_none() {
            return;
        }
        if let Some(slot) = self.slots.get_mut(index(tenant.slot)) {
            slot.state = None;
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(tenant.slot);
        }
    }

    pub(super) fn get(&self, tenant: Tenant) -> Option<&TenantSlot> {
        let slot = self.slots.get(index(tenant.slot))?;
        let state = slot.state.as_ref();
        state.filter(|_| slot.generation == tenant.generation)
    }

    pub(super) fn get_mut(&mut self, tenant: Tenant) -> Option<&mut TenantSlot> {
        let slot = self.slots.get_mut(index(tenant.slot))?;
        let state = slot.state.as_mut();
        state.filter(|_| slot.generation == tenant.generation)
    }

    /// Returns the current tenant of a slot.
    pub(super) fn holder(&self, slot: u32) -> Option<Tenant> {
        let generation = self.slots.get(index(slot))?.generation;
        Some(Tenant { slot, generation })
    }
}

impl TenantSlot {
    const fn new(share: TenantShare) -> Self {
        Self {
            share,
            place: VirtualTime::ORIGIN,
            owed: 0,
            unearned: 0,
            lead: 0,
            entry: 0,
            has_work: false,
            paused: false,
            blocked: None,
        }
    }

    /// Advances it by a service of `cost`.
    pub(super) fn serve(&mut self, cost: u64) {
        self.place.advance(self.share.span_for(cost));
        self.unearned = self.unearned.saturating_sub(cost);
    }

    /// Moves it back for a service of `cost` that did not take place, limited to the amount that
    /// leaves this one unearned. Returns the refunded part of the cost.
    pub(super) fn refund(&mut self, cost: u64) -> u64 {
        let given = cost.saturating_sub(self.unearned.div_ceil(2));
        self.unearned = self.unearned.saturating_add(given.saturating_mul(2));
        self.place.retreat(self.share.span_for(given));
        given
    }

    /// Changes its share and rescales all distances that depend on it.
    pub(super) fn set_share(&mut self, share: TenantShare, clock: u128) {
        let rescale = |distance| share.rescale(distance, self.share);
        let ahead = rescale(self.place.whole.saturating_sub(clock));
        let behind = rescale(clock.saturating_sub(self.place.whole));
        self.lead = rescale(self.lead);
        self.place = VirtualTime::at(clock.saturating_add(ahead).saturating_sub(behind));
        self.share = share;
    }

    /// Stores its refund while it is out of the order, at this clock time. An idle tenant is owed
    /// nothing.
    pub(super) const fn store_refund(&mut self, clock: u128) {
        self.owed = if self.has_work {
            clock.saturating_sub(self.place.whole)
        } else {
            0
        };
    }

    /// Moves its place up to the clock, minus the refund due. If it moves, it has not yet arrived
    /// at its new place.
    pub(super) fn catch_up(&mut self, clock: u128) {
        let floor = clock.saturating_sub(self.owed);
        if self.place.whole < floor {
            self.place = VirtualTime::at(floor);
            self.entry = 0;
        }
    }

    /// Returns its sort key.
    pub(super) fn order_key(&self) -> OrderKey {
        OrderKey::new(self.place.whole.saturating_sub(self.lead), self.entry)
    }
}
