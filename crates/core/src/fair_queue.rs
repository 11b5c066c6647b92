//! Whose turn it is: start-time fair queueing over tenants.
//!
//! Every tenant has a place on a virtual clock that moves, with each service, by cost over weight;
//! the one furthest behind is next. Queues that are served in turns would be fair per job and not
//! per cost, and a bonus for progress would let the largest tenant starve a newcomer for as long as
//! it runs. A tenant without work saves nothing up: it comes back at the clock's present time.
//!
//! Between two tenants that could be served all the time, service divided by claim never differs by
//! more than one largest service of each: `|s₁/w₁ − s₂/w₂| ≤ c₁/w₁ + c₂/w₂`. Somebody is always
//! next as long as anybody may be served, and a newcomer waits for at most one service of each
//! tenant that was there before it, whatever their backlogs.
//!
//! A charge that is taken back can put a tenant behind the clock, but never by more than one of its
//! services, and at least half of what it is charged stays, however much is taken back. So with
//! refunds, in any history, the difference is at most two largest services of each and what the one
//! ahead was given back meanwhile, or half of its service and one more if that is less; and a
//! newcomer waits for at most three services of each.
//!
//! Jobs are not here. The caller keeps them, first in first out per tenant, and says who has work,
//! who must pause and what was served.

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

/// The order in which tenants are served.
///
/// ```
/// use outflow_core::{Cost, FairOrder, Nanos, Priority, Weight};
///
/// let mut order = FairOrder::new();
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
    seats: SlotTable,
    ready: SlotHeap<OrderKey>,
    /// By the instant of return; of those that return together, who came to its place earlier. The
    /// slot decides between those that never had a place, so that a run can be repeated.
    parked: SlotHeap<(Nanos, u64, u32)>,
    /// The virtual time: the place of the tenant served last.
    clock: u128,
    /// The furthest place that anyone has reached.
    furthest: u128,
    entries: u64,
    working: usize,
    most_favour: Cost,
}

impl FairQueue {
    /// An order that only service and weights decide.
    pub const fn new() -> Self {
        Self::favouring(Cost::ZERO)
    }

    /// An order in which a tenant may be [favoured](Self::boost_by_progress) by up to `most` of its own cost.
    /// The bound on fairness widens by as much; leave it at zero unless finishing what is almost
    /// done is worth a newcomer's wait.
    pub const fn favouring(most: Cost) -> Self {
        Self {
            seats: SlotTable::new(),
            ready: SlotHeap::new(),
            parked: SlotHeap::new(),
            clock: VirtualTime::ORIGIN.whole,
            furthest: VirtualTime::ORIGIN.whole,
            entries: 0,
            working: 0,
            most_favour: most,
        }
    }

    /// Gives a tenant a place. It has no work yet.
    pub fn join(&mut self, weight: Weight, priority: Priority) -> Tenant {
        self.seats.give(TenantShare::new(weight, priority))
    }

    /// Forgets a tenant, and what it owes. For one that only ran out of work, [`rest`](Self::set_idle)
    /// is right: it would otherwise come back as a newcomer after every large job.
    pub fn leave(&mut self, tenant: Tenant) {
        self.set_idle(tenant);
        self.seats.vacate(tenant);
    }

    /// The tenant has work.
    pub fn enter(&mut self, tenant: Tenant) {
        if let Some(seat) = self.seats.of_mut(tenant)
            && !seat.has_work
        {
            seat.has_work = true;
            self.working += 1;
            self.arrange(tenant);
        }
    }

    /// The tenant has no work left. What it had no use for is not saved up for it, nor what it was
    /// owed; what it owes is remembered as long as anybody works.
    pub fn set_idle(&mut self, tenant: Tenant) {
        if let Some(seat) = self.seats.of_mut(tenant)
            && seat.has_work
        {
            seat.has_work = false;
            seat.owed = 0;
            self.working -= 1;
            self.arrange(tenant);
        }
        if self.working == 0 {
            // With nobody left to be fair to, old debts end: all begin together again, for those
            // that rest are owed nothing.
            self.clock = self.clock.max(self.furthest);
        }
    }

