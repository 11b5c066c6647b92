//! Rules that change while calls wait and are in flight.

use outflow::core::{Accounting, Cost, HealthOverride, HealthState, Limit, Nanos, Rate};
use outflow::{AttemptResult, Group, HealthScope, Permit, Refusal, RefusalReason, Rules, WaitMode};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::support::{
    CallRequest, Caller, World, by_arrival, by_sending, health, ms, parsed, rules, secs,
};

/// What somebody does.
#[derive(Debug, Clone)]
enum Step {
    /// A call of this group and cost asks.
    Join { group: usize, cost: u64 },
    /// So many ticks pass.
    Pass(u64),
    /// The n-th permit is settled.
    Settle(usize),
    /// A call that may go is given back unsent.
    Return { group: usize },
    /// The rules become these.
    Change(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..3_usize, 1..4_u64).prop_map(|(group, cost)| Step::Join { group, cost }),
        3 => (1..12_u64).prop_map(Step::Pass),
        3 => (0..4_usize).prop_map(Step::Settle),
        1 => (0..3_usize).prop_map(|group| Step::Return { group }),
        2 => (0..LISTS.len()).prop_map(Step::Change),
    ];
    prop::collection::vec(step, 1..60)
}

/// Units in so many ticks of ten milliseconds.
type Units = (u64, u64);

/// Limits of the API, of the group `quotes` and of the group `orders`. All have one over forty ticks for
/// the whole API, so that everything within forty ticks is known to somebody. What is not in the list
/// is not a group. No two groups have equal limits: one that goes when another comes would be renamed.
type List = (
    &'static [Units],
    Option<&'static [Units]>,
    Option<&'static [Units]>,
);

const LISTS: [List; 7] = [
    (&[(9, 40)], None, None),
    (&[(5, 40), (4, 10)], None, None),
    (&[(3, 5), (12, 40)], Some(&[(3, 10)]), None),
    (&[(9, 40)], Some(&[(4, 10), (5, 20)]), Some(&[(3, 7)])),
    (&[(20, 40)], Some(&[]), Some(&[(6, 40)])),
    (&[(9, 40), (7, 20)], None, Some(&[(3, 11)])),
    (&[(8, 40)], Some(&[(3, 20)]), None),
];

const NAMES: [&str; 3] = ["default", "quotes", "orders"];

fn limit((units, ticks): Units, accounting: Accounting) -> Limit {
    let rate = Rate::new(units, ms(ticks * 10)).expect("a rate");
    Limit::sliding(rate).counted(accounting)
}

fn listed(list: List, accounting: Accounting) -> Rules {
    let limits = |units: &[Units]| units.iter().map(|one| limit(*one, accounting)).collect();
    let groups = [(NAMES[1], list.1), (NAMES[2], list.2)];
    let groups = groups
        .into_iter()
        .filter_map(|(name, units)| Some((name, units?)));
    Rules {
        groups: groups
            .map(|(name, units)| Group::new(name, limits(units)))
            .collect(),
        max_wait: secs(1_000),
        ..rules(limits(list.0))
    }
}

/// A call that was sent.
struct Sent {
    group: usize,
    cost: u64,
    at: Nanos,
    settled: Option<Nanos>,
}

/// A door whose rules change, and everything that it ever let go.
struct Play {
    world: World,
    accounting: Accounting,
    list: List,
    sent: Vec<Sent>,
    held: Vec<(Permit, usize)>,
    waiting: Vec<(Caller, usize, u64)>,
}

impl Play {
    fn new(accounting: Accounting) -> Self {
        Self {
            world: World::silent(listed(LISTS[0], accounting)),
            accounting,
            list: LISTS[0],
            sent: Vec::new(),
            held: Vec::new(),
            waiting: Vec::new(),
        }
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match *step {
            Step::Join { group, cost } => self.join(group, cost)?,
            Step::Pass(ticks) => self.world.pass(ms(ticks * 10)),
            Step::Settle(nth) if nth < self.held.len() => {
                let (permit, call) = self.held.remove(nth);
                permit.settle(AttemptResult::status(200));
                self.sent[call].settled = Some(self.world.now());
            }
            Step::Settle(_) => {}
            Step::Return { group } => drop(self.world.try_acquire(self.ask(group, 1))),
            Step::Change(nth) => {
                self.list = LISTS[nth];
                let rules = listed(self.list, self.accounting);
                self.world.door.reconfigure(&rules).expect("they fit");
                let lost = [false, self.list.1.is_none(), self.list.2.is_none()];
                let waiting = self.waiting.iter_mut();
                waiting
                    .filter(|(_, group, _)| lost[*group])
                    .for_each(|waiter| waiter.1 = 0);
            }
        }
        self.resume()
    }

