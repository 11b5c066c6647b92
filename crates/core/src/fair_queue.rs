//! Start-time fair queueing over tenants.
//!
//! Each tenant has a place on a virtual clock that moves, with each service, by cost over weight;
//! the tenant furthest behind is next. Round-robin queues would be fair per job and not per cost. A
//! bonus for progress would let the largest tenant starve a newcomer. An idle tenant accumulates
//! nothing: it returns at the clock's present time.
//!
//! Between two tenants that can be served all the time, service divided by share never differs by
//! more than one largest service of each: `|s₁/w₁ − s₂/w₂| ≤ c₁/w₁ + c₂/w₂`. The queue has a next
//! tenant as long as one may be served. A newcomer waits for at most one service of each earlier
//! tenant, independent of their backlogs.
//!
//! A refund can put a tenant behind the clock, but never by more than one of its services, and at
//! least half of its charges stay. With refunds the difference is at most two largest services of
//! each, plus the refunds of the tenant ahead, or one and a half of its services if that is less. A
//! newcomer waits for at most three services of each tenant.
//!
//! The caller keeps the jobs, first in first out per tenant. It reports which tenants have work,
//! which must pause and which were served.

mod heap;
mod order_key;
mod slot_table;
mod tenant;
mod virtual_time;

use core::mem;

use crate::{Cost, Nanos};
use heap::SlotHeap;
use order_key::OrderKey;
use slot_table::{SlotTable, TenantSlot};
pub use tenant::{InvalidWeight, Priority, Tenant, Weight};
use virtual_time::{TenantShare, VirtualTime};

/// Order in which tenants are served.
///
/// ```
/// use outflow_core::{Cost, FairQueue, Nanos, Priority, Weight};
///
/// let mut order = FairQueue::new();
/// let big = order.join(Weight::new(2)?, Priority::Normal);
/// let small = order.join(Weight::ONE, Priority::Normal);
/// order.enter(big);
/// order.enter(small);
///
/// let now = Nanos::ZERO;
/// let mut turns = [0, 0];
/// for _ in 0..30 {
///     let tenant = order.next(now).expect("both have work");
///     order.charge(tenant, Cost::ONE);
///     turns[usize::from(tenant == small)] += 1;
/// }
/// assert_eq!(turns, [20, 10], "twice the weight, twice the service");
/// # Ok::<(), outflow_core::InvalidWeight>(())
/// ```
#[derive(Clone, Debug)]
pub struct FairQueue {
    slots: SlotTable,
    ready: SlotHeap<OrderKey>,
    /// Ordered by the instant of return, then by arrival at the place. The slot decides between
    /// tenants that never had a place, so that a run can be repeated.
    blocked: SlotHeap<(Nanos, u64, u32)>,
    /// Virtual time: the place of the tenant served last.
    clock: u128,
    /// The furthest place that any tenant has reached.
    furthest: u128,
    entries: u64,
    working: usize,
    max_boost: Cost,
}

impl FairQueue {
    /// Builds a queue ordered by service and weights alone.
    pub const fn new() -> Self {
        Self::with_max_boost(Cost::ZERO)
    }

    /// Builds a queue in which [`boost_by_progress`](Self::boost_by_progress) moves a tenant ahead
    /// by up to `limit` of its own cost. The fairness bound widens equally. Keep it at zero unless
    /// finishing nearly complete work is worth a newcomer's wait.
    pub const fn with_max_boost(max: Cost) -> Self {
        Self {
            slots: SlotTable::new(),
            ready: SlotHeap::new(),
            blocked: SlotHeap::new(),
            clock: VirtualTime::ORIGIN.whole,
            furthest: VirtualTime::ORIGIN.whole,
            entries: 0,
            working: 0,
            max_boost: max,
        }
    }

    /// Adds a tenant without work.
    pub fn join(&mut self, weight: Weight, priority: Priority) -> Tenant {
        self.slots.allocate(TenantShare::new(weight, priority))
    }

    /// Removes a tenant and its debt. If it only ran out of work, use [`set_idle`](Self::set_idle):
    /// otherwise it would return as a newcomer after every large job.
    pub fn leave(&mut self, tenant: Tenant) {
        self.set_idle(tenant);
        self.slots.release(tenant);
    }

