//! States, cooldowns and probes, as callers meet them.

use std::time::Duration;

use http::HeaderMap;
use outflow::core::{Cost, Decision, Fault, HealthOverride, HealthState, OutcomeClass};
use outflow::event::EventKind;
use outflow::{AttemptResult, Group, HealthScope, RefusalReason, Rules, WaitReason, WhenAsleep};

use crate::support::{
    CallRequest, Caller, INSTANT, World, by_sending, health, ms, parsed, rules, secs,
};

fn unlimited() -> Rules {
    rules(Vec::new())
}

/// An answer with this status that asks to wait so many seconds.
pub(crate) fn asks_to_wait(world: &World, ask: CallRequest, status: u16, seconds: &str) {
    let mut headers = HeaderMap::new();
    headers.insert("retry-after", seconds.parse().expect("a value"));
    let mut permit = world.caller(ask).admitted();
    permit.sending();
    permit.settle(AttemptResult::response(status, &headers));
}

fn fails(world: &World, answer: AttemptResult<'_>) {
    let mut permit = world.caller(world.ask()).admitted();
    permit.sending();
    permit.settle(answer);
}

fn state(world: &World) -> HealthState {
    world.door.state(world.group("default"))
}

/// A hundred wait, some of them called and not yet resumed.
fn a_hundred(world: &World) -> Vec<Caller> {
    let line: Vec<Caller> = (0..100).map(|_| world.waiting(world.ask())).collect();
    world.pass(ms(100));
    assert_eq!(line.iter().filter(|one| one.is_woken()).count(), 10);
    line
}

// Ten a 100 ms and a hundred wait; ten were called when a ban comes in. None goes, all are told.
#[test]
fn a_sleep_that_begins_while_a_hundred_wait_lets_none_of_them_go() {
    let world = World::new(rules(vec![by_sending("10/100ms")]));
    let mut banned = world.caller(world.ask()).admitted();
    banned.sending();
    world.sends(9, world.ask());
    let mut line = a_hundred(&world);
    let mut headers = HeaderMap::new();
    headers.insert("retry-after", "60".parse().expect("a value"));
    let verdict = banned.settle(AttemptResult::response(418, &headers));
    assert_eq!(
        (verdict.effect, state(&world)),
        (OutcomeClass::Banned, HealthState::Sleep)
    );
    for caller in &mut line {
        assert!(caller.is_woken());
        let refusal = caller.refused();
        assert_eq!(
            refusal.cause,
            RefusalReason::Blocked {
                state: HealthState::Sleep
            }
        );
        assert_eq!(refusal.retry_after, Some(secs(60)));
    }
    assert!(world.is_at_rest());
    let late = world.caller(world.ask()).refused();
    assert_eq!(late.retry_after, Some(secs(60)));
    let at = world.now().saturating_add(secs(60));
    assert_eq!(world.check(world.ask()), Decision::WaitUntil(at));
}

// The same where callers would rather wait: 30 s of patience are too few for 60, and enough for 10.
#[test]
fn who_would_rather_wait_is_told_only_if_its_deadline_comes_first() {
    for (seconds, all_told) in [("60", true), ("10", false)] {
        let world = World::new(Rules {
            when_asleep: WhenAsleep::Wait,
            ..rules(vec![by_sending("10/100ms")])
        });
        let mut banned = world.caller(world.ask()).admitted();
        banned.sending();
        world.sends(9, world.ask());
        let mut line = a_hundred(&world);
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", seconds.parse().expect("a value"));
        banned.settle(AttemptResult::response(418, &headers));
        if all_told {
            let told = line.iter_mut().map(|one| one.refused().cause);
            assert!(told.into_iter().all(|cause| matches!(
                cause,
                RefusalReason::TooLate(WaitReason::State(HealthState::Sleep))
            )));
            continue;
        }
        assert!(line.iter_mut().all(|one| one.poll().is_none()));
        world.pass(ms(9_999));
        assert!(line.iter().all(|one| !one.is_woken()));
        world.pass(ms(1));
        assert_eq!(state(&world), HealthState::HalfOpen);
        let woken: Vec<usize> = (0..100).filter(|n| line[*n].is_woken()).collect();
        assert_eq!(woken, [0], "one probe, and the first in line");
    }
}

