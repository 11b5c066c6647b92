//! Growth after clean windows, and the rest below the last throttle.

use std::time::Duration;

use outflow_core::{AdaptiveLimit, AdaptiveMode, AdaptiveSnapshot, Evidence, LimitChange, Nanos, PassedUnits, Rate};

use super::{clean_at, guard, per_second, throttled};

/// Counts of a burst that has ended: no unit is surely in the window.
fn blurred(sent: Nanos, possibly: u64) -> PassedUnits {
    PassedUnits {
        sent,
        surely: 0,
        possibly,
    }
}

// 50, 62.5, 78.1 and 97.6 of 100: half of a rate returns in four windows, but for the last step,
// which waits below the throttled rate.
#[test]
fn a_clean_window_adds_a_quarter() {
    let mut learned = guard(per_second(100));
    learned.evidence(Nanos::from_secs(1), throttled(900, 1));
    let grown = (2..6).map(|secs| {
        learned.clean(Nanos::from_secs(secs), blurred(Nanos::from_secs(secs), 100));
        learned.snapshot(Nanos::from_secs(secs)).level
    });
    let grown: Vec<_> = grown.collect();
    assert_eq!(grown, [62_500_000, 78_125_000, 95_000_000, 95_000_000]);
}

#[test]
fn one_per_cent_grows_to_the_full_rate_in_twenty_one_windows() {
    let stored = AdaptiveSnapshot {
        level: 10_000_000,
        drifting_for: Some(Duration::from_secs(1)),
        ..guard(per_second(1_000)).snapshot(Nanos::ZERO)
    };
    let mut learned = AdaptiveLimit::restore(AdaptiveMode::Guard, per_second(1_000), &stored, Nanos::ZERO);
    let mut windows = 0;
    while learned.drift(Nanos::from_secs(windows)).is_some() {
        windows += 1;
        clean_at(&mut learned, windows, u64::MAX);
    }
    assert_eq!((windows, learned.effective()), (21, per_second(1_000)));
}

// Without the advertised limit, a search without an upper bound would double from there.
#[test]
fn growth_is_careful_at_an_expired_advertised_limit() {
    let mut learned = AdaptiveLimit::new(AdaptiveMode::Learn, per_second(100), Nanos::ZERO);
    learned.evidence(Nanos::ZERO, Evidence::Limit(per_second(80)));
    clean_at(&mut learned, 600, 1_000);
    assert_eq!(learned.snapshot(Nanos::from_secs(600)).level, 82_400_000);
}

#[test]
fn an_unused_rate_does_not_grow() {
    let mut learned = guard(per_second(100));
    learned.evidence(Nanos::from_secs(1), throttled(900, 100));
    for secs in 2..100 {
        clean_at(&mut learned, secs, 47);
    }
    assert_eq!(learned.effective(), per_second(95), "47 a window never tried 95");
    clean_at(&mut learned, 100, 48);
    assert_eq!(learned.effective(), per_second(96));
}

// Bursts a window apart: when the first of one is answered, the one before no longer counts.
#[test]
fn growth_starts_when_half_of_a_burst_has_passed() {
    let mut learned = guard(per_second(100));
    learned.evidence(Nanos::from_secs(1), throttled(900, 100));
    assert_eq!(learned.effective(), per_second(95));
    for admitted in 1..=47 {
        clean_at(&mut learned, 30, admitted);
    }
    assert_eq!(learned.effective(), per_second(95));
    clean_at(&mut learned, 30, 50);
    assert_eq!(learned.effective(), per_second(97));
}

// Calls go in bursts a window apart, so the count of the whole window decides, not the sure part.
#[test]
fn growth_uses_the_upper_count() {
    let mut learned = guard(per_second(100));
    learned.evidence(Nanos::from_secs(1), throttled(900, 1));
    learned.clean(Nanos::from_secs(2), blurred(Nanos::from_secs(2), 30));
    assert_eq!(learned.effective(), per_second(60), "twice what passed");
}

