//! Windows of minutes: a full one stays full, and a hidden shorter limit must not drive it down.

use outflow_core::{AdaptiveLimit, Evidence, LimitChange, Nanos, PassedUnits, Rate};

use super::{clean_at, guard, passed, throttled};

fn per_minute(quantity: u64) -> Rate {
    Rate::new(quantity, core::time::Duration::from_mins(1)).expect("valid")
}

fn throttle(learned: &mut AdaptiveLimit, secs: u64, admitted: u64) -> (LimitChange, u64) {
    let change = learned.evidence(Nanos::from_secs(secs), throttled(secs * 1_000, admitted));
    (change, learned.effective().quantity())
}

// Five to ten per cent at first, by the count.
#[test]
fn a_throttle_of_a_long_window_takes_a_twentieth_to_a_tenth() {
    for (admitted, left) in [(1, 450), (460, 460), (499, 475)] {
        let mut learned = guard(per_minute(500));
        assert_eq!(throttle(&mut learned, 100, admitted), (LimitChange::Shrunk, left));
    }
}

// Eight more are throttled and none passes: the window is full at its count of 300.
#[test]
fn a_window_that_stays_full_lowers_the_limit_to_its_count() {
    let mut learned = guard(per_minute(500));
    assert_eq!(throttle(&mut learned, 100, 300), (LimitChange::Shrunk, 450));
    for _ in 0..7 {
        assert_eq!(throttle(&mut learned, 101, 300), (LimitChange::Unmoved, 450));
    }
    assert_eq!(throttle(&mut learned, 101, 300), (LimitChange::FullWindow, 300));
    let bound = learned.snapshot(Nanos::from_secs(101)).upper_bound;
    assert_eq!(bound, Some(301_000_000), "so many passed, and one more did not");
}

// Three over two seconds say the same as eight at once; two, or three in less, do not.
#[test]
fn few_throttles_show_a_full_window_if_they_last() {
    for (times, change) in [
        ([101, 101, 102], LimitChange::FullWindow),
        ([101, 101, 101], LimitChange::Unmoved),
    ] {
        let mut learned = guard(per_minute(500));
        throttle(&mut learned, 100, 300);
        let last = times.map(|secs| throttle(&mut learned, secs, 300).0);
        assert_eq!(last[2], change, "{times:?}");
    }
}

// 300 passed before a storm of 429s. A full window of 300 would let calls pass once 60 have left it; the
// storm throttles on, so it is an outage, and the limit is as before. At 240 of 300 that is not yet sure.
#[test]
fn throttles_after_units_left_the_window_restore_the_limit() {
    let mut learned = guard(per_minute(500));
    throttle(&mut learned, 100, 300);
    for _ in 0..8 {
        throttle(&mut learned, 101, 300);
    }
    assert_eq!(throttle(&mut learned, 110, 240), (LimitChange::Unmoved, 300));
    assert_eq!(throttle(&mut learned, 112, 239), (LimitChange::Raised, 500));
    assert_eq!(learned.drift(Nanos::from_secs(112)), None);
    assert_eq!(
        throttle(&mut learned, 113, 230),
        (LimitChange::Unmoved, 500),
        "one step per storm"
    );
}

// A ninth of the limit is in use when a storm of 429s begins: it looks like a full window, and half is left.
// After it more pass than before while none has left the window, so that it was not full.
#[test]
fn successes_beyond_a_full_window_restore_the_limit() {
    for (passed, left) in [(56, 250), (57, 500)] {
        let mut learned = guard(per_minute(500));
        let throttled = Evidence::Throttled {
            sent: Nanos::from_secs(10),
            admitted: 56,
            used: 57,
        };
        for _ in 0..9 {
            learned.evidence(Nanos::from_secs(10), throttled);
        }
        assert_eq!(learned.effective(), per_minute(250));
        clean_at(&mut learned, 30, passed);
        assert_eq!(learned.effective(), per_minute(left), "{passed} passed");
    }
}

#[test]
fn a_success_after_the_shrink_shows_that_the_window_is_not_full() {
    let mut learned = guard(per_minute(500));
    throttle(&mut learned, 100, 300);
    for secs in 101..110 {
        learned.clean(Nanos::from_secs(secs), passed(secs * 1_000, 300));
        assert_eq!(throttle(&mut learned, secs, 300), (LimitChange::Unmoved, 450));
    }
}

// The rest of the throttled burst shows it too, and a success that was sent before it does not count.
#[test]
fn the_rest_of_a_burst_may_show_a_full_window() {
    let mut learned = guard(per_minute(500));
    throttle(&mut learned, 100, 300);
    learned.clean(Nanos::from_secs(100), passed(99_000, 301));
    let rest = (0..8).map(|_| learned.evidence(Nanos::from_secs(101), throttled(99_500, 300)));
    let rest: Vec<_> = rest.collect();
    assert_eq!(rest[..7], [LimitChange::SameBurst; 7]);
    assert_eq!(rest[7], LimitChange::FullWindow);
}

// A burst of which five passed, cut by a hidden limit per second, takes half, and once in a window.
#[test]
fn a_full_window_takes_half_at_most_and_once_in_a_window() {
    let mut learned = guard(per_minute(500));
    throttle(&mut learned, 100, 5);
    let storm = (0..1_000).map(|tenth| {
        let now = Nanos::from_millis(101_000 + tenth * 50);
        learned.evidence(now, throttled(101_000 + tenth * 50, 5));
        learned.effective().quantity()
    });
    assert_eq!(storm.min(), Some(225));
    clean_at(&mut learned, 152, 5);
    assert_eq!(throttle(&mut learned, 153, 5).1, 225, "not twice in a window");
}

// A second lowering within the window says nothing new about it.
#[test]
fn a_long_window_is_lowered_once_in_a_window() {
    let mut learned = guard(per_minute(500));
    assert_eq!(throttle(&mut learned, 100, 499), (LimitChange::Shrunk, 475));
    for secs in [110, 130, 159] {
        clean_at(&mut learned, secs - 1, 475);
        assert_eq!(throttle(&mut learned, secs, 475), (LimitChange::Unmoved, 475));
    }
    clean_at(&mut learned, 160, 200);
    assert_eq!(throttle(&mut learned, 161, 475), (LimitChange::Shrunk, 451));
}

// A throttle while little of the limit is used is not about the limit, however much passed.
#[test]
fn a_long_window_that_was_not_in_use_is_not_lowered() {
    let mut learned = guard(per_minute(500));
    let evidence = Evidence::Throttled {
        sent: Nanos::from_secs(100),
        admitted: 100,
        used: 249,
    };
    assert_eq!(learned.evidence(Nanos::from_secs(100), evidence), LimitChange::Unmoved);
    assert_eq!(learned.effective(), per_minute(500));
}

// Half again in each clean window, then two windows of rest and careful steps of six per cent.
#[test]
fn a_long_window_grows_by_half() {
    let mut learned = guard(per_minute(600));
    throttle(&mut learned, 100, 1);
    for _ in 0..8 {
        throttle(&mut learned, 101, 1);
    }
    assert_eq!(learned.effective(), per_minute(270));
    let levels = (1..=4).map(|window| {
        let now = Nanos::from_secs(101 + window * 60);
        let full = PassedUnits {
            sent: now,
            surely: 0,
            possibly: 600,
        };
        learned.clean(now, full);
        learned.effective().quantity()
    });
    assert_eq!(levels.collect::<Vec<_>>(), [405, 513, 543, 576]);
}