// A minute, to the nanosecond, with nobody around.
#[test]
fn a_sleep_ends_by_its_timer_without_a_caller() {
    let world = World::new(unlimited());
    asks_to_wait(&world, world.ask(), 429, "60");
    assert_eq!(state(&world), HealthState::Sleep);
    world.pass_all_but_an_instant_of(secs(60));
    assert_eq!(state(&world), HealthState::Sleep);
    world.pass(INSTANT);
    assert_eq!(state(&world), HealthState::HalfOpen);
}

fn half_open(rules: Rules) -> World {
    let world = World::new(rules);
    asks_to_wait(&world, world.ask(), 429, "60");
    world.pass(secs(60));
    assert_eq!(state(&world), HealthState::HalfOpen);
    world
}

// A hundred at once: one probe is out, the others wait, and five good ones open the door.
#[test]
fn one_probe_is_in_flight_and_five_good_ones_end_it() {
    let world = half_open(unlimited());
    let mut line: Vec<Caller> = (0..100).map(|_| world.caller(world.ask())).collect();
    for n in 0..5 {
        let mut probe = line[n].admitted();
        assert!(line[n + 1..].iter_mut().all(|one| one.poll().is_none()));
        assert_eq!(
            (state(&world), world.in_flight()),
            (HealthState::HalfOpen, 1)
        );
        probe.sending();
        probe.settle(AttemptResult::status(200));
        world.pass(ms(334));
    }
    assert_eq!(state(&world), HealthState::Normal);
    world.pass(ms(1_100));
    assert!(
        line[5..]
            .iter_mut()
            .all(|one| one.poll().is_some_and(|answer| answer.is_ok()))
    );
}

// Dropped unsent, refunded, cancelled after sending, answered 404: the next probe goes, three a second
// as always.
#[test]
fn a_probe_that_says_nothing_gives_its_place_back() {
    let world = half_open(unlimited());
    for way in 0..8 {
        let mut permit = world.caller(world.ask()).admitted();
        match way % 4 {
            0 => drop(permit),
            1 => permit.refund(),
            2 => {
                permit.sending();
                drop(permit);
            }
            _ => {
                permit.sending();
                permit.settle(AttemptResult::status(404));
            }
        }
        assert_eq!(
            (state(&world), world.in_flight()),
            (HealthState::HalfOpen, 0),
            "way {way}"
        );
        world.pass(ms(334));
    }
    let called = world.waiting_behind(world.ask());
    drop(called);
    world.caller(world.ask()).goes();
}

// No limit at all, and probes that come back at once: the first three go, the fourth a second after the
// first; one that never left is not among them.
#[test]
fn probes_keep_to_their_rate_where_nothing_else_is_limited() {
    let world = half_open(unlimited());
    world.caller(world.ask()).admitted().refund();
    for _ in 0..3 {
        let mut probe = world.caller(world.ask()).admitted();
        probe.sending();
        probe.settle(AttemptResult::status(404));
    }
    let mut fourth = world.waiting(world.ask());
    world.pass(ms(999));
    assert!(!fourth.is_woken());
    world.pass(ms(1));
    assert!(fourth.is_woken());
    fourth.goes();
}

/// One probe a second, and entries that count from their sending: whoever resumes late is stamped anew.
fn one_probe_a_second() -> World {
    half_open(Rules {
        health: health(|settings| settings.probe_rate = parsed("1/s")),
        ..rules(vec![by_sending("100/s")])
    })
}

// Called at once, resumed after 500 ms, given back unsent: in each of its ways it leaves no trace.
#[test]
fn a_probe_that_resumed_late_and_never_left_is_not_counted() {
    for way in 0..3 {
        let world = one_probe_a_second();
        let mut late = world.waiting_behind(world.ask());
        world.pass(ms(500));
        let permit = late.admitted();
        match way {
            0 => drop(permit),
            1 => permit.refund(),
            _ => {
                world.pass(ms(100));
                drop(permit);
            }
        }
        assert!(world.is_at_rest());
        world.caller(world.ask()).goes();
    }
}

