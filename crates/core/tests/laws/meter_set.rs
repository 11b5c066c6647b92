//! Several limits at once: all of them or none.

use std::time::Duration;

use outflow_core::{
    Accounting, ClockPair, Cost, Decision, Limit, MAX_LIMITS, MeterEvent, MeterSet, Nanos, Pacing, ReceiptSet, Share,
    SharedLimiter, TooManyLimits,
};
use proptest::prelude::*;

use crate::support::sliding::SlidingOracle;
use crate::support::{Step, at, rate, sliding, steps};

outflow_testkit::laws! {
    // Each limit has its own oracle; the set passes when all pass and waits for the slowest.
    #[test]
    fn passes_when_all_pass_and_otherwise_changes_none / fn stress_passes_when_all_pass_and_otherwise_changes_none
        ((prop::collection::vec((1..8_u64, 1..25_u64), 0..5), steps(false))) = |(shapes, history)| {
            let limits: Vec<Limit> = shapes.iter().map(|(q, w)| sliding(*q, *w)).collect();
            let mut set = MeterSet::new(&limits, ClockPair::default()).expect("few");
            let mut oracles: Vec<_> = shapes.iter().map(|(q, w)| SlidingOracle::new(*q, *w)).collect();
            let mut held: Vec<(Vec<usize>, ReceiptSet)> = Vec::new();
            let mut now = 50_u64;
            for step in history {
                match step {
                    Step::Take { after, cost } => {
                        now += after;
                        let each: Vec<_> = oracles.iter_mut().map(|o| o.decide(now, cost)).collect();
                        let all = each.iter().fold(Decision::Allow(()), |sum, one| sum.and(*one).map(drop));
                        let explained: Vec<_> = set.explain(at(now), Cost::new(cost)).collect();
                        prop_assert_eq!(&explained, &each);
                        let decision = set.take(at(now), Cost::new(cost));
                        prop_assert_eq!(decision.is_allow(), all.is_allow());
                        match decision {
                            Decision::Allow(receipts) => {
                                let taken = oracles.iter_mut().map(|o| o.take(cost)).collect();
                                held.push((taken, receipts));
                            }
                            refusal => prop_assert_eq!(refusal.map(drop), all),
                        }
                    }
                    Step::Refund { after, nth } if nth < held.len() => {
                        now += after;
                        let (taken, receipts) = held.remove(held.len() - 1 - nth);
                        for (oracle, index) in oracles.iter_mut().zip(taken) {
                            oracle.see(now);
                            oracle.refund(index);
                        }
                        set.refund(at(now), receipts);
                    }
                    Step::Refund { .. } | Step::Back { .. } | Step::Reconfigure { .. } => {}
                }
                for ((_, status), oracle) in set.statuses(at(now)).zip(&mut oracles) {
                    oracle.see(now);
                    prop_assert_eq!(status.used, oracle.used(oracle.latest));
                }
            }
            Ok(())
        };
}

outflow_testkit::laws! {
    // The shared form of the law: rings under one lock against one oracle each. Times run forward,
    // because a limiter remembers only its log.
    #[test]
    fn a_shared_set_passes_when_all_pass / fn stress_a_shared_set_passes_when_all_pass
        ((prop::collection::vec((1..8_u64, 1..25_u64), 0..4), steps(false))) = |(shapes, history)| {
            let rates: Vec<_> = shapes.iter().map(|(q, w)| rate(*q, *w)).collect();
            let limiter = SharedLimiter::with_rates(&rates).expect("small");
            let mut oracles: Vec<_> = shapes.iter().map(|(q, w)| SlidingOracle::new(*q, *w)).collect();
            let mut held = Vec::new();
            let mut now = 50_u64;
            for step in history {
                match step {
                    Step::Take { after, cost } => {
                        now += after;
                        let each = oracles.iter_mut().map(|o| o.decide(now, cost));
                        let all = each.fold(Decision::Allow(()), |sum, one| sum.and(one).map(drop));
                        match limiter.take(at(now), Cost::new(cost)) {
                            Decision::Allow(receipt) => {
                                prop_assert!(all.is_allow(), "at {}", now);
                                let taken: Vec<usize> = oracles.iter_mut().map(|o| o.take(cost)).collect();
                                held.push((taken, receipt));
                            }
                            refusal => prop_assert_eq!(refusal.map(drop), all, "at {}", now),
                        }
                    }
                    Step::Refund { after, nth } if nth < held.len() => {
                        now += after;
                        let (taken, receipt) = held.remove(held.len() - 1 - nth);
                        for (oracle, index) in oracles.iter_mut().zip(taken) {
                            oracle.see(now);
                            oracle.refund(index);
                        }
                        limiter.refund(at(now), receipt);
                    }
                    Step::Refund { .. } | Step::Back { .. } | Step::Reconfigure { .. } => {}
                }
                let least = |o: &SlidingOracle| u128::from(o.quantity).saturating_sub(o.used(now));
                let left = oracles.iter().map(least).min().unwrap_or(u128::from(u64::MAX));
                prop_assert_eq!(u128::from(limiter.remaining(at(now))), left, "remaining at {}", now);
            }
            Ok(())
        };
}

