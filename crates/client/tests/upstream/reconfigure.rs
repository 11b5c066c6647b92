//! Rules that change while calls wait and are in flight.

use outflow::core::{Accounting, Cost, HealthOverride, HealthState, Limit, Nanos, Rate};
use outflow::{AttemptResult, Group, HealthScope, Permit, Refusal, RefusalReason, Rules, WaitMode};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::support::{CallRequest, TestBed, TestCaller, by_arrival, by_sending, health, ms, parsed, rules, secs};

/// One step of a run.
#[derive(Debug, Clone)]
enum RuleStep {
    /// A call of this group and cost.
    Join { group: usize, cost: u64 },
    /// This many ticks pass.
    Pass(u64),
    /// The n-th permit is settled.
    Settle(usize),
    /// A granted call is refunded unsent.
    Return { group: usize },
    /// The rules become these.
    Change(usize),
}

fn steps() -> impl Strategy<Value = Vec<RuleStep>> {
    let step = prop_oneof![
        6 => (0..3_usize, 1..4_u64).prop_map(|(group, cost)| RuleStep::Join { group, cost }),
        3 => (1..12_u64).prop_map(RuleStep::Pass),
        3 => (0..4_usize).prop_map(RuleStep::Settle),
        1 => (0..3_usize).prop_map(|group| RuleStep::Return { group }),
        2 => (0..LISTS.len()).prop_map(RuleStep::Change),
    ];
    prop::collection::vec(step, 1..60)
}

/// Units per this many ticks of ten milliseconds.
type LimitUnits = (u64, u64);

/// Limits of the API, of the group `quotes` and of the group `orders`. Each list has one limit
/// over forty ticks for the whole API, so that a limit covers every call of that span. A group
/// without an entry does not exist.
/// No two groups have equal limits: a group that replaces an equal one would be a renamed group.
type LimitLists = (
    &'static [LimitUnits],
    Option<&'static [LimitUnits]>,
    Option<&'static [LimitUnits]>,
);

const LISTS: [LimitLists; 7] = [
    (&[(9, 40)], None, None),
    (&[(5, 40), (4, 10)], None, None),
    (&[(3, 5), (12, 40)], Some(&[(3, 10)]), None),
    (&[(9, 40)], Some(&[(4, 10), (5, 20)]), Some(&[(3, 7)])),
    (&[(20, 40)], Some(&[]), Some(&[(6, 40)])),
    (&[(9, 40), (7, 20)], None, Some(&[(3, 11)])),
    (&[(8, 40)], Some(&[(3, 20)]), None),
];

const NAMES: [&str; 3] = ["default", "quotes", "orders"];

fn limit((units, ticks): LimitUnits, accounting: Accounting) -> Limit {
    let rate = Rate::new(units, ms(ticks * 10)).expect("a rate");
    Limit::sliding(rate).counted(accounting)
}

fn listed(list: LimitLists, accounting: Accounting) -> Rules {
    let limits = |units: &[LimitUnits]| units.iter().map(|one| limit(*one, accounting)).collect();
    let groups = [(NAMES[1], list.1), (NAMES[2], list.2)];
    let groups = groups.into_iter().filter_map(|(name, units)| Some((name, units?)));
    Rules {
        groups: groups.map(|(name, units)| Group::new(name, limits(units))).collect(),
        max_wait: secs(1_000),
        ..rules(limits(list.0))
    }
}

/// A sent call.
struct SentCall {
    group: usize,
    cost: u64,
    at: Nanos,
    settled: Option<Nanos>,
}

/// An upstream whose rules change, and every call that it ever admitted.
struct ReconfigureRun {
    bed: TestBed,
    accounting: Accounting,
    list: LimitLists,
    sent: Vec<SentCall>,
    held: Vec<(Permit, usize)>,
    waiting: Vec<(TestCaller, usize, u64)>,
}

impl ReconfigureRun {
    fn new(accounting: Accounting) -> Self {
        Self {
            bed: TestBed::silent(listed(LISTS[0], accounting)),
            accounting,
            list: LISTS[0],
            sent: Vec::new(),
            held: Vec::new(),
            waiting: Vec::new(),
        }
    }

