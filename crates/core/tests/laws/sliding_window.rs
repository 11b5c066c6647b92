//! The sliding window against an oracle that keeps everything.
//!
//! Agreement with the oracle at every step proves exactness (never over the limit in any window),
//! maximality (never refuses a fitting request) and the promise (the first instant that passes).

use outflow_core::{ClockPair, Cost, Decision, Meter, Nanos, Receipt, SharedLimiter};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::support::sliding::SlidingOracle;
use crate::support::{Step, at, extreme, rate, sliding, steps};

/// A meter or a shared limiter.
enum Subject {
    Meter(Box<Meter>),
    SharedLimiter(SharedLimiter),
}

impl Subject {
    fn take(&mut self, now: Nanos, cost: Cost) -> Decision<Receipt> {
        match self {
            Self::Meter(meter) => meter.take(now, cost),
            Self::SharedLimiter(limiter) => limiter.take(now, cost),
        }
    }

    fn refund(&mut self, now: Nanos, receipt: Receipt) {
        match self {
            Self::Meter(meter) => meter.refund(now, receipt),
            Self::SharedLimiter(limiter) => limiter.refund(now, receipt),
        };
    }

    fn reconfigure(&mut self, now: Nanos, quantity: u64, window: u64) {
        if let Self::Meter(meter) = self {
            let moment = ClockPair {
                now,
                ..ClockPair::default()
            };
            meter.reconfigure(moment, &sliding(quantity, window));
        }
    }

    fn remaining(&mut self, now: Nanos) -> u64 {
        match self {
            Self::Meter(meter) => meter.status(now).remaining(),
            Self::SharedLimiter(limiter) => limiter.remaining(now),
        }
    }
}

fn agrees(mut subject: Subject, mut oracle: SlidingOracle, history: &[Step]) -> Result<(), TestCaseError> {
    let mut now = 50_u64;
    let mut held: Vec<(usize, Receipt)> = Vec::new();
    for step in history {
        match *step {
            Step::Take { after, cost } => {
                now += after;
                let expected = oracle.decide(now, cost);
                let decision = subject.take(at(now), Cost::new(cost));
                prop_assert_eq!(decision.is_allow(), expected.is_allow(), "at {}", now);
                match decision {
                    Decision::Allow(receipt) => held.push((oracle.take(cost), receipt)),
                    refusal => prop_assert_eq!(refusal.map(drop), expected, "at {}", now),
                }
            }
            Step::Refund { after, nth } if nth < held.len() => {
                now += after;
                let (index, receipt) = held.remove(held.len() - 1 - nth);
                oracle.see(now);
                oracle.refund(index);
                subject.refund(at(now), receipt);
            }
            Step::Refund { .. } => {}
            Step::Back { by } => {
                now = now.saturating_sub(by);
                oracle.see(now);
            }
            Step::Reconfigure {
                after,
                quantity,
                window,
            } => {
                now += after;
                oracle.reconfigure(now, quantity, window);
                subject.reconfigure(at(now), quantity, window);
            }
        }
        let left = u128::from(oracle.quantity).saturating_sub(oracle.used(oracle.latest));
        let remaining = subject.remaining(at(oracle.latest));
        prop_assert_eq!(u128::from(remaining), left, "remaining at {}", now);
    }
    Ok(())
}

fn shapes() -> impl Strategy<Value = (u64, u64)> {
    (1..8_u64, 1..25_u64)
}

