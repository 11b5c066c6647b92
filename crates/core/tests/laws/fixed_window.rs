//! The fixed window against an oracle that replays its whole history.

#![expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "a test picks from a short list"
)]

use std::time::Duration;

use outflow_core::{Accounting, ClockPair, Cost, Decision, Limit, Meter, Nanos, Receipt, WallTime};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::support::fixed::FixedOracle;
use crate::support::{Step, at, extreme, rate, sliding, steps};

fn fixed(quantity: u64, window: u64) -> Limit {
    Limit::fixed(rate(quantity, window)).counted(Accounting::Send)
}

fn agrees(mut meter: Meter, mut oracle: FixedOracle, history: &[Step]) -> Result<(), TestCaseError> {
    let mut now = 50_u64;
    let mut held: Vec<(usize, Receipt)> = Vec::new();
    for step in history {
        match *step {
            Step::Take { after, cost } => {
                now += after;
                let expected = oracle.decide(now, cost);
                let decision = meter.take(at(now), Cost::new(cost));
                prop_assert_eq!(decision.is_allow(), expected.is_allow(), "at {}", now);
                match decision {
                    Decision::Allow(receipt) => held.push((oracle.take(cost), receipt)),
                    refusal => prop_assert_eq!(refusal.map(drop), expected, "at {}", now),
                }
            }
            Step::Refund { after, nth } if nth < held.len() => {
                now += after;
                let (index, receipt) = held.remove(held.len() - 1 - nth);
                oracle.refund(index);
                meter.refund(at(now), receipt);
            }
            Step::Back { by } => now = now.saturating_sub(by),
            Step::Refund { .. } | Step::Reconfigure { .. } => {}
        }
        oracle.latest = oracle.latest.max(now);
        let left = oracle.quantity - oracle.used(oracle.latest);
        prop_assert_eq!(meter.status(at(now)).remaining(), left, "remaining at {}", now);
    }
    Ok(())
}