    /// A call of a group that there is not is one that no route names.
    fn ask(&self, group: usize, cost: u64) -> CallRequest {
        let door = &self.world.door;
        let target = door.group(NAMES[group]).or_else(|| door.group(NAMES[0]));
        CallRequest::new(target.expect("there").with_cost(Cost::new(cost)))
    }

    fn join(&mut self, group: usize, cost: u64) -> Result<(), TestCaseError> {
        let group = if self.knows(group) { group } else { 0 };
        let mut caller = self.world.caller(self.ask(group, cost));
        match caller.poll() {
            None => self.waiting.push((caller, group, cost)),
            Some(answer) => self.told(answer, group, cost)?,
        }
        Ok(())
    }

    /// Whoever may go goes; nobody is refused who could ever go.
    fn told(
        &mut self,
        answer: Result<Permit, Refusal>,
        group: usize,
        cost: u64,
    ) -> Result<(), TestCaseError> {
        match answer {
            Ok(permit) => self.send(permit, group, cost),
            Err(refusal) => {
                prop_assert!(
                    matches!(refusal.cause, RefusalReason::Never { .. }),
                    "{refusal:?}"
                );
                Ok(())
            }
        }
    }

    fn send(&mut self, mut permit: Permit, group: usize, cost: u64) -> Result<(), TestCaseError> {
        permit.sending();
        let (at, settled) = (self.world.now(), None);
        self.sent.push(Sent {
            group,
            cost,
            at,
            settled,
        });
        self.held.push((permit, self.sent.len() - 1));
        self.fits(group)
    }

    fn knows(&self, group: usize) -> bool {
        [Some(()), self.list.1.map(drop), self.list.2.map(drop)][group].is_some()
    }

    /// Everybody who was woken looks, until nobody is.
    fn resume(&mut self) -> Result<(), TestCaseError> {
        while let Some(place) = self.waiting.iter().position(|(one, ..)| one.is_woken()) {
            if let Some(answer) = self.waiting[place].0.poll() {
                let (_, group, cost) = self.waiting.remove(place);
                self.told(answer, group, cost)?;
            }
        }
        Ok(())
    }

    /// A call of this group went just now: all limits in force hold, with everything that went before.
    fn fits(&self, group: usize) -> Result<(), TestCaseError> {
        let now = self.world.now();
        for limit in self.list.0 {
            let all = self.counted(*limit, |_| true);
            prop_assert!(all <= limit.0, "{all} of {limit:?} at {now:?}");
        }
        let own = [None, self.list.1, self.list.2][group];
        for limit in own.into_iter().flatten() {
            let all = self.counted(*limit, |call| call.group == group);
            prop_assert!(
                all <= limit.0,
                "{all} of {limit:?} of group {group} at {now:?}"
            );
        }
        Ok(())
    }

    fn counted(&self, limit: Units, is: impl Fn(&Sent) -> bool) -> u64 {
        let (now, window) = (self.world.now(), ms(limit.1 * 10));
        let live = |call: &&Sent| match self.accounting {
            Accounting::Send => call.at.saturating_add(window) > now,
            _ => call
                .settled
                .is_none_or(|at| at.saturating_add(window) > now),
        };
        self.sent
            .iter()
            .filter(|call| is(call))
            .filter(live)
            .map(|call| call.cost)
            .sum()
    }

