//! Order, deadlines, refusals and wait estimates.

use outflow::core::{Accounting, Cost, Decision, Limit, Nanos, Pacing, Priority};
use outflow::{AttemptResult, ConcurrencyRule, Group, RefusalReason, Rules, WaitMode, WaitReason};
use proptest::prelude::*;

use crate::support::{CallRequest, INSTANT, TestBed, TestCaller, by_sending, ms, parsed, rules, secs};

fn costing(bed: &TestBed, units: u64) -> CallRequest {
    CallRequest::new(bed.group("default").with_cost(Cost::new(units)))
}

// Two a second: the third waits until the first is a second old, to the nanosecond.
#[test]
fn the_next_call_goes_when_the_oldest_leaves_the_window() {
    let bed = TestBed::new(rules(vec![by_sending("2/s")]));
    bed.sends(2, bed.options());
    let mut third = bed.waiting(bed.options());
    bed.pass(ms(999));
    assert!(!third.is_woken() && third.poll().is_none());
    bed.pass(ms(1));
    assert!(third.is_woken());
    assert_eq!(third.goes(), secs(1));
}

// A cost of 11 never fits 10 a second, with or without waiters.
#[test]
fn a_cost_above_the_limit_is_refused_for_good() {
    let bed = TestBed::new(rules(vec![by_sending("10/s")]));
    let heavy = costing(&bed, 11);
    let refusal = bed.try_acquire(heavy).expect_err("never");
    assert!(matches!(refusal.reason, RefusalReason::Never { .. }), "{refusal:?}");
    assert_eq!(bed.check(heavy), Decision::Never);
    let _all = bed.caller(costing(&bed, 10)).admitted();
    let _waits = bed.waiting(bed.options());
    let refusal = bed.caller(heavy).refused();
    assert!(matches!(refusal.reason, RefusalReason::Never { .. }), "{refusal:?}");
}

// One a second and three before it: the fourth would go in 4 s, so 3.999 s are too short and 4 s
// are enough.
#[test]
fn a_deadline_before_the_computed_start_is_refused_at_once() {
    let bed = TestBed::new(rules(vec![by_sending("1/s")]));
    bed.caller(bed.options()).goes();
    let mut waiters: Vec<TestCaller> = (0..3).map(|_| bed.waiting(bed.options())).collect();
    let short = bed.options().deadline(bed.now().saturating_add(ms(3_999)));
    let refusal = bed.caller(short).refused();
    assert!(
        matches!(refusal.reason, RefusalReason::TooLate(WaitReason::Limit { .. })),
        "{refusal:?}"
    );
    assert_eq!(refusal.retry_after, Some(secs(4)));
    let mut last = bed.waiting(bed.options().deadline(bed.now().saturating_add(secs(4))));
    for caller in &mut waiters {
        bed.pass(secs(1));
        caller.goes();
    }
    bed.pass(secs(1));
    assert_eq!(last.goes(), secs(4));
}

// The return of the call in flight is unknown: its waiter is refused exactly at the deadline, and
// the next one moves up.
#[test]
fn a_wait_of_unknown_length_is_refused_at_its_deadline() {
    let rules = Rules {
        health: crate::support::health(|settings| settings.concurrency = Some(1)),
        ..rules(Vec::new())
    };
    let bed = TestBed::new(rules);
    let held = bed.caller(bed.options()).admitted();
    let mut short = bed.waiting(bed.options().deadline(bed.now().saturating_add(ms(500))));
    let mut long = bed.waiting(bed.options());
    bed.pass_until_just_before(ms(500));
    assert!(!short.is_woken());
    bed.pass(INSTANT);
    assert!(short.is_woken());
    let refusal = short.refused();
    assert_eq!(
        refusal.reason,
        RefusalReason::TooLate(WaitReason::Concurrency {
            most: 1,
            rule: ConcurrencyRule::Setting
        })
    );
    drop(held);
    assert!(long.is_woken());
    long.goes();
}

