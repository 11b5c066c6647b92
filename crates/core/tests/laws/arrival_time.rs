//! Arrival accounting against a strict server that keeps every arrival.
//!
//! The client sends as often as possible, so that the limits are always full. Requests take any
//! time in both directions, overtake each other, and some are lost.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use outflow_core::{
    Accounting, ClockPair, Cost, Decision, Limit, MeterSet, MinRtt, Nanos, ReceiptSet, RequestTiming, WallTime,
};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::support::server::{Rule, refusals};
use crate::support::{at, rate};

/// Request and its treatment by the network, at a distance from the one before.
#[derive(Debug, Clone)]
struct Call {
    after: u64,
    cost: u64,
    there: u64,
    back: u64,
    /// Time after sending at which the caller cancels, if before the response; the request still
    /// arrives.
    patience: u64,
}

/// Delays of up to `jitter` beyond a base, which may be zero.
fn calls(base: u64, jitter: u64) -> impl Strategy<Value = Vec<Call>> {
    let way = move || base..=base + jitter;
    let patience = prop_oneof![1 => 0..40_u64, 6 => Just(u64::MAX)];
    let call = (0..6_u64, 1..3_u64, way(), way(), patience).prop_map(|(after, cost, there, back, patience)| Call {
        after,
        cost,
        there,
        back,
        patience,
    });
    prop::collection::vec(call, 1..80)
}

struct Client {
    set: MeterSet,
    trips: MinRtt,
    in_flight: BinaryHeap<Reverse<(u64, usize)>>,
    receipt_sets: Vec<Option<(ReceiptSet, u64, u64)>>,
    arrivals: Vec<(u64, u64)>,
}

impl Client {
    fn new(limits: &[Limit], trips: MinRtt) -> Self {
        let set = MeterSet::new(
            limits,
            ClockPair {
                now: at(0),
                wall: WallTime::EPOCH,
            },
        )
        .expect("few");
        Self {
            set,
            trips,
            in_flight: BinaryHeap::new(),
            receipt_sets: Vec::new(),
            arrivals: Vec::new(),
        }
    }

    /// Sends if the limits allow it; a refused call is dropped.
    fn call(&mut self, now: u64, call: &Call) -> bool {
        self.settle_until(now);
        let Decision::Allow(receipts) = self.set.take(at(now), Cost::new(call.cost)) else {
            return false;
        };
        let answered = now + call.there + call.back;
        let ends = answered.min(now.saturating_add(call.patience));
        self.arrivals.push((now + call.there, call.cost));
        self.in_flight.push(Reverse((ends, self.receipt_sets.len())));
        self.receipt_sets.push(Some((receipts, now, answered)));
        true
    }

    fn settle_until(&mut self, now: u64) {
        while let Some(Reverse((ends, index))) = self.in_flight.peek().copied() {
            if ends > now {
                return;
            }
            self.in_flight.pop();
            let settled = self.receipt_sets.get_mut(index).and_then(Option::take);
            let (receipts, sent, answered) = settled.expect("settled once");
            let (timing, floor) = if ends < answered {
                // Cancelled: it may arrive until its response would have come.
                (RequestTiming::Lost { until: at(answered) }, None)
            } else {
                let floor = self.trips.observe(at(ends), Duration::from_nanos(ends - sent));
                (
                    RequestTiming::Answered {
                        sent: at(sent),
                        answered: at(ends),
                    },
                    floor,
                )
            };
            self.set.settle(at(ends), receipts, timing, floor);
        }
    }

    fn run(&mut self, calls: &[Call]) -> usize {
        let mut now = 1_000;
        calls
            .iter()
            .filter(|call| {
                now += call.after;
                self.call(now, call)
            })
            .count()
    }
}

fn limits_for(rule: Rule, accounting: Accounting) -> Limit {
    let limit = match rule {
        Rule::Sliding { quantity, window } => Limit::sliding(rate(quantity, window)),
        Rule::Aligned { quantity, window } => Limit::aligned(rate(quantity, window)).expect("even"),
        Rule::FromFirst { quantity, window } => Limit::fixed(rate(quantity, window)),
        Rule::Bucket { quantity, per, burst } => Limit::bucket(rate(quantity, per), burst).expect("positive"),
    };
    limit.counted(accounting).guarded(Duration::from_nanos(1))
}