// 3 a second and 4 a minute: the fifth waits for the minute, not for the second.
#[test]
fn the_wait_is_the_longest_of_all_limits() {
    let limits = [sliding(3, 1_000_000_000), sliding(4, 60_000_000_000)];
    let mut set = MeterSet::new(&limits, ClockPair::default()).expect("two");
    assert!(set.take(Nanos::ZERO, Cost::new(3)).is_allow());
    assert_eq!(
        set.check(Nanos::ZERO, Cost::ONE),
        Decision::WaitUntil(Nanos::from_secs(1))
    );
    assert!(set.take(Nanos::from_secs(1), Cost::ONE).is_allow());
    assert_eq!(
        set.check(Nanos::from_secs(2), Cost::ONE),
        Decision::WaitUntil(Nanos::from_secs(60))
    );
    assert_eq!(set.check(Nanos::ZERO, Cost::new(4)), Decision::Never);
    let counts = set.counts();
    assert_eq!((counts.admitted, counts.refused), (2, 0), "checks are not counted");
}

#[test]
fn more_than_the_maximum_number_of_limits_are_refused() {
    let limits = [sliding(1, 1); MAX_LIMITS + 1];
    assert_eq!(MeterSet::new(&limits, ClockPair::default()).err(), Some(TooManyLimits));
    assert!(TooManyLimits.to_string().contains("8 limits at most"));
    let mut set = MeterSet::new(&limits[1..], ClockPair::default()).expect("eight");
    assert_eq!(set.reconfigure(ClockPair::default(), &limits), Err(TooManyLimits));
    assert_eq!(set.reconfigure(ClockPair::default(), &limits[1..]), Ok(()));
    assert_eq!(set.statuses(Nanos::ZERO).count(), MAX_LIMITS);
}

#[test]
fn an_empty_set_lets_every_request_pass() {
    let mut set = MeterSet::new(&[], ClockPair::default()).expect("none");
    assert!(set.take(Nanos::ZERO, Cost::new(u64::MAX)).is_allow());
}

// 20 % of 10: reported when one is left, silent while it stays low, reported again after a
// recovery.
#[test]
fn low_quota_is_reported_once_until_recovery() {
    let limit = sliding(10, 1_000).warning_below(Share::percent(20));
    let mut set = MeterSet::new(&[limit], ClockPair::default()).expect("one");
    assert!(set.take(at(0), Cost::new(8)).is_allow());
    assert_eq!(set.poll_event(), None, "two of ten are not below a fifth");
    assert!(set.take(at(1), Cost::ONE).is_allow());
    assert_eq!(
        set.poll_event(),
        Some(MeterEvent::Low {
            limit: 0,
            window: Duration::from_micros(1),
            remaining: 1,
            capacity: 10
        })
    );
    assert!(set.take(at(2), Cost::ONE).is_allow());
    assert_eq!(set.poll_event(), None, "it is still low");
    assert!(set.take(at(1_500), Cost::new(10)).is_allow());
    let again = Some(MeterEvent::Low {
        limit: 0,
        window: Duration::from_micros(1),
        remaining: 0,
        capacity: 10,
    });
    assert_eq!(set.poll_event(), again, "it had recovered between the queries");
}

// 10 a minute with 9 left for 60 s asks for 6.6 s; the cap grants half a second and reports it once
// a minute.
#[test]
fn capped_pacing_is_reported_at_most_once_a_minute() {
    let limit = Limit::fixed(rate(10, 60_000_000_000))
        .counted(Accounting::Send)
        .paced(Pacing::SOFT);
    let mut set = MeterSet::new(&[limit], ClockPair::default()).expect("one");
    let take = |set: &mut MeterSet, ms| set.take(Nanos::from_millis(ms), Cost::ONE).allowed().expect("fits");
    assert_eq!(
        take(&mut set, 0).send_at(),
        Nanos::ZERO,
        "an untouched window asks for no pause"
    );
    assert_eq!(set.poll_event(), None);
    let second = take(&mut set, 0);
    assert_eq!(second.send_at(), Nanos::from_millis(500));
    let capped = MeterEvent::PacingCapped {
        limit: 0,
        window: Duration::from_mins(1),
        asked: Duration::from_nanos(60_000_000_000 / 9),
        cap: Duration::from_millis(500),
    };
    assert_eq!(set.poll_event(), Some(capped));
    let _ = take(&mut set, 1_000);
    assert_eq!(set.poll_event(), None, "reported within the last minute");
}

