//! The bucket against an oracle that refills it from its whole history.

use outflow_core::{Accounting, ClockPair, Cost, Decision, Limit, Meter, Nanos, Receipt, SharedLimiter};
use proptest::prelude::*;

use crate::support::bucket::BucketOracle;
use crate::support::{Step, at, extreme, rate, sliding, steps};

fn bucket(quantity: u64, per: u64, burst: u64) -> Limit {
    let limit = Limit::bucket(rate(quantity, per), burst).expect("positive");
    limit.counted(Accounting::Send)
}

fn shapes() -> impl Strategy<Value = (u64, u64, u64)> {
    (1..9_u64, 1..25_u64, 1..8_u64)
}

outflow_testkit::laws! {
    // Meter and shared limiter together agree with the oracle to the nanosecond, in decisions and
    // promises. The limiter keeps no time of queries that took nothing, so it is compared until the
    // clock steps back.
    #[test]
    fn agrees_with_its_whole_history / fn stress_agrees_with_its_whole_history
        ((shapes(), steps(false))) = |((quantity, per, burst), history)| {
            let mut meter = Meter::new(&bucket(quantity, per, burst), ClockPair::default());
            let limiter = SharedLimiter::bucket(rate(quantity, per), burst).expect("positive");
            let mut oracle = BucketOracle::new(quantity, per, burst);
            let (mut now, mut stepped_back) = (50_u64, false);
            for step in history {
                match step {
                    Step::Take { after, cost } => {
                        now += after;
                        let expected = oracle.decide(now, cost);
                        prop_assert_eq!(meter.take(at(now), Cost::new(cost)).map(drop), expected);
                        if !stepped_back {
                            prop_assert_eq!(limiter.take(at(now), Cost::new(cost)).map(drop), expected);
                            prop_assert_eq!(limiter.remaining(at(now)), meter.status(at(now)).remaining());
                        }
                        if expected.is_allow() {
                            oracle.take(cost);
                        }
                        let left = oracle.level(oracle.latest).expect("never overdrawn") / u128::from(per);
                        prop_assert_eq!(u128::from(meter.status(at(now)).remaining()), left);
                    }
                    Step::Back { by } => {
                        now = now.saturating_sub(by);
                        stepped_back = true;
                    }
                    Step::Refund { .. } | Step::Reconfigure { .. } => {}
                }
            }
            Ok(())
        };

    // Threads read the clock before they take: no order of takes overdraws a shared bucket, at the
    // latest time of any of them.
    #[test]
    fn out_of_order_times_add_no_quota / fn stress_out_of_order_times_add_no_quota
        ((shapes(), prop::collection::vec((30..80_u64, 1..4_u64), 1..60))) = |((quantity, per, burst), asks)| {
            let limiter = SharedLimiter::bucket(rate(quantity, per), burst).expect("positive");
            let mut oracle = BucketOracle::new(quantity, per, burst);
            for (now, cost) in asks {
                if let Decision::Allow(receipt) = limiter.take(at(now), Cost::new(cost)) {
                    oracle.latest = oracle.latest.max(receipt.at().as_nanos());
                    oracle.take(cost);
                    prop_assert!(oracle.level(oracle.latest).is_some(), "overdrawn at {}", now);
                }
            }
            Ok(())
        };

    // After refunds in any order and at any time, every allowed request would also be allowed
    // without the refunded ones: the oracle is never overdrawn.
    #[test]
    fn refunds_never_add_a_token / fn stress_refunds_never_add_a_token
        ((shapes(), steps(false), any::<bool>())) = |((quantity, per, burst), history, shared)| {
            let mut meter = Meter::new(&bucket(quantity, per, burst), ClockPair::default());
            let limiter = SharedLimiter::bucket(rate(quantity, per), burst).expect("positive");
            let mut oracle = BucketOracle::new(quantity, per, burst);
            let mut held: Vec<(usize, Receipt)> = Vec::new();
            let mut now = 50_u64;
            for step in history {
                match step {
                    Step::Take { after, cost } => {
                        now += after;
                        oracle.latest = oracle.latest.max(now);
                        let decision = if shared {
                            limiter.take(at(now), Cost::new(cost))
                        } else {
                            meter.take(at(now), Cost::new(cost))
                        };
                        if let Decision::Allow(receipt) = decision {
                            held.push((oracle.take(cost), receipt));
                            prop_assert!(oracle.level(oracle.latest).is_some(), "overdrawn at {}", now);
                        }
                    }
                    Step::Refund { after, nth } if nth < held.len() => {
                        now += after;
                        oracle.latest = oracle.latest.max(now);
                        let (index, receipt) = held.remove(held.len() - 1 - nth);
                        let _ = if shared {
                            limiter.refund(at(now), receipt)
                        } else {
                            meter.refund(at(now), receipt)
                        };
                        oracle.refund(index);
                    }
                    Step::Refund { .. } | Step::Reconfigure { .. } | Step::Back { .. } => {}
                }
            }
            Ok(())
        };

    // Taken and refunded in any order at one instant: nothing changes.
    #[test]
    fn refunds_in_any_order_restore / fn stress_refunds_in_any_order_restore
        ((shapes(), prop::collection::vec((0..8_u64, 1..4_u64), 0..20),
          prop::collection::vec((1..4_u64, any::<prop::sample::Index>()), 1..6)))
        = |((quantity, per, burst), before, costs)| {
            let mut meter = Meter::new(&bucket(quantity, per, burst), ClockPair::default());
            let mut now = 0;
            for (after, cost) in before {
                now += after;
                let _ = meter.take(at(now), Cost::new(cost));
            }
            let untouched = meter.clone();
            let take = |(cost, _): &(u64, _)| meter.take(at(now), Cost::new(*cost)).allowed();
            let mut taken: Vec<_> = costs.iter().filter_map(take).collect();
            for (_, index) in &costs {
                if !taken.is_empty() {
                    prop_assert!(meter.refund(at(now), taken.swap_remove(index.index(taken.len()))));
                }
            }
            for cost in 1..=burst {
                let ours = meter.check(at(now), Cost::new(cost));
                prop_assert_eq!(ours, untouched.clone().check(at(now), Cost::new(cost)));
            }
            Ok(())
        };

    // Another rate keeps the missing tokens: never more is left than before, a change back and
    // forth included.
    #[test]
    fn a_live_change_adds_no_quota / fn stress_a_live_change_adds_no_quota
        ((shapes(), shapes(), prop::collection::vec((0..8_u64, 1..4_u64), 1..20)))
        = |(first, second, history)| {
            let limit = |(quantity, per, burst)| bucket(quantity, per, burst);
            let mut meter = Meter::new(&limit(first), ClockPair::default());
            let mut now = 50;
            for (n, (after, cost)) in history.into_iter().enumerate() {
                now += after;
                let _ = meter.take(at(now), Cost::new(cost));
                let gone = meter.status(at(now)).used;
                let moment = ClockPair { now: at(now), ..ClockPair::default() };
                meter.reconfigure(moment, &limit(if n % 2 == 0 { second } else { first }));
                prop_assert_eq!(meter.status(at(now)).used, gone);
            }
            Ok(())
        };

    #[test]
    fn any_64_bit_number_is_safe / fn stress_any_64_bit_number_is_safe
        ((extreme(), extreme(), extreme(), prop::collection::vec((extreme(), extreme()), 1..20)))
        = |(quantity, per, burst, asks)| {
            let (quantity, per, burst) = (quantity.max(1), per.max(1), burst.max(1));
            let mut meter = Meter::new(&bucket(quantity, per, burst), ClockPair::default());
            let mut latest = 0;
            for (now, cost) in asks {
                latest = latest.max(now);
                match meter.take(at(now), Cost::new(cost)) {
                    Decision::Allow(_) => prop_assert!(cost <= burst),
                    Decision::WaitUntil(until) => {
                        prop_assert!(until > at(latest));
                        let mut later = meter.clone();
                        prop_assert!(!meter.clone().check(at(until.as_nanos() - 1), Cost::new(cost)).is_allow());
                        // At the very end of the timeline the consumption itself may be out of
                        // range.
                        let then = later.check(until, Cost::new(cost));
                        prop_assert!(then.is_allow() || then == Decision::Never);
                    }
                    Decision::Never => {}
                }
                prop_assert!(meter.status(at(now)).used <= u128::from(burst));
            }
            Ok(())
        };
}