    /// The tenant whose turn it is, of those that have work and are neither paused nor parked
    /// beyond `now`. It stays first until it is charged, parked or put aside.
    pub fn next(&mut self, now: Nanos) -> Option<Tenant> {
        while let Some(((until, ..), slot)) = self.parked.first()
            && until <= now
        {
            self.unpark(self.seats.holder(slot)?);
        }
        let (_, slot) = self.ready.first()?;
        self.seats.holder(slot)
    }

    /// When the next parked tenant returns: the instant to ask [`next`](Self::next) again if it
    /// said that nobody can be served.
    pub fn next_wakeup(&self) -> Option<Nanos> {
        self.parked.first().map(|((until, ..), _)| until)
    }

    /// Counts a service of `cost` to the tenant, and answers what undoes it. A turn is never free:
    /// a cost of zero counts as one, or a tenant of free jobs would be first for ever.
    ///
    /// None if the tenant has left.
    pub fn charge(&mut self, tenant: Tenant, cost: Cost) -> Option<FairCharge> {
        if let Some((first, _)) = self.ready.first() {
            self.clock = self.clock.max(first.point());
        }
        self.entries += 1;
        let (entry, cost) = (self.entries, cost.units().max(1));
        let (before, reached) = self.shift(tenant, |seat, _| {
            seat.serve(cost);
            (mem::replace(&mut seat.entry, entry), seat.place.whole)
        })?;
        self.furthest = self.furthest.max(reached);
        Some(FairCharge {
            tenant,
            cost,
            entry: before,
        })
    }

