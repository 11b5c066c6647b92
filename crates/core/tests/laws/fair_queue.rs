//! Laws of the fair queue, against a linear search.

#![expect(clippy::indexing_slicing, reason = "a test may stop at the first surprise")]

use outflow_core::{Cost, FairCharge, FairQueue, Nanos, Priority, Tenant, Weight};
use proptest::prelude::*;

/// Divisible by every weight up to 16 in every priority: service over share is a whole number. It
/// equals the queue's own unit, so that a change of weight rounds equally.
const UNIT: u128 = 720_720 << 17;
/// So far from zero that no refund reaches it.
const ORIGIN: u128 = 1 << 100;
const MAX_COST: u64 = 50;

#[derive(Clone, Debug)]
enum Step {
    Join(u32, Priority),
    Leave(usize),
    Enter(usize),
    Rest(usize),
    Pause(usize),
    Resume(usize),
    Park(usize, u64),
    Unpark(usize),
    Reweight(usize, u32, Priority),
    Serve(u64),
    Refund(usize),
    Pass(u64),
}

fn priority() -> impl Strategy<Value = Priority> {
    prop_oneof![Just(Priority::Low), Just(Priority::Normal), Just(Priority::High)]
}

// Half of all steps serve, so that most histories have long stretches in which shares show.
fn steps(max: usize) -> impl Strategy<Value = Vec<Step>> {
    let who = 0_usize..8;
    let step = prop_oneof![
        3 => (1_u32..=16, priority()).prop_map(|(w, p)| Step::Join(w, p)),
        1 => who.clone().prop_map(Step::Leave),
        4 => who.clone().prop_map(Step::Enter),
        2 => who.clone().prop_map(Step::Rest),
        1 => who.clone().prop_map(Step::Pause),
        1 => who.clone().prop_map(Step::Resume),
        2 => (who.clone(), 0_u64..20).prop_map(|(i, t)| Step::Park(i, t)),
        1 => who.clone().prop_map(Step::Unpark),
        1 => (who, 1_u32..=16, priority()).prop_map(|(i, w, p)| Step::Reweight(i, w, p)),
        20 => (0..=MAX_COST).prop_map(Step::Serve),
        2 => (0_usize..4).prop_map(Step::Refund),
        2 => (0_u64..10).prop_map(Step::Pass),
    ];
    proptest::collection::vec(step, 1..max)
}

fn share(weight: u32, priority: Priority) -> u128 {
    u128::from(weight)
        * match priority {
            Priority::Low => 1,
            Priority::Normal => 4,
            Priority::High => 16,
        }
}

fn weight(weight: u32) -> Weight {
    Weight::new(weight).expect("positive")
}

/// Tenant of the naive queue.
#[derive(Clone, Debug)]
struct Known {
    tenant: Tenant,
    share: u128,
    place: u128,
    owed: u128,
    unearned: u64,
    entry: u64,
    working: bool,
    paused: bool,
    blocked: Option<u64>,
    was_ready: bool,
}

impl Known {
    fn new(tenant: Tenant, share: u128) -> Self {
        Self {
            tenant,
            share,
            place: ORIGIN,
            owed: 0,
            unearned: 0,
            entry: 0,
            working: false,
            paused: false,
            blocked: None,
            was_ready: false,
        }
    }

    fn is_ready(&self) -> bool {
        self.working && !self.paused && self.blocked.is_none()
    }

    fn span_for(&self, cost: u64) -> u128 {
        u128::from(cost) * UNIT / self.share
    }

    /// A tenant in the order moves by itself.
    fn catch_up(&mut self, clock: u128) {
        let floor = clock.saturating_sub(self.owed);
        if !self.was_ready && self.place < floor {
            self.place = floor;
            self.entry = 0;
        }
    }