fn rules() -> impl Strategy<Value = Rule> {
    let quantity = 2..6_u64;
    let window = prop::sample::select(vec![10_u64, 20, 50]);
    prop_oneof![
        (quantity.clone(), window.clone()).prop_map(|(quantity, window)| Rule::Sliding { quantity, window }),
        (quantity.clone(), window.clone()).prop_map(|(quantity, window)| Rule::Aligned { quantity, window }),
        (quantity.clone(), window.clone()).prop_map(|(quantity, window)| Rule::FromFirst { quantity, window }),
        (quantity, window, 2..6_u64).prop_map(|(quantity, per, burst)| Rule::Bucket { quantity, per, burst }),
    ]
}

/// A path whose lowest round trip has been seen often enough.
fn known_path(base: u64) -> MinRtt {
    let mut trips = MinRtt::default();
    for _ in 0..51 {
        trips.observe(Nanos::ZERO, Duration::from_nanos(2 * base));
    }
    trips
}

fn never_refused(rule: Rule, client: &mut Client, calls: &[Call]) -> Result<(), TestCaseError> {
    client.run(calls);
    prop_assert_eq!(refusals(rule, &client.arrivals), 0, "{:?}", client.arrivals);
    Ok(())
}

outflow_testkit::laws! {
    // Delays of 0 to 40 ticks against windows of 10 to 50.
    #[test]
    fn safe_counting_is_never_throttled / fn stress_safe_counting_is_never_throttled
        ((rules(), calls(0, 40))) = |(rule, calls)| {
            let mut client = Client::new(&[limits_for(rule, Accounting::Safe)], MinRtt::default());
            never_refused(rule, &mut client, &calls)
        };

    // A known base of 10 ticks each way, and jitter of up to 30.
    #[test]
    fn tight_counting_is_never_throttled_on_a_known_path / fn stress_tight_counting_is_never_throttled_on_a_known_path
        ((rules(), calls(10, 30))) = |(rule, calls)| {
            let mut client = Client::new(&[limits_for(rule, Accounting::Tight)], known_path(10));
            never_refused(rule, &mut client, &calls)
        };

    // Until the base is known, tight counts like safe.
    #[test]
    fn tight_counting_is_never_throttled_on_an_unknown_path / fn stress_tight_counting_is_never_throttled_on_an_unknown_path
        ((rules(), calls(0, 40).prop_map(|mut calls| { calls.truncate(50); calls }))) = |(rule, calls)| {
            let mut client = Client::new(&[limits_for(rule, Accounting::Tight)], MinRtt::default());
            never_refused(rule, &mut client, &calls)
        };

    // Two limits of one server, each counted in its own way.
    #[test]
    fn several_limits_are_kept_together / fn stress_several_limits_are_kept_together
        ((rules(), rules(), calls(10, 30))) = |(first, second, calls)| {
            let limits = [limits_for(first, Accounting::Safe), limits_for(second, Accounting::Tight)];
            let mut client = Client::new(&limits, known_path(10));
            client.run(&calls);
            prop_assert_eq!(refusals(first, &client.arrivals), 0);
            prop_assert_eq!(refusals(second, &client.arrivals), 0);
            Ok(())
        };
}

/// Calls with a fixed pattern of delays: 20 ticks each way and up to 30 more.
fn jittered(count: usize, after: u64) -> Vec<Call> {
    let jitter = |n: usize, step: u64| (u64::try_from(n).expect("small") * step) % 31;
    (0..count)
        .map(|n| Call {
            after,
            cost: 1,
            there: 20 + jitter(n, 7),
            back: 20 + jitter(n, 11),
            patience: u64::MAX,
        })
        .collect()
}

// The oracle can see a violation: counted from sending, this traffic is throttled.
#[test]
fn counting_from_sending_gets_throttled() {
    let rule = Rule::Sliding {
        quantity: 10,
        window: 100,
    };
    let mut client = Client::new(&[limits_for(rule, Accounting::Send)], MinRtt::default());
    client.run(&jittered(2_000, 2));
    assert!(refusals(rule, &client.arrivals) > 10);
}

// A window of 1,000 ticks against a path of 40: safe loses a round trip in each window, tight next
// to nothing after its warm-up. Both are compared with the limit itself, 10 in each window.
#[test]
fn tight_uses_nearly_all_of_the_limit_and_safe_loses_a_round_trip() {
    let rule = Rule::Sliding {
        quantity: 10,
        window: 1_000,
    };
    let calls: Vec<Call> = jittered(40_000, 5);
    let ideal = 40_000 * 5 / 1_000 * 10;
    let goodput = |accounting| {
        let mut client = Client::new(&[limits_for(rule, accounting)], known_path(20));
        let sent = client.run(&calls);
        assert_eq!(refusals(rule, &client.arrivals), 0);
        sent * 1_000 / ideal
    };
    let (safe, tight) = (goodput(Accounting::Safe), goodput(Accounting::Tight));
    assert!(
        (920..=960).contains(&safe),
        "safe is bounded by window / (window + round trip): {safe}"
    );
    assert!(tight >= 965, "tight {tight}");
}