// A refund without a receipt returns at most the missing tokens.
#[test]
fn a_refund_without_a_receipt_fills_the_bucket_at_most() {
    let mut meter = Meter::new(&bucket(1, 100, 5), ClockPair::default());
    assert!(meter.take(at(0), Cost::new(3)).is_allow());
    assert!(meter.refund_at(at(0), at(0), Cost::new(2)));
    assert_eq!(meter.status(at(0)).remaining(), 4);
    assert!(meter.refund_at(at(77), at(0), Cost::new(9)));
    assert_eq!(meter.status(at(77)).remaining(), 5);
    assert!(!meter.refund_at(at(77), at(77), Cost::ONE), "it is full");
}

// One token refills in 100: two of the three that were taken at 0 are back at 200, and a later take
// does not make them refundable again. At 300 nothing of them is missing.
#[test]
fn refilled_tokens_are_not_refunded_by_time() {
    let mut meter = Meter::new(&bucket(1, 100, 5), ClockPair::default());
    assert!(meter.take(at(0), Cost::new(3)).is_allow());
    assert!(meter.take(at(200), Cost::new(3)).is_allow());
    assert_eq!(meter.status(at(200)).used, 4);
    assert!(meter.refund_at(at(200), at(0), Cost::new(3)));
    assert_eq!(meter.status(at(200)).used, 3, "one of three was missing");
    assert!(!meter.refund_at(at(300), at(0), Cost::new(3)), "all have refilled");
    assert_eq!(meter.status(at(300)).used, 2, "the later take alone counts");
}

