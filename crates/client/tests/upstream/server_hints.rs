//! What the server says counts: headers, strangers, refusals, and what is learned from them.

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use outflow::core::{
    Accounting, AdaptiveMode, Cost, HealthOverride, HealthState, Limit, OutcomeClass,
};
use outflow::event::EventKind;
use outflow::{AttemptResult, FleetShare, Permit, RefusalReason, Rules};

use crate::support::{
    CallRequest, INSTANT, World, by_arrival, by_sending, health, ms, parsed, rules, secs,
};

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let pairs = pairs.iter().map(|(name, value)| {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
        (name, HeaderValue::from_str(value).expect("a value"))
    });
    pairs.collect()
}

/// Headers of one answer.
type Told = &'static [(&'static str, &'static str)];

fn sent(world: &World) -> Permit {
    let mut permit = world.caller(world.ask()).admitted();
    permit.sending();
    permit
}

fn used(world: &World) -> u64 {
    world.door.report().limits[0].usage.weight
}

// Each dialect tells that 20 are used of the limit (10 of Upbit's 12, 32 of Shopify's 80), four of them
// ours. Four answers tell of the same strangers, who are counted once.
#[test]
fn strangers_shrink_our_share_once_in_every_dialect() {
    let minute = by_arrival("60/min");
    let bucket = Limit::bucket(parsed("2/s"), 80)
        .expect("some burst")
        .counted(Accounting::Safe);
    let cases: [(Limit, Told, u64); 7] = [
        (
            minute,
            &[
                ("RateLimit-Policy", "\"a\";q=60;w=60"),
                ("RateLimit", "\"a\";r=40;t=30"),
            ],
            20,
        ),
        (
            minute,
            &[
                ("X-RateLimit-Limit", "60"),
                ("X-RateLimit-Remaining", "40"),
                ("X-RateLimit-Reset", "30"),
            ],
            20,
        ),
        (
            by_arrival("12/s"),
            &[("Remaining-Req", "group=order; min=1800; sec=2")],
            10,
        ),
        (minute, &[("X-MBX-USED-WEIGHT-1M", "20")], 20),
        (bucket, &[("X-Shopify-Shop-Api-Call-Limit", "32/80")], 32),
        (
            minute,
            &[
                ("x-ratelimit-limit-requests", "60"),
                ("x-ratelimit-remaining-requests", "40"),
                ("x-ratelimit-reset-requests", "30s"),
            ],
            20,
        ),
        (
            minute,
            &[
                ("anthropic-ratelimit-requests-limit", "60"),
                ("anthropic-ratelimit-requests-remaining", "40"),
                ("anthropic-ratelimit-requests-reset", "2023-11-14T22:13:30Z"),
            ],
            20,
        ),
    ];
    for (limit, told, counted) in cases {
        let world = World::new(rules(vec![limit]));
        // The first answer only shows that this API speaks of its limits.
        sent(&world).settle(AttemptResult::response(200, &headers(told)));
        let flights = [(); 3].map(|()| sent(&world));
        assert_eq!(used(&world), 4);
        for permit in flights {
            permit.settle(AttemptResult::response(200, &headers(told)));
            assert_eq!(used(&world), counted, "{told:?}");
        }
        let foreign = world.diary.take_selected(|what| match what {
            EventKind::Foreign { units, .. } => Some(*units),
            _ => None,
        });
        assert_eq!(foreign, [counted - 4], "{told:?}");
    }
}

// The very first answer is a refusal that says when more is there: until then nobody goes.
#[test]
fn nothing_left_after_a_refusal_parks_until_the_reset() {
    let world = World::new(rules(vec![by_arrival("60/min")]));
    let told = headers(&[
        ("X-RateLimit-Limit", "60"),
        ("X-RateLimit-Remaining", "0"),
        ("X-RateLimit-Reset", "20"),
    ]);
    sent(&world).settle(AttemptResult::response(429, &told));
    let waits = world.waiting(world.ask());
    assert_eq!(
        waits.explain().and_then(|told| told.eta),
        Some(world.now().saturating_add(secs(20)))
    );
    world.pass_all_but_an_instant_of(secs(20));
    assert!(!waits.is_woken());
    world.pass(INSTANT);
    assert!(waits.is_woken());
}