// Two in flight under 3/s: concurrency holds the third back, and then, with its quota used up, the limit does.
#[test]
fn a_report_says_when_concurrency_binds_and_not_a_limit() {
    let bed = TestBed::new(Rules {
        health: crate::support::health(|settings| settings.concurrency = Some(2)),
        ..rules(vec![by_sending("3/s")])
    });
    let [one, _two] = [bed.options(); 2].map(|options| bed.caller(options).admitted());
    assert_eq!(bed.upstream.concurrency_bounds(), [], "no call waits");
    let mut third = bed.waiting(bed.options());
    let bounds = bed.upstream.concurrency_bounds();
    assert_eq!(
        bounds.iter().map(|(_, bound)| bound.to_string()).collect::<Vec<_>>(),
        ["2 of 2 calls in flight: concurrency binds, not the limit 3/s; raise `concurrency`"]
    );
    assert_eq!(
        bed.upstream.report().health[0].bound,
        bounds.first().map(|(_, bound)| *bound)
    );
    one.settle(AttemptResult::status(200));
    let _third = third.admitted();
    let _fourth = bed.waiting(bed.options());
    assert_eq!(bed.upstream.concurrency_bounds(), [], "the limit is used up as well");
}

// The API allows 50/s and a group 1/s of it: the sentence and the rate are those of one limit, and of the API's as
// long as none binds.
#[test]
fn a_report_has_the_rate_of_the_limit_that_its_reason_names() {
    let bed = TestBed::new(two_groups());
    let shown = || {
        let health = bed.upstream.report().health.remove(0);
        let rate = health.rate.expect("limits");
        let group = rate.group.unwrap_or_default();
        (group, rate.effective.to_string(), health.reason.unwrap_or_default())
    };
    assert_eq!(shown(), ("".into(), "50/s".to_owned(), String::new()));
    let slow = CallRequest::new(bed.group("slow"));
    bed.caller(slow).goes();
    let _waits = bed.waiting(slow);
    let (group, rate, reason) = shown();
    assert_eq!((group.as_str(), rate.as_str()), ("slow", "1/s"));
    assert_eq!(reason, "1 call waits: the limit of 1/s is used up");
}

#[test]
fn a_passed_deadline_still_admits_a_call_that_can_go_now() {
    let bed = TestBed::new(rules(vec![by_sending("1/s")]));
    let past = bed.options().deadline(Nanos::ZERO);
    bed.caller(past).goes();
    let refusal = bed.caller(past).refused();
    assert!(matches!(refusal.reason, RefusalReason::TooLate(_)), "{refusal:?}");
}

// Two may wait: the third is refused and takes no other's position.
#[test]
fn the_queue_is_bounded() {
    let bed = TestBed::new(Rules {
        queue: 2,
        ..rules(vec![by_sending("1/s")])
    });
    bed.caller(bed.options()).goes();
    let mut waiters = [bed.waiting(bed.options()), bed.waiting(bed.options())];
    assert_eq!(bed.caller(bed.options()).refused().reason, RefusalReason::QueueFull);
    bed.pass(secs(1));
    waiters[0].goes();
    let _third = bed.waiting(bed.options());
    assert_eq!(bed.upstream.report().waiting, 2);
}

#[test]
fn reject_mode_refuses_at_once_with_a_retry_time() {
    let bed = TestBed::new(rules(vec![by_sending("2/s")]));
    bed.caller(bed.options()).goes();
    bed.pass(ms(300));
    bed.caller(bed.options()).goes();
    let now_or_never = bed.options().mode(WaitMode::Reject);
    for refusal in [
        bed.try_acquire(bed.options()).expect_err("full"),
        bed.caller(now_or_never).refused(),
    ] {
        assert!(
            matches!(refusal.reason, RefusalReason::Busy(WaitReason::Limit { .. })),
            "{refusal:?}"
        );
        assert_eq!(refusal.retry_after, Some(ms(700)));
    }
    bed.pass(ms(700));
    assert!(bed.try_acquire(bed.options()).is_ok());
    assert_eq!(bed.upstream.report().groups[0].refused, 2);
}

// A million checks change nothing, and the promise is exact.
#[test]
fn check_takes_nothing_and_returns_the_exact_delay() {
    let bed = TestBed::new(rules(vec![by_sending("2/s")]));
    for _ in 0..1_000_000 {
        assert!(bed.check(bed.options()).is_allow());
    }
    bed.sends(2, bed.options());
    let at = bed.now().saturating_add(secs(1));
    assert_eq!(bed.check(bed.options()), Decision::WaitUntil(at));
    let _waits = bed.waiting(bed.options());
    assert_eq!(
        bed.check(bed.options()),
        Decision::WaitUntil(at),
        "both places of that instant"
    );
    let _too = bed.waiting(bed.options());
    let next = at.saturating_add(secs(1));
    assert_eq!(bed.check(bed.options()), Decision::WaitUntil(next));
}