// Called at once, resumed after 500 ms and sent after 800: the next goes a second after that.
#[test]
fn a_probe_counts_when_it_is_sent() {
    let world = one_probe_a_second();
    let mut late = world.waiting_behind(world.ask());
    world.pass(ms(500));
    let mut probe = late.admitted();
    world.pass(ms(300));
    probe.sending();
    probe.settle(AttemptResult::status(404));
    let mut next = world.waiting(world.ask());
    world.pass_all_but_an_instant_of(secs(1));
    assert!(!next.is_woken());
    world.pass(INSTANT);
    next.goes();
}

// A probe may stay out for 15 s. One that hangs longer has failed, and holds nobody up for ever.
#[test]
fn a_probe_that_hangs_does_not_stick() {
    let world = half_open(unlimited());
    let mut hung = world.caller(world.ask()).admitted();
    hung.sending();
    let mut waits = world.waiting(world.ask());
    assert_eq!(
        waits.explain().map(|told| (told.why, told.eta)),
        Some((WaitReason::State(HealthState::HalfOpen), None))
    );
    world.pass(secs(15));
    assert_eq!(state(&world), HealthState::Sleep);
    assert!(matches!(
        waits.refused().cause,
        RefusalReason::Blocked {
            state: HealthState::Sleep
        }
    ));
    world.pass(secs(10));
    assert_eq!(state(&world), HealthState::HalfOpen);
    world.caller(world.ask()).goes();
    hung.settle(AttemptResult::status(200));
    assert!(world.is_at_rest());
}

// Ten seconds of patience, and a probe that may hang for fifteen: whoever comes meanwhile waits, for
// the probe may be back at any moment.
#[test]
fn nobody_is_refused_because_a_probe_might_hang() {
    let world = half_open(unlimited());
    let mut probe = world.caller(world.ask()).admitted();
    probe.sending();
    let mut next = world.waiting(world.ask().deadline(world.now().saturating_add(secs(10))));
    probe.settle(AttemptResult::status(200));
    assert!(next.is_woken());
    next.goes();
}

// A stream of events never ends: that it began to flow is all that a probe wants to know.
#[test]
fn a_probe_whose_body_flows_has_succeeded() {
    let world = half_open(unlimited());
    for n in 1..=5 {
        let mut permit = world.caller(world.ask()).admitted();
        permit.sending();
        let (_, mut tail) = permit.settle_head(AttemptResult::status(200));
        assert_eq!(state(&world), HealthState::HalfOpen);
        tail.mark_alive();
        if n < 5 {
            tail.finished();
            world.pass(ms(334));
        } else {
            assert_eq!((state(&world), world.in_flight()), (HealthState::Normal, 1));
        }
    }
}

#[test]
fn a_failed_probe_ends_in_sleep_and_all_who_wait_are_told() {
    let world = half_open(unlimited());
    let mut probe = world.caller(world.ask()).admitted();
    probe.sending();
    let mut waits = world.waiting(world.ask());
    probe.settle(AttemptResult::status(500));
    assert_eq!(state(&world), HealthState::Sleep);
    assert!(matches!(
        waits.refused().cause,
        RefusalReason::Blocked { .. }
    ));
}

// Three refusals in a row: 50/s becomes 25/s and four in flight become two; both come back on release.
#[test]
fn throttle_halves_rates_and_concurrency() {
    let world = World::new(Rules {
        health: health(|_| {}),
        ..rules(vec![by_sending("50/s")])
    });
    (0..3).for_each(|_| fails(&world, AttemptResult::status(429)));
    assert_eq!(state(&world), HealthState::Throttle);
    let report = world.door.report();
    assert_eq!(report.limits[0].limit.capacity(), 25);
    assert_eq!(report.health[0].concurrency, 2);
    let _two = [world.ask(); 2].map(|ask| world.caller(ask).admitted());
    let third = world.waiting(world.ask());
    assert_eq!(
        third.explain().map(|told| told.why),
        Some(WaitReason::Concurrency { most: 2 })
    );
    world.door.force_health(None, HealthOverride::Normal);
    assert_eq!(world.door.report().limits[0].limit.capacity(), 50);
    assert!(third.is_woken());
}

