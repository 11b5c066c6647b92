//! Limits that count calls together with limits that count costs.

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use outflow::core::{AdaptiveMode, Cost, CountBy, Decision, Limit};
use outflow::event::EventKind;
use outflow::{AttemptResult, Group, Permit, RefusalReason, Rules, WaitReason};

use crate::support::{CallRequest, INSTANT, TestBed, by_arrival, by_sending, health, ms, parsed, rules, secs};

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let pairs = pairs.iter().map(|(name, value)| {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
        (name, HeaderValue::from_str(value).expect("a value"))
    });
    pairs.collect()
}

/// Returns a limit of calls and a limit of tokens.
fn calls_and_tokens(calls: &str, tokens: &str, counted: fn(&str) -> Limit) -> Vec<Limit> {
    vec![
        counted(calls).measured_in(CountBy::Calls),
        counted(tokens).measured_in(CountBy::Tokens),
    ]
}

fn costing(bed: &TestBed, cost: u64) -> CallRequest {
    CallRequest::new(bed.group("default").with_cost(Cost::new(cost)))
}

fn sent(bed: &TestBed, cost: u64) -> Permit {
    let mut permit = bed.caller(costing(bed, cost)).admitted();
    permit.sending();
    permit
}

fn used(bed: &TestBed) -> Vec<u64> {
    let report = bed.upstream.report();
    report.limits.iter().map(|one| one.usage.weight).collect()
}

fn foreign(bed: &TestBed) -> Vec<u64> {
    bed.recorder.take_selected(|what| match what {
        EventKind::Foreign { units, .. } => Some(*units),
        _ => None,
    })
}

/// Returns the reason of a limit that is used up as configured.
fn used_up(rate: &str) -> WaitReason {
    WaitReason::Limit {
        rate: parsed(rate),
        lowered: None,
        processes: 1,
    }
}

// Three calls a second and a hundred tokens: light calls wait for calls, heavy ones for tokens. A
// call without cost still counts as a call.
#[test]
fn each_call_waits_for_the_quota_it_lacks() {
    let bed = TestBed::new(rules(calls_and_tokens("3/s", "100/s", by_sending)));
    bed.sends(2, costing(&bed, 40));
    let heavy = bed.waiting(costing(&bed, 30));
    let why = |estimate: Option<outflow::WaitEstimate>| estimate.map(|estimate| estimate.reason);
    assert_eq!(why(heavy.explain()), Some(used_up("100/s")));
    drop(heavy);
    bed.sends(1, costing(&bed, 0));
    assert_eq!(used(&bed), [3, 80]);
    let free = bed.waiting(costing(&bed, 0));
    assert_eq!(why(free.explain()), Some(used_up("3/s")));
    bed.pass_until_just_before(secs(1));
    assert!(!free.is_woken());
    bed.pass(INSTANT);
    assert!(free.is_woken());
}

// 101 of 100 tokens can never go; 100 can, though they are far more than three.
#[test]
fn a_cost_is_impossible_only_where_costs_are_counted() {
    let bed = TestBed::new(rules(calls_and_tokens("3/s", "100/s", by_arrival)));
    let refused = bed.caller(costing(&bed, 101)).refused();
    let limit = parsed("100/s");
    assert!(matches!(refused.reason, RefusalReason::Never { limit: named } if named == limit));
    bed.caller(costing(&bed, 100)).goes();
    let calls = vec![by_arrival("3/s").measured_in(CountBy::Calls)];
    let bed = TestBed::new(rules(calls));
    bed.sends(3, costing(&bed, u64::MAX));
}