    /// Nobody and nothing was forgotten: all who wait go, and a while later nothing counts.
    fn end(&mut self) -> Result<(), TestCaseError> {
        // 180 units, five of which may go in forty ticks.
        for _ in 0..400 {
            while !self.held.is_empty() {
                self.step(&Step::Settle(0))?;
            }
            self.step(&Step::Pass(10))?;
        }
        prop_assert!(self.waiting.is_empty(), "{} wait on", self.waiting.len());
        prop_assert!(self.world.is_at_rest());
        self.world.pass(secs(1));
        let report = self.world.door.report();
        let groups = report.groups.iter().flat_map(|group| &group.limits);
        for limit in report.limits.iter().chain(groups) {
            prop_assert_eq!(limit.usage.weight, 0, "{:?}", limit.limit);
        }
        Ok(())
    }
}

fn played(accounting: Accounting, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut play = Play::new(accounting);
    for step in steps {
        play.step(step)?;
    }
    play.end()
}

outflow_testkit::laws! {
    // Whoever goes fits every limit that is then in force, counting all that went before under whatever
    // rules, and nothing is lost over any change.
    #[test]
    fn no_change_lets_more_go_than_the_limits_in_force_allow
    / fn stress_no_change_lets_more_go(steps()) = |steps| played(Accounting::Send, &steps);

    // The same over all the time in which a call can have arrived.
    #[test]
    fn no_change_forgets_what_is_in_flight
    / fn stress_no_change_forgets_what_is_in_flight(steps()) = |steps| played(Accounting::Safe, &steps);
}

// Two of two are used and three wait; with four, two of the three go at the instant of the change, and
// the third a window after the first two.
#[test]
fn a_limit_that_grows_lets_waiters_go_at_once() {
    let world = World::new(rules(vec![by_sending("2/s")]));
    world.sends(2, world.ask());
    let mut waiters: Vec<_> = (0..3).map(|_| world.waiting(world.ask())).collect();
    world.pass(ms(500));
    world
        .door
        .reconfigure(&rules(vec![by_sending("4/s")]))
        .expect("they fit");
    assert_eq!(
        waiters.iter().map(Caller::is_woken).collect::<Vec<_>>(),
        [true, true, false]
    );
    let waited: Vec<_> = waiters.drain(..2).map(|mut waiter| waiter.goes()).collect();
    assert_eq!(waited, [ms(500), ms(500)]);
    world.pass(ms(500));
    assert_eq!(waiters[0].goes(), secs(1));
}

// Four of four are used at 0 s. With two, nobody goes until the four have left the window.
#[test]
fn a_limit_that_shrinks_is_kept_to_at_once() {
    let world = World::new(rules(vec![by_sending("4/s")]));
    world.sends(4, world.ask());
    world.pass(ms(500));
    world
        .door
        .reconfigure(&rules(vec![by_sending("2/s")]))
        .expect("they fit");
    let mut waiters: Vec<_> = (0..3).map(|_| world.waiting(world.ask())).collect();
    world.pass_all_but_an_instant_of(ms(500));
    assert!(waiters.iter().all(|waiter| !waiter.is_woken()));
    world.pass(ms(1));
    let went: Vec<_> = waiters
        .iter_mut()
        .filter_map(|one| one.poll()?.ok())
        .collect();
    assert_eq!(went.len(), 2);
}

// A limit is added before the one there was, and the calls in flight are settled after that: what they
// hold of each is neither lost nor given back to the other.
#[test]
fn what_is_in_flight_is_settled_under_the_new_limits() {
    let bucket = Limit::bucket(parsed("5/s"), 5).expect("a burst");
    let aligned = Limit::aligned(parsed("5/s")).expect("even");
    let minute = by_arrival("9/min");
    for limit in [by_arrival("5/s"), by_sending("5/s"), bucket, aligned] {
        let world = World::new(rules(vec![limit]));
        let mut permits: Vec<_> = (0..3)
            .map(|_| world.caller(world.ask()).admitted())
            .collect();
        permits.iter_mut().for_each(Permit::sending);
        world
            .door
            .reconfigure(&rules(vec![minute, limit]))
            .expect("they fit");
        assert!(
            world
                .door
                .report()
                .limits
                .iter()
                .all(|one| one.usage.weight >= 3),
            "{limit:?}"
        );
        for permit in permits {
            permit.settle(AttemptResult::status(200));
        }
        world.pass(secs(2));
        let used = |world: &World| {
            world
                .door
                .report()
                .limits
                .iter()
                .map(|one| one.usage.weight)
                .collect::<Vec<_>>()
        };
        assert!(
            used(&world)[0] >= 3 && used(&world)[1] == 0,
            "{limit:?}: {:?}",
            used(&world)
        );
        world.pass(secs(60));
        assert_eq!(used(&world), [0, 0], "{limit:?}");
    }
}

