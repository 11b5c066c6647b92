//! The effect of each kind of evidence.

use std::time::Duration;

use outflow_core::{AdaptiveLimit, AdaptiveMode, Evidence, LimitChange, Nanos, Rate};

use super::{per_second, throttled};

// Ten calls in flight are throttled together; the eleventh was sent after the shrink.
#[test]
fn one_burst_shrinks_the_limit_once() {
    let mut learned = AdaptiveLimit::new(AdaptiveMode::Guard, per_second(100), Nanos::ZERO);
    let at = |millis| Nanos::from_millis(millis);
    assert_eq!(learned.evidence(at(1_000), throttled(900, 70)), LimitChange::Shrunk);
    for millis in 1_001..1_010 {
        let late = throttled(millis - 50, 10);
        assert_eq!(learned.evidence(at(millis), late), LimitChange::SameBurst);
    }
    assert_eq!(learned.effective(), per_second(70));
    assert_eq!(learned.evidence(at(1_100), throttled(1_050, 69)), LimitChange::Shrunk);
    assert_eq!(learned.effective(), per_second(66), "a twentieth of 70");
}

#[test]
fn each_kind_of_evidence_has_its_own_effect() {
    let now = Nanos::from_secs(10);
    let until = Nanos::from_secs(3_610);
    let new = || AdaptiveLimit::new(AdaptiveMode::Guard, per_second(100), Nanos::ZERO);
    let mut quota = new();
    assert_eq!(quota.evidence(now, Evidence::QuotaUntil(until)), LimitChange::Unmoved);
    assert_eq!(quota.effective(), per_second(100), "the rate was right");
    let mut banned = new();
    let ban = Evidence::Ban { sent: now, until };
    assert_eq!(banned.evidence(now, ban), LimitChange::Shrunk);
    assert_eq!(banned.effective(), per_second(50), "we were far too fast");
    banned.clean(until.saturating_sub(Duration::from_nanos(1)), 1_000);
    assert_eq!(banned.effective(), per_second(50), "nothing is learned while banned");
    banned.clean(until, 1_000);
    assert_eq!(banned.effective(), per_second(51));
}

// The header comes with every response: a repeated value must not stop the growth.
#[test]
fn an_advertised_limit_holds_until_the_next() {
    let mut learned = AdaptiveLimit::new(AdaptiveMode::Guard, per_second(50), Nanos::ZERO);
    let advertise = |learned: &mut AdaptiveLimit, secs, rate| {
        learned.evidence(Nanos::from_secs(secs), Evidence::Limit(per_second(rate)));
        learned.clean(Nanos::from_secs(secs), 1_000);
        learned.effective().quantity()
    };
    assert_eq!(advertise(&mut learned, 1, 42), 42);
    assert_eq!(
        advertise(&mut learned, 2, 42),
        42,
        "growth ends at the advertised limit"
    );
    assert_eq!(advertise(&mut learned, 3, 46), 46, "it is taken at its word");
    assert_eq!(advertise(&mut learned, 5, 90), 50, "but never above the configured");
}

// Two servers behind one name, one with a limit of 90 and the other of 42: the rate grows only by
// one step for each clean second.
#[test]
fn contradicting_advertised_limits_do_not_raise() {
    let mut learned = AdaptiveLimit::new(AdaptiveMode::Guard, per_second(50), Nanos::ZERO);
    for tenth in 0..40 {
        let advertised = if tenth % 2 == 0 { 42 } else { 90 };
        let now = Nanos::from_millis(tenth * 100);
        learned.evidence(now, Evidence::Limit(per_second(advertised)));
        learned.clean(now, 1_000);
        assert!(learned.effective().quantity() <= 43, "at {now:?}");
    }
}

// Throttled at 42 under a limit of 42, which is then raised: that rate is no upper bound any more.
#[test]
fn a_raised_limit_drops_earlier_throttles() {
    let mut learned = AdaptiveLimit::new(AdaptiveMode::Guard, per_second(50), Nanos::ZERO);
    learned.evidence(Nanos::from_secs(1), throttled(900, 30));
    learned.evidence(Nanos::from_secs(1), Evidence::Limit(per_second(42)));
    assert_eq!(learned.effective(), per_second(30));
    let lifted = learned.evidence(Nanos::from_secs(9), Evidence::Limit(per_second(50)));
    assert_eq!((lifted, learned.effective()), (LimitChange::Raised, per_second(50)));
    assert_eq!(learned.drift(Nanos::from_secs(9)), None);
}