// A request that was given up may still arrive: it counts until its last moment, and one window
// more.
#[test]
fn a_lost_request_counts_from_its_last_possible_moment() {
    let limit = Limit::sliding(rate(1, 100)).counted(Accounting::Safe);
    let mut set = MeterSet::new(&[limit], ClockPair::default()).expect("one");
    let receipts = set.take(at(0), Cost::ONE).allowed().expect("untouched");
    set.settle(at(5), receipts, RequestTiming::Lost { until: at(50) }, None);
    assert_eq!(set.check(at(60), Cost::ONE), Decision::WaitUntil(at(150)));
    assert!(set.check(at(150), Cost::ONE).is_allow());
}

// Sent in one minute and answered in the next: it is charged to both.
#[test]
fn an_aligned_window_charges_both_sides_of_its_edge() {
    let limit = Limit::aligned(rate(2, 100)).expect("even").counted(Accounting::Safe);
    let mut set = MeterSet::new(
        &[limit],
        ClockPair {
            now: at(0),
            wall: WallTime::EPOCH,
        },
    )
    .expect("one");
    let receipts = set.take(at(95), Cost::ONE).allowed().expect("untouched");
    assert!(set.take(at(96), Cost::ONE).is_allow());
    assert_eq!(
        set.check(at(105), Cost::ONE),
        Decision::WaitUntil(at(200)),
        "both may arrive now"
    );
    let answered = RequestTiming::Answered {
        sent: at(95),
        answered: at(110),
    };
    set.settle(at(110), receipts, answered, None);
    assert_eq!(
        set.check(at(120), Cost::ONE),
        Decision::WaitUntil(at(200)),
        "charged here as well"
    );
}

// A request that provably never left returns all units at once.
#[test]
fn a_refund_ends_the_time_in_flight() {
    for rule in [
        Rule::Sliding {
            quantity: 1,
            window: 100,
        },
        Rule::Aligned {
            quantity: 1,
            window: 100,
        },
        Rule::Bucket {
            quantity: 1,
            per: 100,
            burst: 1,
        },
    ] {
        let mut set = MeterSet::new(&[limits_for(rule, Accounting::Safe)], ClockPair::default()).expect("one");
        let receipts = set.take(at(1), Cost::ONE).allowed().expect("untouched");
        assert!(!set.check(at(2), Cost::ONE).is_allow());
        set.refund(at(2), receipts);
        assert!(set.check(at(2), Cost::ONE).is_allow(), "{rule:?}");
    }
}

// All tokens are in flight: the next can be back no sooner than one token takes to refill, 34 ticks
// for 3 in 100, and the answer is never "now".
#[test]
fn a_bucket_whose_tokens_are_all_in_flight_waits_for_one_token() {
    let limit = Limit::bucket(rate(3, 100), 2)
        .expect("positive")
        .counted(Accounting::Safe);
    let mut set = MeterSet::new(&[limit], ClockPair::default()).expect("one");
    assert!(set.take(at(10), Cost::new(2)).is_allow());
    assert_eq!(set.check(at(500), Cost::ONE), Decision::WaitUntil(at(534)));
}

// A given-up request can arrive until a known moment: the promise is exact again once no other
// request blocks, without one try for each token or window until then.
#[test]
fn the_promise_includes_requests_that_were_given_up() {
    for (rule, first_try, then) in [
        (
            Rule::Sliding {
                quantity: 1,
                window: 100,
            },
            3_100,
            3_100,
        ),
        (
            Rule::Aligned {
                quantity: 1,
                window: 100,
            },
            3_100,
            3_100,
        ),
        (
            Rule::Bucket {
                quantity: 1,
                per: 100,
                burst: 1,
            },
            3_100,
            3_100,
        ),
    ] {
        let mut set = MeterSet::new(&[limits_for(rule, Accounting::Safe)], ClockPair::default()).expect("one");
        let receipts = set.take(at(1), Cost::ONE).allowed().expect("untouched");
        set.settle(at(2), receipts, RequestTiming::Lost { until: at(3_000) }, None);
        assert_eq!(
            set.check(at(3), Cost::ONE),
            Decision::WaitUntil(at(first_try)),
            "{rule:?}"
        );
        assert!(!set.check(at(then - 1), Cost::ONE).is_allow(), "{rule:?}");
        assert!(set.check(at(then), Cost::ONE).is_allow(), "{rule:?}");
    }
}

