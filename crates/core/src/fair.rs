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

mod claim;
mod heap;
mod seat;
mod tenant;
mod turn;

use core::mem;

use crate::{Cost, Nanos};
use claim::{Claim, Point};
use heap::SlotHeap;
use seat::{Seat, Seats};
pub use tenant::{InvalidWeight, Priority, Tenant, Weight};
use turn::Turn;

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
pub struct FairOrder {
    seats: Seats,
    ready: SlotHeap<Turn>,
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

impl FairOrder {
    /// An order that only service and weights decide.
    pub const fn new() -> Self {
        Self::favouring(Cost::ZERO)
    }

    /// An order in which a tenant may be [favoured](Self::favour) by up to `most` of its own cost.
    /// The bound on fairness widens by as much; leave it at zero unless finishing what is almost
    /// done is worth a newcomer's wait.
    pub const fn favouring(most: Cost) -> Self {
        Self {
            seats: Seats::new(),
            ready: SlotHeap::new(),
            parked: SlotHeap::new(),
            clock: Point::ORIGIN.whole,
            furthest: Point::ORIGIN.whole,
            entries: 0,
            working: 0,
            most_favour: most,
        }
    }

    /// Gives a tenant a place. It has no work yet.
    pub fn join(&mut self, weight: Weight, priority: Priority) -> Tenant {
        self.seats.give(Claim::new(weight, priority))
    }