fn two_groups() -> Rules {
    Rules {
        groups: vec![
            Group::new("slow", vec![by_sending("1/s")]),
            Group::new("quick", Vec::new()),
        ],
        ..rules(vec![by_sending("50/s")])
    }
}

// A hundred wait for one a second; the other group has 49 left, and its callers are neither
// delayed nor refused.
#[test]
fn a_group_blocked_by_its_own_limit_does_not_block_another() {
    let bed = TestBed::new(two_groups());
    let (slow, quick) = (
        CallRequest::new(bed.group("slow")),
        CallRequest::new(bed.group("quick")),
    );
    let slow = slow.deadline(bed.now().saturating_add(secs(1_000)));
    bed.caller(slow).goes();
    let _line: Vec<TestCaller> = (0..100).map(|_| bed.waiting(slow)).collect();
    assert!(bed.check(quick).is_allow());
    assert!(bed.try_acquire(quick).is_ok());
    let soon = quick.deadline(bed.now().saturating_add(ms(1)));
    let _gone: Vec<_> = (0..49).map(|_| bed.caller(soon).admitted()).collect();
    let at = bed.now().saturating_add(secs(1));
    assert_eq!(
        bed.check(quick),
        Decision::WaitUntil(at),
        "one slow one and 50 quick ones"
    );
}

// The head needs all of the shared limit; a lighter, later call of another group waits.
#[test]
fn a_head_blocked_by_the_shared_limit_is_not_overtaken() {
    let bed = TestBed::new(Rules {
        groups: vec![Group::new("a", Vec::new()), Group::new("b", Vec::new())],
        ..rules(vec![by_sending("10/s")])
    });
    let (a, b) = (bed.group("a"), bed.group("b"));
    let _one = bed.caller(CallRequest::new(a)).admitted();
    let mut heavy = bed.waiting(CallRequest::new(a.with_cost(Cost::new(10))));
    let mut light = bed.waiting(CallRequest::new(b));
    assert!(bed.try_acquire(CallRequest::new(b)).is_err(), "heavy is first");
    bed.pass(secs(1));
    assert!(heavy.is_woken() && !light.is_woken());
    heavy.goes();
    bed.pass(secs(1));
    light.goes();
}

// Priorities: the better class first, first come first served within one.
#[test]
fn a_better_class_goes_first_and_each_class_keeps_its_order() {
    let bed = TestBed::new(rules(vec![by_sending("1/s")]));
    bed.caller(bed.options()).goes();
    let classes = [
        Priority::Low,
        Priority::Normal,
        Priority::High,
        Priority::Normal,
        Priority::High,
    ];
    let mut waiters = classes.map(|class| bed.waiting(bed.options().priority(class)));
    for next in [2, 4, 1, 3, 0] {
        bed.pass(secs(1));
        let woken: Vec<usize> = (0..5).filter(|n| waiters[*n].is_woken()).collect();
        assert_eq!(woken, [next]);
        waiters[next].goes();
    }
}

/// Keeps callers of each class waiting in each group, and replaces each that goes. Returns the
/// calls in their order of going.
fn under_full_load(groups: &[&str], classes: &[Priority], own: Option<&str>, turns: usize) -> Vec<(usize, Priority)> {
    let bed = TestBed::silent(Rules {
        groups: groups
            .iter()
            .map(|name| Group::new(name, own.iter().map(|rate| by_sending(rate)).collect()))
            .collect(),
        max_wait: secs(1_000_000),
        ..rules(vec![by_sending("1/s")])
    });
    let options = |group: usize, class| CallRequest::new(bed.group(groups[group])).priority(class);
    let mut waiters: Vec<(usize, Priority, TestCaller)> = Vec::new();
    bed.caller(options(0, Priority::High)).goes();
    for group in 0..groups.len() {
        for class in classes {
            for _ in 0..3 {
                waiters.push((group, *class, bed.waiting(options(group, *class))));
            }
        }
    }
    let mut went = Vec::new();
    while went.len() < turns {
        bed.pass(secs(1));
        while let Some(at) = waiters.iter().position(|(.., caller)| caller.is_woken()) {
            let (group, class, mut caller) = waiters.remove(at);
            caller.goes();
            went.push((group, class));
            waiters.push((group, class, bed.waiting(options(group, class))));
        }
    }
    went
}