    /// Marks the tenant as having work.
    pub fn enter(&mut self, tenant: Tenant) {
        if let Some(slot) = self.slots.get_mut(tenant)
            && !slot.has_work
        {
            slot.has_work = true;
            self.working += 1;
            self.arrange(tenant);
        }
    }

    /// Marks the tenant as idle. Unused service and refunds due are dropped; its debt stays as long
    /// as another tenant has work.
    pub fn set_idle(&mut self, tenant: Tenant) {
        if let Some(slot) = self.slots.get_mut(tenant)
            && slot.has_work
        {
            slot.has_work = false;
            slot.owed = 0;
            self.working -= 1;
            self.arrange(tenant);
        }
        if self.working == 0 {
            // With no working tenant left, old debts end: all start together again, since idle
            // tenants are owed nothing.
            self.clock = self.clock.max(self.furthest);
        }
    }

    /// Returns the tenant to serve next, among those with work that are neither paused nor blocked
    /// beyond `now`. It stays first until it is charged, blocked or paused.
    pub fn next(&mut self, now: Nanos) -> Option<Tenant> {
        while let Some(((until, ..), slot)) = self.blocked.first()
            && until <= now
        {
            self.unblock(self.slots.holder(slot)?);
        }
        let (_, slot) = self.ready.first()?;
        self.slots.holder(slot)
    }

    /// Returns the time at which the next blocked tenant returns: call [`next`](Self::next) again
    /// then if it returned `None`.
    pub fn next_wakeup(&self) -> Option<Nanos> {
        self.blocked.first().map(|((until, ..), _)| until)
    }

    /// Charges a service of `cost` and returns the charge, which can be refunded. A service is
    /// never free: a cost of zero counts as one, or a tenant of free jobs would always be first.
    ///
    /// Returns `None` if the tenant has left.
    pub fn charge(&mut self, tenant: Tenant, cost: Cost) -> Option<FairCharge> {
        if let Some((first, _)) = self.ready.first() {
            self.clock = self.clock.max(first.point());
        }
        self.entries += 1;
        let (entry, cost) = (self.entries, cost.units().max(1));
        let (before, reached) = self.shift(tenant, |slot, _| {
            slot.serve(cost);
            (mem::replace(&mut slot.entry, entry), slot.place.whole)
        })?;
        self.furthest = self.furthest.max(reached);
        Some(FairCharge {
            tenant,
            cost,
            entry: before,
        })
    }

    /// Refunds a charge because the job was not served: the tenant returns to its place without the
    /// charge. A tenant that must wait keeps the refund; an idle one does not, so call
    /// [`enter`](Self::enter) first.
    ///
    /// Several refunds are granted only in part. The tenant gets at most one service behind its
    /// place, and less until it was charged twice that amount again. Otherwise a tenant whose every
    /// job is refused would always be next.
    #[expect(clippy::needless_pass_by_value, reason = "refunding consumes the charge")]
    pub fn refund(&mut self, charge: FairCharge) {
        self.shift(charge.tenant, |slot, _| {
            if slot.refund(charge.cost) == charge.cost {
                slot.entry = slot.entry.min(charge.entry);
            }
        });
    }

    /// Blocks a tenant until an instant, for its own limit, a cap or a cooldown. Of several
    /// instants the last holds.
    pub fn block_until(&mut self, tenant: Tenant, until: Nanos) {
        if let Some(slot) = self.slots.get_mut(tenant) {
            slot.blocked = slot.blocked.max(Some(until));
            self.arrange(tenant);
        }
    }

    /// Unblocks a tenant at once.
    pub fn unblock(&mut self, tenant: Tenant) {
        if let Some(slot) = self.slots.get_mut(tenant) {
            slot.blocked = None;
            self.arrange(tenant);
        }
    }

    /// Pauses a tenant until [`resume`](Self::resume).
    pub fn pause(&mut self, tenant: Tenant) {
        if let Some(slot) = self.slots.get_mut(tenant) {
            slot.paused = true;
            self.arrange(tenant);
        }
    }

    /// Ends a pause. A blocked tenant stays blocked.
    pub fn resume(&mut self, tenant: Tenant) {
        if let Some(slot) = self.slots.get_mut(tenant) {
            slot.paused = false;
            self.arrange(tenant);
        }
    }

    /// Changes a tenant's share. Its distance from the clock stays equal in service and is rescaled
    /// in time, so that the next service already follows the new share.
    pub fn reweight(&mut self, tenant: Tenant, weight: Weight, priority: Priority) {
        let share = TenantShare::new(weight, priority);
        self.shift(tenant, |slot, clock| {
            slot.set_share(share, clock);
        });
    }