    /// Takes a charge back because the job was not served after all: the tenant stands where it
    /// would stand without it. If it has to wait before it can try again, that is kept for it; if
    /// it has no work, it is not, so let it [`enter`](Self::enter) first.
    ///
    /// Of several charges that are taken back only a part is given: as much as leaves the tenant
    /// one service behind its turn, and until it has been charged twice as much again, less. Or one
    /// whose every job is refused would be next for ever.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "the tag is used up: a charge is given back once"
    )]
    pub fn refund(&mut self, tag: FairCharge) {
        self.shift(tag.tenant, |seat, _| {
            if seat.give_back(tag.cost) == tag.cost {
                seat.entry = seat.entry.min(tag.entry);
            }
        });
    }

    /// Puts a tenant aside until an instant: its own limit, a cap or the server says so. Of several
    /// instants the last holds.
    pub fn block_until(&mut self, tenant: Tenant, until: Nanos) {
        if let Some(seat) = self.seats.of_mut(tenant) {
            seat.parked = seat.parked.max(Some(until));
            self.arrange(tenant);
        }
    }

    /// Lets a parked tenant return at once.
    pub fn unpark(&mut self, tenant: Tenant) {
        if let Some(seat) = self.seats.of_mut(tenant) {
            seat.parked = None;
            self.arrange(tenant);
        }
    }

    /// Puts a tenant aside until it is [resumed](Self::resume).
    pub fn pause(&mut self, tenant: Tenant) {
        if let Some(seat) = self.seats.of_mut(tenant) {
            seat.paused = true;
            self.arrange(tenant);
        }
    }

    /// Ends a pause. If the tenant is parked as well, it stays so.
    pub fn resume(&mut self, tenant: Tenant) {
        if let Some(seat) = self.seats.of_mut(tenant) {
            seat.paused = false;
            self.arrange(tenant);
        }
    }

    /// Changes a tenant's claim. Its distance from the clock, ahead or behind, stays the same in
    /// service and is measured anew in time, so that the next turn already follows the new share.
    pub fn reweight(&mut self, tenant: Tenant, weight: Weight, priority: Priority) {
        let claim = TenantShare::new(weight, priority);
        self.shift(tenant, |seat, clock| {
            seat.reclaim(claim, clock);
        });
    }

    /// Lets a tenant go ahead of its turn by the done part of its work, within the bound that the
    /// order was [made with](Self::favouring).
    pub fn boost_by_progress(&mut self, tenant: Tenant, done: u64, remaining: u64) {
        let most = u128::from(self.most_favour.units());
        let all = (u128::from(done) + u128::from(remaining)).max(1);
        let favour = u64::try_from(most * u128::from(done) / all).unwrap_or(u64::MAX);
        self.shift(tenant, |seat, _| {
            seat.lead = seat.claim.stretch(favour).whole;
        });
    }

    /// What the tenant waits for, none if it has left.
    pub fn awaits(&self, tenant: Tenant) -> Option<Eligibility> {
        let seat = self.seats.get(tenant)?;
        Some(match seat.parked {
            _ if !seat.has_work => Eligibility::Work,
            _ if seat.paused => Eligibility::Resume,
            Some(until) => Eligibility::Instant(until),
            None => Eligibility::Turn,
        })
    }

    /// How many tenants have work, whether or not they may be served now.
    pub const fn working(&self) -> usize {
        self.working
    }

    /// How many tenants could be served at once.
    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Puts the tenant where it belongs by what it waits for.
    fn arrange(&mut self, tenant: Tenant) {
        let slot = tenant.slot;
        match self.awaits(tenant) {
            Some(Eligibility::Turn) => {
                self.parked.remove(slot);
                self.admit(tenant);
            }
            Some(Eligibility::Instant(until)) => {
                self.withdraw(tenant);
                let entry = self.seats.get(tenant).map_or(0, |seat| seat.entry);
                self.parked.set(slot, (until, entry, slot));
            }
            Some(Eligibility::Work | Eligibility::Resume) | None => {
                self.withdraw(tenant);
                self.parked.remove(slot);
            }
        }
    }

    /// Brings a tenant that could not be served up to the clock, and into the order.
    fn admit(&mut self, tenant: Tenant) {
        if self.ready.contains(tenant.slot) {
            return;
        }
        self.entries += 1;
        let (clock, entry) = (self.clock, self.entries);
        if let Some(seat) = self.seats.of_mut(tenant) {
            seat.catch_up(clock);
            if seat.entry == 0 {
                seat.entry = entry;
            }
            let turn = seat.turn();
            self.ready.set(tenant.slot, turn);
        }
    }

    /// Takes a tenant out of the order.
    fn withdraw(&mut self, tenant: Tenant) {
        if self.ready.contains(tenant.slot) {
            self.ready.remove(tenant.slot);
            let clock = self.clock;
            if let Some(seat) = self.seats.of_mut(tenant) {
                seat.bank(clock);
            }
        }
    }

    /// Lets `change` move a tenant, told the clock, and follows it wherever it waits.
    fn shift<T>(
        &mut self,
        tenant: Tenant,
        change: impl FnOnce(&mut TenantSlot, u128) -> T,
    ) -> Option<T> {
        let (clock, in_order) = (self.clock, self.ready.contains(tenant.slot));
        let seat = self.seats.of_mut(tenant)?;
        if !in_order {
            seat.catch_up(clock);
        }
        let answer = change(seat, clock);
        if in_order {
            let turn = seat.turn();
            self.ready.set(tenant.slot, turn);
        } else {
            seat.bank(clock);
            self.arrange(tenant);
        }
        Some(answer)
    }
}

impl Default for FairQueue {
    fn default() -> Self {
        Self::new()
    }
}

/// One charge, to be given back if the service did not take place. It can be given back once.
#[derive(PartialEq, Eq, Debug)]
pub struct FairCharge {
    tenant: Tenant,
    cost: u64,
    entry: u64,
}

impl FairCharge {
    /// Who was charged.
    pub const fn tenant(&self) -> Tenant {
        self.tenant
    }
}

/// What a tenant waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Eligibility {
    /// Work: it has none.
    Work,
    /// Its turn.
    Turn,
    /// This instant: it is parked.
    Instant(Nanos),
    /// An operator who resumes it: it is paused.
    Resume,
}

#[cfg(test)]
mod tests;