// Ten windows of a second are less than ten minutes, ten of a minute are exactly that, and ten of
// an hour are more. One nanosecond before, the rate stands; then it grows window by window.
#[test]
fn an_advertised_limit_expires_unless_repeated() {
    for (configured, advertised, believed) in [
        ("50/s", "1/s", 600),
        ("3000/min", "60/min", 600),
        ("50/s", "3600/h", 36_000),
        ("180000/h", "1/s", 36_000),
    ] {
        let [configured, advertised] = [configured, advertised].map(|rate| rate.parse::<Rate>().expect("valid"));
        let mut learned = AdaptiveLimit::new(AdaptiveMode::Guard, configured, Nanos::ZERO);
        learned.evidence(Nanos::ZERO, Evidence::Limit(advertised));
        let lapses = Nanos::from_secs(believed);
        learned.clean(lapses.saturating_sub(Duration::from_nanos(1)), u64::MAX);
        assert!(learned.effective().cmp_speed(advertised).is_eq(), "{advertised}");
        let mut now = lapses;
        while learned.drift(now).is_some() {
            now = now.saturating_add(configured.per());
            assert!(now < Nanos::from_secs(believed * 60), "{advertised} for ever");
            learned.clean(now, u64::MAX);
        }
        assert_eq!(learned.effective(), configured);
    }
}

// Advertised at 0 for ten minutes; six minutes here, three on disk, and one is left.
#[test]
fn an_advertised_limit_expires_across_a_restart() {
    let mut learned = AdaptiveLimit::new(AdaptiveMode::Guard, per_second(50), Nanos::ZERO);
    learned.evidence(Nanos::ZERO, Evidence::Limit(per_second(10)));
    let stored = learned.snapshot(Nanos::from_secs(360));
    assert_eq!(stored.advertised_for, Duration::from_mins(4));
    let start = Nanos::from_secs(5);
    let after = |on_disk, later| {
        let aged = stored.aged(Duration::from_secs(on_disk));
        let mut restored = AdaptiveLimit::restore(AdaptiveMode::Guard, per_second(50), &aged, start);
        restored.clean(start.saturating_add(Duration::from_secs(later)), 1_000);
        restored.snapshot(start).level
    };
    assert_eq!(after(180, 59), 10_000_000, "still believed");
    assert!(after(180, 60) > 10_000_000, "a minute was left of it");
    assert!(after(240, 1) > 10_000_000, "it lapsed on disk");
}

// Without the advertised limit, a search without an upper bound would double from there.
#[test]
fn growth_is_careful_at_an_expired_advertised_limit() {
    let mut learned = AdaptiveLimit::new(AdaptiveMode::Learn, per_second(100), Nanos::ZERO);
    learned.evidence(Nanos::ZERO, Evidence::Limit(per_second(80)));
    learned.clean(Nanos::from_secs(600), 1_000);
    assert_eq!(learned.snapshot(Nanos::from_secs(600)).level, 80_400_000);
}

#[test]
fn an_unused_rate_does_not_grow() {
    let mut learned = AdaptiveLimit::new(AdaptiveMode::Guard, per_second(100), Nanos::ZERO);
    learned.evidence(Nanos::from_secs(1), throttled(900, 100));
    for secs in 2..100 {
        learned.clean(Nanos::from_secs(secs), 47);
    }
    assert_eq!(learned.effective(), per_second(95), "47 a window never tried 95");
    learned.clean(Nanos::from_secs(100), 48);
    assert_eq!(learned.effective(), per_second(96));
}

// Bursts a window apart: when the first of one is answered, the one before no longer counts.
#[test]
fn growth_starts_when_half_of_a_burst_has_passed() {
    let mut learned = AdaptiveLimit::new(AdaptiveMode::Guard, per_second(100), Nanos::ZERO);
    learned.evidence(Nanos::from_secs(1), throttled(900, 100));
    assert_eq!(learned.effective(), per_second(95));
    for admitted in 1..=47 {
        learned.clean(Nanos::from_secs(3), admitted);
    }
    assert_eq!(learned.effective(), per_second(95));
    learned.clean(Nanos::from_secs(3), 50);
    assert_eq!(learned.effective(), per_second(97));
}

// A server that throttles after five: five are chance, and growth continues.
#[test]
fn a_small_count_sets_no_upper_bound() {
    let mut learned = AdaptiveLimit::new(AdaptiveMode::Guard, per_second(10), Nanos::ZERO);
    learned.evidence(Nanos::from_secs(1), throttled(1_000, 5));
    assert_eq!(learned.effective(), per_second(5));
    learned.clean(Nanos::from_secs(2), 5);
    assert_eq!(learned.snapshot(Nanos::ZERO).level, 5_150_000);
}

