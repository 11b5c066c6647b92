//! Limits that count calls beside limits that count what calls cost.

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use outflow::core::{AdaptiveMode, Cost, CountBy, Decision, Limit};
use outflow::event::EventKind;
use outflow::{AttemptResult, Group, Permit, RefusalReason, Rules, WaitReason};

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

/// So many calls and so many tokens.
fn both(calls: &str, tokens: &str, counted: fn(&str) -> Limit) -> Vec<Limit> {
    vec![
        counted(calls).measured_in(CountBy::Calls),
        counted(tokens).measured_in(CountBy::Tokens),
    ]
}

fn costing(world: &World, cost: u64) -> CallRequest {
    CallRequest::new(world.group("default").with_cost(Cost::new(cost)))
}

fn sent(world: &World, cost: u64) -> Permit {
    let mut permit = world.caller(costing(world, cost)).admitted();
    permit.sending();
    permit
}

fn used(world: &World) -> Vec<u64> {
    let report = world.door.report();
    report.limits.iter().map(|one| one.usage.weight).collect()
}

fn foreign(world: &World) -> Vec<u64> {
    world.diary.take_selected(|what| match what {
        EventKind::Foreign { units, .. } => Some(*units),
        _ => None,
    })
}

// Three calls a second and a hundred tokens: light calls wait for calls, heavy ones for tokens, and what
// costs nothing is a call all the same.
#[test]
fn each_call_waits_for_what_it_lacks() {
    let world = World::new(rules(both("3/s", "100/s", by_sending)));
    world.sends(2, costing(&world, 40));
    let heavy = world.waiting(costing(&world, 30));
    let why = |told: Option<outflow::WaitEstimate>| told.map(|told| told.why);
    assert_eq!(
        why(heavy.explain()),
        Some(WaitReason::Limit {
            rate: parsed("100/s")
        })
    );
    drop(heavy);
    world.sends(1, costing(&world, 0));
    assert_eq!(used(&world), [3, 80]);
    let free = world.waiting(costing(&world, 0));
    assert_eq!(
        why(free.explain()),
        Some(WaitReason::Limit {
            rate: parsed("3/s")
        })
    );
    world.pass_all_but_an_instant_of(secs(1));
    assert!(!free.is_woken());
    world.pass(INSTANT);
    assert!(free.is_woken());
}

// 101 of 100 tokens can never go; 100 can, though they are far more than three.
#[test]
fn a_cost_is_impossible_only_where_costs_are_counted() {
    let world = World::new(rules(both("3/s", "100/s", by_arrival)));
    let refused = world.caller(costing(&world, 101)).refused();
    let limit = parsed("100/s");
    assert!(matches!(refused.cause, RefusalReason::Never { limit: told } if told == limit));
    world.caller(costing(&world, 100)).goes();
    let calls = vec![by_arrival("3/s").measured_in(CountBy::Calls)];
    let world = World::new(rules(calls));
    world.sends(3, costing(&world, u64::MAX));
}

// Two calls a second, of the whole API; four others wait who cost a hundred each. The fifth goes in the
// third second, whatever the tokens of its group would allow.
#[test]
fn those_ahead_are_counted_as_calls_and_with_what_they_cost() {
    let calls = vec![by_sending("2/s").measured_in(CountBy::Calls)];
    let tokens = by_sending("1000/s").measured_in(CountBy::Tokens);
    let world = World::new(Rules {
        groups: vec![
            Group::new("default", vec![tokens]),
            Group::new("other", vec![tokens]),
        ],
        ..rules(calls)
    });
    world.sends(2, costing(&world, 1));
    let other = CallRequest::new(world.group("other").with_cost(Cost::new(100)));
    let mut ahead = [(); 2]
        .map(|()| world.waiting(other))
        .into_iter()
        .collect::<Vec<_>>();
    ahead.extend([(); 2].map(|()| world.waiting(costing(&world, 100))));
    let last = world.waiting(costing(&world, 100));
    let eta = last.explain().and_then(|told| told.eta);
    assert_eq!(eta, Some(world.now().saturating_add(secs(3))));
    let check = world.check(costing(&world, 100));
    assert_eq!(
        check,
        Decision::WaitUntil(world.now().saturating_add(secs(3)))
    );
    for _ in 0..2 {
        world.pass(secs(1));
        for mut one in ahead.drain(..2) {
            one.goes();
        }
    }
    assert!(!last.is_woken());
    world.pass(secs(1));
    assert!(last.is_woken());
}

// One call and ten tokens a second; the first of 4 is sent three seconds late, when another of 5 has the
// place: both count, as two calls and nine tokens.
#[test]
fn a_call_sent_too_late_counts_as_a_call_and_with_its_cost() {
    let world = World::new(rules(both("1/s", "10/s", by_sending)));
    let mut late = world.caller(costing(&world, 4)).admitted();
    world.pass(secs(3));
    let _on_time = sent(&world, 5);
    late.sending();
    assert_eq!(used(&world), [2, 9]);
    late.settle(AttemptResult::status(200));
    assert_eq!(used(&world), [2, 9]);
}

