//! Laws of the fair order, against a list that is searched from end to end.

#![expect(
    clippy::indexing_slicing,
    reason = "a test may stop at the first surprise"
)]

use outflow_core::{Cost, FairOrder, Nanos, Priority, Tag, Tenant, Weight};
use proptest::prelude::*;

/// Divisible by every weight up to 16 in every priority: service over claim is a whole number.
const UNIT: u128 = 720_720 << 8;
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
    prop_oneof![
        Just(Priority::Low),
        Just(Priority::Normal),
        Just(Priority::High)
    ]
}

// Serving is half of all steps, so that most histories have long stretches in which shares show.
fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
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
    proptest::collection::vec(step, 1..most)
}

fn claim(weight: u32, priority: Priority) -> u128 {
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

/// A tenant as the naive order knows it.
#[derive(Clone, Debug)]
struct Known {
    tenant: Tenant,
    claim: u128,
    place: u128,
    entry: u64,
    working: bool,
    paused: bool,
    parked: Option<u64>,
    was_ready: bool,
}

impl Known {
    fn is_ready(&self) -> bool {
        self.working && !self.paused && self.parked.is_none()
    }
}

/// Start-time fair queueing by searching a list.
#[derive(Clone, Debug, Default)]
struct Naive {
    known: Vec<Known>,
    clock: u128,
    furthest: u128,
    entries: u64,
    now: u64,
}

impl Naive {
    fn settle(&mut self) {
        let now = self.now;
        let mut returning: Vec<_> = self.known.iter_mut().collect();
        returning.sort_by_key(|known| (known.parked, known.entry));
        for known in returning {
            known.parked = known.parked.filter(|until| *until > now);
            if known.is_ready() && !known.was_ready {
                self.entries += 1;
                if known.place < self.clock || known.entry == 0 {
                    known.place = known.place.max(self.clock);
                    known.entry = self.entries;
                }
            }
            known.was_ready = known.is_ready();
        }
    }

    fn first(&self) -> Option<usize> {
        (0..self.known.len())
            .filter(|i| self.known[*i].is_ready())
            .min_by_key(|i| (self.known[*i].place, self.known[*i].entry))
    }

    fn charge(&mut self, who: usize, cost: u64) -> (Tenant, u128, u64) {
        let known = &mut self.known[who];
        self.clock = self.clock.max(known.place);
        self.entries += 1;
        let moved = u128::from(cost.max(1)) * UNIT / known.claim;
        let tag = (known.tenant, moved, known.entry);
        known.place += moved;
        known.entry = self.entries;
        self.furthest = self.furthest.max(known.place);
        tag
    }

    fn refund(&mut self, (tenant, moved, entry): (Tenant, u128, u64)) {
        if let Some(known) = self.known.iter_mut().find(|k| k.tenant == tenant) {
            known.place -= moved;
            known.entry = known.entry.min(entry);
        }
    }

    fn rested(&mut self) {
        if !self.known.iter().any(|k| k.working) {
            self.clock = self.clock.max(self.furthest);
        }
    }
}

/// The order under test and the naive one, side by side.
#[derive(Default)]
struct Pair {
    order: FairOrder,
    naive: Naive,
    tags: Vec<(Tag, (Tenant, u128, u64))>,
}

impl Pair {
    fn apply(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match *step {
            Step::Join(w, p) if self.naive.known.len() < 8 => self.join(w, p),
            Step::Leave(i) => self.leave(i),
            Step::Enter(i) => self.change(i, FairOrder::enter, |k| k.working = true),
            Step::Rest(i) => {
                self.change(i, FairOrder::rest, |k| k.working = false);
                self.naive.rested();
            }
            Step::Pause(i) => self.change(i, FairOrder::pause, |k| k.paused = true),
            Step::Resume(i) => self.change(i, FairOrder::resume, |k| k.paused = false),
            Step::Park(i, span) => {
                let until = self.naive.now + 1 + span;
                self.change(
                    i,
                    |order, tenant| order.park(tenant, Nanos::from_nanos(until)),
                    |k| k.parked = k.parked.max(Some(until)),
                );
            }
            Step::Unpark(i) => self.change(i, FairOrder::unpark, |k| k.parked = None),
            Step::Serve(cost) => return self.serve(cost),
            Step::Refund(i) if i < self.tags.len() => {
                let (tag, known) = self.tags.remove(i);
                self.order.refund(tag);
                self.naive.refund(known);
            }
            Step::Pass(span) => {
                self.naive.now += span;
            }
            Step::Join(..) | Step::Reweight(..) | Step::Refund(_) => {}
        }
        self.naive.settle();
        self.order.next(Nanos::from_nanos(self.naive.now));
        Ok(())
    }

    fn join(&mut self, w: u32, p: Priority) {
        let tenant = self.order.join(weight(w), p);
        self.naive.known.push(Known {
            tenant,
            claim: claim(w, p),
            place: 0,
            entry: 0,
            working: false,
            paused: false,
            parked: None,
            was_ready: false,
        });
    }

    fn leave(&mut self, who: usize) {
        if who < self.naive.known.len() {
            self.order.leave(self.naive.known.remove(who).tenant);
            self.naive.rested();
        }
    }

    fn change(
        &mut self,
        who: usize,
        order: impl FnOnce(&mut FairOrder, Tenant),
        naive: impl FnOnce(&mut Known),
    ) {
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
            let tag = self.order.charge(tenant, Cost::new(cost)).expect("present");
            let known = self.naive.charge(who, cost);
            self.tags.push((tag, known));
        }
        Ok(())
    }
}