// Evidence shrinks the limit and still counts: three refusals in a row throttle, though each of them
// lowered the limit and began a wave.
#[test]
fn what_begins_a_wave_still_counts() {
    let world = World::new(Rules {
        adaptive: outflow::core::AdaptiveMode::Guard,
        health: health(|_| {}),
        ..rules(vec![by_sending("50/s")])
    });
    (0..3).for_each(|_| {
        fails(&world, AttemptResult::status(429));
        world.pass(secs(1));
    });
    assert_eq!(state(&world), HealthState::Throttle);
}

// A group of its own health: orders are banned, quotes go on, and the limit of both stays as it is.
#[test]
fn a_ban_of_one_group_does_not_stop_another() {
    let world = World::new(Rules {
        groups: vec![
            Group::new("order", vec![by_sending("10/s")]),
            Group::new("quote", Vec::new()),
        ],
        health_scope: HealthScope::Group,
        ..rules(vec![by_sending("20/s")])
    });
    let (order, quote) = (
        CallRequest::new(world.group("order")),
        CallRequest::new(world.group("quote")),
    );
    asks_to_wait(&world, order, 418, "60");
    assert_eq!(world.caller(order).refused().retry_after, Some(secs(60)));
    world.caller(quote).goes();
    assert_eq!(world.door.state(world.group("order")), HealthState::Sleep);
    assert_eq!(world.door.state(world.group("quote")), HealthState::Normal);
    assert_eq!(world.door.report().limits[0].limit.capacity(), 20);
    world
        .door
        .force_health(Some(world.group("quote")), HealthOverride::Sleep);
    assert!(world.try_acquire(quote).is_err());
    world.door.release_health(Some(world.group("quote")));
    world.caller(quote).goes();
}

// Two seconds are asked for: nobody goes before, and then a hundred go one after the other within a
// second, in the order in which they came.
#[test]
fn a_short_wait_parks_everybody_and_lets_them_back_one_by_one() {
    for crowd in [1_usize, 2, 10, 100, 1_000] {
        let world = World::new(unlimited());
        asks_to_wait(&world, world.ask(), 429, "2");
        assert_eq!(
            state(&world),
            HealthState::Normal,
            "it is a cooldown and no state"
        );
        let mut line: Vec<Caller> = (0..crowd).map(|_| world.waiting(world.ask())).collect();
        assert_eq!(
            line[0].explain().map(|told| told.why),
            Some(WaitReason::Cooldown)
        );
        world.pass_all_but_an_instant_of(secs(2));
        assert!(line.iter().all(|one| !one.is_woken()));
        let released = world.now().saturating_add(INSTANT);
        let mut went = 0;
        let mut most = 0;
        while went < crowd {
            let next = world.timer.next_at().expect("somebody waits");
            world.pass(next.since(world.now()));
            let mut together = 0;
            while went < crowd && line[went].is_woken() {
                line[went].goes();
                went += 1;
                together += 1;
            }
            most = most.max(together);
            assert!(
                line[went..].iter().all(|one| !one.is_woken()),
                "out of order"
            );
        }
        let took = world.now().since(released);
        assert!(took <= ms(1_100), "{crowd} took {took:?}");
        assert!(most <= 1 + crowd / 10, "{most} of {crowd} at once");
    }
}

// Two and three seconds, then two again: the longest holds.
#[test]
fn waits_are_merged_by_their_maximum() {
    let world = World::new(unlimited());
    let flights = ["2", "3", "2"].map(|seconds| (world.caller(world.ask()).admitted(), seconds));
    for (mut permit, seconds) in flights {
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", seconds.parse().expect("a value"));
        permit.sending();
        permit.settle(AttemptResult::response(503, &headers));
    }
    let waits = world.waiting(world.ask());
    world.pass_all_but_an_instant_of(secs(3));
    assert!(!waits.is_woken());
    world.pass(ms(1_001));
    assert!(waits.is_woken());
}