outflow_testkit::laws! {
    #[test]
    fn a_window_from_first_use_agrees_with_its_whole_history
        / fn stress_a_window_from_first_use_agrees_with_its_whole_history
        ((1..8_u64, 1..25_u64, steps(false))) = |(quantity, window, history)| {
            let meter = Meter::new(&fixed(quantity, window), ClockPair::default());
            agrees(meter, FixedOracle::new(quantity, window, None), &history)
        };

    // Windows that divide a day, placed anywhere by the civil time at which the meter was made.
    #[test]
    fn an_aligned_window_agrees_with_its_whole_history
        / fn stress_an_aligned_window_agrees_with_its_whole_history
        ((1..8_u64, prop::sample::select(vec![1_u64, 2, 4, 5, 8, 10, 20]), 0..1_000_u64, 0..60_u64, steps(false)))
        = |(quantity, window, wall, made, history)| {
            let limit = Limit::aligned(rate(quantity, window)).expect("divides a day");
            let wall = WallTime::since_epoch(Duration::from_nanos(wall));
            let moment = ClockPair { now: at(made), wall };
            let meter = Meter::new(&limit.counted(Accounting::Send), moment);
            let into = u64::try_from(wall.as_duration().as_nanos()).expect("small") % window;
            let phase = (made + window - into) % window;
            agrees(meter, FixedOracle::new(quantity, window, Some(phase)), &history)
        };

    #[test]
    fn refused_before_and_allowed_at_the_promised_instant
        / fn stress_refused_before_and_allowed_at_the_promised_instant
        ((1..6_u64, 1..25_u64, steps(false), 1..6_u64)) = |(quantity, window, history, cost)| {
            let mut meter = Meter::new(&fixed(quantity, window), ClockPair::default());
            let mut now = 0;
            for step in history {
                if let Step::Take { after, cost } = step {
                    now += after;
                    let _ = meter.take(at(now), Cost::new(cost));
                }
            }
            if let Decision::WaitUntil(promised) = meter.check(at(now), Cost::new(cost)) {
                for instant in now..promised.as_nanos() {
                    prop_assert!(!meter.clone().check(at(instant), Cost::new(cost)).is_allow());
                }
                prop_assert!(meter.check(promised, Cost::new(cost)).is_allow());
            }
            Ok(())
        };

    // After any change of a window (longer, shorter, aligned or not), its usage still counts, until
    // an edge that lies ahead.
    #[test]
    fn a_live_change_loses_no_usage / fn stress_a_live_change_loses_no_usage
        ((steps(true), any::<u8>())) = |(history, aligned)| {
            let limit = |quantity, window, nth: u32| {
                let even = Limit::aligned(rate(quantity, [1, 2, 5, 10, 20][window as usize % 5]));
                let limit = if aligned >> (nth % 8) & 1 == 1 { even.expect("even") } else { fixed(quantity, window) };
                limit.counted(Accounting::Send)
            };
            let mut meter = Meter::new(&limit(5, 20, 0), ClockPair::default());
            let (mut now, mut nth) = (50_u64, 0);
            for step in history {
                match step {
                    Step::Take { after, cost } => {
                        now += after;
                        let _ = meter.take(at(now), Cost::new(cost));
                    }
                    Step::Reconfigure { after, quantity, window } => {
                        (now, nth) = (now + after, nth + 1);
                        let used = meter.status(at(now)).used;
                        let wall = WallTime::since_epoch(Duration::from_nanos(now));
                        meter.reconfigure(ClockPair { now: at(now), wall }, &limit(quantity, window, nth));
                        let status = meter.status(at(now));
                        prop_assert_eq!(status.used, used, "at {}", now);
                        prop_assert!(status.window_end > at(now));
                    }
                    Step::Refund { .. } | Step::Back { .. } => {}
                }
            }
            Ok(())
        };

    // Never more than the quantity between two resets, at any size of number.
    #[test]
    fn any_64_bit_number_is_safe / fn stress_any_64_bit_number_is_safe
        ((extreme(), extreme(), extreme(), prop::collection::vec((extreme(), extreme()), 1..20)))
        = |(quantity, window, wall, asks)| {
            let moment = ClockPair { now: at(wall), wall: WallTime::from_unix_secs(wall) };
            let limits = [
                Some(fixed(quantity.max(1), window.max(1))),
                Limit::aligned(rate(quantity.max(1), window.max(1))).ok(),
            ];
            for limit in limits.into_iter().flatten() {
                let mut meter = Meter::new(&limit.counted(Accounting::Send), moment);
                for &(now, cost) in &asks {
                    match meter.take(at(now), Cost::new(cost)) {
                        Decision::Allow(_) => prop_assert!(cost <= limit.capacity()),
                        Decision::WaitUntil(until) => prop_assert!(until > at(now)),
                        Decision::Never => {}
                    }
                    let status = meter.status(at(now));
                    prop_assert!(status.used <= u128::from(status.capacity));
                }
            }
            Ok(())
        };
}

// 20 calls in a tenth of a second at 10 per minute: the edge of two windows, as the rule allows.
#[test]
fn all_capacity_returns_at_once_when_the_window_ends() {
    let mut meter = Meter::new(&fixed(10, 60_000_000_000), ClockPair::default());
    assert!(meter.take(Nanos::ZERO, Cost::ONE).is_allow());
    assert!(meter.take(Nanos::from_millis(59_950), Cost::new(9)).is_allow());
    let refused = meter.take(Nanos::from_millis(59_999), Cost::ONE);
    assert_eq!(refused, Decision::WaitUntil(Nanos::from_secs(60)));
    assert!(meter.take(Nanos::from_secs(60), Cost::new(10)).is_allow());
}

// 12:00:30 on the civil clock: a minute's window ends 30 s later, at any monotonic time.
#[test]
fn an_aligned_window_ends_on_the_full_minute() {
    let limit = Limit::aligned("10/min".parse().expect("valid")).expect("even");
    let noon = 1_700_049_600 + 30;
    let moment = ClockPair {
        now: Nanos::from_secs(7),
        wall: WallTime::from_unix_secs(noon),
    };
    let mut meter = Meter::new(&limit.counted(Accounting::Send), moment);
    assert!(meter.take(moment.now, Cost::new(10)).is_allow());
    assert_eq!(
        meter.check(moment.now, Cost::ONE),
        Decision::WaitUntil(Nanos::from_secs(37))
    );
}