// Of every nine permits the low class gets one, in one group and over several.
#[test]
fn the_low_class_keeps_a_ninth() {
    use Priority::{High, Low, Normal};
    for groups in [&["a"][..], &["a", "b"], &["a", "b", "c"]] {
        for classes in [&[High, Low][..], &[Normal, Low], &[High, Normal, Low]] {
            let went = under_full_load(groups, classes, None, 900);
            let low = went.iter().filter(|(_, class)| *class == Low).count();
            assert!(low >= 98, "{low} of 900, {groups:?}, {classes:?}");
            let high = went.iter().filter(|(_, class)| *class == classes[0]).count();
            assert!(high >= 690, "{high} of 900, {groups:?}, {classes:?}");
        }
    }
}

// Two groups share one a second and have one in three seconds of their own. Each group's low class
// and high class get permits, independent of the other group.
#[test]
fn neither_class_starves_in_a_group_that_rarely_goes() {
    let classes = [Priority::High, Priority::Low];
    let went = under_full_load(&["a", "b"], &classes, Some("1/3s"), 400);
    for group in 0..2 {
        let of = |wanted| went.iter().filter(|(g, class)| *g == group && *class == wanted).count();
        let (high, low) = (of(Priority::High), of(Priority::Low));
        assert!(low >= (high + low) / 9 - 1, "group {group}: {low} low, {high} high");
        assert!(high >= 120, "group {group}: {low} low, {high} high");
    }
}

// A busy group of one class passes over the low calls of a group that goes every ten seconds.
// These passes do not count in their favour, or they would always be first.
#[test]
fn permits_of_a_busy_group_do_not_count_in_a_slow_one() {
    let bed = TestBed::silent(Rules {
        groups: vec![
            Group::new("slow", vec![by_sending("1/10s")]),
            Group::new("busy", Vec::new()),
        ],
        max_wait: secs(1_000_000),
        ..rules(vec![by_sending("2/s")])
    });
    let slow = CallRequest::new(bed.group("slow"));
    let (high, low) = (slow.priority(Priority::High), slow.priority(Priority::Low));
    let busy = CallRequest::new(bed.group("busy")).priority(Priority::High);
    bed.sends(1, slow);
    bed.sends(1, busy);
    let mut waiters = vec![(true, bed.waiting(high)), (false, bed.waiting(low))];
    let mut callers = vec![bed.waiting(busy), bed.waiting(busy), bed.waiting(busy)];
    let mut went = [0, 0];
    for _ in 0..2_000 {
        bed.pass(ms(500));
        callers.retain_mut(|caller| !caller.is_woken() || caller.waits_on());
        callers.resize_with(3, || bed.waiting(busy));
        while let Some(at) = waiters.iter().position(|(_, caller)| caller.is_woken()) {
            let (is_high, mut caller) = waiters.remove(at);
            caller.goes();
            went[usize::from(is_high)] += 1;
            waiters.push((is_high, bed.waiting(if is_high { high } else { low })));
        }
    }
    let [low, high] = went;
    assert!(low >= 8 && high >= 60, "{low} low and {high} high in a hundred turns");
}

// Five light calls arrive every second; the heavy one came before them.
#[test]
fn a_heavy_call_is_not_overtaken_by_light_ones() {
    let bed = TestBed::new(rules(vec![by_sending("10/s")]));
    let _nine: Vec<_> = (0..9).map(|_| bed.caller(bed.options()).admitted()).collect();
    bed.pass(ms(500));
    let mut heavy = bed.waiting(costing(&bed, 10));
    let mut light: Vec<TestCaller> = (0..5).map(|_| bed.waiting(bed.options())).collect();
    bed.pass(ms(499));
    assert!(!heavy.is_woken() && light.iter().all(|one| !one.is_woken()));
    bed.pass(ms(1));
    assert!(heavy.is_woken() && light.iter().all(|one| !one.is_woken()));
    heavy.goes();
    bed.pass(secs(1));
    for one in &mut light {
        one.goes();
    }
}