fn serves_as_the_list_does(cases: u32) {
    proptest!(ProptestConfig::with_cases(cases), |(steps in steps(120))| {
        let mut pair = Pair::default();
        for step in &steps {
            pair.apply(step)?;
            let working = pair.naive.known.iter().filter(|k| k.working).count();
            prop_assert_eq!(pair.order.working(), working);
            let wakeup = pair.naive.known.iter()
                .filter(|k| k.working && !k.paused)
                .filter_map(|k| k.parked)
                .min();
            prop_assert_eq!(pair.order.next_wakeup(), wakeup.map(Nanos::from_nanos));
        }
    });
}

/// Service over claim of one tenant, since it last became or ceased to be servable.
#[derive(Clone, Copy, Debug)]
struct Account {
    tenant: Tenant,
    claim: u128,
    spell: u64,
    served: u128,
}

/// How far two tenants' accounts have moved against each other while both could be served.
#[derive(Clone, Copy, Debug, Default)]
struct Drift {
    spells: (u64, u64),
    low: i128,
    high: i128,
}

fn signed(value: u128) -> i128 {
    i128::try_from(value).expect("small")
}

fn bound(a: &Account, b: &Account) -> i128 {
    let most = u128::from(MAX_COST) * UNIT;
    // Changing a weight measures a distance anew and may round it by less than one unit.
    signed(most / a.claim + most / b.claim + 1)
}

/// Watches the pairs of a history for which the law is claimed.
#[derive(Default)]
struct Auditor {
    accounts: Vec<Account>,
    ready: Vec<bool>,
    drifts: std::collections::BTreeMap<(Tenant, Tenant), Drift>,
    spells: u64,
}

impl Auditor {
    fn begin(&mut self, who: usize) {
        self.spells += 1;
        self.accounts[who].spell = self.spells;
    }