// Two calls a second for the whole API; four others with a cost of a hundred wait. The fifth goes
// in the third second, against its group's tokens.
#[test]
fn calls_ahead_count_as_calls_and_with_their_costs() {
    let calls = vec![by_sending("2/s").measured_in(CountBy::Calls)];
    let tokens = by_sending("1000/s").measured_in(CountBy::Tokens);
    let bed = TestBed::new(Rules {
        groups: vec![Group::new("default", vec![tokens]), Group::new("other", vec![tokens])],
        ..rules(calls)
    });
    bed.sends(2, costing(&bed, 1));
    let other = CallRequest::new(bed.group("other").with_cost(Cost::new(100)));
    let mut ahead = [(); 2].map(|()| bed.waiting(other)).into_iter().collect::<Vec<_>>();
    ahead.extend([(); 2].map(|()| bed.waiting(costing(&bed, 100))));
    let last = bed.waiting(costing(&bed, 100));
    let eta = last.explain().and_then(|estimate| estimate.eta);
    assert_eq!(eta, Some(bed.now().saturating_add(secs(3))));
    let check = bed.check(costing(&bed, 100));
    assert_eq!(check, Decision::WaitUntil(bed.now().saturating_add(secs(3))));
    for _ in 0..2 {
        bed.pass(secs(1));
        for mut one in ahead.drain(..2) {
            one.goes();
        }
    }
    assert!(!last.is_woken());
    bed.pass(secs(1));
    assert!(last.is_woken());
}

// One call and ten tokens a second. The first of 4 is sent three seconds late, when another of 5
// has the quota: both count, as two calls and nine tokens.
#[test]
fn a_call_sent_too_late_counts_as_a_call_and_with_its_cost() {
    let bed = TestBed::new(rules(calls_and_tokens("1/s", "10/s", by_sending)));
    let mut late = bed.caller(costing(&bed, 4)).admitted();
    bed.pass(secs(3));
    let _on_time = sent(&bed, 5);
    late.sending();
    assert_eq!(used(&bed), [2, 9]);
    late.settle(AttemptResult::status(200));
    assert_eq!(used(&bed), [2, 9]);
}

// Of a hundred tokens a second ten remain: a call of 40 goes once the lowered limit is free. It
// counts as one call, and with its whole cost once it has landed.
#[test]
fn a_cost_above_a_lowered_limit_is_still_one_call() {
    let bed = TestBed::new(Rules {
        adaptive: AdaptiveMode::Guard,
        health: health(|settings| {
            settings.concurrency = Some(1_000);
            settings.n_throttle = Some(1_000);
        }),
        ..rules(calls_and_tokens("1000/s", "100/s", by_arrival))
    });
    // The first second of a limit, which holds bursts back, is over.
    sent(&bed, 1).settle(AttemptResult::status(200));
    bed.pass(secs(2));
    let burst: Vec<Permit> = (0..100).map(|_| sent(&bed, 1)).collect();
    for (n, permit) in burst.into_iter().enumerate() {
        permit.settle(AttemptResult::status(if n < 10 { 200 } else { 429 }));
    }
    let effective = |bed: &TestBed| {
        let report = bed.upstream.report();
        let each = report.limits.iter().map(|one| one.limit.capacity());
        each.collect::<Vec<_>>()
    };
    assert_eq!(effective(&bed)[0], 1_000, "the tokens are to blame");
    assert!(effective(&bed)[1] < 40);
    bed.pass(secs(3));
    let heavy = sent(&bed, 40);
    assert_eq!(used(&bed)[0], 1);
    bed.pass(ms(10));
    heavy.settle(AttemptResult::status(200));
    assert_eq!(used(&bed), [1, 40]);
}

// The server counted 20 calls and 700 tokens, of which 4 and 400 are ours. Each number corrects
// its own limit, and four responses report the foreign use once.
#[test]
fn headers_correct_only_the_limits_of_their_own_unit() {
    let bed = TestBed::new(rules(calls_and_tokens("60/min", "1000/min", by_arrival)));
    let hints = headers(&[
        ("x-ratelimit-limit-requests", "60"),
        ("x-ratelimit-remaining-requests", "40"),
        ("x-ratelimit-reset-requests", "20s"),
        ("x-ratelimit-limit-tokens", "1000"),
        ("x-ratelimit-remaining-tokens", "300"),
        ("x-ratelimit-reset-tokens", "42s"),
    ]);
    sent(&bed, 100).settle(AttemptResult::response(200, &hints));
    for permit in [(); 3].map(|()| sent(&bed, 100)) {
        permit.settle(AttemptResult::response(200, &hints));
        assert_eq!(used(&bed), [20, 700]);
    }
    assert_eq!(foreign(&bed), [16, 300]);
}