// Throttled a hundred times over, each time with nothing let through.
#[test]
fn throttles_alone_never_stop_all_calls() {
    let mut learned = AdaptiveLimit::new(AdaptiveMode::Guard, per_second(200), Nanos::ZERO);
    for secs in 1..100 {
        learned.evidence(Nanos::from_secs(secs), throttled(secs * 1_000, 0));
    }
    assert_eq!(learned.effective(), per_second(2), "one per cent is left");
    let once_more = learned.evidence(Nanos::from_secs(100), throttled(100_000, 0));
    assert_eq!(once_more, LimitChange::Unmoved, "it was not the rate");
}

// Two hours of drift, a snapshot, an hour on disk, and a lower limit in the configuration.
#[test]
fn the_learned_speed_survives_a_restart() {
    let hours = |hours| Nanos::ZERO.saturating_add(Duration::from_hours(hours));
    let mut learned = AdaptiveLimit::new(AdaptiveMode::Guard, per_second(50), Nanos::ZERO);
    learned.evidence(
        hours(1),
        Evidence::Throttled {
            sent: hours(1),
            admitted: 39,
        },
    );
    learned.evidence(hours(1), Evidence::QuotaUntil(hours(5)));
    let stored = learned.snapshot(hours(3)).aged(Duration::from_hours(1));
    assert_eq!(stored.held_for, Duration::from_hours(1));
    let per_minute: Rate = "3600/min".parse().expect("valid");
    let restored = AdaptiveLimit::restore(AdaptiveMode::Guard, per_minute, &stored, Nanos::from_secs(5));
    let drift = restored.drift(Nanos::from_secs(5)).expect("still there");
    assert_eq!(drift.to_string(), "configured 3600/min, evidence says 2340/min");
    assert_eq!(drift.lasting, Duration::from_hours(3));
    let lower = AdaptiveLimit::restore(AdaptiveMode::Guard, per_second(30), &stored, Nanos::ZERO);
    assert_eq!(lower.effective(), per_second(30));
    assert_eq!(lower.drift(Nanos::ZERO), None);
    let off = AdaptiveLimit::restore(AdaptiveMode::Off, per_second(50), &stored, Nanos::ZERO);
    assert_eq!(off.effective(), per_second(50));
}

// One misleading response, with nothing let through before it, as after an idle hour.
#[test]
fn one_throttle_takes_at_most_three_quarters() {
    let mut learned = AdaptiveLimit::new(AdaptiveMode::Guard, per_second(200), Nanos::ZERO);
    learned.evidence(Nanos::from_secs(1), throttled(900, 0));
    assert_eq!(learned.effective(), per_second(50));
}

// Eight of a second are enough to count. Fewer may be chance, and fifty of a minute may have met a
// limit per second.
#[test]
fn a_reliable_count_is_the_limit() {
    for (configured, admitted, left) in [
        ("500/s", 50, "50/s"),
        ("500/s", 8, "8/s"),
        ("500/s", 7, "125/s"),
        ("500/s", 0, "125/s"),
        ("1000/min", 50, "250/min"),
        ("5000/h", 100, "1250/h"),
    ] {
        let configured = configured.parse().expect("valid");
        let mut learned = AdaptiveLimit::new(AdaptiveMode::Guard, configured, Nanos::ZERO);
        learned.evidence(Nanos::from_secs(1), throttled(900, admitted));
        assert_eq!(learned.effective().to_string(), left, "{admitted} passed");
    }
}

// Seven passed when the first throttle was read, twelve when the third was, and another success
// came last.
#[test]
fn a_burst_with_a_small_count_is_recounted() {
    let mut learned = AdaptiveLimit::new(AdaptiveMode::Guard, per_second(1_000), Nanos::ZERO);
    let at = |millis| Nanos::from_millis(millis);
    let mut refused = |now, admitted| {
        let reaction = learned.evidence(at(now), throttled(0, admitted));
        (reaction, learned.effective().quantity())
    };
    assert_eq!(refused(20, 7), (LimitChange::Shrunk, 250));
    assert_eq!(refused(21, 7), (LimitChange::SameBurst, 250));
    assert_eq!(refused(22, 12), (LimitChange::Shrunk, 12));
    assert_eq!(refused(23, 10), (LimitChange::SameBurst, 12));
    learned.clean(at(24), 13);
    assert_eq!(learned.effective(), per_second(13));
}

// 20, 40, 80 and again 80 windows just below 51/s; with the last of them begin four or five careful
// steps up to it.
#[test]
fn growth_rests_at_the_throttled_rate_and_longer_each_time() {
    let mut learned = AdaptiveLimit::new(AdaptiveMode::Guard, per_second(200), Nanos::ZERO);
    let mut now = 1;
    let refuse = |learned: &mut AdaptiveLimit, now| {
        learned.evidence(Nanos::from_secs(now), throttled(now * 1_000, 50));
    };
    refuse(&mut learned, now);
    for (rest, careful) in [(20, 3), (40, 4), (80, 3), (80, 4)] {
        let refused = now;
        while learned.effective().quantity() < 51 {
            now += 1;
            learned.clean(Nanos::from_secs(now), 50);
        }
        assert_eq!(now - refused, rest + careful);
        refuse(&mut learned, now);
    }
}