// A heavy call ahead counts with its cost, not as one.
#[test]
fn calls_ahead_count_with_their_costs() {
    let bed = TestBed::new(rules(vec![by_sending("10/s")]));
    let _all = bed.caller(costing(&bed, 10)).admitted();
    let _heavy = [bed.waiting(costing(&bed, 10)), bed.waiting(costing(&bed, 10))];
    let last = bed.waiting(bed.options());
    let estimate = last.explain().expect("it waits");
    assert_eq!(
        (estimate.position, estimate.eta),
        (2, Some(bed.now().saturating_add(secs(3))))
    );
    assert!(matches!(estimate.reason, WaitReason::Limit { .. }));
}

#[test]
fn a_wait_estimate_exists_only_while_the_call_waits() {
    let bed = TestBed::new(rules(vec![by_sending("1/s")]));
    assert_eq!(bed.caller(bed.options()).explain(), None);
    bed.caller(bed.options()).goes();
    let waits = bed.waiting(bed.options());
    assert!(waits.explain().is_some());
    bed.pass(secs(1));
    assert_eq!(waits.explain(), None);
}

// Ten a second, of which two are used: the eight left are spread over the second, 125 ms apart.
#[test]
fn paced_calls_go_at_their_instant_and_can_be_dropped_before() {
    let limit = by_sending("10/s").paced(Pacing::SOFT);
    let bed = TestBed::new(rules(vec![limit]));
    bed.caller(bed.options()).goes();
    let mut second = bed.waiting(bed.options());
    let estimate = second.explain().expect("it waits for its instant");
    let eta = estimate.eta.expect("known");
    let gap = eta.since(bed.now());
    assert!(gap > ms(50) && gap <= ms(500), "{gap:?}");
    bed.pass_until_just_before(gap);
    assert!(!second.is_woken() && second.poll().is_none());
    bed.pass(INSTANT);
    assert!(second.is_woken());
    second.goes();
    let third = bed.waiting(bed.options());
    drop(third);
    assert!(bed.is_at_rest());
    let refusal = bed.try_acquire(bed.options()).expect_err("paced");
    assert!(
        matches!(refusal.reason, RefusalReason::Busy(WaitReason::Turn)),
        "{refusal:?}"
    );
    let soon = bed.options().deadline(bed.now().saturating_add(ms(1)));
    assert!(matches!(bed.caller(soon).refused().reason, RefusalReason::TooLate(_)));
    assert!(bed.is_at_rest());
}

#[test]
fn a_closed_upstream_refuses_all_waiting_and_new_calls() {
    let bed = TestBed::new(rules(vec![by_sending("1/s")]));
    let permit = bed.caller(bed.options()).admitted();
    let mut called = bed.waiting(bed.options());
    let mut waits = bed.waiting(bed.options());
    bed.pass(secs(1));
    assert!(called.is_woken());
    bed.upstream.close();
    assert!(waits.is_woken());
    assert_eq!(called.refused().reason, RefusalReason::ShuttingDown);
    assert_eq!(waits.refused().reason, RefusalReason::ShuttingDown);
    assert_eq!(bed.caller(bed.options()).refused().reason, RefusalReason::ShuttingDown);
    assert_eq!(bed.check(bed.options()), Decision::Never);
    assert!(!bed.upstream.is_idle());
    permit.settle(outflow::AttemptResult::status(200));
    assert!(bed.is_at_rest());
}

#[test]
fn a_target_of_another_upstream_falls_to_the_default_group() {
    let many = TestBed::new(two_groups());
    let few = TestBed::new(rules(vec![by_sending("1/s")]));
    let stranger = CallRequest::new(many.group("default"));
    assert!(few.try_acquire(stranger).is_ok());
    assert_eq!(few.upstream.report().groups[0].admitted, 1);
}