// 403, nothing left, and the wait named only as a reset in half an hour: a ban until then. With anything
// left it is what 403 usually is, and stops nobody.
#[test]
fn a_403_with_nothing_left_is_a_ban_until_the_reset() {
    for (left, state) in [("0", HealthState::Sleep), ("1", HealthState::Normal)] {
        let world = World::new(rules(vec![by_sending("5000/h")]));
        let told = headers(&[
            ("x-ratelimit-limit", "5000"),
            ("x-ratelimit-remaining", left),
            ("x-ratelimit-reset", "1800"),
        ]);
        sent(&world).settle(AttemptResult::response(403, &told));
        assert_eq!(
            world.door.report().health[0].snapshot.state,
            state,
            "{left} left"
        );
        if state == HealthState::Sleep {
            let refused = world.try_acquire(world.ask()).expect_err("banned");
            assert_eq!(refused.retry_after, Some(secs(1_800)));
        }
    }
}

// Ten of our own ten are used: the meter knows that better than a header does.
#[test]
fn nothing_left_of_our_own_use_parks_nobody() {
    let world = World::new(rules(vec![by_arrival("10/s")]));
    let told = headers(&[
        ("X-RateLimit-Limit", "10"),
        ("X-RateLimit-Remaining", "0"),
        ("X-RateLimit-Reset", "30"),
    ]);
    for _ in 0..10 {
        sent(&world).settle(AttemptResult::response(200, &told));
    }
    let waits = world.waiting(world.ask());
    world.pass(secs(1));
    assert!(waits.is_woken());
}

#[test]
fn what_cannot_be_understood_is_told_and_changes_nothing() {
    let world = World::new(rules(vec![by_arrival("10/s")]));
    let told = headers(&[("X-RateLimit-Limit", "ten"), ("Retry-After", "soon")]);
    let verdict = sent(&world).settle(AttemptResult::response(429, &told));
    assert_eq!(
        (verdict.effect, verdict.retry_after),
        (OutcomeClass::Throttled, None)
    );
    let malformed = world.diary.take_selected(|what| match what {
        EventKind::Malformed { headers } => Some(*headers),
        _ => None,
    });
    assert_eq!(malformed, [2]);
    assert_eq!(used(&world), 1);
}

/// A door whose limit has been tried, so that a burst is not held back.
fn adaptive(mode: AdaptiveMode) -> World {
    let world = World::new(Rules {
        adaptive: mode,
        health: health(|settings| {
            settings.concurrency = 1_000;
            settings.n_throttle = 1_000;
        }),
        ..rules(vec![by_arrival("50/s")])
    });
    sent(&world).settle(AttemptResult::status(200));
    world.pass(secs(2));
    world
}

fn effective(world: &World) -> u64 {
    world.door.report().limits[0].limit.capacity()
}

fn drifts(world: &World) -> Vec<Option<String>> {
    world.diary.take_selected(|what| match what {
        EventKind::Drifting { drift, .. } => Some(drift.map(|drift| drift.evidence.to_string())),
        _ => None,
    })
}

/// Thirty pass and twenty are refused, all of one burst.
fn a_wave(world: &World) {
    let burst: Vec<Permit> = (0..50).map(|_| sent(world)).collect();
    world.pass(ms(100));
    for (n, permit) in burst.into_iter().enumerate() {
        permit.settle(AttemptResult::status(if n < 30 { 200 } else { 429 }));
    }
}

// Configured 50, and 30 pass: the limit in effect is 30 after one wave of 20 refusals, not less for
// each of them; then it grows back slowly and is told to be over.
#[test]
fn a_wave_of_refusals_is_one_step_down_and_grows_back() {
    let world = adaptive(AdaptiveMode::Guard);
    a_wave(&world);
    assert_eq!(effective(&world), 30);
    assert_eq!(drifts(&world), [Some("30/s".to_owned())]);
    let drift = world.door.report().limits[0].drift.expect("it differs");
    assert_eq!(drift.configured, parsed("50/s"));
    let mut last = 30;
    for second in 0..600 {
        world.pass(secs(1));
        while let Ok(mut permit) = world.try_acquire(world.ask()) {
            permit.sending();
            permit.settle(AttemptResult::status(200));
        }
        assert!(effective(&world) >= last, "it fell in second {second}");
        last = effective(&world);
        if last == 50 {
            assert!(second >= 5, "back after {second} s");
            break;
        }
    }
    assert_eq!(last, 50);
    assert_eq!(drifts(&world).last(), Some(&None), "it is told to be over");
    assert!(world.door.report().limits[0].drift.is_none());
}