    fn audit(&mut self) -> Result<(), TestCaseError> {
        for (i, a) in self.accounts.iter().enumerate() {
            for (j, b) in self.accounts.iter().enumerate().skip(i + 1) {
                if !(self.ready[i] && self.ready[j]) {
                    continue;
                }
                let apart = signed(a.served) - signed(b.served);
                let drift = self.drifts.entry((a.tenant, b.tenant)).or_default();
                if drift.spells != (a.spell, b.spell) {
                    *drift = Drift {
                        spells: (a.spell, b.spell),
                        low: apart,
                        high: apart,
                    };
                }
                drift.low = drift.low.min(apart);
                drift.high = drift.high.max(apart);
                prop_assert!(
                    drift.high - drift.low <= bound(a, b),
                    "{a:?} {b:?} {drift:?}"
                );
            }
        }
        Ok(())
    }
}

// The naive order only says here who is servable; what is checked is the law itself, on every
// stretch of every history, for every pair.
fn shares_within_one_service_each(cases: u32) {
    proptest!(ProptestConfig::with_cases(cases), |(steps in steps(300))| {
        let mut order = FairOrder::new();
        let mut auditor = Auditor::default();
        let mut states: Vec<Known> = Vec::new();
        let mut now = 0;
        for step in &steps {
            match *step {
                Step::Join(w, p) if states.len() < 6 => {
                    let tenant = order.join(weight(w), p);
                    let claim = claim(w, p);
                    states.push(Known {
                        tenant, claim, place: 0, entry: 0, working: true,
                        paused: false, parked: None, was_ready: false,
                    });
                    order.enter(tenant);
                    auditor.accounts.push(Account { tenant, claim, spell: 0, served: 0 });
                    auditor.ready.push(false);
                }
                Step::Enter(i) if i < states.len() => {
                    order.enter(states[i].tenant);
                    states[i].working = true;
                }
                Step::Rest(i) if i < states.len() => {
                    order.rest(states[i].tenant);
                    states[i].working = false;
                }
                Step::Park(i, span) if i < states.len() => {
                    order.park(states[i].tenant, Nanos::from_nanos(now + span));
                    states[i].parked = states[i].parked.max(Some(now + span));
                }
                Step::Reweight(i, w, p) if i < states.len() => {
                    order.reweight(states[i].tenant, weight(w), p);
                    states[i].claim = claim(w, p);
                    auditor.accounts[i].claim = claim(w, p);
                    auditor.begin(i);
                }
                Step::Serve(cost) => {
                    if let Some(tenant) = order.next(Nanos::from_nanos(now)) {
                        order.charge(tenant, Cost::new(cost)).expect("present");
                        let account = auditor.accounts.iter_mut()
                            .find(|a| a.tenant == tenant)
                            .expect("known");
                        account.served += u128::from(cost.max(1)) * UNIT / account.claim;
                    }
                }
                Step::Pass(span) => {
                    now += span;
                }
                _ => {}
            }
            let servable = order.next(Nanos::from_nanos(now));
            for (i, state) in states.iter_mut().enumerate() {
                state.parked = state.parked.filter(|until| *until > now);
                if state.is_ready() != auditor.ready[i] {
                    auditor.ready[i] = state.is_ready();
                    auditor.begin(i);
                }
            }
            prop_assert_eq!(servable.is_some(), auditor.ready.iter().any(|ready| *ready));
            auditor.audit()?;
        }
    });
}

fn newcomers_wait_one_service_of_each(cases: u32) {
    let others =
        proptest::collection::vec((1_u32..=1_000_000, priority(), 1_u64..1_000_000), 1..20);
    proptest!(ProptestConfig::with_cases(cases), |(
        others in others, before in 0_usize..200, w in 1_u32..=1_000_000, p in priority(),
    )| {
        let mut order = FairOrder::new();
        let costs: std::collections::BTreeMap<_, _> = others.iter()
            .map(|(w, p, cost)| (order.join(weight(*w), *p), *cost))
            .collect();
        for tenant in costs.keys() {
            order.enter(*tenant);
        }
        for _ in 0..before {
            let tenant = order.next(Nanos::ZERO).expect("all have work");
            order.charge(tenant, Cost::new(costs[&tenant]));
        }
        let newcomer = order.join(weight(w), p);
        order.enter(newcomer);
        let turn = (1..1_000).find(|_| {
            let tenant = order.next(Nanos::ZERO).expect("all have work");
            order.charge(tenant, Cost::new(costs.get(&tenant).copied().unwrap_or(1)));
            tenant == newcomer
        });
        let latest = others.len() + 1;
        prop_assert!(turn.is_some_and(|turn| turn <= latest), "served at turn {:?}", turn);
    });
}