    /// Moves a tenant ahead by the completed part of its work, within the bound given to
    /// [`with_max_boost`](Self::with_max_boost).
    pub fn boost_by_progress(&mut self, tenant: Tenant, done: u64, remaining: u64) {
        let max = u128::from(self.max_boost.units());
        let all = (u128::from(done) + u128::from(remaining)).max(1);
        let boost = u64::try_from(max * u128::from(done) / all).unwrap_or(u64::MAX);
        self.shift(tenant, |slot, _| {
            slot.lead = slot.share.span_for(boost).whole;
        });
    }

    /// Returns the condition that the tenant waits for, `None` if it has left.
    pub fn eligibility(&self, tenant: Tenant) -> Option<Eligibility> {
        let slot = self.slots.get(tenant)?;
        Some(match slot.blocked {
            _ if !slot.has_work => Eligibility::Work,
            _ if slot.paused => Eligibility::Resume,
            Some(until) => Eligibility::Instant(until),
            None => Eligibility::Turn,
        })
    }

    /// Returns the number of tenants with work, including tenants that may not be served now.
    pub const fn working(&self) -> usize {
        self.working
    }

    /// Returns the number of tenants that could be served at once.
    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Puts the tenant into the structure that matches its eligibility.
    fn arrange(&mut self, tenant: Tenant) {
        let slot = tenant.slot;
        match self.eligibility(tenant) {
            Some(Eligibility::Turn) => {
                self.blocked.remove(slot);
                self.admit(tenant);
            }
            Some(Eligibility::Instant(until)) => {
                self.withdraw(tenant);
                let entry = self.slots.get(tenant).map_or(0, |slot| slot.entry);
                self.blocked.set(slot, (until, entry, slot));
            }
            Some(Eligibility::Work | Eligibility::Resume) | None => {
                self.withdraw(tenant);
                self.blocked.remove(slot);
            }
        }
    }

    /// Brings a returning tenant up to the clock and into the order.
    fn admit(&mut self, tenant: Tenant) {
        if self.ready.contains(tenant.slot) {
            return;
        }
        self.entries += 1;
        let (clock, entry) = (self.clock, self.entries);
        if let Some(slot) = self.slots.get_mut(tenant) {
            slot.catch_up(clock);
            if slot.entry == 0 {
                slot.entry = entry;
            }
            let order_key = slot.order_key();
            self.ready.set(tenant.slot, order_key);
        }
    }

    /// Takes a tenant out of the order.
    fn withdraw(&mut self, tenant: Tenant) {
        if self.ready.contains(tenant.slot) {
            self.ready.remove(tenant.slot);
            let clock = self.clock;
            if let Some(slot) = self.slots.get_mut(tenant) {
                slot.store_refund(clock);
            }
        }
    }

    /// Applies `change` to a tenant's slot and updates its position in the order or among blocked
    /// tenants.
    fn shift<T>(&mut self, tenant: Tenant, change: impl FnOnce(&mut TenantSlot, u128) -> T) -> Option<T> {
        let (clock, in_order) = (self.clock, self.ready.contains(tenant.slot));
        let slot = self.slots.get_mut(tenant)?;
        if !in_order {
            slot.catch_up(clock);
        }
        let result = change(slot, clock);
        if in_order {
            let order_key = slot.order_key();
            self.ready.set(tenant.slot, order_key);
        } else {
            slot.store_refund(clock);
            self.arrange(tenant);
        }
        Some(result)
    }
}

impl Default for FairQueue {
    fn default() -> Self {
        Self::new()
    }
}

/// One charge. It can be refunded once if the service did not take place.
#[derive(PartialEq, Eq, Debug)]
pub struct FairCharge {
    tenant: Tenant,
    cost: u64,
    entry: u64,
}

impl FairCharge {
    /// Returns the charged tenant.
    pub const fn tenant(&self) -> Tenant {
        self.tenant
    }
}

/// Condition that a tenant waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Eligibility {
    /// It has no work.
    Work,
    /// It waits for its service.
    Turn,
    /// It is blocked until this instant.
    Instant(Nanos),
    /// It is paused until an operator resumes it.
    Resume,
}

#[cfg(test)]
mod tests;