/// A second in which so many pass here.
fn a_second_of(world: &World, calls: usize) {
    for permit in (0..calls).map(|_| sent(world)) {
        permit.settle(AttemptResult::status(200));
    }
    world.pass(secs(1));
}

// Five machines use 50/s, this one of them ten. One call is refused, because another came late: the limit is
// lowered by what nobody knows better, and not to ten. While only ten pass here it grows back to 50.
#[test]
fn who_sees_a_part_does_not_take_it_for_all() {
    let world = adaptive(AdaptiveMode::Guard);
    let a_second = |_| {
        world.door.set_fleet_share(FleetShare::new(10, 50));
        a_second_of(&world, 10);
    };
    (0..5).for_each(a_second);
    sent(&world).settle(AttemptResult::status(429));
    assert!(effective(&world) >= 45, "{}", effective(&world));
    (0..60).for_each(a_second);
    assert_eq!(effective(&world), 50);
}

// The server allows ten, of which this machine has two: after some refusals all are within reach of ten.
#[test]
fn who_sees_a_part_still_finds_a_limit_that_is_far_lower() {
    let world = adaptive(AdaptiveMode::Guard);
    for second in 0..20 {
        world.door.set_fleet_share(FleetShare::new(10, 50));
        let passed = if effective(&world) > 10 {
            2
        } else {
            effective(&world) / 5
        };
        a_second_of(&world, usize::try_from(passed).expect("few"));
        if effective(&world) > 10 {
            sent(&world).settle(AttemptResult::status(429));
        }
        world.pass(secs(1));
        assert!(second < 15 || effective(&world) <= 15, "{second} s");
    }
}

#[test]
fn without_adaptation_refusals_change_no_limit() {
    let world = adaptive(AdaptiveMode::Off);
    a_wave(&world);
    assert_eq!(effective(&world), 50);
    assert_eq!(drifts(&world), []);
}

// The API tells 42 a second where 50 were configured.
#[test]
fn a_limit_that_the_server_tells_is_kept_to() {
    let world = adaptive(AdaptiveMode::Guard);
    let told = headers(&[("RateLimit-Policy", "\"a\";q=42;w=1")]);
    sent(&world).settle(AttemptResult::response(200, &told));
    assert_eq!(effective(&world), 42);
    assert_eq!(drifts(&world), [Some("42/s".to_owned())]);
}

// Only five of fifty pass: a call that costs 40 still goes, once all of the lowered limit is free.
#[test]
fn a_cost_above_a_lowered_limit_still_goes() {
    let world = adaptive(AdaptiveMode::Guard);
    let burst: Vec<Permit> = (0..50).map(|_| sent(&world)).collect();
    for (n, permit) in burst.into_iter().enumerate() {
        permit.settle(AttemptResult::status(if n < 5 { 200 } else { 429 }));
    }
    assert!(effective(&world) < 40);
    let heavy = CallRequest::new(world.group("default").with_cost(Cost::new(40)));
    let mut waits = world.waiting(heavy);
    world.pass(secs(3));
    waits.goes();
    let too_heavy = CallRequest::new(world.group("default").with_cost(Cost::new(51)));
    assert!(matches!(
        world.caller(too_heavy).refused().cause,
        RefusalReason::Never { .. }
    ));
}

// An aligned minute is :00 to :00 by the civil clock, also when nobody has read that clock for a while:
// no answer came for an hour, and Throttle lowers the limit, which places its window anew.
#[test]
fn an_aligned_window_stays_aligned_when_limits_change() {
    let limit = Limit::aligned(parsed("1200/min")).expect("a day has whole minutes");
    let world = World::new(rules(vec![limit.counted(Accounting::Send)]));
    world.pass(secs(60 * 61 + 37));
    world.door.force_health(None, HealthOverride::Throttle);
    world.door.force_health(None, HealthOverride::Normal);
    let all = CallRequest::new(world.group("default").with_cost(Cost::new(1_200)));
    world.caller(all).goes();
    let waits = world.waiting(world.ask());
    world.pass_all_but_an_instant_of(secs(23));
    assert!(!waits.is_woken());
    world.pass(INSTANT);
    assert!(waits.is_woken());
}