    /// Keeps the distance from the clock in service, not in virtual time.
    fn reweight(&mut self, clock: u128, share: u128) {
        self.catch_up(clock);
        let rescale = |distance: u128| distance * self.share / share;
        let ahead = rescale(self.place.saturating_sub(clock));
        let behind = rescale(clock.saturating_sub(self.place));
        self.place = clock + ahead - behind;
        self.share = share;
        self.store_refund(clock);
    }

    fn store_refund(&mut self, clock: u128) {
        let behind = clock.saturating_sub(self.place);
        self.owed = if self.working { behind } else { 0 };
    }
}

/// Start-time fair queueing by searching a list.
#[derive(Clone, Debug)]
struct Naive {
    known: Vec<Known>,
    clock: u128,
    furthest: u128,
    entries: u64,
    now: u64,
}

impl Default for Naive {
    fn default() -> Self {
        Self {
            known: Vec::new(),
            clock: ORIGIN,
            furthest: ORIGIN,
            entries: 0,
            now: 0,
        }
    }
}

impl Naive {
    fn settle(&mut self) {
        let now = self.now;
        let mut returning: Vec<_> = self.known.iter_mut().collect();
        returning.sort_by_key(|known| (known.blocked, known.entry, known.tenant.slot()));
        for known in returning {
            known.blocked = known.blocked.filter(|until| *until > now);
            if known.is_ready() && !known.was_ready {
                self.entries += 1;
                known.catch_up(self.clock);
                if known.entry == 0 {
                    known.entry = self.entries;
                }
            } else if known.was_ready && !known.is_ready() {
                known.store_refund(self.clock);
            }
            known.was_ready = known.is_ready();
        }
    }

    fn first(&self) -> Option<usize> {
        (0..self.known.len())
            .filter(|i| self.known[*i].is_ready())
            .min_by_key(|i| (self.known[*i].place, self.known[*i].entry))
    }

    fn charge(&mut self, who: usize, cost: u64) -> (Tenant, u64, u64) {
        let known = &mut self.known[who];
        self.clock = self.clock.max(known.place);
        self.entries += 1;
        let cost = cost.max(1);
        let charge = (known.tenant, cost, known.entry);
        known.place += known.span_for(cost);
        known.unearned = known.unearned.saturating_sub(cost);
        known.entry = self.entries;
        self.furthest = self.furthest.max(known.place);
        charge
    }

    fn refund(&mut self, (tenant, cost, entry): (Tenant, u64, u64)) {
        let clock = self.clock;
        if let Some(known) = self.known.iter_mut().find(|k| k.tenant == tenant) {
            known.catch_up(clock);
            // Half of the unearned part stands for charges that were refunded before.
            let mut given = 0;
            while given < cost && known.unearned + 1 < 2 * cost {
                known.unearned += 2;
                given += 1;
            }
            known.place -= known.span_for(given);
            if given == cost {
                known.entry = known.entry.min(entry);
            }
            known.store_refund(clock);
        }
    }

    fn rested(&mut self) {
        if !self.known.iter().any(|k| k.working) {
            self.clock = self.clock.max(self.furthest);
        }
    }
}

/// The queue under test and the naive one, in parallel.
#[derive(Default)]
struct Pair {
    order: FairQueue,
    naive: Naive,
    charges: Vec<(FairCharge, (Tenant, u64, u64))>,
}