// Whoever was called when the server asks to wait has not gone yet, and does not go.
#[test]
fn one_who_was_called_before_a_cooldown_waits_again_and_keeps_its_place() {
    let world = World::new(rules(vec![by_sending("3/s")]));
    let mut slow = world.caller(world.ask()).admitted();
    slow.sending();
    world.sends(2, world.ask());
    let mut line: Vec<Caller> = (0..5).map(|_| world.waiting(world.ask())).collect();
    world.pass(secs(1));
    assert!(line[..3].iter().all(Caller::is_woken));
    let mut headers = HeaderMap::new();
    headers.insert("retry-after", "2".parse().expect("a value"));
    slow.settle(AttemptResult::response(429, &headers));
    for called in [2, 0, 1] {
        assert!(
            line[called].poll().is_none(),
            "{called} goes before its instant"
        );
    }
    for (place, caller) in line.iter().enumerate() {
        assert_eq!(caller.explain().map(|told| told.position), Some(place));
    }
    world.pass(secs(3));
    for one in &mut line[..3] {
        one.goes();
    }
}

// Offline is a hold that no timer leaves: an hour, and nothing goes.
#[test]
fn an_operator_s_hold_lets_nothing_go_for_an_hour() {
    let world = World::new(Rules {
        when_asleep: WhenAsleep::Wait,
        ..unlimited()
    });
    world.door.force_health(None, HealthOverride::Sleep);
    for _ in 0..60 {
        let refusal = world.caller(world.ask()).refused();
        assert_eq!(
            refusal.cause,
            RefusalReason::Blocked {
                state: HealthState::Sleep
            }
        );
        assert_eq!(refusal.retry_after, None);
        world.pass(Duration::from_mins(1));
    }
    assert_eq!(
        world.check(world.ask()),
        Decision::WaitUntil(outflow::core::Nanos::MAX)
    );
    world.door.release_health(None);
    assert_eq!(state(&world), HealthState::HalfOpen);
    world.caller(world.ask()).goes();
}

// Cost above what Throttle leaves, in two limits at once: it goes in time, and both count all of it.
#[test]
fn a_cost_above_a_lowered_limit_goes_and_counts_in_full() {
    let world = World::new(rules(vec![by_sending("10/s"), by_sending("100/min")]));
    world.door.force_health(None, HealthOverride::Throttle);
    let heavy = CallRequest::new(world.group("default").with_cost(Cost::new(8)));
    world.caller(world.ask()).goes();
    let mut waits = world.waiting(heavy);
    world.pass(secs(1));
    waits.goes();
    let used = world
        .door
        .report()
        .limits
        .iter()
        .map(|limit| limit.usage.weight)
        .collect::<Vec<_>>();
    assert_eq!(used, [8, 9]);
    world.door.force_health(None, HealthOverride::Normal);
    let left = (0..20)
        .filter(|_| {
            world.try_acquire(world.ask()).is_ok_and(|permit| {
                std::mem::forget(permit);
                true
            })
        })
        .count();
    assert_eq!(left, 2, "of ten a second eight are used");
}

// A body that breaks off is a failure, five of five of them are many.
#[test]
fn a_broken_body_counts_as_a_failure() {
    let world = World::new(unlimited());
    for _ in 0..20 {
        let mut permit = world.caller(world.ask()).admitted();
        permit.sending();
        let (_, tail) = permit.settle_head(AttemptResult::status(200));
        assert_eq!(world.in_flight(), 1);
        let verdict = tail.fail(Fault::TruncatedBody);
        assert_eq!(verdict.effect, OutcomeClass::NetworkFailed);
        assert_eq!(world.in_flight(), 0);
    }
    world.pass(ms(250));
    assert_eq!(state(&world), HealthState::Throttle);
    let moved = world.diary.take_selected(|what| match what {
        EventKind::Moved { transition, .. } => Some(transition.to),
        _ => None,
    });
    assert_eq!(moved, [HealthState::Throttle]);
}

// 403 is no refusal for limits, unless its body says so.
#[test]
fn a_body_that_names_a_limit_is_believed_without_headers() {
    let world = World::new(unlimited());
    let settle = |answer: AttemptResult<'_>| {
        let mut permit = world.caller(world.ask()).admitted();
        permit.sending();
        permit.settle(answer).effect
    };
    assert_eq!(settle(AttemptResult::status(403)), OutcomeClass::Neutral);
    assert_eq!(
        settle(AttemptResult::status(403).with_limit_signal()),
        OutcomeClass::Banned
    );
}