// A server that throttles after five: five are chance, and growth continues.
#[test]
fn a_small_count_sets_no_upper_bound() {
    let mut learned = guard(per_second(10));
    learned.evidence(Nanos::from_secs(1), throttled(1_000, 5));
    assert_eq!(learned.effective(), per_second(5));
    clean_at(&mut learned, 2, 5);
    assert_eq!(learned.snapshot(Nanos::ZERO).level, 6_250_000);
}

// Both steps were counted; a bound at the throttled rate would lead to the next throttle at once.
#[test]
fn the_upper_bound_is_one_call_above_the_count() {
    for (counts, bound) in [([79, 78], 79), ([90, 85], 86), ([97, 90], 91)] {
        let mut learned = guard(per_second(100));
        learned.evidence(Nanos::from_secs(1), throttled(1_000, counts[0]));
        let first = learned.snapshot(Nanos::from_secs(1)).upper_bound;
        assert_eq!(first, Some(u128::from(counts[0] + 1) * 1_000_000));
        clean_at(&mut learned, 2, counts[0]);
        learned.evidence(Nanos::from_secs(3), throttled(3_000, counts[1]));
        let second = learned.snapshot(Nanos::from_secs(3)).upper_bound;
        assert_eq!(second, Some(bound * 1_000_000), "{counts:?}");
    }
}

// Just below 51/s for twenty windows, and from 200 s on for a tenth of the time since the first
// throttle there, up to ten minutes. Then one or two careful steps meet the server.
#[test]
fn growth_rests_at_the_throttled_rate_for_a_share_of_its_age() {
    let mut learned = guard(per_second(200));
    let (found, mut now) = (1, 1);
    learned.evidence(Nanos::from_secs(now), throttled(now * 1_000, 50));
    while now < 20_000 {
        let refused = now;
        while learned.effective().quantity() < 51 {
            now += 1;
            clean_at(&mut learned, now, 50);
        }
        let rest = ((refused - found) / 10).clamp(20, 600);
        assert!((rest..=rest + 3).contains(&(now - refused)), "{refused} to {now}");
        let change = learned.evidence(Nanos::from_secs(now), throttled(now * 1_000, 50));
        assert_eq!(change, LimitChange::Shrunk);
        assert!((48..=50).contains(&learned.effective().quantity()), "a whole call less");
    }
}

// Tested again at 51 in the middle of a burst of which six have passed: that is no news. A twentieth
// of 51.5 leaves 48.
#[test]
fn an_expected_throttle_takes_a_twentieth() {
    for admitted in [1, 6, 50, 1_000] {
        let mut learned = guard(per_second(200));
        learned.evidence(Nanos::from_secs(1), throttled(1_000, 50));
        clean_at(&mut learned, 21, 50);
        assert_eq!(learned.effective(), per_second(51));
        learned.evidence(Nanos::from_secs(22), throttled(22_000, admitted));
        assert_eq!(learned.effective(), per_second(48), "{admitted} passed");
    }
}

// A twentieth of 5.25 would leave the same four whole calls and a half: a whole call goes.
#[test]
fn an_expected_throttle_takes_a_whole_call() {
    let mut learned = guard(per_second(10));
    learned.evidence(Nanos::from_secs(1), throttled(1_000, 5));
    let mut now = 1;
    while learned.effective().quantity() < 6 {
        now += 1;
        clean_at(&mut learned, now, 5);
    }
    learned.evidence(Nanos::from_secs(now), throttled(now * 1_000, 5));
    let bound = learned.snapshot(Nanos::from_secs(now)).upper_bound.expect("throttled");
    assert_eq!((learned.effective(), bound / 1_000_000), (per_second(5), 6));
    for secs in now + 1..now + 20 {
        clean_at(&mut learned, secs, 5);
        assert_eq!(
            learned.effective(),
            per_second(5),
            "whole calls below the throttled six"
        );
    }
}

