//! Turns, deadlines, refusals and what is foretold.

use outflow::core::{Accounting, Cost, Decision, Limit, Nanos, Pacing, Priority};
use outflow::{Group, RefusalReason, Rules, WaitMode, WaitReason};
use proptest::prelude::*;

use crate::support::{CallRequest, Caller, INSTANT, World, by_sending, ms, parsed, rules, secs};

fn costing(world: &World, units: u64) -> CallRequest {
    CallRequest::new(world.group("default").with_cost(Cost::new(units)))
}

// Two a second: the third waits until the first is a second old, to the nanosecond.
#[test]
fn the_next_goes_when_the_oldest_has_left_the_window() {
    let world = World::new(rules(vec![by_sending("2/s")]));
    world.sends(2, world.ask());
    let mut third = world.waiting(world.ask());
    world.pass(ms(999));
    assert!(!third.is_woken() && third.poll().is_none());
    world.pass(ms(1));
    assert!(third.is_woken());
    assert_eq!(third.goes(), secs(1));
}

// A cost of 11 never fits 10 a second, whether or not somebody waits.
#[test]
fn a_cost_above_the_limit_is_refused_for_good() {
    let world = World::new(rules(vec![by_sending("10/s")]));
    let heavy = costing(&world, 11);
    let refusal = world.try_acquire(heavy).expect_err("never");
    assert!(
        matches!(refusal.cause, RefusalReason::Never { .. }),
        "{refusal:?}"
    );
    assert_eq!(world.check(heavy), Decision::Never);
    let _all = world.caller(costing(&world, 10)).admitted();
    let _waits = world.waiting(world.ask());
    let refusal = world.caller(heavy).refused();
    assert!(
        matches!(refusal.cause, RefusalReason::Never { .. }),
        "{refusal:?}"
    );
}

// One a second and three before it: the fourth would go in 4 s, so 3.999 s is too short and 4 s is
// long enough.
#[test]
fn a_deadline_before_the_computed_slot_is_refused_at_once() {
    let world = World::new(rules(vec![by_sending("1/s")]));
    world.caller(world.ask()).goes();
    let mut line: Vec<Caller> = (0..3).map(|_| world.waiting(world.ask())).collect();
    let short = world.ask().deadline(world.now().saturating_add(ms(3_999)));
    let refusal = world.caller(short).refused();
    assert!(
        matches!(
            refusal.cause,
            RefusalReason::TooLate(WaitReason::Limit { .. })
        ),
        "{refusal:?}"
    );
    assert_eq!(refusal.retry_after, Some(secs(4)));
    let mut last = world.waiting(world.ask().deadline(world.now().saturating_add(secs(4))));
    for caller in &mut line {
        world.pass(secs(1));
        caller.goes();
    }
    world.pass(secs(1));
    assert_eq!(last.goes(), secs(4));
}

// Nobody knows when the one in flight comes back: who waits for it is told at its deadline, neither
// before nor later, and the next one moves up.
#[test]
fn whoever_waits_for_the_unknown_is_refused_at_its_deadline() {
    let rules = Rules {
        health: crate::support::health(|settings| settings.concurrency = 1),
        ..rules(Vec::new())
    };
    let world = World::new(rules);
    let held = world.caller(world.ask()).admitted();
    let mut short = world.waiting(world.ask().deadline(world.now().saturating_add(ms(500))));
    let mut long = world.waiting(world.ask());
    world.pass_all_but_an_instant_of(ms(500));
    assert!(!short.is_woken());
    world.pass(INSTANT);
    assert!(short.is_woken());
    let refusal = short.refused();
    assert_eq!(
        refusal.cause,
        RefusalReason::TooLate(WaitReason::Concurrency { most: 1 })
    );
    drop(held);
    assert!(long.is_woken());
    long.goes();
}

#[test]
fn a_deadline_that_has_passed_still_lets_go_what_can_go_now() {
    let world = World::new(rules(vec![by_sending("1/s")]));
    let past = world.ask().deadline(Nanos::ZERO);
    world.caller(past).goes();
    let refusal = world.caller(past).refused();
    assert!(
        matches!(refusal.cause, RefusalReason::TooLate(_)),
        "{refusal:?}"
    );
}

// Two may wait: the third is refused and takes nobody's place.
#[test]
fn the_queue_is_bounded() {
    let world = World::new(Rules {
        queue: 2,
        ..rules(vec![by_sending("1/s")])
    });
    world.caller(world.ask()).goes();
    let mut line = [world.waiting(world.ask()), world.waiting(world.ask())];
    assert_eq!(
        world.caller(world.ask()).refused().cause,
        RefusalReason::QueueFull
    );
    world.pass(secs(1));
    line[0].goes();
    let _third = world.waiting(world.ask());
    assert_eq!(world.door.report().waiting, 2);
}