// The second is refunded, a fourth taken, and then the first refunded: the earlier refund is still
// known. Once all has refilled there is nothing to refund.
#[test]
fn a_take_between_two_refunds_loses_neither() {
    let mut meter = Meter::new(&bucket(1, 100, 5), ClockPair::default());
    let mut take = |now| meter.take(at(now), Cost::ONE).allowed().expect("there");
    let (first, second, _third) = (take(0), take(0), take(0));
    assert!(meter.refund(at(0), second));
    let fourth = meter.take(at(0), Cost::ONE).allowed().expect("there");
    assert!(meter.refund(at(0), first));
    assert_eq!(meter.status(at(0)).used, 2);
    assert!(!meter.refund(at(500), fourth), "it has refilled");
}

// Half a token has refilled: the next is complete at 100. In flight, a token has yet to start.
#[test]
fn the_next_recovery_is_that_of_the_token_that_refills() {
    let mut meter = Meter::new(&bucket(1, 100, 5), ClockPair::default());
    assert_eq!(meter.recovery(at(0)), None);
    assert!(meter.take(at(0), Cost::new(2)).is_allow());
    assert_eq!(meter.recovery(at(50)), Some(at(100)));
    assert_eq!(meter.recovery(at(100)), Some(at(200)));
    let mut flying = Meter::new(&bucket(1, 100, 5).counted(Accounting::Safe), ClockPair::default());
    assert!(flying.take(at(0), Cost::new(2)).is_allow());
    assert_eq!(flying.recovery(at(50)), Some(at(150)));
}

// A refund from the middle is stored, in accounted memory, until all has refilled.
#[test]
fn the_memory_of_refunds_is_reported() {
    let mut meter = Meter::new(&bucket(1, 100, 5), ClockPair::default());
    let mut take = || meter.take(at(0), Cost::ONE).allowed().expect("five");
    let (first, _second) = (take(), take());
    assert_eq!(meter.status(at(0)).memory, 0);
    assert!(meter.refund(at(0), first));
    assert!(meter.status(at(0)).memory >= 16);
}

// The shared bucket stores the end of its refusal; at that very instant it no longer refuses.
#[test]
fn a_shared_bucket_allows_at_the_instant_it_promised() {
    let limiter = SharedLimiter::bucket(rate(1, 100), 1).expect("positive");
    assert!(limiter.take(at(0), Cost::ONE).is_allow());
    for now in [1, 50, 99] {
        assert_eq!(limiter.take(at(now), Cost::ONE), Decision::WaitUntil(at(100)));
    }
    assert!(limiter.take(at(100), Cost::ONE).is_allow());
}

// A million a second after a day: scaled time has more than 64 bits, and both halves of it count.
#[test]
fn a_shared_bucket_keeps_time_beyond_64_bits() {
    let day = Nanos::from_secs(86_400).as_nanos();
    let limiter = SharedLimiter::bucket(rate(1_000_000, 1_000_000_000), 1).expect("positive");
    assert!(limiter.take(at(day), Cost::ONE).is_allow());
    assert_eq!(limiter.take(at(day), Cost::ONE), Decision::WaitUntil(at(day + 1_000)));
    assert!(limiter.take(at(day + 1_000), Cost::ONE).is_allow());
}

// Two of three tokens are refunded half a token's time later: the rest of them is there, and
// nothing is left to refund once all has refilled.
#[test]
fn a_shared_bucket_refunds_unfilled_tokens() {
    let limiter = SharedLimiter::bucket(rate(1, 100), 3).expect("positive");
    let take = |now| limiter.take(at(now), Cost::ONE).allowed().expect("there");
    let (first, second, third) = (take(0), take(0), take(0));
    assert!(limiter.refund(at(50), third));
    assert_eq!(limiter.remaining(at(50)), 1);
    assert!(limiter.refund(at(50), first));
    assert_eq!(
        limiter.remaining(at(99)),
        2,
        "half of the first had refilled, and now the second does"
    );
    assert_eq!(limiter.remaining(at(150)), 3);
    assert!(!limiter.refund(at(200), second), "all of it has refilled");
}