/// Generates limits of every kind, and a queue of costs before the last call.
fn limits_and_queues() -> impl Strategy<Value = (Vec<Limit>, Vec<u64>, Vec<u64>)> {
    // Quantities that divide a tenth of a second: others round up by a nanosecond per permit.
    let units = prop::sample::select(vec![1_u64, 2, 4, 5]);
    let rate = (units, 1..6_u64).prop_map(|(units, span)| parsed(&format!("{units}/{span}00ms")));
    let limit = (rate, 0..4_u8, 1..6_u64).prop_map(|(rate, kind, burst)| match kind {
        0 => Limit::sliding(rate),
        1 => Limit::fixed(rate),
        2 => Limit::aligned(rate).unwrap_or(Limit::sliding(rate)),
        _ => Limit::bucket(rate, burst).expect("some burst"),
    });
    let limits = prop::collection::vec(limit.prop_map(|limit| limit.counted(Accounting::Send)), 1..2);
    let costs = || prop::collection::vec(0..4_u64, 0..12);
    (limits, costs(), costs())
}

outflow_testkit::laws! {
    // One limit of any kind and calls of one unit. If nothing else happens the estimate is exact
    // to the nanosecond, for a new call and during its wait.
    #[test]
    fn a_wait_estimate_comes_true
    / fn stress_a_wait_estimate_comes_true(limits_and_queues()) = |(limits, used, waiters)| {
        let bed = TestBed::silent(Rules { max_wait: secs(1_000), ..rules(limits) });
        for gap in used {
            bed.pass(ms(gap * 30));
            bed.caller(bed.options().mode(WaitMode::Reject)).waits_on();
        }
        let mut ahead: Vec<TestCaller> = Vec::new();
        for _ in waiters {
            let mut caller = bed.caller(bed.options());
            if caller.waits_on() {
                ahead.push(caller);
            }
        }
        let predicted = bed.check(bed.options());
        let mut last = bed.caller(bed.options());
        if let Some(result) = last.poll() {
            prop_assert!(predicted.is_allow(), "{result:?} but {predicted:?}");
            return Ok(());
        }
        let eta = last.explain().and_then(|estimate| estimate.eta);
        prop_assert_eq!(Some(predicted), eta.map(Decision::WaitUntil));
        while !last.is_woken() {
            prop_assert_eq!(last.explain().and_then(|estimate| estimate.eta), eta, "at {:?}", bed.now());
            let next = bed.timer.next_at().expect("a caller waits");
            bed.pass(next.since(bed.now()));
            ahead.retain_mut(|caller| !caller.is_woken() || caller.waits_on());
        }
        prop_assert_eq!(Some(last.woken_at()), eta);
        Ok(())
    };

    // Several limits, groups and costs: no call is refused at once that would have gone in time.
    #[test]
    fn a_call_refused_at_once_could_not_have_met_its_deadline
    / fn stress_a_call_refused_at_once_could_not_have_met_its_deadline(
        (limits_and_queues(), limits_and_queues(), prop::collection::vec((0..2_usize, 1..4_u64), 1..20), 1..60_u64)
    ) = |((own, ..), (shared, ..), waiters, ready)| {
        let most = own.iter().chain(&shared).map(Limit::capacity).min().unwrap_or(1);
        let make = || TestBed::silent(Rules {
            groups: vec![Group::new("0", own.clone()), Group::new("1", Vec::new())],
            max_wait: secs(1_000),
            ..rules(shared.clone())
        });
        let options = |bed: &TestBed, group: usize, cost: u64| {
            CallRequest::new(bed.group(&group.to_string()).with_cost(Cost::new(cost.min(most))))
        };
        let join = |bed: &TestBed| -> Vec<TestCaller> {
            let all = waiters.iter().map(|(group, cost)| bed.caller(options(bed, *group, *cost)));
            all.filter_map(|mut caller| caller.waits_on().then_some(caller)).collect()
        };
        let bed = make();
        let _line = join(&bed);
        let ready = ms(ready * 10);
        let by = |bed: &TestBed| bed.now().saturating_add(ready);
        let mut hasty = bed.caller(options(&bed, 0, 1).deadline(by(&bed)));
        if !matches!(hasty.poll(), Some(Err(_))) {
            return Ok(());
        }
        let bed = make();
        let mut ahead = join(&bed);
        let (end, last) = (by(&bed), bed.waiting(options(&bed, 0, 1)));
        while bed.timer.next_at().is_some_and(|at| at <= end) && !last.is_woken() {
            bed.pass(bed.timer.next_at().expect("some").since(bed.now()));
            ahead.retain_mut(|caller| !caller.is_woken() || caller.waits_on());
        }
        prop_assert!(!last.is_woken(), "it would have gone at {:?}, by {end:?}", last.woken_at());
        Ok(())
    };
}