// Between two services of one tenant, each other tenant can begin as many as its claim is larger,
// and one that begins together with it.
fn every_tenant_returns_within_its_share(cases: u32) {
    let tenants = proptest::collection::vec((1_u32..=16, priority()), 2..10);
    proptest!(ProptestConfig::with_cases(cases), |(tenants in tenants, turns in 1_usize..400)| {
        let mut order = FairOrder::new();
        let claims: Vec<_> = tenants.iter().map(|(w, p)| {
            let tenant = order.join(weight(*w), *p);
            order.enter(tenant);
            (tenant, claim(*w, *p))
        }).collect();
        let mut waited = vec![0_u128; claims.len()];
        for _ in 0..turns {
            let next = order.next(Nanos::ZERO).expect("all have work");
            order.charge(next, Cost::ONE);
            for (i, (tenant, ours)) in claims.iter().enumerate() {
                waited[i] = if *tenant == next { 0 } else { waited[i] + 1 };
                let others = claims.iter().filter(|(other, _)| other != tenant);
                let most: u128 = others.map(|(_, theirs)| theirs / ours + 1).sum();
                prop_assert!(waited[i] <= most, "{:?} waited {} turns", tenants[i], waited[i]);
            }
        }
    });
}

fn refunds_restore_the_order(cases: u32) {
    proptest!(ProptestConfig::with_cases(cases), |(
        steps in steps(60),
        costs in proptest::collection::vec(0..=MAX_COST, 1..10),
        order_of_return in Just((0..10).collect::<Vec<usize>>()).prop_shuffle(),
    )| {
        let mut pair = Pair::default();
        for step in &steps {
            pair.apply(step)?;
        }
        let now = Nanos::from_nanos(pair.naive.now);
        let mut untouched = pair.order.clone();
        let mut order = pair.order;
        let mut tags: Vec<_> = costs.iter()
            .map_while(|cost| {
                let tenant = order.next(now)?;
                Some(order.charge(tenant, Cost::new(*cost)))
            })
            .collect();
        for i in order_of_return {
            if let Some(tag) = tags.get_mut(i).and_then(Option::take) {
                order.refund(tag);
            }
        }
        for turn in 0..50 {
            let (a, b) = (order.next(now), untouched.next(now));
            prop_assert_eq!(a, b, "turn {}", turn);
            if let Some(tenant) = a {
                order.charge(tenant, Cost::ONE);
                untouched.charge(tenant, Cost::ONE);
            }
        }
    });
}

macro_rules! laws {
    ($($law:ident, $stress:ident => $body:ident;)*) => {$(
        #[test]
        fn $law() {
            $body(10_000);
        }

        #[test]
        #[ignore = "long run: cargo xtask test --stress"]
        fn $stress() {
            $body(1_000_000);
        }
    )*};
}

laws! {
    the_order_is_that_of_a_list_searched_from_end_to_end, stress_the_order_is_that_of_a_list =>
        serves_as_the_list_does;
    service_over_claim_differs_by_at_most_one_service_each, stress_service_over_claim =>
        shares_within_one_service_each;
    a_newcomer_waits_for_at_most_one_service_of_each, stress_a_newcomer_waits =>
        newcomers_wait_one_service_of_each;
    no_tenant_waits_longer_than_its_share, stress_no_tenant_waits_longer_than_its_share =>
        every_tenant_returns_within_its_share;
    a_refund_restores_the_order, stress_a_refund_restores_the_order =>
        refunds_restore_the_order;
}