// After 2^64 tokens positions are lost: nothing is refunded, and none is added.
#[test]
fn a_bucket_with_a_full_counter_refunds_nothing() {
    let limit = bucket(u64::MAX, 1, u64::MAX);
    let mut meter = Meter::new(&limit, ClockPair::default());
    let limiter = SharedLimiter::bucket(rate(u64::MAX, 1), u64::MAX).expect("positive");
    for now in [10, 20] {
        assert!(meter.take(at(now), Cost::new(u64::MAX)).is_allow());
        assert!(limiter.take(at(now), Cost::new(u64::MAX)).is_allow());
    }
    let ours = meter.take(at(30), Cost::ONE).allowed().expect("refilled");
    let shared = limiter.take(at(30), Cost::ONE).allowed().expect("refilled");
    assert!(!meter.refund(at(30), ours));
    assert!(!limiter.refund(at(30), shared));
}

// Sent while another kind of meter counted sendings: the new kind has it already, and its response
// adds nothing.
#[test]
fn inherited_usage_is_not_settled_again() {
    let safe = Limit::bucket(rate(1, 100), 2)
        .expect("positive")
        .counted(Accounting::Safe);
    let mut meter = Meter::new(&sliding(2, 100), ClockPair::default());
    let sent = meter.take(at(0), Cost::ONE).allowed().expect("untouched");
    meter.reconfigure(
        ClockPair {
            now: at(10),
            ..ClockPair::default()
        },
        &safe,
    );
    meter.settle(at(50), sent, at(50));
    assert_eq!(meter.status(at(50)).used, 1);
    assert_eq!(meter.status(at(110)).used, 0, "a token from the change on");

    let flown = meter.take(at(200), Cost::ONE).allowed().expect("full");
    meter.settle(at(250), flown, at(240));
    assert_eq!(meter.status(at(339)).used, 1);
    assert_eq!(meter.status(at(340)).used, 0, "a token from its arrival on");
}

// Receipts of another kind have no position in the new bucket: they refund nothing, nor does an
// expired one.
#[test]
fn a_receipt_from_before_a_change_of_kind_refunds_nothing() {
    let moment = ClockPair {
        now: at(2_000),
        ..ClockPair::default()
    };
    let mut meter = Meter::new(&sliding(1, 1_000), ClockPair::default());
    let old = meter.take(at(0), Cost::ONE).allowed().expect("untouched");
    assert!(meter.take(at(2_000), Cost::ONE).is_allow());
    meter.reconfigure(moment, &bucket(1, 1_000, 1));
    assert!(!meter.refund(at(2_001), old));
    assert_eq!(meter.check(at(2_001), Cost::ONE), Decision::WaitUntil(at(3_000)));
    let new = meter.take(at(3_000), Cost::ONE).allowed().expect("refilled");
    assert!(meter.refund(at(3_001), new), "what the new kind gave it takes back");
    assert_eq!(meter.status(at(3_001)).peak, 1, "facts go on from kind to kind");
}

// A change with an earlier time than the meter has seen happens at the latest one.
#[test]
fn a_change_of_kind_after_a_clock_step_adds_no_quota() {
    let mut meter = Meter::new(&sliding(1, 1_000), ClockPair::default());
    assert!(meter.take(at(100_000), Cost::ONE).is_allow());
    meter.reconfigure(ClockPair::default(), &bucket(1, 1_000, 1));
    assert_eq!(meter.check(at(100_100), Cost::ONE), Decision::WaitUntil(at(101_000)));
}

// Capacity equal to the rate: 35 at once and 35 more within the second, 70 in all; the documented
// ceiling of 50 needs an additional window.
#[test]
fn an_added_window_caps_the_buckets_burst() {
    let limits = [bucket(35, 1_000_000_000, 35), sliding(50, 1_000_000_000)];
    let through = |limits: &[Limit]| {
        let mut set = outflow_core::MeterSet::new(limits, ClockPair::default()).expect("two");
        (0..1_000)
            .filter(|ms| set.take(Nanos::from_millis(*ms), Cost::ONE).is_allow())
            .count()
    };
    assert_eq!(
        through(&limits[..1]),
        69,
        "35 saved and 34 refilled before the second is over"
    );
    assert_eq!(through(&limits), 50);
}

// 35/s is 28,571,428.57 ns a token: a million tokens must take exactly a million thirty-fifths. A
// burst of two keeps the fraction that a wait of whole nanoseconds is late by.
#[test]
fn an_odd_rate_does_not_drift() {
    let mut meter = Meter::new(&bucket(35, 1_000_000_000, 2), ClockPair::default());
    let mut now = Nanos::ZERO;
    for _ in 0..1_000_000 {
        if let Decision::WaitUntil(at) = meter.check(now, Cost::ONE) {
            now = at;
        }
        assert!(meter.take(now, Cost::ONE).is_allow());
    }
    assert_eq!(now.as_nanos(), (999_998 * 1_000_000_000_u64).div_ceil(35));
}