    fn step(&mut self, step: &RuleStep) -> Result<(), TestCaseError> {
        match *step {
            RuleStep::Join { group, cost } => self.join(group, cost)?,
            RuleStep::Pass(ticks) => self.bed.pass(ms(ticks * 10)),
            RuleStep::Settle(nth) if nth < self.held.len() => {
                let (permit, call) = self.held.remove(nth);
                permit.settle(AttemptResult::status(200));
                self.sent[call].settled = Some(self.bed.now());
            }
            RuleStep::Settle(_) => {}
            RuleStep::Return { group } => drop(self.bed.try_acquire(self.options(group, 1))),
            RuleStep::Change(nth) => {
                self.list = LISTS[nth];
                let rules = listed(self.list, self.accounting);
                self.bed.upstream.reconfigure(&rules).expect("they fit");
                let lost = [false, self.list.1.is_none(), self.list.2.is_none()];
                let waiting = self.waiting.iter_mut();
                waiting
                    .filter(|(_, group, _)| lost[*group])
                    .for_each(|waiter| waiter.1 = 0);
            }
        }
        self.resume()
    }

    /// Builds the options of a call; an unknown group becomes the default group.
    fn options(&self, group: usize, cost: u64) -> CallRequest {
        let upstream = &self.bed.upstream;
        let target = upstream.group(NAMES[group]).or_else(|| upstream.group(NAMES[0]));
        CallRequest::new(target.expect("there").with_cost(Cost::new(cost)))
    }

    fn join(&mut self, group: usize, cost: u64) -> Result<(), TestCaseError> {
        let group = if self.knows(group) { group } else { 0 };
        let mut caller = self.bed.caller(self.options(group, cost));
        match caller.poll() {
            None => self.waiting.push((caller, group, cost)),
            Some(result) => self.handle_result(result, group, cost)?,
        }
        Ok(())
    }

    /// Sends a granted call, and checks that no possible call is refused.
    fn handle_result(&mut self, result: Result<Permit, Refusal>, group: usize, cost: u64) -> Result<(), TestCaseError> {
        match result {
            Ok(permit) => self.send(permit, group, cost),
            Err(refusal) => {
                prop_assert!(matches!(refusal.reason, RefusalReason::Never { .. }), "{refusal:?}");
                Ok(())
            }
        }
    }