impl Pair {
    fn apply(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match *step {
            Step::Join(w, p) if self.naive.known.len() < 8 => self.join(w, p),
            Step::Leave(i) => self.leave(i),
            Step::Enter(i) => self.change(i, FairQueue::enter, |k| k.working = true),
            Step::Rest(i) => {
                self.change(i, FairQueue::set_idle, |k| {
                    k.working = false;
                    k.owed = 0;
                });
                self.naive.settle();
                self.naive.rested();
            }
            Step::Pause(i) => self.change(i, FairQueue::pause, |k| k.paused = true),
            Step::Resume(i) => self.change(i, FairQueue::resume, |k| k.paused = false),
            Step::Park(i, span) => {
                let until = self.naive.now + 1 + span;
                self.change(
                    i,
                    |order, tenant| order.block_until(tenant, Nanos::from_nanos(until)),
                    |k| k.blocked = k.blocked.max(Some(until)),
                );
            }
            Step::Unpark(i) => self.change(i, FairQueue::unblock, |k| k.blocked = None),
            Step::Serve(cost) => return self.serve(cost),
            Step::Refund(i) if i < self.charges.len() => {
                let (charge, known) = self.charges.remove(i);
                self.order.refund(charge);
                self.naive.refund(known);
            }
            Step::Pass(span) => {
                self.naive.now += span;
            }
            Step::Reweight(i, w, p) => {
                let clock = self.naive.clock;
                self.change(
                    i,
                    |order, tenant| order.reweight(tenant, weight(w), p),
                    |k| k.reweight(clock, share(w, p)),
                );
            }
            Step::Join(..) | Step::Refund(_) => {}
        }
        self.naive.settle();
        self.order.next(Nanos::from_nanos(self.naive.now));
        Ok(())
    }

    fn join(&mut self, w: u32, p: Priority) {
        let tenant = self.order.join(weight(w), p);
        self.naive.known.push(Known::new(tenant, share(w, p)));
    }

    fn leave(&mut self, who: usize) {
        if who < self.naive.known.len() {
            self.order.leave(self.naive.known.remove(who).tenant);
            self.naive.rested();
        }
    }

    fn change(&mut self, who: usize, order: impl FnOnce(&mut FairQueue, Tenant), naive: impl FnOnce(&mut Known)) {
        if let Some(known) = self.naive.known.get_mut(who) {
            order(&mut self.order, known.tenant);
            naive(known);
        }
    }

    fn serve(&mut self, cost: u64) -> Result<(), TestCaseError> {
        let first = self.naive.first();
        let next = self.order.next(Nanos::from_nanos(self.naive.now));
        let expected = first.map(|i| self.naive.known[i].tenant);
        prop_assert_eq!(next, expected, "at {} ns", self.naive.now);
        if let Some(who) = first {
            let tenant = self.naive.known[who].tenant;
            let charge = self.order.charge(tenant, Cost::new(cost)).expect("present");
            let known = self.naive.charge(who, cost);
            self.charges.push((charge, known));
        }
        Ok(())
    }
}

fn serves_as_the_list_does(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut pair = Pair::default();
    for step in &steps {
        pair.apply(step)?;
        let known = || pair.naive.known.iter();
        prop_assert_eq!(pair.order.working(), known().filter(|k| k.working).count());
        let servable = known().filter(|k| k.working && !k.paused);
        let wakeup = servable.filter_map(|k| k.blocked).min();
        prop_assert_eq!(pair.order.next_wakeup(), wakeup.map(Nanos::from_nanos));
    }
    Ok(())
}

/// Service over share of one tenant, and its refunds.
#[derive(Clone, Copy, Debug)]
struct Account {
    tenant: Tenant,
    share: u128,
    /// Number of the stretch in which it could, or could not, be served all the time.
    spell: u64,
    served: i128,
    refunded: i128,
    /// True from the first refund on.
    was_refunded: bool,
}

impl Account {
    /// Returns one largest service.
    fn largest(&self) -> i128 {
        signed(u128::from(MAX_COST) * UNIT / self.share)
    }

    fn measure(&self, cost: u64) -> i128 {
        signed(u128::from(cost.max(1)) * UNIT / self.share)
    }

    /// Returns two lower bounds of its movement: service minus refunds; and half of the service,
    /// minus one service that was unearned before.
    fn moved(&self) -> [i128; 2] {
        [self.served - self.refunded, self.served / 2]
    }
}

/// Smallest lead of one tenant over another while both could be served.
#[derive(Clone, Copy, Debug, Default)]
struct Drift {
    spells: (u64, u64),
    least: [i128; 2],
}