// The civil clock is set back by 10 s: the edge comes later, and nothing returns before it.
#[test]
fn setting_the_civil_clock_moves_the_edge_and_adds_no_quota() {
    let limit = Limit::aligned("10/min".parse().expect("valid")).expect("even");
    let start = ClockPair {
        now: Nanos::from_secs(100),
        wall: WallTime::from_unix_secs(6_030),
    };
    let mut meter = Meter::new(&limit.counted(Accounting::Send), start);
    assert!(meter.take(start.now, Cost::new(10)).is_allow());
    meter.realign(ClockPair {
        now: Nanos::from_secs(101),
        wall: WallTime::from_unix_secs(6_021),
    });
    let refused = meter.check(Nanos::from_secs(101), Cost::ONE);
    assert_eq!(refused, Decision::WaitUntil(Nanos::from_secs(140)));
    meter.realign(ClockPair {
        now: Nanos::from_secs(102),
        wall: WallTime::from_unix_secs(6_059),
    });
    assert_eq!(meter.status(Nanos::from_secs(102)).remaining(), 0);
    assert!(meter.check(Nanos::from_secs(103), Cost::new(10)).is_allow());
}

#[test]
fn a_refund_from_an_earlier_window_changes_nothing() {
    let mut meter = Meter::new(&fixed(10, 100), ClockPair::default());
    let old = meter.take(at(0), Cost::new(10)).allowed().expect("untouched");
    assert!(meter.take(at(100), Cost::new(4)).is_allow());
    assert!(!meter.refund(at(101), old), "its window is over");
    assert_eq!(meter.status(at(101)).remaining(), 6);
}

// A fixed window stores no entries: a refund by time returns at most its usage.
#[test]
fn a_refund_by_time_never_exceeds_the_limit() {
    let mut meter = Meter::new(&fixed(10, 100), ClockPair::default());
    assert!(meter.take(at(0), Cost::new(4)).is_allow());
    assert!(meter.refund_at(at(1), at(0), Cost::new(9)));
    assert_eq!(meter.status(at(1)).remaining(), 10);
    assert!(!meter.refund_at(at(1), at(0), Cost::ONE));
}

// Three requests of which one is refunded by time and one by receipt: one request and its cost are
// left in every number that people see.
#[test]
fn a_refund_in_a_fixed_window_corrects_the_count() {
    let mut meter = Meter::new(&fixed(10, 100), ClockPair::default());
    let first = meter.take(at(0), Cost::new(2)).allowed().expect("untouched");
    assert!(meter.take(at(5), Cost::new(3)).is_allow());
    assert!(meter.take(at(9), Cost::new(4)).is_allow());
    assert!(meter.refund_at(at(20), at(5), Cost::new(3)));
    assert!(meter.refund(at(20), first));
    let status = meter.status(at(20));
    assert_eq!((status.used, status.requests, status.remaining()), (4, 1, 6));
}

// The window from 0 ends at 100. A refund of its usage is false from then on, before and after the
// next window has usage of its own, which stays.
#[test]
fn a_refund_by_time_after_a_reset_changes_nothing() {
    let mut meter = Meter::new(&fixed(10, 100), ClockPair::default());
    assert!(meter.take(at(3), Cost::new(4)).is_allow());
    assert!(!meter.refund_at(at(103), at(3), Cost::new(4)), "its window is over");
    assert!(meter.take(at(110), Cost::new(4)).is_allow());
    assert!(
        !meter.refund_at(at(111), at(3), Cost::new(4)),
        "the usage is that of a later call"
    );
    assert_eq!(meter.status(at(111)).remaining(), 6);
    assert!(meter.refund_at(at(111), at(110), Cost::new(4)));
    assert_eq!(meter.status(at(111)).remaining(), 10);
}

// Ten a minute, nine of them just now, becomes ten in 20 s: the nine are not dropped because the
// first was longer ago.
#[test]
fn a_shorter_window_restarts_with_its_usage() {
    let mut meter = Meter::new(&fixed(10, 60), ClockPair::default());
    assert!(meter.take(at(0), Cost::ONE).is_allow());
    assert!(meter.take(at(30), Cost::new(9)).is_allow());
    meter.reconfigure(
        ClockPair {
            now: at(30),
            ..ClockPair::default()
        },
        &fixed(10, 20),
    );
    assert_eq!(meter.check(at(30), Cost::ONE), Decision::WaitUntil(at(50)));
    assert_eq!(meter.status(at(30)).requests, 2);
}