// Found at 50/s, and while that rate is not tested, only 20 pass: the server has changed.
#[test]
fn an_unexpected_throttle_uses_the_count() {
    let mut learned = guard(per_second(200));
    learned.evidence(Nanos::from_secs(1), throttled(1_000, 50));
    clean_at(&mut learned, 5, 50);
    learned.evidence(Nanos::from_secs(10), throttled(10_000, 20));
    assert_eq!(learned.effective(), per_second(20));
}

// Throttled at 50, and much later at 100: that is another rate.
#[test]
fn a_throttle_at_another_rate_starts_a_short_rest() {
    let mut learned = guard(per_second(200));
    let mut now = 1;
    learned.evidence(Nanos::from_secs(now), throttled(1_000, 50));
    while learned.effective().quantity() < 100 {
        now += 1;
        clean_at(&mut learned, now, 200);
    }
    learned.evidence(Nanos::from_secs(now), throttled(now * 1_000, 60));
    assert_eq!(learned.effective(), per_second(60));
    clean_at(&mut learned, now + 19, 60);
    assert_eq!(learned.snapshot(Nanos::ZERO).level, 60_000_000);
    clean_at(&mut learned, now + 20, 60);
    assert_eq!(learned.snapshot(Nanos::ZERO).level, 61_800_000);
}

// From 95 it rests until the twentieth window, and then 97.8, 100.8 and 103.8 are careful steps. In
// steps of a quarter the second window would be throttled again.
#[test]
fn growth_is_careful_near_the_last_throttle() {
    let mut learned = AdaptiveLimit::new(AdaptiveMode::Learn, per_second(100), Nanos::ZERO);
    learned.evidence(Nanos::from_secs(1), throttled(900, 100));
    assert_eq!(learned.effective(), per_second(95));
    let mut windows = 0;
    while learned.effective().quantity() < 103 {
        windows += 1;
        clean_at(&mut learned, 1 + windows, 1_000);
    }
    assert_eq!(windows, 19 + 3);
}

// Past the throttled rate and not near it, the bound says nothing more.
#[test]
fn a_passed_upper_bound_is_forgotten() {
    let mut learned = guard(per_second(200));
    learned.evidence(Nanos::from_secs(1), throttled(1_000, 50));
    let mut levels = Vec::new();
    for secs in 21..25 {
        clean_at(&mut learned, secs, 200);
        levels.push(learned.effective().quantity());
    }
    assert_eq!(levels, [51, 53, 66, 82]);
    assert_eq!(learned.snapshot(Nanos::from_secs(25)).upper_bound, None);
}

// Ten windows of 100 ms make one step, because they fit into one round trip to a distant server.
#[test]
fn short_windows_grow_once_a_second() {
    let configured: Rate = "1000/100ms".parse().expect("valid");
    let mut learned = guard(configured);
    learned.evidence(Nanos::ZERO, throttled(0, 7));
    for tenth in 1..10 {
        let now = Nanos::from_millis(tenth * 100);
        learned.clean(now, blurred(now, 950));
    }
    assert_eq!(learned.effective().quantity(), 500);
    learned.clean(Nanos::from_secs(1), blurred(Nanos::from_secs(1), 950));
    assert_eq!(learned.effective().quantity(), 625);
}

// The clock steps back eight seconds around a throttle: half a second later no window has passed.
#[test]
fn a_backward_clock_does_not_make_a_window_pass() {
    let mut learned = guard(per_second(100));
    clean_at(&mut learned, 10, 100);
    learned.evidence(Nanos::from_secs(2), throttled(9_900, 7));
    learned.clean(Nanos::from_millis(10_500), blurred(Nanos::from_millis(10_400), 95));
    assert_eq!(learned.effective(), per_second(50));
    learned.clean(Nanos::from_secs(11), blurred(Nanos::from_millis(10_400), 95));
    assert_eq!(learned.effective(), per_second(62));
}