// One is lost for a long time, the other finishes soon: the wait does not depend on the first.
#[test]
fn a_lost_request_does_not_hide_one_that_is_in_flight() {
    let limit = Limit::sliding(rate(2, 1_000)).counted(Accounting::Safe);
    let mut set = MeterSet::new(&[limit], ClockPair::default()).expect("one");
    let lost = set.take(at(0), Cost::ONE).allowed().expect("untouched");
    let held = set.take(at(0), Cost::ONE).allowed().expect("fits");
    set.settle(at(10), lost, RequestTiming::Lost { until: at(900_000) }, None);
    assert_eq!(set.check(at(10), Cost::ONE), Decision::WaitUntil(at(1_010)));
    set.settle(
        at(100),
        held,
        RequestTiming::Answered {
            sent: at(0),
            answered: at(100),
        },
        None,
    );
    assert_eq!(set.check(at(100), Cost::ONE), Decision::WaitUntil(at(1_100)));
}

// The second was answered before the first was settled: each counts from its own arrival.
#[test]
fn a_late_settlement_counts_from_its_own_arrival() {
    let limit = Limit::sliding(rate(2, 1_000)).counted(Accounting::Safe);
    let mut set = MeterSet::new(&[limit], ClockPair::default()).expect("one");
    let [first, second] = [0, 0].map(|now| set.take(at(now), Cost::ONE).allowed().expect("fits"));
    set.settle(
        at(900),
        second,
        RequestTiming::Answered {
            sent: at(0),
            answered: at(900),
        },
        None,
    );
    set.settle(
        at(950),
        first,
        RequestTiming::Answered {
            sent: at(0),
            answered: at(50),
        },
        None,
    );
    assert_eq!(set.check(at(960), Cost::ONE), Decision::WaitUntil(at(1_050)));
}

// Taken while sendings were counted, answered after arrivals are: the response counts.
#[test]
fn a_change_to_arrivals_covers_requests_in_flight() {
    for rule in [
        Rule::Sliding {
            quantity: 1,
            window: 100,
        },
        Rule::Bucket {
            quantity: 1,
            per: 100,
            burst: 1,
        },
    ] {
        let moment = ClockPair {
            now: at(10),
            ..ClockPair::default()
        };
        let mut set = MeterSet::new(&[limits_for(rule, Accounting::Send)], ClockPair::default()).expect("one");
        let receipts = set.take(at(0), Cost::ONE).allowed().expect("untouched");
        set.reconfigure(moment, &[limits_for(rule, Accounting::Safe)])
            .expect("one");
        set.settle(
            at(90),
            receipts,
            RequestTiming::Answered {
                sent: at(0),
                answered: at(90),
            },
            None,
        );
        assert_eq!(set.check(at(95), Cost::ONE), Decision::WaitUntil(at(190)), "{rule:?}");
    }
}

// A token of a tight bucket starts to refill a guard after its arrival.
#[test]
fn the_guard_delays_a_tight_token() {
    let limit = Limit::bucket(rate(1, 100), 1)
        .expect("positive")
        .guarded(Duration::from_nanos(7));
    let mut set = MeterSet::new(&[limit], ClockPair::default()).expect("one");
    let receipts = set.take(at(10), Cost::ONE).allowed().expect("untouched");
    let timing = RequestTiming::Answered {
        sent: at(10),
        answered: at(50),
    };
    set.settle(at(50), receipts, timing, Some(Duration::from_nanos(30)));
    assert_eq!(set.check(at(60), Cost::ONE), Decision::WaitUntil(at(127)));
}

// The guard is a margin on the window of a tight limit only.
#[test]
fn the_guard_lengthens_a_tight_window() {
    let limit = Limit::sliding(rate(1, 100)).guarded(Duration::from_nanos(7));
    for (accounting, free_at) in [(Accounting::Tight, 127), (Accounting::Safe, 150)] {
        let mut set = MeterSet::new(&[limit.counted(accounting)], ClockPair::default()).expect("one");
        let receipts = set.take(at(10), Cost::ONE).allowed().expect("untouched");
        let timing = RequestTiming::Answered {
            sent: at(10),
            answered: at(50),
        };
        set.settle(at(50), receipts, timing, Some(Duration::from_nanos(30)));
        assert_eq!(
            set.check(at(60), Cost::ONE),
            Decision::WaitUntil(at(free_at)),
            "{accounting:?}"
        );
    }
}