    /// Forgets a tenant, and what it owes. For one that only ran out of work, [`rest`](Self::rest)
    /// is right: it would otherwise come back as a newcomer after every large job.
    pub fn leave(&mut self, tenant: Tenant) {
        self.rest(tenant);
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
    pub fn rest(&mut self, tenant: Tenant) {
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
    pub fn charge(&mut self, tenant: Tenant, cost: Cost) -> Option<Tag> {
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
        Some(Tag {
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
    pub fn refund(&mut self, tag: Tag) {
        self.shift(tag.tenant, |seat, _| {
            if seat.give_back(tag.cost) == tag.cost {
                seat.entry = seat.entry.min(tag.entry);
            }
        });
    }

    /// Puts a tenant aside until an instant: its own limit, a cap or the server says so. Of several
    /// instants the last holds.
    pub fn park(&mut self, tenant: Tenant, until: Nanos) {
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
        let claim = Claim::new(weight, priority);
        self.shift(tenant, |seat, clock| {
            seat.reclaim(claim, clock);
        });
    }

    /// Lets a tenant go ahead of its turn by the done part of its work, within the bound that the
    /// order was [made with](Self::favouring).
    pub fn favour(&mut self, tenant: Tenant, done: u64, remaining: u64) {
        let most = u128::from(self.most_favour.units());
        let all = (u128::from(done) + u128::from(remaining)).max(1);
        let favour = u64::try_from(most * u128::from(done) / all).unwrap_or(u64::MAX);
        self.shift(tenant, |seat, _| {
            seat.lead = seat.claim.stretch(favour).whole;
        });
    }

    /// What the tenant waits for, none if it has left.
    pub fn awaits(&self, tenant: Tenant) -> Option<Awaits> {
        let seat = self.seats.of(tenant)?;
        Some(match seat.parked {
            _ if !seat.has_work => Awaits::Work,
            _ if seat.paused => Awaits::Resume,
            Some(until) => Awaits::Instant(until),
            None => Awaits::Turn,
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
            Some(Awaits::Turn) => {
                self.parked.remove(slot);
                self.admit(tenant);
            }
            Some(Awaits::Instant(until)) => {
                self.withdraw(tenant);
                let entry = self.seats.of(tenant).map_or(0, |seat| seat.entry);
                self.parked.set(slot, (until, entry, slot));
            }
            Some(Awaits::Work | Awaits::Resume) | None => {
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
    fn shift<T>(&mut self, tenant: Tenant, change: impl FnOnce(&mut Seat, u128) -> T) -> Option<T> {
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

impl Default for FairOrder {
    fn default() -> Self {
        Self::new()
    }
}

/// One charge, to be given back if the service did not take place. It can be given back once.
#[derive(PartialEq, Eq, Debug)]
pub struct Tag {
    tenant: Tenant,
    cost: u64,
    entry: u64,
}

impl Tag {
    /// Who was charged.
    pub const fn tenant(&self) -> Tenant {
        self.tenant
    }
}

/// What a tenant waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Awaits {
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
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const NOW: Nanos = Nanos::ZERO;

    fn serve(order: &mut FairOrder, turns: usize) -> Vec<Tenant> {
        (0..turns)
            .map_while(|_| {
                let tenant = order.next(NOW)?;
                order.charge(tenant, Cost::ONE)?;
                Some(tenant)
            })
            .collect()
    }

    fn joined(order: &mut FairOrder, weight: u32, priority: Priority) -> Tenant {
        let tenant = order.join(Weight::new(weight).expect("positive"), priority);
        order.enter(tenant);
        tenant
    }

    fn count(turns: &[Tenant], tenant: Tenant) -> usize {
        turns.iter().filter(|turn| **turn == tenant).count()
    }

    #[test]
    fn weights_and_priorities_multiply() {
        let mut order = FairOrder::new();
        let low = joined(&mut order, 1, Priority::Low);
        let normal = joined(&mut order, 2, Priority::Normal);
        let high = joined(&mut order, 1, Priority::High);
        let turns = serve(&mut order, 250);
        assert_eq!(
            [low, normal, high].map(|tenant| count(&turns, tenant)),
            [10, 80, 160]
        );
    }

    // A million turns of one tenant would be a million turns of credit for the other.
    #[test]
    fn what_was_not_used_is_not_saved_up() {
        let mut order = FairOrder::new();
        let busy = joined(&mut order, 1, Priority::Normal);
        let idle = joined(&mut order, 1, Priority::Normal);
        order.rest(idle);
        serve(&mut order, 1_000_000);
        order.enter(idle);
        let turns = serve(&mut order, 100);
        assert_eq!((count(&turns, busy), count(&turns, idle)), (50, 50));
    }

    #[test]
    fn a_debt_is_not_escaped_by_resting() {
        let mut order = FairOrder::new();
        let heavy = joined(&mut order, 1, Priority::Normal);
        let light = joined(&mut order, 1, Priority::Normal);
        order.charge(heavy, Cost::new(10));
        order.rest(heavy);
        order.enter(heavy);
        let turns = serve(&mut order, 10);
        assert_eq!(count(&turns, light), 10, "after {turns:?}");
    }

    #[test]
    fn old_debts_end_when_nobody_works() {
        let mut order = FairOrder::new();
        let heavy = joined(&mut order, 1, Priority::Normal);
        order.charge(heavy, Cost::new(1_000));
        order.rest(heavy);
        let light = joined(&mut order, 1, Priority::Normal);
        order.enter(heavy);
        let turns = serve(&mut order, 10);
        assert_eq!((count(&turns, heavy), count(&turns, light)), (5, 5));
    }

    #[test]
    fn a_parked_tenant_returns_at_its_instant() {
        let mut order = FairOrder::new();
        let tenant = joined(&mut order, 1, Priority::Normal);
        let until = Nanos::from_secs(2);
        order.park(tenant, until);
        order.park(tenant, Nanos::from_secs(1));
        assert_eq!(order.next_wakeup(), Some(until), "the later of the two");
        assert_eq!(order.next(Nanos::from_nanos(until.as_nanos() - 1)), None);
        assert_eq!(order.next(until), Some(tenant));
        assert_eq!(order.next_wakeup(), None);
    }

    #[test]
    fn pause_park_and_work_are_independent() {
        let mut order = FairOrder::new();
        let tenant = joined(&mut order, 1, Priority::Normal);
        let until = Nanos::from_secs(1);
        order.park(tenant, until);
        order.pause(tenant);
        assert_eq!(order.awaits(tenant), Some(Awaits::Resume));
        assert_eq!((order.next(until), order.next_wakeup()), (None, None));
        order.resume(tenant);
        assert_eq!(order.awaits(tenant), Some(Awaits::Instant(until)));
        order.rest(tenant);
        assert_eq!((order.next(until), order.working()), (None, 0));
        order.enter(tenant);
        order.unpark(tenant);
        assert_eq!(order.awaits(tenant), Some(Awaits::Turn));
        assert_eq!((order.next(NOW), order.ready()), (Some(tenant), 1));
    }

    /// Serves, and keeps what undoes the charges of one tenant.
    fn charged(order: &mut FairOrder, turns: usize, whose: Tenant) -> Vec<Tag> {
        (0..turns)
            .map_while(|_| {
                let next = order.next(NOW)?;
                order.charge(next, Cost::ONE)
            })
            .filter(|tag| tag.tenant() == whose)
            .collect()
    }

    fn take_back(order: &mut FairOrder, tags: impl IntoIterator<Item = Tag>) {
        for tag in tags {
            order.refund(tag);
        }
    }

    // Ten services charged and not given while the other had eleven, then a wait in which it has
    // 100: one of the ten is still due, and nothing for the time of waiting.
    #[test]
    fn what_was_given_back_survives_a_wait() {
        let mut order = FairOrder::new();
        let other = joined(&mut order, 1, Priority::Normal);
        let refused = joined(&mut order, 1, Priority::Normal);
        let mut tags = charged(&mut order, 21, refused);
        take_back(&mut order, tags.drain(..5));
        order.park(refused, Nanos::from_secs(1));
        take_back(&mut order, tags);
        assert_eq!(count(&serve(&mut order, 100), other), 100);
        order.unpark(refused);
        let turns = serve(&mut order, 21);
        assert_eq!((count(&turns, refused), count(&turns, other)), (11, 10));
    }

    // Every job of one tenant is refused ten services after it was sent, and it goes on: it has two
    // turns where it would have one, and the other keeps a third.
    #[test]
    fn one_whose_every_job_is_refused_does_not_starve_the_other() {
        let mut order = FairOrder::new();
        let [_, other] = [(); 2].map(|()| joined(&mut order, 1, Priority::Normal));
        let mut flight = alloc::collections::VecDeque::new();
        let mut served = 0;
        for turn in 0..3_000 {
            if let Some((_, tag)) = flight.pop_front_if(|(sent, _)| *sent + 10 <= turn) {
                order.refund(tag);
            }
            let next = order.next(NOW).expect("both have work");
            let tag = order.charge(next, Cost::ONE).expect("present");
            if next == other {
                served += 1;
            } else {
                flight.push_back((turn, tag));
            }
        }
        assert!((990..=1_010).contains(&served), "{served} of 3,000");
    }

    // Refused and tried again at once, for ever: the other's turn comes after every second try.
    #[test]
    fn a_turn_is_restored_once() {
        let mut order = FairOrder::new();
        let [refused, _] = [(); 2].map(|()| joined(&mut order, 1, Priority::Normal));
        let mut turns = Vec::new();
        for _ in 0..6 {
            let next = order.next(NOW).expect("both have work");
            turns.push(next == refused);
            let tag = order.charge(next, Cost::ONE).expect("present");
            if next == refused {
                order.refund(tag);
            }
        }
        assert_eq!(turns, [true, true, false, true, true, false]);
    }

    #[test]
    fn a_handle_of_one_who_left_changes_nothing() {
        let mut order = FairOrder::new();
        let gone = joined(&mut order, 1, Priority::Normal);
        let tag = order.charge(gone, Cost::ONE).expect("present");
        order.leave(gone);
        let heir = joined(&mut order, 1, Priority::Normal);
        assert_eq!(heir.slot(), gone.slot(), "the place is used again");
        order.leave(gone);
        order.pause(gone);
        order.refund(tag);
        assert_eq!(order.charge(gone, Cost::ONE), None);
        assert_eq!((order.next(NOW), order.awaits(gone)), (Some(heir), None));
    }

    // From 1 : 1 to 3 : 1 in mid-service; 40 more turns must split 30 to 10.
    #[test]
    fn a_new_weight_holds_from_the_next_turn() {
        let mut order = FairOrder::new();
        let grown = joined(&mut order, 1, Priority::Normal);
        let other = joined(&mut order, 1, Priority::Normal);
        serve(&mut order, 11);
        order.reweight(grown, Weight::new(3).expect("positive"), Priority::Normal);
        let turns = serve(&mut order, 40);
        assert!(count(&turns, grown).abs_diff(30) <= 1, "{turns:?}");
        assert!(count(&turns, other).abs_diff(10) <= 1, "{turns:?}");
    }

    // What was due to one before it rested would be a turn before the other, who entered first. It
    // rests from the order or from a wait, and is given a charge back before or after.
    #[test]
    fn all_begin_together_when_nobody_worked() {
        for (parked, late) in [(false, 0), (true, 0), (false, 1), (true, 10)] {
            let mut order = FairOrder::new();
            let other = joined(&mut order, 1, Priority::Normal);
            let refused = joined(&mut order, 1, Priority::Normal);
            let mut tags = charged(&mut order, 21, refused);
            let after = tags.split_off(10 - late);
            take_back(&mut order, tags);
            if parked {
                order.park(refused, Nanos::from_secs(1));
            }
            order.rest(refused);
            order.rest(other);
            take_back(&mut order, after);
            order.unpark(refused);
            order.enter(other);
            order.enter(refused);
            let turns = serve(&mut order, 4);
            assert_eq!(turns, [other, refused, other, refused], "{parked}, {late}");
        }
    }

    // One service is due; a thousand times the weight must not make a thousand of it.
    #[test]
    fn a_new_weight_does_not_multiply_what_is_owed() {
        for parked in [false, true] {
            let mut order = FairOrder::new();
            let other = joined(&mut order, 1, Priority::Normal);
            let refused = joined(&mut order, 1, Priority::Normal);
            let tags = charged(&mut order, 21, refused);
            if parked {
                order.park(refused, Nanos::from_secs(1));
            }
            take_back(&mut order, tags);
            order.reweight(
                refused,
                Weight::new(1_000).expect("positive"),
                Priority::Normal,
            );
            order.unpark(refused);
            let turns = serve(&mut order, 1_002);
            assert_eq!(count(&turns, other), 1, "parked: {parked}");
        }
    }

    // A favour of 8 at a weight of 1 is 8 services at a weight of 4 too.
    #[test]
    fn a_new_weight_does_not_multiply_a_favour() {
        let mut order = FairOrder::favouring(Cost::new(8));
        let almost_done = joined(&mut order, 1, Priority::Normal);
        joined(&mut order, 4, Priority::Normal);
        order.favour(almost_done, u64::MAX, 0);
        let four = Weight::new(4).expect("positive");
        order.reweight(almost_done, four, Priority::Normal);
        let turns = serve(&mut order, 101);
        let ahead = turns.iter().take_while(|turn| **turn == almost_done);
        assert_eq!(ahead.count(), 8, "{turns:?}");
    }

    // Of 101 turns of two equals, the first in the order has one more by itself.
    #[test]
    fn a_favour_is_bounded_and_off_by_default() {
        for (most, ahead) in [(0, 1), (7, 7)] {
            let mut order = FairOrder::favouring(Cost::new(most));
            let almost_done = joined(&mut order, 1, Priority::Normal);
            let newcomer = joined(&mut order, 1, Priority::Normal);
            order.favour(almost_done, u64::MAX, 0);
            let turns = serve(&mut order, 101);
            let lead = count(&turns, almost_done) - count(&turns, newcomer);
            assert_eq!(lead, ahead, "with a favour of up to {most}");
        }
    }

    #[test]
    fn a_free_job_takes_a_turn_too() {
        let mut order = FairOrder::new();
        let free = joined(&mut order, 1, Priority::Normal);
        let other = joined(&mut order, 1, Priority::Normal);
        order.charge(free, Cost::ZERO);
        assert_eq!(order.next(NOW), Some(other));
    }

    #[test]
    fn extreme_costs_and_weights_do_not_overflow() {
        let mut order = FairOrder::favouring(Cost::new(u64::MAX));
        let tenant = joined(&mut order, u32::MAX, Priority::High);
        for _ in 0..100 {
            let tag = order.charge(tenant, Cost::new(u64::MAX)).expect("present");
            order.favour(tenant, u64::MAX, u64::MAX);
            order.reweight(tenant, Weight::ONE, Priority::Low);
            order.refund(tag);
            order.charge(tenant, Cost::new(u64::MAX));
            order.reweight(
                tenant,
                Weight::new(u32::MAX).expect("positive"),
                Priority::High,
            );
        }
        assert_eq!(order.next(Nanos::MAX), Some(tenant));
    }
}