// Of a hundred tokens a second five pass: a call of 40 goes once all of the lowered limit is free, counts
// as one call, and with its whole cost once it has landed.
#[test]
fn a_cost_above_a_lowered_limit_is_still_one_call() {
    let world = World::new(Rules {
        adaptive: AdaptiveMode::Guard,
        health: health(|settings| {
            settings.concurrency = 1_000;
            settings.n_throttle = 1_000;
        }),
        ..rules(both("1000/s", "100/s", by_arrival))
    });
    // The first second of a limit, in which a burst is held back, is over.
    sent(&world, 1).settle(AttemptResult::status(200));
    world.pass(secs(2));
    let burst: Vec<Permit> = (0..100).map(|_| sent(&world, 1)).collect();
    for (n, permit) in burst.into_iter().enumerate() {
        permit.settle(AttemptResult::status(if n < 5 { 200 } else { 429 }));
    }
    let effective = |world: &World| {
        let report = world.door.report();
        let each = report.limits.iter().map(|one| one.limit.capacity());
        each.collect::<Vec<_>>()
    };
    assert_eq!(effective(&world)[0], 1_000, "the tokens are to blame");
    assert!(effective(&world)[1] < 40);
    world.pass(secs(3));
    let heavy = sent(&world, 40);
    assert_eq!(used(&world)[0], 1);
    world.pass(ms(10));
    heavy.settle(AttemptResult::status(200));
    assert_eq!(used(&world), [1, 40]);
}

// The server counted 20 calls and 700 tokens, of which 4 and 400 are ours: each number corrects the limit
// of its own measure, and four answers tell of the same strangers.
#[test]
fn headers_correct_the_limits_of_their_own_measure() {
    let world = World::new(rules(both("60/min", "1000/min", by_arrival)));
    let told = headers(&[
        ("x-ratelimit-limit-requests", "60"),
        ("x-ratelimit-remaining-requests", "40"),
        ("x-ratelimit-reset-requests", "20s"),
        ("x-ratelimit-limit-tokens", "1000"),
        ("x-ratelimit-remaining-tokens", "300"),
        ("x-ratelimit-reset-tokens", "42s"),
    ]);
    sent(&world, 100).settle(AttemptResult::response(200, &told));
    for permit in [(); 3].map(|()| sent(&world, 100)) {
        permit.settle(AttemptResult::response(200, &told));
        assert_eq!(used(&world), [20, 700]);
    }
    assert_eq!(foreign(&world), [16, 300]);
}

// Where every call costs one and nothing else is said, requests are what is counted and tokens are not.
#[test]
fn tokens_say_nothing_of_a_limit_that_counts_costs() {
    let world = World::new(rules(vec![by_arrival("60/min")]));
    let told = headers(&[
        ("anthropic-ratelimit-requests-limit", "60"),
        ("anthropic-ratelimit-requests-remaining", "50"),
        ("anthropic-ratelimit-input-tokens-limit", "60"),
        ("anthropic-ratelimit-input-tokens-remaining", "0"),
        ("anthropic-ratelimit-tokens-limit", "60"),
        ("anthropic-ratelimit-tokens-remaining", "0"),
    ]);
    for _ in 0..2 {
        sent(&world, 1).settle(AttemptResult::response(200, &told));
    }
    assert_eq!(used(&world), [10]);
}

/// As of a new organisation, with few tokens for the answers.
fn anthropic() -> World {
    World::new(Rules {
        adaptive: AdaptiveMode::Guard,
        max_wait: secs(90),
        ..rules(vec![
            by_arrival("50/min").measured_in(CountBy::Calls),
            by_arrival("30000/min").measured_in(CountBy::InputTokens),
            by_arrival("1000/min").measured_in(CountBy::OutputTokens),
        ])
    })
}

// Three answers of 300 tokens each, which nobody could foresee: each is counted as one token until its
// answer tells of the rest, and none of it is a stranger's. A fourth leaves nothing, and the fifth waits.
#[test]
fn the_tokens_of_answers_are_counted_as_they_are_told() {
    let world = anthropic();
    let left = |left: u64| {
        headers(&[
            ("anthropic-ratelimit-output-tokens-limit", "1000"),
            (
                "anthropic-ratelimit-output-tokens-remaining",
                &left.to_string(),
            ),
        ])
    };
    sent(&world, 200).settle(AttemptResult::response(200, &left(700)));
    assert_eq!(
        used(&world),
        [1, 200, 1],
        "the first shows that headers come"
    );
    for (so_far, answers) in [(400, 2), (100, 3)] {
        let permit = sent(&world, 200);
        permit.settle(AttemptResult::response(200, &left(so_far)));
        assert_eq!(used(&world), [answers, 200 * answers, 1_000 - so_far]);
    }
    sent(&world, 200).settle(AttemptResult::response(200, &left(0)));
    assert_eq!(used(&world), [4, 800, 1_000]);
    assert!(foreign(&world).is_empty());
    let waits = world.waiting(costing(&world, 200));
    let rate = parsed("1000/min");
    let why = waits.explain().map(|told| told.why);
    assert_eq!(why, Some(WaitReason::Limit { rate }));
    world.pass_all_but_an_instant_of(secs(60));
    assert!(!waits.is_woken());
    world.pass(secs(1));
    assert!(waits.is_woken());
}

// The organisation has 20,000 input tokens where 30,000 were configured, and more calls than were.
#[test]
fn a_lower_limit_of_tokens_is_believed_and_a_higher_one_of_calls_is_not() {
    let world = anthropic();
    let told = headers(&[
        ("anthropic-ratelimit-requests-limit", "4000"),
        ("anthropic-ratelimit-requests-remaining", "3999"),
        ("anthropic-ratelimit-input-tokens-limit", "20000"),
        ("anthropic-ratelimit-input-tokens-remaining", "19800"),
    ]);
    sent(&world, 200).settle(AttemptResult::response(200, &told));
    let report = world.door.report();
    let effective = report.limits.iter().map(|one| one.limit.capacity());
    assert_eq!(effective.collect::<Vec<_>>(), [50, 20_000, 1_000]);
}