// Where every call costs one by default, requests count and tokens do not.
#[test]
fn token_headers_do_not_apply_to_a_limit_that_counts_costs() {
    let bed = TestBed::new(rules(vec![by_arrival("60/min")]));
    let hints = headers(&[
        ("anthropic-ratelimit-requests-limit", "60"),
        ("anthropic-ratelimit-requests-remaining", "50"),
        ("anthropic-ratelimit-input-tokens-limit", "60"),
        ("anthropic-ratelimit-input-tokens-remaining", "0"),
        ("anthropic-ratelimit-tokens-limit", "60"),
        ("anthropic-ratelimit-tokens-remaining", "0"),
    ]);
    for _ in 0..2 {
        sent(&bed, 1).settle(AttemptResult::response(200, &hints));
    }
    assert_eq!(used(&bed), [10]);
}

/// Builds the limits of a new organisation, with few output tokens.
fn anthropic() -> TestBed {
    TestBed::new(Rules {
        adaptive: AdaptiveMode::Guard,
        max_wait: secs(90),
        ..rules(vec![
            by_arrival("50/min").measured_in(CountBy::Calls),
            by_arrival("30000/min").measured_in(CountBy::InputTokens),
            by_arrival("1000/min").measured_in(CountBy::OutputTokens),
        ])
    })
}

// Three responses of 300 unpredictable tokens each. Each counts as one token until its response
// reports the rest, and none is foreign. A fourth leaves nothing, and the fifth waits.
#[test]
fn response_tokens_are_counted_when_reported() {
    let bed = anthropic();
    let left = |left: u64| {
        headers(&[
            ("anthropic-ratelimit-output-tokens-limit", "1000"),
            ("anthropic-ratelimit-output-tokens-remaining", &left.to_string()),
        ])
    };
    sent(&bed, 200).settle(AttemptResult::response(200, &left(700)));
    assert_eq!(used(&bed), [1, 200, 1], "the first shows that headers come");
    for (so_far, answers) in [(400, 2), (100, 3)] {
        let permit = sent(&bed, 200);
        permit.settle(AttemptResult::response(200, &left(so_far)));
        assert_eq!(used(&bed), [answers, 200 * answers, 1_000 - so_far]);
    }
    sent(&bed, 200).settle(AttemptResult::response(200, &left(0)));
    assert_eq!(used(&bed), [4, 800, 1_000]);
    assert!(foreign(&bed).is_empty());
    let waits = bed.waiting(costing(&bed, 200));
    let rate = parsed("1000/min");
    let why = waits.explain().map(|estimate| estimate.reason);
    assert_eq!(
        why,
        Some(WaitReason::Limit {
            rate,
            lowered: None,
            processes: 1
        })
    );
    bed.pass_until_just_before(secs(60));
    assert!(!waits.is_woken());
    bed.pass(secs(1));
    assert!(waits.is_woken());
}

// The organisation has 20,000 input tokens where 30,000 were configured, and more calls than
// configured.
#[test]
fn a_lower_token_limit_is_adopted_and_a_higher_call_limit_is_not() {
    let bed = anthropic();
    let hints = headers(&[
        ("anthropic-ratelimit-requests-limit", "4000"),
        ("anthropic-ratelimit-requests-remaining", "3999"),
        ("anthropic-ratelimit-input-tokens-limit", "20000"),
        ("anthropic-ratelimit-input-tokens-remaining", "19800"),
    ]);
    sent(&bed, 200).settle(AttemptResult::response(200, &hints));
    let report = bed.upstream.report();
    let effective = report.limits.iter().map(|one| one.limit.capacity());
    assert_eq!(effective.collect::<Vec<_>>(), [50, 20_000, 1_000]);
}