#[test]
fn pacing_is_off_by_default() {
    let mut set = MeterSet::new(&[sliding(10, 1_000)], ClockPair::default()).expect("one");
    let _ = set.take(at(0), Cost::ONE);
    let receipts = set.take(at(1), Cost::ONE).allowed().expect("fits");
    assert_eq!(receipts.send_at(), at(1));
}

// One meter has seen a later time than the others when the clock steps back: later receipts can
// still be refunded to all of them.
#[test]
fn a_receipt_set_from_after_a_clock_step_is_refunded_everywhere() {
    let limits = [sliding(5, 1_000), sliding(5, 1_000)];
    let mut set = MeterSet::new(&limits, ClockPair::default()).expect("two");
    set.charge(at(100), 0, 1);
    let receipts = set.take(at(50), Cost::new(2)).allowed().expect("fits");
    assert_eq!(receipts.at(), at(100));
    set.refund(at(60), receipts);
    let used: Vec<u128> = set.statuses(at(60)).map(|(_, s)| s.used).collect();
    assert_eq!(used, [1, 0]);
}

// Three calls weighing 8 of 10 a minute, a fourth refused: the usage that an operator sees.
#[test]
fn usage_reports_each_limit() {
    let mut set = MeterSet::new(&[sliding(10, 60_000_000_000)], ClockPair::default()).expect("one");
    for (second, cost) in [(10, 2), (20, 5), (30, 1), (40, 9)] {
        let _ = set.take(Nanos::from_secs(second), Cost::new(cost));
    }
    let usage = set.usage(Nanos::from_secs(65), 4).next().expect("one limit");
    assert_eq!((usage.count, usage.weight, usage.limit, usage.peak), (3, 8, 10, 8));
    assert_eq!(usage.oldest, Some(Nanos::from_secs(10)));
    assert_eq!(usage.newest, Some(Nanos::from_secs(30)));
    assert_eq!(
        (usage.window_start, usage.window_end),
        (Nanos::from_secs(5), Nanos::from_secs(65))
    );
    assert_eq!((usage.waiting, usage.admitted, usage.refused), (4, 3, 1));
    assert_eq!(usage.predicted_delay, Some(Duration::ZERO));
    assert!(usage.memory_bytes >= 3 * 8);

    let later = set.usage(Nanos::from_secs(85), 0).next().expect("one limit");
    assert_eq!((later.count, later.weight, later.peak, later.expired), (1, 1, 8, 2));
    set.charge(Nanos::from_secs(85), 0, 9);
    let full = set.usage(Nanos::from_secs(85), 0).next().expect("one limit");
    assert_eq!(
        full.predicted_delay,
        Some(Duration::from_secs(5)),
        "the entry of 30 s goes at 90 s"
    );
}

// Ten a second, spread out: a later send counts from its time, so that no window of sendings has
// more than ten.
#[test]
fn a_paced_request_counts_from_its_send_time() {
    let limit = sliding(10, 1_000_000_000).paced(Pacing::SOFT);
    let mut set = MeterSet::new(&[limit], ClockPair::default()).expect("one");
    let mut times: Vec<u64> = Vec::new();
    for ms in (0..4_000).step_by(3) {
        if let Decision::Allow(receipts) = set.take(Nanos::from_millis(ms), Cost::ONE) {
            times.push(receipts.send_at().as_nanos());
        }
    }
    let most = times.iter().map(|t| {
        times
            .iter()
            .filter(|other| **other >= *t && **other - t < 1_000_000_000)
            .count()
    });
    // Nine pauses between ten starts fill the window, so that the tenth starts at its end.
    let most = most.max().expect("some");
    assert!((9..=10).contains(&most), "{most}");
    assert!(times.len() > 30, "{}", times.len());
}