fn signed(value: u128) -> i128 {
    i128::try_from(value).expect("small")
}

/// Returns the gain that one may have over the other: a service each, and after refunds, two.
fn bounds(a: &Account, b: &Account) -> [i128; 2] {
    let each = 1 + i128::from(a.was_refunded || b.was_refunded);
    // A change of weight rescales a distance and may round it by less than one unit, and so does a
    // half.
    let bound = each * (a.largest() + b.largest()) + 2;
    [bound, bound + a.largest()]
}

/// Watches the pairs of a history to which the law applies.
#[derive(Default)]
struct Auditor {
    accounts: Vec<Account>,
    ready: Vec<bool>,
    drifts: std::collections::BTreeMap<(Tenant, Tenant), Drift>,
    spells: u64,
}

impl Auditor {
    fn open(&mut self, known: &Known) {
        self.accounts.push(Account {
            tenant: known.tenant,
            share: known.share,
            spell: 0,
            served: 0,
            refunded: 0,
            was_refunded: false,
        });
        self.ready.push(false);
    }

    fn begin(&mut self, who: usize) {
        self.spells += 1;
        self.accounts[who].spell = self.spells;
    }

    fn audit(&mut self) -> Result<(), TestCaseError> {
        let pairs = |i: usize| (0..self.accounts.len()).map(move |j| (i, j));
        for (i, j) in (0..self.accounts.len()).flat_map(pairs) {
            if i == j || !(self.ready[i] && self.ready[j]) {
                continue;
            }
            let (a, b) = (&self.accounts[i], &self.accounts[j]);
            let ahead = a.moved().map(|moved| moved - b.served);
            let drift = self.drifts.entry((a.tenant, b.tenant)).or_default();
            if drift.spells != (a.spell, b.spell) {
                drift.spells = (a.spell, b.spell);
                drift.least = ahead;
            }
            for ((least, ahead), bound) in drift.least.iter_mut().zip(ahead).zip(bounds(a, b)) {
                *least = ahead.min(*least);
                prop_assert!(ahead - *least <= bound, "{a:?} {b:?} {least} {ahead}");
            }
        }
        Ok(())
    }
}

/// The queue under test, and the facts about its tenants that the law needs.
#[derive(Default)]
struct Audited {
    order: FairQueue,
    states: Vec<Known>,
    auditor: Auditor,
    charges: Vec<(FairCharge, u64)>,
    now: u64,
}

impl Audited {
    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Join(w, p) if self.states.len() < 6 => self.join(w, p),
            Step::Enter(i) if i < self.states.len() => {
                self.order.enter(self.states[i].tenant);
                self.states[i].working = true;
            }
            Step::Rest(i) if i < self.states.len() => {
                self.order.set_idle(self.states[i].tenant);
                self.states[i].working = false;
            }
            Step::Pause(i) if i < self.states.len() => {
                self.order.pause(self.states[i].tenant);
                self.states[i].paused = true;
            }
            Step::Resume(i) if i < self.states.len() => {
                self.order.resume(self.states[i].tenant);
                self.states[i].paused = false;
            }
            Step::Park(i, span) if i < self.states.len() => {
                let until = self.now + span;
                let state = &mut self.states[i];
                self.order.block_until(state.tenant, Nanos::from_nanos(until));
                state.blocked = state.blocked.max(Some(until));
            }
            Step::Reweight(i, w, p) if i < self.states.len() => {
                self.order.reweight(self.states[i].tenant, weight(w), p);
                self.auditor.accounts[i].share = share(w, p);
                self.auditor.begin(i);
            }
            Step::Serve(cost) => self.serve(cost),
            Step::Refund(i) if i < self.charges.len() => {
                let (charge, cost) = self.charges.swap_remove(i);
                let account = self.account(charge.tenant());
                account.refunded += account.measure(cost);
                account.was_refunded = true;
                self.order.refund(charge);
            }
            Step::Pass(span) => self.now += span,
            _ => {}
        }
    }

    fn join(&mut self, w: u32, p: Priority) {
        let known = Known::new(self.order.join(weight(w), p), share(w, p));
        self.auditor.open(&known);
        self.states.push(known);
    }

    fn serve(&mut self, cost: u64) {
        let Some(tenant) = self.order.next(Nanos::from_nanos(self.now)) else {
            return;
        };
        let charge = self.order.charge(tenant, Cost::new(cost)).expect("present");
        self.charges.push((charge, cost));
        let account = self.account(tenant);
        account.served += account.measure(cost);
    }

    fn account(&mut self, tenant: Tenant) -> &mut Account {
        let mut accounts = self.auditor.accounts.iter_mut();
        accounts.find(|a| a.tenant == tenant).expect("known")
    }

    fn look(&mut self) -> Result<(), TestCaseError> {
        let next = self.order.next(Nanos::from_nanos(self.now));
        for (i, state) in self.states.iter_mut().enumerate() {
            state.blocked = state.blocked.filter(|until| *until > self.now);
            if state.is_ready() != self.auditor.ready[i] {
                self.auditor.ready[i] = state.is_ready();
                self.auditor.begin(i);
            }
        }
        let anyone = self.auditor.ready.iter().any(|ready| *ready);
        prop_assert_eq!(next.is_some(), anyone, "work is left, and no tenant is next");
        self.auditor.audit()
    }
}