outflow_testkit::laws! {
    #[test]
    fn a_meter_agrees_with_its_whole_history / fn stress_a_meter_agrees_with_its_whole_history
        ((shapes(), steps(true))) = |((quantity, window), history)| {
            let meter = Meter::new(&sliding(quantity, window), ClockPair::default());
            agrees(Subject::Meter(Box::new(meter)), SlidingOracle::new(quantity, window), &history)
        };

    #[test]
    fn a_shared_limiter_agrees_with_its_whole_history / fn stress_a_shared_limiter_agrees_with_its_whole_history
        ((shapes(), steps(false))) = |((quantity, window), mut history)| {
            history.retain(|step| !matches!(step, Step::Back { .. }));
            let limiter = SharedLimiter::sliding(rate(quantity, window)).expect("small");
            let oracle = SlidingOracle::new(quantity, window);
            let oracle = SlidingOracle { remembers_asking: false, ..oracle };
            agrees(Subject::SharedLimiter(limiter), oracle, &history)
        };

    // Threads read the clock before they take, so a shared limiter sees times out of order. It may
    // then refuse for a few nanoseconds, and never lets more through.
    #[test]
    fn out_of_order_times_add_no_quota / fn stress_out_of_order_times_add_no_quota
        ((shapes(), steps(false))) = |((quantity, window), history)| {
            let mut limiter = Subject::SharedLimiter(SharedLimiter::sliding(rate(quantity, window)).expect("small"));
            let mut oracle = SlidingOracle::new(quantity, window);
            oracle.remembers_asking = false;
            let mut now = 50_u64;
            for step in history {
                match step {
                    Step::Take { after, cost } => {
                        now += after;
                        let expected = oracle.decide(now, cost);
                        if limiter.take(at(now), Cost::new(cost)).is_allow() {
                            prop_assert!(expected.is_allow(), "at {}", now);
                            if cost > 0 {
                                oracle.take(cost);
                            }
                        }
                    }
                    Step::Back { by } => now = now.saturating_sub(by),
                    Step::Refund { .. } | Step::Reconfigure { .. } => {}
                }
            }
            Ok(())
        };

    // Extreme limits, windows, times and costs: the oracle adds up in 128 bits.
    #[test]
    fn any_64_bit_number_is_safe / fn stress_any_64_bit_number_is_safe
        ((extreme(), extreme(), prop::collection::vec((extreme(), extreme()), 1..20)))
        = |(quantity, window, asks)| {
            let (quantity, window) = (quantity.max(1), window.max(1));
            let mut meter = Meter::new(&sliding(quantity, window), ClockPair::default());
            let mut oracle = SlidingOracle::new(quantity, window);
            for (now, cost) in asks {
                let expected = oracle.decide(now, cost);
                let decision = meter.take(at(now), Cost::new(cost)).map(drop);
                prop_assert_eq!(decision, expected);
                if expected.is_allow() {
                    oracle.take(cost);
                }
            }
            Ok(())
        };

    #[test]
    fn refused_before_and_allowed_at_the_promised_instant / fn stress_refused_before_and_allowed_at_the_promised_instant
        ((shapes(), steps(true), 1..8_u64)) = |((quantity, window), history, cost)| {
            let mut meter = Meter::new(&sliding(quantity, window), ClockPair::default());
            let mut now = 0;
            for step in &history {
                if let Step::Take { after, cost } = *step {
                    now += after;
                    let _ = meter.take(at(now), Cost::new(cost));
                }
            }
            if let Decision::WaitUntil(promised) = meter.check(at(now), Cost::new(cost)) {
                prop_assert!(promised > at(now));
                for instant in now..promised.as_nanos() {
                    prop_assert!(!meter.clone().check(at(instant), Cost::new(cost)).is_allow());
                }
                prop_assert!(meter.check(promised, Cost::new(cost)).is_allow());
            }
            Ok(())
        };
}

// Five entries of cost 1, a second apart, at 5 per minute: a cost of 3 fits when the third has gone,
// at 62 s; the oldest alone goes at 60 s.
#[test]
fn a_heavy_request_waits_for_enough_entries() {
    let mut meter = Meter::new(&sliding(5, 60_000_000_000), ClockPair::default());
    for second in 0..5 {
        assert!(meter.take(Nanos::from_secs(second), Cost::ONE).is_allow());
    }
    let decision = meter.check(Nanos::from_secs(5), Cost::new(3));
    assert_eq!(decision, Decision::WaitUntil(Nanos::from_secs(62)));
}

// The exact log: 100 a minute, weight 5 behind 96 ones does not fit, 4 does.
#[test]
fn weights_add_up_against_the_limit() {
    let mut meter = Meter::new(&sliding(100, 60_000_000_000), ClockPair::default());
    for second in 0..48 {
        assert!(meter.take(Nanos::from_secs(second), Cost::new(2)).is_allow());
    }
    let now = Nanos::from_secs(50);
    assert_eq!(
        meter.check(now, Cost::new(5)),
        Decision::WaitUntil(Nanos::from_secs(60))
    );
    assert!(meter.check(now, Cost::new(4)).is_allow());
    let status = meter.status(now);
    assert_eq!((status.used, status.requests, status.remaining()), (96, 48, 4));
    assert_eq!(status.oldest, Some(Nanos::ZERO));
    assert_eq!(status.newest, Some(Nanos::from_secs(47)));
    assert!((status.remaining_rate() - 0.04).abs() < 1e-12);
}

// Ten thousand entries at one instant, every other one refunded: ids must not be confused.
#[test]
fn refunds_at_one_instant_are_distinct() {
    let mut meter = Meter::new(&sliding(100_000, 1_000), ClockPair::default());
    let take = |meter: &mut Meter, cost| meter.take(at(7), Cost::new(cost)).allowed().expect("fits");
    let receipts: Vec<Receipt> = (0..10_000).map(|n| take(&mut meter, 1 + n % 3)).collect();
    let kept: u64 = (0..10_000).filter(|n| n % 2 == 1).map(|n| 1 + n % 3).sum();
    for (n, receipt) in receipts.into_iter().enumerate() {
        if n % 2 == 0 {
            assert!(meter.refund(at(8), receipt));
        }
    }
    assert_eq!(meter.status(at(8)).used, u128::from(kept));
}