    fn send(&mut self, mut permit: Permit, group: usize, cost: u64) -> Result<(), TestCaseError> {
        permit.sending();
        let (at, settled) = (self.bed.now(), None);
        self.sent.push(SentCall {
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

    /// Polls every woken caller, until none is left.
    fn resume(&mut self) -> Result<(), TestCaseError> {
        while let Some(place) = self.waiting.iter().position(|(one, ..)| one.is_woken()) {
            if let Some(result) = self.waiting[place].0.poll() {
                let (_, group, cost) = self.waiting.remove(place);
                self.handle_result(result, group, cost)?;
            }
        }
        Ok(())
    }

    /// Checks all limits in force after a call of this group, with all earlier calls.
    fn fits(&self, group: usize) -> Result<(), TestCaseError> {
        let now = self.bed.now();
        for limit in self.list.0 {
            let all = self.counted(*limit, |_| true);
            prop_assert!(all <= limit.0, "{all} of {limit:?} at {now:?}");
        }
        let own = [None, self.list.1, self.list.2][group];
        for limit in own.into_iter().flatten() {
            let all = self.counted(*limit, |call| call.group == group);
            prop_assert!(all <= limit.0, "{all} of {limit:?} of group {group} at {now:?}");
        }
        Ok(())
    }

    fn counted(&self, limit: LimitUnits, is: impl Fn(&SentCall) -> bool) -> u64 {
        let (now, window) = (self.bed.now(), ms(limit.1 * 10));
        let live = |call: &&SentCall| match self.accounting {
            Accounting::Send => call.at.saturating_add(window) > now,
            _ => call.settled.is_none_or(|at| at.saturating_add(window) > now),
        };
        self.sent
            .iter()
            .filter(|call| is(call))
            .filter(live)
            .map(|call| call.cost)
            .sum()
    }

    /// Checks that nothing was forgotten: all waiters go, and later nothing counts.
    fn end(&mut self) -> Result<(), TestCaseError> {
        // 180 units, five of which may go in forty ticks.
        for _ in 0..400 {
            while !self.held.is_empty() {
                self.step(&RuleStep::Settle(0))?;
            }
            self.step(&RuleStep::Pass(10))?;
        }
        prop_assert!(self.waiting.is_empty(), "{} wait on", self.waiting.len());
        prop_assert!(self.bed.is_at_rest());
        self.bed.pass(secs(1));
        let report = self.bed.upstream.report();
        let groups = report.groups.iter().flat_map(|group| &group.limits);
        for limit in report.limits.iter().chain(groups) {
            prop_assert_eq!(limit.usage.weight, 0, "{:?}", limit.limit);
        }
        Ok(())
    }
}

fn played(accounting: Accounting, steps: &[RuleStep]) -> Result<(), TestCaseError> {
    let mut play = ReconfigureRun::new(accounting);
    for step in steps {
        play.step(step)?;
    }
    play.end()
}

outflow_testkit::laws! {
    // A granted call fits every limit in force, counting all earlier calls under any rules. No
    // change loses anything.
    #[test]
    fn no_change_admits_more_than_the_limits_in_force
    / fn stress_no_change_admits_more_than_the_limits_in_force(steps()) = |steps| played(Accounting::Send, &steps);

    // Over all possible arrival times.
    #[test]
    fn no_change_forgets_calls_in_flight
    / fn stress_no_change_forgets_calls_in_flight(steps()) = |steps| played(Accounting::Safe, &steps);
}

// Two of two are used and three wait. With four, two of the three go at the change, and the third
// a window after the first two.
#[test]
fn a_raised_limit_releases_waiters_at_once() {
    let bed = TestBed::new(rules(vec![by_sending("2/s")]));
    bed.sends(2, bed.options());
    let mut waiters: Vec<_> = (0..3).map(|_| bed.waiting(bed.options())).collect();
    bed.pass(ms(500));
    bed.upstream
        .reconfigure(&rules(vec![by_sending("4/s")]))
        .expect("they fit");
    assert_eq!(
        waiters.iter().map(TestCaller::is_woken).collect::<Vec<_>>(),
        [true, true, false]
    );
    let waited: Vec<_> = waiters.drain(..2).map(|mut waiter| waiter.goes()).collect();
    assert_eq!(waited, [ms(500), ms(500)]);
    bed.pass(ms(500));
    assert_eq!(waiters[0].goes(), secs(1));
}

// Four of four are used at 0 s. With two, no call goes until the four have left the window.
#[test]
fn a_lowered_limit_applies_at_once() {
    let bed = TestBed::new(rules(vec![by_sending("4/s")]));
    bed.sends(4, bed.options());
    bed.pass(ms(500));
    bed.upstream
        .reconfigure(&rules(vec![by_sending("2/s")]))
        .expect("they fit");
    let mut waiters: Vec<_> = (0..3).map(|_| bed.waiting(bed.options())).collect();
    bed.pass_until_just_before(ms(500));
    assert!(waiters.iter().all(|waiter| !waiter.is_woken()));
    bed.pass(ms(1));
    let went: Vec<_> = waiters.iter_mut().filter_map(|one| one.poll()?.ok()).collect();
    assert_eq!(went.len(), 2);
}

// A new limit precedes the old one before the calls in flight settle: their entries are neither
// lost nor returned to the wrong limit.
#[test]
fn calls_in_flight_settle_under_the_new_limits() {
    let bucket = Limit::bucket(parsed("5/s"), 5).expect("a burst");
    let aligned = Limit::aligned(parsed("5/s")).expect("even");
    let minute = by_arrival("9/min");
    for limit in [by_arrival("5/s"), by_sending("5/s"), bucket, aligned] {
        let bed = TestBed::new(rules(vec![limit]));
        let mut permits: Vec<_> = (0..3).map(|_| bed.caller(bed.options()).admitted()).collect();
        permits.iter_mut().for_each(Permit::sending);
        bed.upstream.reconfigure(&rules(vec![minute, limit])).expect("they fit");
        assert!(
            bed.upstream.report().limits.iter().all(|one| one.usage.weight >= 3),
            "{limit:?}"
        );
        for permit in permits {
            permit.settle(AttemptResult::status(200));
        }
        bed.pass(secs(2));
        let used = |bed: &TestBed| {
            bed.upstream
                .report()
                .limits
                .iter()
                .map(|one| one.usage.weight)
                .collect::<Vec<_>>()
        };
        assert!(used(&bed)[0] >= 3 && used(&bed)[1] == 0, "{limit:?}: {:?}", used(&bed));
        bed.pass(secs(60));
        assert_eq!(used(&bed), [0, 0], "{limit:?}");
    }
}

/// Builds rules with one group of this name and limit, and none for the API.
fn grouped(name: &str, rate: &str) -> Rules {
    Rules {
        groups: vec![Group::new(name, vec![by_sending(rate)])],
        max_wait: secs(10_000),
        ..rules(Vec::new())
    }
}

// Both calls of this hour are used. The renamed group is found by its alias or its limits; targets
// and calls from before the change follow.
#[test]
fn a_renamed_group_keeps_its_used_quota() {
    let aliased = {
        let mut rules = grouped("order", "3/h");
        rules.groups[0].aliases = vec!["orders".into()];
        rules
    };
    for (renamed, left) in [(aliased, 1), (grouped("order", "2/h"), 0)] {
        let bed = TestBed::new(grouped("orders", "2/h"));
        let old = CallRequest::new(bed.group("orders"));
        bed.sends(2, old);
        let mut before = bed.waiting(old);
        bed.upstream.reconfigure(&renamed).expect("they fit");
        let result = before.poll();
        assert_eq!(result.is_some(), left == 1);
        let options = CallRequest::new(bed.group("order"));
        assert!(bed.try_acquire(options).is_err() && bed.try_acquire(old).is_err());
        assert_eq!(bed.upstream.group_name(bed.group("order")), "order");
    }
}

// A group with two waiters and two used calls disappears: its calls join the default group with
// three an hour. They keep their order and their use counts, and the returning group finds
// everything again.
#[test]
fn calls_of_a_removed_group_join_the_default_group() {
    let with_orders = || {
        let mut rules = grouped("orders", "2/h");
        rules.groups.push(Group::new("default", vec![by_sending("3/h")]));
        rules
    };
    let bed = TestBed::new(with_orders());
    let orders = CallRequest::new(bed.group("orders"));
    bed.sends(2, orders);
    let mut waiting = [bed.waiting(orders), bed.waiting(orders)];
    bed.upstream.reconfigure(&grouped("default", "3/h")).expect("they fit");
    assert!(waiting[0].is_woken() && !waiting[1].is_woken());
    waiting[0].goes();
    assert!(bed.try_acquire(orders).is_err() && bed.try_acquire(bed.options()).is_err());
    let names: Vec<_> = bed
        .upstream
        .report()
        .groups
        .into_iter()
        .map(|group| group.name)
        .collect();
    assert_eq!(names, ["default"]);
    bed.pass(secs(3_600));
    assert!(waiting[1].is_woken());
    waiting[1].goes();
    bed.upstream.reconfigure(&with_orders()).expect("they fit");
    assert_eq!(bed.upstream.group_name(bed.group("orders")), "orders");
    bed.try_acquire(orders).expect("an hour has passed").refund();
    assert!(bed.is_at_rest());
}

// Undoing a change within the hour does not renew the hour's quota: of a group, of the API, of one
// of two limits. One of the two calls is in flight while the limit is gone.
#[test]
fn a_returning_limit_keeps_its_used_quota() {
    let two_limits = || rules(vec![by_sending("9/s"), by_sending("2/h")]);
    let only = |rate| rules(vec![by_sending(rate)]);
    let by_arrivals = || rules(vec![by_arrival("2/h")]);
    for (with, without) in [
        (grouped("default", "2/h"), rules(Vec::new())),
        (grouped("orders", "2/h"), rules(Vec::new())),
        (only("2/h"), rules(Vec::new())),
        (by_arrivals(), rules(Vec::new())),
        (two_limits(), only("9/s")),
    ] {
        let bed = TestBed::new(with.clone());
        let options = || {
            let orders = bed.upstream.group("orders");
            orders.map_or_else(|| bed.options(), CallRequest::new)
        };
        bed.sends(1, options());
        let mut permit = bed.caller(options()).admitted();
        permit.sending();
        bed.upstream.reconfigure(&without).expect("they fit");
        permit.settle(AttemptResult::status(200));
        bed.pass(secs(2));
        bed.upstream.prune();
        bed.upstream.reconfigure(&with).expect("they fit");
        assert!(bed.try_acquire(options()).is_err(), "two an hour: {with:?}");
        bed.pass(secs(3_602));
        bed.try_acquire(options()).expect("an hour later").refund();
        assert!(bed.is_at_rest());
    }
}

// The call's group has its own health, and the group is gone when the call settles.
#[test]
fn a_call_settles_in_the_health_it_started_under() {
    let scoped = |rules: Rules| Rules {
        health_scope: HealthScope::Group,
        ..rules
    };
    let bed = TestBed::new(scoped(grouped("orders", "2/s")));
    let mut permit = bed.caller(CallRequest::new(bed.group("orders"))).admitted();
    permit.sending();
    bed.upstream.reconfigure(&scoped(rules(Vec::new()))).expect("they fit");
    assert!(!bed.upstream.is_idle());
    permit.settle(AttemptResult::status(200));
    assert!(bed.is_at_rest());
    assert_eq!(bed.upstream.report().health.len(), 1);
}

#[test]
fn a_state_stays_while_its_settings_change() {
    let bed = TestBed::new(rules(Vec::new()));
    bed.upstream.force_health(None, HealthOverride::Sleep);
    let one = Rules {
        health: health(|settings| settings.concurrency = Some(1)),
        ..rules(Vec::new())
    };
    bed.upstream.reconfigure(&one).expect("they fit");
    assert_eq!(bed.upstream.state(bed.group("default")), HealthState::Sleep);
    bed.upstream.force_health(None, HealthOverride::Normal);
    let held = bed.caller(bed.options()).admitted();
    let waits = bed.waiting(bed.options());
    let two = Rules {
        health: health(|settings| settings.concurrency = Some(2)),
        ..rules(Vec::new())
    };
    bed.upstream.reconfigure(&two).expect("they fit");
    assert!(waits.is_woken(), "two may be in flight");
    drop(held);
}

// A waiter with a cost of three would wait for ever under a limit of two.
#[test]
fn a_waiter_that_can_never_go_is_refused_at_once() {
    let bed = TestBed::new(rules(vec![by_sending("3/s")]));
    bed.sends(1, bed.options());
    let heavy = CallRequest::new(bed.group("default").with_cost(Cost::new(3)));
    let mut waits = bed.waiting(heavy);
    bed.upstream
        .reconfigure(&rules(vec![by_sending("2/s")]))
        .expect("they fit");
    assert!(waits.is_woken());
    assert_eq!(waits.refused().reason, RefusalReason::Never { limit: parsed("2/s") });
}

// Waiting calls keep their old mode; a new call is refused.
#[test]
fn a_new_wait_mode_applies_to_later_calls_only() {
    let bed = TestBed::new(rules(vec![by_sending("1/s")]));
    bed.sends(1, bed.options());
    let mut waits = bed.waiting(bed.options());
    let strict = Rules {
        mode: WaitMode::Reject,
        ..rules(vec![by_sending("1/s")])
    };
    bed.upstream.reconfigure(&strict).expect("they fit");
    let refusal = bed.caller(bed.options()).refused();
    assert!(matches!(refusal.reason, RefusalReason::Busy(_)), "{refusal:?}");
    bed.pass(secs(1));
    waits.goes();
}

#[test]
fn contradictory_rules_change_nothing() {
    let bed = TestBed::new(grouped("orders", "2/h"));
    bed.sends(2, CallRequest::new(bed.group("orders")));
    let mut twice = grouped("orders", "9/h");
    twice.groups.push(Group::new("orders", Vec::new()));
    assert!(bed.upstream.reconfigure(&twice).is_err());
    let many = rules(vec![by_sending("9/h"); 9]);
    assert!(bed.upstream.reconfigure(&many).is_err());
    let options = CallRequest::new(bed.group("orders"));
    assert!(bed.try_acquire(options).is_err(), "two an hour, both used");
}