/// One group of this name with this limit, and none for the API.
fn grouped(name: &str, rate: &str) -> Rules {
    Rules {
        groups: vec![Group::new(name, vec![by_sending(rate)])],
        max_wait: secs(10_000),
        ..rules(Vec::new())
    }
}

// Both calls of this hour are used. Under another name the group is the same, found by its alias or by
// its limits; a target and a call from before the change go the same way.
#[test]
fn a_group_keeps_what_it_used_under_another_name() {
    let aliased = {
        let mut rules = grouped("order", "3/h");
        rules.groups[0].aliases = vec!["orders".into()];
        rules
    };
    for (renamed, left) in [(aliased, 1), (grouped("order", "2/h"), 0)] {
        let world = World::new(grouped("orders", "2/h"));
        let old = CallRequest::new(world.group("orders"));
        world.sends(2, old);
        let mut before = world.waiting(old);
        world.door.reconfigure(&renamed).expect("they fit");
        let told = before.poll();
        assert_eq!(told.is_some(), left == 1);
        let ask = CallRequest::new(world.group("order"));
        assert!(world.try_acquire(ask).is_err() && world.try_acquire(old).is_err());
        assert_eq!(world.door.group_name(world.group("order")), "order");
    }
}

// A group with two waiters and two calls used goes: its calls are now those that no route names, of
// which three an hour may go. They go on in the order of their arrival, what was used counts, and the
// group finds everything again when it comes back.
#[test]
fn calls_of_a_group_that_is_gone_become_those_that_no_route_names() {
    let with_orders = || {
        let mut rules = grouped("orders", "2/h");
        rules
            .groups
            .push(Group::new("default", vec![by_sending("3/h")]));
        rules
    };
    let world = World::new(with_orders());
    let orders = CallRequest::new(world.group("orders"));
    world.sends(2, orders);
    let mut waiting = [world.waiting(orders), world.waiting(orders)];
    world
        .door
        .reconfigure(&grouped("default", "3/h"))
        .expect("they fit");
    assert!(waiting[0].is_woken() && !waiting[1].is_woken());
    waiting[0].goes();
    assert!(world.try_acquire(orders).is_err() && world.try_acquire(world.ask()).is_err());
    let names: Vec<_> = world
        .door
        .report()
        .groups
        .into_iter()
        .map(|group| group.name)
        .collect();
    assert_eq!(names, ["default"]);
    world.pass(secs(3_600));
    assert!(waiting[1].is_woken());
    waiting[1].goes();
    world.door.reconfigure(&with_orders()).expect("they fit");
    assert_eq!(world.door.group_name(world.group("orders")), "orders");
    world
        .try_acquire(orders)
        .expect("an hour has passed")
        .refund();
    assert!(world.is_at_rest());
}

// Whoever takes a change back within the hour has not got the hour's quota again: of a group, of the
// whole API, of one limit beside another. One of the two calls is in flight while the limit is gone.
#[test]
fn a_limit_that_comes_back_has_used_what_it_had_used() {
    let beside = || rules(vec![by_sending("9/s"), by_sending("2/h")]);
    let only = |rate| rules(vec![by_sending(rate)]);
    let by_arrivals = || rules(vec![by_arrival("2/h")]);
    for (with, without) in [
        (grouped("default", "2/h"), rules(Vec::new())),
        (grouped("orders", "2/h"), rules(Vec::new())),
        (only("2/h"), rules(Vec::new())),
        (by_arrivals(), rules(Vec::new())),
        (beside(), only("9/s")),
    ] {
        let world = World::new(with.clone());
        let ask = || {
            let orders = world.door.group("orders");
            orders.map_or_else(|| world.ask(), CallRequest::new)
        };
        world.sends(1, ask());
        let mut permit = world.caller(ask()).admitted();
        permit.sending();
        world.door.reconfigure(&without).expect("they fit");
        permit.settle(AttemptResult::status(200));
        world.pass(secs(2));
        world.door.prune();
        world.door.reconfigure(&with).expect("they fit");
        assert!(world.try_acquire(ask()).is_err(), "two an hour: {with:?}");
        world.pass(secs(3_602));
        world.try_acquire(ask()).expect("an hour later").refund();
        assert!(world.is_at_rest());
    }
}