#[test]
fn reject_answers_at_once_with_the_time_to_come_back() {
    let world = World::new(rules(vec![by_sending("2/s")]));
    world.caller(world.ask()).goes();
    world.pass(ms(300));
    world.caller(world.ask()).goes();
    let now_or_never = world.ask().mode(WaitMode::Reject);
    for refusal in [
        world.try_acquire(world.ask()).expect_err("full"),
        world.caller(now_or_never).refused(),
    ] {
        assert!(
            matches!(refusal.cause, RefusalReason::Busy(WaitReason::Limit { .. })),
            "{refusal:?}"
        );
        assert_eq!(refusal.retry_after, Some(ms(700)));
    }
    world.pass(ms(700));
    assert!(world.try_acquire(world.ask()).is_ok());
    assert_eq!(world.door.report().groups[0].refused, 2);
}

// A million checks change nothing, and the promise is exact.
#[test]
fn check_takes_nothing_and_tells_the_exact_delay() {
    let world = World::new(rules(vec![by_sending("2/s")]));
    for _ in 0..1_000_000 {
        assert!(world.check(world.ask()).is_allow());
    }
    world.sends(2, world.ask());
    let at = world.now().saturating_add(secs(1));
    assert_eq!(world.check(world.ask()), Decision::WaitUntil(at));
    let _waits = world.waiting(world.ask());
    assert_eq!(
        world.check(world.ask()),
        Decision::WaitUntil(at),
        "both places of that instant"
    );
    let _too = world.waiting(world.ask());
    let next = at.saturating_add(secs(1));
    assert_eq!(world.check(world.ask()), Decision::WaitUntil(next));
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

// A hundred wait for one a second; the other group has 49 places now, and its callers are neither held
// up, nor refused, nor told to wait.
#[test]
fn a_group_blocked_by_its_own_limit_does_not_block_another() {
    let world = World::new(two_groups());
    let (slow, quick) = (
        CallRequest::new(world.group("slow")),
        CallRequest::new(world.group("quick")),
    );
    let slow = slow.deadline(world.now().saturating_add(secs(1_000)));
    world.caller(slow).goes();
    let _line: Vec<Caller> = (0..100).map(|_| world.waiting(slow)).collect();
    assert!(world.check(quick).is_allow());
    assert!(world.try_acquire(quick).is_ok());
    let soon = quick.deadline(world.now().saturating_add(ms(1)));
    let _gone: Vec<_> = (0..49).map(|_| world.caller(soon).admitted()).collect();
    let at = world.now().saturating_add(secs(1));
    assert_eq!(
        world.check(quick),
        Decision::WaitUntil(at),
        "one slow one and 50 quick ones"
    );
}

// The head needs all of the shared limit; a lighter one of another group that came later waits.
#[test]
fn a_head_blocked_by_the_shared_limit_is_not_overtaken() {
    let world = World::new(Rules {
        groups: vec![Group::new("a", Vec::new()), Group::new("b", Vec::new())],
        ..rules(vec![by_sending("10/s")])
    });
    let (a, b) = (world.group("a"), world.group("b"));
    let _one = world.caller(CallRequest::new(a)).admitted();
    let mut heavy = world.waiting(CallRequest::new(a.with_cost(Cost::new(10))));
    let mut light = world.waiting(CallRequest::new(b));
    assert!(
        world.try_acquire(CallRequest::new(b)).is_err(),
        "heavy is first"
    );
    world.pass(secs(1));
    assert!(heavy.is_woken() && !light.is_woken());
    heavy.goes();
    world.pass(secs(1));
    light.goes();
}

// Priorities: the better class first, first come first served within one.
#[test]
fn a_better_class_goes_first_and_each_class_keeps_its_order() {
    let world = World::new(rules(vec![by_sending("1/s")]));
    world.caller(world.ask()).goes();
    let classes = [
        Priority::Low,
        Priority::Normal,
        Priority::High,
        Priority::Normal,
        Priority::High,
    ];
    let mut line = classes.map(|class| world.waiting(world.ask().priority(class)));
    for next in [2, 4, 1, 3, 0] {
        world.pass(secs(1));
        let woken: Vec<usize> = (0..5).filter(|n| line[*n].is_woken()).collect();
        assert_eq!(woken, [next]);
        line[next].goes();
    }
}

/// So many calls of each class wait, in each of so many groups; those that go are replaced by equals.
/// Answers who went, one after the other.
fn under_full_load(
    groups: &[&str],
    classes: &[Priority],
    own: Option<&str>,
    turns: usize,
) -> Vec<(usize, Priority)> {
    let world = World::silent(Rules {
        groups: groups
            .iter()
            .map(|name| Group::new(name, own.iter().map(|rate| by_sending(rate)).collect()))
            .collect(),
        max_wait: secs(1_000_000),
        ..rules(vec![by_sending("1/s")])
    });
    let ask = |group: usize, class| CallRequest::new(world.group(groups[group])).priority(class);
    let mut line: Vec<(usize, Priority, Caller)> = Vec::new();
    world.caller(ask(0, Priority::High)).goes();
    for group in 0..groups.len() {
        for class in classes {
            for _ in 0..3 {
                line.push((group, *class, world.waiting(ask(group, *class))));
            }
        }
    }
    let mut went = Vec::new();
    while went.len() < turns {
        world.pass(secs(1));
        while let Some(at) = line.iter().position(|(.., caller)| caller.is_woken()) {
            let (group, class, mut caller) = line.remove(at);
            caller.goes();
            went.push((group, class));
            line.push((group, class, world.waiting(ask(group, class))));
        }
    }
    went
}

// Of every nine turns one is the low class's, in one group and over several.
#[test]
fn a_low_class_keeps_a_ninth() {
    use Priority::{High, Low, Normal};
    for groups in [&["a"][..], &["a", "b"], &["a", "b", "c"]] {
        for classes in [&[High, Low][..], &[Normal, Low], &[High, Normal, Low]] {
            let went = under_full_load(groups, classes, None, 900);
            let low = went.iter().filter(|(_, class)| *class == Low).count();
            assert!(low >= 98, "{low} of 900, {groups:?}, {classes:?}");
            let high = went
                .iter()
                .filter(|(_, class)| *class == classes[0])
                .count();
            assert!(high >= 690, "{high} of 900, {groups:?}, {classes:?}");
        }
    }
}

// Two groups share one a second and have one in three seconds of their own: a group's low class has its
// turn whatever the other group does, and so has its high class.
#[test]
fn neither_class_starves_in_a_group_that_is_seldom_its_turn() {
    let classes = [Priority::High, Priority::Low];
    let went = under_full_load(&["a", "b"], &classes, Some("1/3s"), 400);
    for group in 0..2 {
        let of = |wanted| {
            went.iter()
                .filter(|(g, class)| *g == group && *class == wanted)
                .count()
        };
        let (high, low) = (of(Priority::High), of(Priority::Low));
        assert!(
            low >= (high + low) / 9 - 1,
            "group {group}: {low} low beside {high} high"
        );
        assert!(high >= 120, "group {group}: {low} low beside {high} high");
    }
}

// A busy group of one class passes over the low ones of a group whose turn comes every ten seconds: that
// is not held in their favour, or they would always be first when it comes.
#[test]
fn turns_of_a_busy_group_count_nothing_in_a_slow_one() {
    let world = World::silent(Rules {
        groups: vec![
            Group::new("slow", vec![by_sending("1/10s")]),
            Group::new("busy", Vec::new()),
        ],
        max_wait: secs(1_000_000),
        ..rules(vec![by_sending("2/s")])
    });
    let slow = CallRequest::new(world.group("slow"));
    let (high, low) = (slow.priority(Priority::High), slow.priority(Priority::Low));
    let busy = CallRequest::new(world.group("busy")).priority(Priority::High);
    world.sends(1, slow);
    world.sends(1, busy);
    let mut line = vec![(true, world.waiting(high)), (false, world.waiting(low))];
    let mut crowd = vec![
        world.waiting(busy),
        world.waiting(busy),
        world.waiting(busy),
    ];
    let mut went = [0, 0];
    for _ in 0..2_000 {
        world.pass(ms(500));
        crowd.retain_mut(|caller| !caller.is_woken() || caller.waits_on());
        crowd.resize_with(3, || world.waiting(busy));
        while let Some(at) = line.iter().position(|(_, caller)| caller.is_woken()) {
            let (is_high, mut caller) = line.remove(at);
            caller.goes();
            went[usize::from(is_high)] += 1;
            line.push((is_high, world.waiting(if is_high { high } else { low })));
        }
    }
    let [low, high] = went;
    assert!(
        low >= 8 && high >= 60,
        "{low} low and {high} high in a hundred turns"
    );
}

// Five light ones come with every second; the heavy one came before them.
#[test]
fn a_heavy_call_is_not_overtaken_by_light_ones() {
    let world = World::new(rules(vec![by_sending("10/s")]));
    let _nine: Vec<_> = (0..9)
        .map(|_| world.caller(world.ask()).admitted())
        .collect();
    world.pass(ms(500));
    let mut heavy = world.waiting(costing(&world, 10));
    let mut light: Vec<Caller> = (0..5).map(|_| world.waiting(world.ask())).collect();
    world.pass(ms(499));
    assert!(!heavy.is_woken() && light.iter().all(|one| !one.is_woken()));
    world.pass(ms(1));
    assert!(heavy.is_woken() && light.iter().all(|one| !one.is_woken()));
    heavy.goes();
    world.pass(secs(1));
    for one in &mut light {
        one.goes();
    }
}

// A heavy one ahead counts with its cost, not as one.
#[test]
fn those_ahead_are_counted_with_what_they_cost() {
    let world = World::new(rules(vec![by_sending("10/s")]));
    let _all = world.caller(costing(&world, 10)).admitted();
    let _heavy = [
        world.waiting(costing(&world, 10)),
        world.waiting(costing(&world, 10)),
    ];
    let last = world.waiting(world.ask());
    let told = last.explain().expect("it waits");
    assert_eq!(
        (told.position, told.eta),
        (2, Some(world.now().saturating_add(secs(3))))
    );
    assert!(matches!(told.why, WaitReason::Limit { .. }));
}

#[test]
fn nothing_is_explained_before_the_first_poll_and_after_the_call() {
    let world = World::new(rules(vec![by_sending("1/s")]));
    assert_eq!(world.caller(world.ask()).explain(), None);
    world.caller(world.ask()).goes();
    let waits = world.waiting(world.ask());
    assert!(waits.explain().is_some());
    world.pass(secs(1));
    assert_eq!(waits.explain(), None);
}

// Ten a second, of which two are used: the eight left are spread over the second, 125 ms apart.
#[test]
fn paced_calls_go_at_their_instant_and_can_give_up_before() {
    let limit = by_sending("10/s").paced(Pacing::SOFT);
    let world = World::new(rules(vec![limit]));
    world.caller(world.ask()).goes();
    let mut second = world.waiting(world.ask());
    let told = second.explain().expect("it waits for its instant");
    let eta = told.eta.expect("known");
    let gap = eta.since(world.now());
    assert!(gap > ms(50) && gap <= ms(500), "{gap:?}");
    world.pass_all_but_an_instant_of(gap);
    assert!(!second.is_woken() && second.poll().is_none());
    world.pass(INSTANT);
    assert!(second.is_woken());
    second.goes();
    let third = world.waiting(world.ask());
    drop(third);
    assert!(world.is_at_rest());
    let refusal = world.try_acquire(world.ask()).expect_err("paced");
    assert!(
        matches!(refusal.cause, RefusalReason::Busy(WaitReason::Turn)),
        "{refusal:?}"
    );
    let soon = world.ask().deadline(world.now().saturating_add(ms(1)));
    assert!(matches!(
        world.caller(soon).refused().cause,
        RefusalReason::TooLate(_)
    ));
    assert!(world.is_at_rest());
}

#[test]
fn a_closed_door_refuses_all_who_wait_and_all_who_come() {
    let world = World::new(rules(vec![by_sending("1/s")]));
    let permit = world.caller(world.ask()).admitted();
    let mut called = world.waiting(world.ask());
    let mut waits = world.waiting(world.ask());
    world.pass(secs(1));
    assert!(called.is_woken());
    world.door.close();
    assert!(waits.is_woken());
    assert_eq!(called.refused().cause, RefusalReason::ShuttingDown);
    assert_eq!(waits.refused().cause, RefusalReason::ShuttingDown);
    assert_eq!(
        world.caller(world.ask()).refused().cause,
        RefusalReason::ShuttingDown
    );
    assert_eq!(world.check(world.ask()), Decision::Never);
    assert!(!world.door.is_idle());
    permit.settle(outflow::AttemptResult::status(200));
    assert!(world.is_at_rest());
}

#[test]
fn a_target_of_another_door_is_a_call_that_no_route_names() {
    let many = World::new(two_groups());
    let few = World::new(rules(vec![by_sending("1/s")]));
    let stranger = CallRequest::new(many.group("default"));
    assert!(few.try_acquire(stranger).is_ok());
    assert_eq!(few.door.report().groups[0].admitted, 1);
}

/// Limits of every kind, and a line of costs before the last.
fn lines() -> impl Strategy<Value = (Vec<Limit>, Vec<u64>, Vec<u64>)> {
    // Quantities by which a tenth of a second can be divided: others round up by a nanosecond a turn.
    let units = prop::sample::select(vec![1_u64, 2, 4, 5]);
    let rate = (units, 1..6_u64).prop_map(|(units, span)| parsed(&format!("{units}/{span}00ms")));
    let limit = (rate, 0..4_u8, 1..6_u64).prop_map(|(rate, kind, burst)| match kind {
        0 => Limit::sliding(rate),
        1 => Limit::fixed(rate),
        2 => Limit::aligned(rate).unwrap_or(Limit::sliding(rate)),
        _ => Limit::bucket(rate, burst).expect("some burst"),
    });
    let limits = prop::collection::vec(
        limit.prop_map(|limit| limit.counted(Accounting::Send)),
        1..2,
    );
    let costs = || prop::collection::vec(0..4_u64, 0..12);
    (limits, costs(), costs())
}

outflow_testkit::laws! {
    // One limit of any kind and calls of one unit: what is foretold comes true to the nanosecond if
    // nothing else happens, for a newcomer and at every moment of its wait.
    #[test]
    fn what_is_foretold_comes_true
    / fn stress_what_is_foretold_comes_true(lines()) = |(limits, used, line)| {
        let world = World::silent(Rules { max_wait: secs(1_000), ..rules(limits) });
        for gap in used {
            world.pass(ms(gap * 30));
            world.caller(world.ask().mode(WaitMode::Reject)).waits_on();
        }
        let mut ahead: Vec<Caller> = Vec::new();
        for _ in line {
            let mut caller = world.caller(world.ask());
            if caller.waits_on() {
                ahead.push(caller);
            }
        }
        let foretold = world.check(world.ask());
        let mut last = world.caller(world.ask());
        if let Some(answer) = last.poll() {
            prop_assert!(foretold.is_allow(), "{answer:?} but {foretold:?}");
            return Ok(());
        }
        let eta = last.explain().and_then(|told| told.eta);
        prop_assert_eq!(Some(foretold), eta.map(Decision::WaitUntil));
        while !last.is_woken() {
            prop_assert_eq!(last.explain().and_then(|told| told.eta), eta, "at {:?}", world.now());
            let next = world.timer.next_at().expect("somebody waits");
            world.pass(next.since(world.now()));
            ahead.retain_mut(|caller| !caller.is_woken() || caller.waits_on());
        }
        prop_assert_eq!(Some(last.woken_at()), eta);
        Ok(())
    };

    // Several limits, groups and costs: nobody is refused at once who would have gone in time.
    #[test]
    fn whoever_is_refused_at_once_would_have_waited_in_vain
    / fn stress_whoever_is_refused_at_once_would_have_waited_in_vain(
        (lines(), lines(), prop::collection::vec((0..2_usize, 1..4_u64), 1..20), 1..60_u64)
    ) = |((own, ..), (shared, ..), line, ready)| {
        let most = own.iter().chain(&shared).map(Limit::capacity).min().unwrap_or(1);
        let make = || World::silent(Rules {
            groups: vec![Group::new("0", own.clone()), Group::new("1", Vec::new())],
            max_wait: secs(1_000),
            ..rules(shared.clone())
        });
        let ask = |world: &World, group: usize, cost: u64| {
            CallRequest::new(world.group(&group.to_string()).with_cost(Cost::new(cost.min(most))))
        };
        let join = |world: &World| -> Vec<Caller> {
            let all = line.iter().map(|(group, cost)| world.caller(ask(world, *group, *cost)));
            all.filter_map(|mut caller| caller.waits_on().then_some(caller)).collect()
        };
        let world = make();
        let _line = join(&world);
        let ready = ms(ready * 10);
        let by = |world: &World| world.now().saturating_add(ready);
        let mut hasty = world.caller(ask(&world, 0, 1).deadline(by(&world)));
        if !matches!(hasty.poll(), Some(Err(_))) {
            return Ok(());
        }
        let world = make();
        let mut ahead = join(&world);
        let (end, last) = (by(&world), world.waiting(ask(&world, 0, 1)));
        while world.timer.next_at().is_some_and(|at| at <= end) && !last.is_woken() {
            world.pass(world.timer.next_at().expect("some").since(world.now()));
            ahead.retain_mut(|caller| !caller.is_woken() || caller.waits_on());
        }
        prop_assert!(!last.is_woken(), "it would have gone at {:?}, by {end:?}", last.woken_at());
        Ok(())
    };
}