// Tested again at 51 in the middle of a burst of which six have passed: that is no news.
#[test]
fn an_expected_throttle_takes_a_twentieth() {
    for admitted in [0, 6, 50, 1_000] {
        let mut learned = AdaptiveLimit::new(AdaptiveMode::Guard, per_second(200), Nanos::ZERO);
        learned.evidence(Nanos::from_secs(1), throttled(1_000, 50));
        for secs in 21..25 {
            learned.clean(Nanos::from_secs(secs), 50);
        }
        assert_eq!(learned.effective(), per_second(51));
        learned.evidence(Nanos::from_secs(25), throttled(25_000, admitted));
        assert_eq!(learned.effective(), per_second(48), "{admitted} passed");
    }
}

// Found at 50/s, and while that rate is not tested, only 20 pass: the server has changed.
#[test]
fn an_unexpected_throttle_uses_the_count() {
    let mut learned = AdaptiveLimit::new(AdaptiveMode::Guard, per_second(200), Nanos::ZERO);
    learned.evidence(Nanos::from_secs(1), throttled(1_000, 50));
    learned.evidence(Nanos::from_secs(10), throttled(10_000, 20));
    assert_eq!(learned.effective(), per_second(20));
}

// Throttled at 50, and much later at 100: that is another rate.
#[test]
fn a_throttle_at_another_rate_starts_a_short_rest() {
    let mut learned = AdaptiveLimit::new(AdaptiveMode::Guard, per_second(200), Nanos::ZERO);
    let mut now = 1;
    learned.evidence(Nanos::from_secs(now), throttled(1_000, 50));
    while learned.effective().quantity() < 100 {
        now += 1;
        learned.clean(Nanos::from_secs(now), 200);
    }
    learned.evidence(Nanos::from_secs(now), throttled(now * 1_000, 60));
    assert_eq!(learned.effective(), per_second(60));
    learned.clean(Nanos::from_secs(now + 19), 60);
    assert_eq!(learned.snapshot(Nanos::ZERO).level, 60_000_000);
    learned.clean(Nanos::from_secs(now + 20), 60);
    assert_eq!(learned.snapshot(Nanos::ZERO).level, 60_300_000);
}

// From 95 it is one step to the neighbourhood of 100, where it rests until the twentieth window,
// and then 11 careful ones to 103. In steps of 3 % the second window would be throttled again.
#[test]
fn growth_is_careful_near_the_last_throttle() {
    let mut learned = AdaptiveLimit::new(AdaptiveMode::Learn, per_second(100), Nanos::ZERO);
    learned.evidence(Nanos::from_secs(1), throttled(900, 100));
    assert_eq!(learned.effective(), per_second(95));
    let mut windows = 0;
    while learned.effective().quantity() < 103 {
        windows += 1;
        learned.clean(Nanos::from_secs(1 + windows), 1_000);
    }
    assert_eq!(windows, 19 + 11);
}

// Ten windows of 100 ms make one step, because they fit into one round trip to a distant server.
#[test]
fn short_windows_grow_once_a_second() {
    let configured: Rate = "1000/100ms".parse().expect("valid");
    let mut learned = AdaptiveLimit::new(AdaptiveMode::Guard, configured, Nanos::ZERO);
    learned.evidence(Nanos::ZERO, throttled(0, 1_000));
    for tenth in 1..10 {
        learned.clean(Nanos::from_millis(tenth * 100), 950);
    }
    assert_eq!(learned.effective().quantity(), 950);
    learned.clean(Nanos::from_secs(1), 950);
    assert_eq!(learned.effective().quantity(), 978);
}

// The clock steps back eight seconds around a throttle: half a second later no window has passed.
#[test]
fn a_backward_clock_does_not_make_a_window_pass() {
    let mut learned = AdaptiveLimit::new(AdaptiveMode::Guard, per_second(100), Nanos::ZERO);
    learned.clean(Nanos::from_secs(10), 100);
    learned.evidence(Nanos::from_secs(2), throttled(9_900, 100));
    learned.clean(Nanos::from_millis(10_500), 95);
    assert_eq!(learned.effective(), per_second(95));
    learned.clean(Nanos::from_secs(11), 95);
    assert_eq!(learned.effective(), per_second(97));
}