// By time and cost: the latest match within a millisecond goes, and only once.
#[test]
fn a_refund_by_time_removes_the_latest_match_only() {
    let ms = Nanos::from_millis;
    let mut meter = Meter::new(&sliding(10, 1_000_000_000), ClockPair::default());
    for (millis, cost) in [(10, 2), (11, 2), (12, 3)] {
        assert!(meter.take(ms(millis), Cost::new(cost)).is_allow());
    }
    assert!(meter.refund_at(ms(12), ms(10), Cost::new(2)));
    assert_eq!(
        meter.status(ms(12)).used,
        5,
        "the one at 11 ms is within a millisecond and later"
    );
    assert!(meter.refund_at(ms(12), ms(10), Cost::new(2)));
    assert!(
        !meter.refund_at(ms(12), ms(10), Cost::new(2)),
        "nothing is left to match"
    );
    assert!(!meter.refund_at(ms(12), ms(14), Cost::new(3)), "two milliseconds away");
    assert_eq!(meter.status(ms(12)).used, 3);
}

// An entry of 10 ms counts up to the last instant before 1,010 ms.
#[test]
fn a_refund_by_time_is_false_once_the_entry_has_expired() {
    let taken = Nanos::from_millis(10);
    for (now, refunded) in [(1_009_999_999, true), (1_010_000_000, false)] {
        let mut meter = Meter::new(&sliding(10, 1_000_000_000), ClockPair::default());
        assert!(meter.take(taken, Cost::new(2)).is_allow());
        assert_eq!(meter.refund_at(at(now), taken, Cost::new(2)), refunded, "{now} ns");
        assert_eq!(meter.status(at(now)).used, 0);
    }
}

#[test]
fn a_cost_above_the_limit_never_passes_and_zero_always_does() {
    let mut meter = Meter::new(&sliding(3, 1_000), ClockPair::default());
    assert_eq!(meter.take(at(0), Cost::new(4)), Decision::Never);
    assert!(meter.take(at(0), Cost::new(3)).is_allow());
    assert!(meter.take(at(0), Cost::ZERO).is_allow());
    assert_eq!(meter.status(at(0)).used, 3);
}

// A million expired entries must not be dropped one by one; the ring keeps its memory until it is
// pruned, and then an idle meter costs nothing.
#[test]
fn an_idle_log_uses_no_memory_after_pruning() {
    let mut meter = Meter::new(&sliding(1_000, 1_000), ClockPair::default());
    for n in 0..1_000 {
        assert!(meter.take(at(n), Cost::ONE).is_allow());
    }
    assert_eq!(meter.status(at(999)).memory, 8_000, "8 bytes for a unit entry");
    assert_eq!(meter.status(at(1_999)).requests, 0);
    meter.prune(at(2_000));
    let status = meter.status(at(2_000));
    assert_eq!((status.memory, status.expired, status.peak), (0, 1_000, 1_000));
}

// A million foreign charges at ten a day: the log holds no more entries than its limit needs, and
// loses no usage.
#[test]
fn foreign_usage_takes_bounded_memory() {
    let mut meter = Meter::new(&sliding(10, 1_000_000_000), ClockPair::default());
    for n in 0..1_000_000 {
        meter.charge(at(n), 2);
    }
    let status = meter.status(at(1_000_000));
    assert_eq!((status.used, status.requests), (2_000_000, 10));
    assert!(status.memory < 1_000, "{}", status.memory);
}

// A thousand unit entries, then one of another width: 8 bytes for the time and few for the cost.
#[test]
fn costs_that_widen_late_stay_small() {
    let mut meter = Meter::new(&sliding(1_000_000, 1_000_000), ClockPair::default());
    for n in 0..10_000 {
        assert!(meter.take(at(n), Cost::ONE).is_allow());
    }
    for (cost, most) in [(5, 11), (70_000, 14), (900_000, 14)] {
        let _ = meter.take(at(10_000), Cost::new(cost));
        let status = meter.status(at(10_000));
        assert!(status.memory <= status.requests * most, "{} bytes", status.memory);
    }
}

// Foreign usage may exceed the limit; it expires with its window.
#[test]
fn foreign_usage_counts_and_expires() {
    let mut meter = Meter::new(&sliding(5, 100), ClockPair::default());
    meter.charge(at(10), 7);
    assert_eq!(meter.check(at(20), Cost::ONE), Decision::WaitUntil(at(110)));
    assert!(meter.check(at(110), Cost::new(5)).is_allow());
}