// After leaving alignment, units used at 50 s are back a window after the change.
#[test]
fn leaving_alignment_starts_the_window_at_the_change() {
    let aligned = Limit::aligned(rate(10, 60)).expect("even").counted(Accounting::Send);
    let moment = |now| ClockPair {
        now: at(now),
        wall: WallTime::since_epoch(Duration::from_nanos(now)),
    };
    let mut meter = Meter::new(&aligned, moment(0));
    assert!(meter.take(at(50), Cost::new(10)).is_allow());
    meter.reconfigure(moment(50), &fixed(10, 60));
    assert_eq!(meter.check(at(50), Cost::ONE), Decision::WaitUntil(at(110)));
}

// The window began long after the origin: only its own age decides if a change ends it.
#[test]
fn a_window_starts_with_its_first_use() {
    let mut meter = Meter::new(&fixed(10, 60), ClockPair::default());
    assert!(meter.take(at(1_000), Cost::new(4)).is_allow());
    meter.reconfigure(
        ClockPair {
            now: at(1_030),
            ..ClockPair::default()
        },
        &fixed(10, 100),
    );
    assert_eq!(meter.check(at(1_030), Cost::new(7)), Decision::WaitUntil(at(1_100)));
}

// Only windows in which something was spent are counted when they end.
#[test]
fn used_windows_are_counted_when_they_end() {
    let mut meter = Meter::new(&fixed(10, 100), ClockPair::default());
    let nothing = meter.take(at(0), Cost::ONE).allowed().expect("untouched");
    assert!(meter.refund(at(1), nothing));
    assert_eq!(meter.status(at(150)).expired, 0);
    assert!(meter.take(at(200), Cost::ONE).is_allow());
    assert_eq!(meter.status(at(299)).expired, 0);
    assert_eq!(meter.status(at(300)).expired, 1);
}

// The civil clock was set between a take and its refund: the window is still the same.
#[test]
fn a_refund_survives_realignment() {
    let limit = Limit::aligned(rate(10, 100)).expect("even").counted(Accounting::Send);
    let mut meter = Meter::new(&limit, ClockPair::default());
    let taken = meter.take(at(10), Cost::new(4)).allowed().expect("untouched");
    let wall = WallTime::since_epoch(Duration::from_nanos(35));
    meter.realign(ClockPair { now: at(40), wall });
    assert!(meter.refund(at(41), taken));
    assert_eq!(meter.status(at(41)).remaining(), 10);
}

// Foreign usage of the window is gone at its end.
#[test]
fn foreign_usage_counts_until_the_window_ends() {
    let mut meter = Meter::new(&fixed(10, 100), ClockPair::default());
    meter.charge(at(5), 8);
    assert_eq!(meter.status(at(5)).remaining(), 2);
    assert_eq!(meter.check(at(5), Cost::new(3)), Decision::WaitUntil(at(105)));
}

// Sent while sendings were counted, in the window before: once arrivals count, its response is
// charged to its window. Where sendings still count, it is not.
#[test]
fn a_response_is_charged_to_its_window_once_arrivals_count() {
    let aligned = Limit::aligned(rate(10, 100)).expect("even");
    for (accounting, used) in [(Accounting::Safe, 1), (Accounting::Send, 0)] {
        let mut meter = Meter::new(&aligned.counted(Accounting::Send), ClockPair::default());
        let sent = meter.take(at(90), Cost::ONE).allowed().expect("untouched");
        let moment = ClockPair {
            now: at(95),
            wall: WallTime::since_epoch(Duration::from_nanos(95)),
        };
        meter.reconfigure(moment, &aligned.counted(accounting));
        meter.settle(at(110), sent, at(110));
        assert_eq!(meter.status(at(110)).used, used, "{accounting:?}");
    }
}

// A longer window keeps its beginning, a smaller quantity keeps the spent units.
#[test]
fn a_live_change_keeps_usage() {
    let mut meter = Meter::new(&fixed(10, 100), ClockPair::default());
    assert!(meter.take(at(20), Cost::new(6)).is_allow());
    let moment = ClockPair {
        now: at(50),
        ..ClockPair::default()
    };
    meter.reconfigure(moment, &fixed(8, 300));
    assert_eq!(meter.status(at(50)).remaining(), 2);
    assert_eq!(meter.check(at(50), Cost::new(3)), Decision::WaitUntil(at(320)));
    meter.reconfigure(moment, &sliding(8, 300));
    assert_eq!(
        meter.status(at(50)).remaining(),
        2,
        "another kind takes over what counts"
    );
    assert_eq!(meter.check(at(60), Cost::new(3)), Decision::WaitUntil(at(350)));
}