fn shares_within_one_service_each(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut audited = Audited::default();
    for step in &steps {
        audited.apply(step);
        audited.look()?;
    }
    Ok(())
}

/// Charges, and the order of their refunds.
fn refunds() -> impl Strategy<Value = (Vec<u64>, Vec<usize>)> {
    let costs = proptest::collection::vec(0..=MAX_COST, 1..10);
    (costs, Just((0..10).collect::<Vec<_>>()).prop_shuffle())
}

fn refunds_restore_the_order(
    (steps, (costs, returns)): (Vec<Step>, (Vec<u64>, Vec<usize>)),
) -> Result<(), TestCaseError> {
    let mut pair = Pair::default();
    for step in steps.iter().filter(|s| !matches!(s, Step::Refund(_))) {
        pair.apply(step)?;
    }
    let now = Nanos::from_nanos(pair.naive.now);
    let (mut order, mut untouched) = (pair.order.clone(), pair.order);
    let mut charged = Vec::new();
    let charge_next = |cost: &u64| {
        let tenant = order.next(now).filter(|next| !charged.contains(next))?;
        charged.push(tenant);
        Some(order.charge(tenant, Cost::new(*cost)))
    };
    let mut refundable: Vec<_> = costs.iter().map_while(charge_next).collect();
    for i in returns {
        if let Some(taken) = refundable.get_mut(i).and_then(Option::take) {
            order.refund(taken);
        }
    }
    for turn in 0..50 {
        let next = order.next(now);
        prop_assert_eq!(next, untouched.next(now), "turn {}", turn);
        if let Some(tenant) = next {
            order.charge(tenant, Cost::ONE);
            untouched.charge(tenant, Cost::ONE);
        }
    }
    Ok(())
}

outflow_testkit::laws! {
    #[test]
    fn the_order_agrees_with_a_linear_search / fn stress_the_order_agrees_with_a_linear_search
        (steps(120)) = serves_as_the_list_does;

    // Checks the law itself, on every stretch of every history, for every pair.
    #[test]
    fn service_over_share_differs_by_at_most_one_service_each / fn stress_service_over_share_differs_by_at_most_one_service_each
        (steps(300)) = shares_within_one_service_each;

    // One charge of each tenant, without earlier refunds; further ones are refunded in part.
    #[test]
    fn a_refund_restores_the_order / fn stress_a_refund_restores_the_order
        ((steps(60), refunds())) = refunds_restore_the_order;
}