// The second limit is paced, so its requests are sent beyond the edge of the first: they count on
// both sides of it, and refunding one takes nothing from the others.
#[test]
fn a_send_beyond_an_edge_counts_on_both_sides() {
    let narrow = Limit::fixed(rate(3, 100)).counted(Accounting::Send);
    let spread = sliding(10, 10_000).paced(Pacing::Soft {
        max_delay: Duration::from_nanos(150),
    });
    let mut set = MeterSet::new(&[narrow, spread], ClockPair::default()).expect("two");
    let used = |set: &mut MeterSet, now| set.statuses(at(now)).next().map(|(_, s)| s.used);
    assert!(
        set.take(at(0), Cost::ONE).is_allow(),
        "an untouched limit asks for no pause"
    );
    let late = set.take(at(10), Cost::ONE).allowed().expect("fits");
    assert_eq!((late.send_at(), used(&mut set, 10)), (at(160), Some(2)));
    set.refund(at(20), late);
    assert_eq!(used(&mut set, 20), Some(2), "it stays, and so does the first");
    assert_eq!(used(&mut set, 120), Some(1), "the first is over, the other to be sent");
    assert_eq!(used(&mut set, 170), Some(1), "sent");
    assert_eq!(used(&mut set, 260), Some(0));
}

// A refusal of one unit is stored for the next reader, and ends at the promised instant; refunding
// units that one limit still counts opens it again.
#[test]
fn a_shared_set_opens_at_its_promise_or_a_refund() {
    let limiter = SharedLimiter::with_rates(&[rate(2, 10), rate(3, 100)]).expect("small");
    let first = limiter.take(at(0), Cost::new(2)).allowed().expect("untouched");
    assert_eq!(limiter.take(at(1), Cost::ONE), Decision::WaitUntil(at(10)));
    assert!(limiter.take(at(10), Cost::ONE).is_allow());
    for now in [20, 50, 99] {
        assert_eq!(
            limiter.take(at(now), Cost::ONE),
            Decision::WaitUntil(at(100)),
            "at {now}"
        );
    }
    assert!(limiter.refund(at(50), first), "the second limit still counts it");
    assert_eq!(limiter.remaining(at(50)), 2);
    let last = limiter.take(at(60), Cost::ONE).allowed().expect("given back");
    assert!(!limiter.refund(at(500), last), "none of them counts it any more");
}

// Four of ten are used when the limit becomes four: nothing remains, and that is reported.
#[test]
fn a_limit_that_shrinks_below_its_threshold_is_reported() {
    let limit = |quantity| sliding(quantity, 1_000).warning_below(Share::percent(50));
    let mut set = MeterSet::new(&[limit(10)], ClockPair::default()).expect("one");
    assert!(set.take(at(0), Cost::new(4)).is_allow());
    assert_eq!(set.poll_event(), None);
    set.reconfigure(
        ClockPair {
            now: at(1),
            ..ClockPair::default()
        },
        &[limit(4)],
    )
    .expect("one");
    assert_eq!(
        set.poll_event(),
        Some(MeterEvent::Low {
            limit: 0,
            window: Duration::from_micros(1),
            remaining: 0,
            capacity: 4
        })
    );
}

// In flight they count as well, each as one request.
#[test]
fn usage_includes_requests_in_flight() {
    let limits = [
        Limit::sliding(rate(10, 1_000)),
        Limit::bucket(rate(10, 1_000), 10).expect("positive"),
    ];
    let mut set = MeterSet::new(&limits, ClockPair::default()).expect("two");
    for _ in 0..3 {
        let _ = set.take(at(5), Cost::new(2));
    }
    for usage in set.usage(at(6), 0) {
        assert_eq!((usage.count, usage.weight), (3, 6));
    }
}

// A limit added at run time starts unused; the others keep their usage, and earlier receipts can
// still be refunded.
#[test]
fn a_live_change_keeps_usage_and_open_receipts() {
    let mut set = MeterSet::new(&[sliding(5, 1_000)], ClockPair::default()).expect("one");
    let receipts = set.take(at(10), Cost::new(4)).allowed().expect("fits");
    let moment = ClockPair {
        now: at(20),
        ..ClockPair::default()
    };
    set.reconfigure(moment, &[sliding(6, 2_000), sliding(2, 1_000)])
        .expect("two");
    assert_eq!(set.check(at(20), Cost::new(2)), Decision::Allow(()));
    assert_eq!(set.check(at(20), Cost::new(3)), Decision::Never);
    set.refund(at(30), receipts);
    let used: Vec<u128> = set.statuses(at(30)).map(|(_, s)| s.used).collect();
    assert_eq!(used, [0, 0]);
}