// The call is of a group with a health of its own, and the group is gone when it comes back.
#[test]
fn a_call_comes_back_to_the_health_it_left_under() {
    let scoped = |rules: Rules| Rules {
        health_scope: HealthScope::Group,
        ..rules
    };
    let world = World::new(scoped(grouped("orders", "2/s")));
    let mut permit = world
        .caller(CallRequest::new(world.group("orders")))
        .admitted();
    permit.sending();
    world
        .door
        .reconfigure(&scoped(rules(Vec::new())))
        .expect("they fit");
    assert!(!world.door.is_idle());
    permit.settle(AttemptResult::status(200));
    assert!(world.is_at_rest());
    assert_eq!(world.door.report().health.len(), 1);
}

#[test]
fn a_state_stays_and_its_variables_change() {
    let world = World::new(rules(Vec::new()));
    world.door.force_health(None, HealthOverride::Sleep);
    let one = Rules {
        health: health(|settings| settings.concurrency = 1),
        ..rules(Vec::new())
    };
    world.door.reconfigure(&one).expect("they fit");
    assert_eq!(world.door.state(world.group("default")), HealthState::Sleep);
    world.door.force_health(None, HealthOverride::Normal);
    let held = world.caller(world.ask()).admitted();
    let waits = world.waiting(world.ask());
    let two = Rules {
        health: health(|settings| settings.concurrency = 2),
        ..rules(Vec::new())
    };
    world.door.reconfigure(&two).expect("they fit");
    assert!(waits.is_woken(), "two may be in flight");
    drop(held);
}

// One who waits with a cost of three would wait for ever under a limit of two.
#[test]
fn whoever_can_never_go_any_more_is_told_at_once() {
    let world = World::new(rules(vec![by_sending("3/s")]));
    world.sends(1, world.ask());
    let heavy = CallRequest::new(world.group("default").with_cost(Cost::new(3)));
    let mut waits = world.waiting(heavy);
    world
        .door
        .reconfigure(&rules(vec![by_sending("2/s")]))
        .expect("they fit");
    assert!(waits.is_woken());
    assert_eq!(
        waits.refused().cause,
        RefusalReason::Never {
            limit: parsed("2/s")
        }
    );
}

// Those who wait came on other terms; whoever comes now is refused.
#[test]
fn other_terms_hold_for_those_who_come_after_the_change() {
    let world = World::new(rules(vec![by_sending("1/s")]));
    world.sends(1, world.ask());
    let mut waits = world.waiting(world.ask());
    let strict = Rules {
        mode: WaitMode::Reject,
        ..rules(vec![by_sending("1/s")])
    };
    world.door.reconfigure(&strict).expect("they fit");
    let refusal = world.caller(world.ask()).refused();
    assert!(
        matches!(refusal.cause, RefusalReason::Busy(_)),
        "{refusal:?}"
    );
    world.pass(secs(1));
    waits.goes();
}

#[test]
fn rules_that_contradict_each_other_change_nothing() {
    let world = World::new(grouped("orders", "2/h"));
    world.sends(2, CallRequest::new(world.group("orders")));
    let mut twice = grouped("orders", "9/h");
    twice.groups.push(Group::new("orders", Vec::new()));
    assert!(world.door.reconfigure(&twice).is_err());
    let many = rules(vec![by_sending("9/h"); 9]);
    assert!(world.door.reconfigure(&many).is_err());
    let ask = CallRequest::new(world.group("orders"));
    assert!(world.try_acquire(ask).is_err(), "two an hour, both used");
}
