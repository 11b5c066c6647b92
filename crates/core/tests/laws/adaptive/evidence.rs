//! The effect of each kind of evidence.

use std::time::Duration;

use outflow_core::{AdaptiveLimit, AdaptiveMode, Evidence, LimitChange, Nanos, Rate};

use super::{clean_at, guard, passed, per_second, throttled};

// Ten calls in flight are throttled together; the eleventh was sent after the shrink, but no call
// has tried the new limit yet.
#[test]
fn one_burst_shrinks_the_limit_once() {
    let mut learned = guard(per_second(100));
    let at = |millis| Nanos::from_millis(millis);
    assert_eq!(learned.evidence(at(1_000), throttled(900, 70)), LimitChange::Shrunk);
    for millis in 1_001..1_010 {
        let late = throttled(millis - 50, 10);
        assert_eq!(learned.evidence(at(millis), late), LimitChange::SameBurst);
    }
    let untried = learned.evidence(at(1_100), throttled(1_050, 69));
    assert_eq!((untried, learned.effective()), (LimitChange::Unmoved, per_second(70)));
}

// A success that was sent before the shrink tries nothing.
#[test]
fn a_lowered_limit_is_tried_before_it_is_lowered_again() {
    let mut learned = guard(per_second(100));
    let at = |millis| Nanos::from_millis(millis);
    learned.evidence(at(1_000), throttled(900, 70));
    learned.clean(at(1_050), passed(1_000, 70));
    assert_eq!(learned.evidence(at(5_000), throttled(4_000, 20)), LimitChange::Unmoved);
    learned.clean(at(5_050), passed(1_001, 70));
    assert_eq!(learned.evidence(at(5_100), throttled(5_090, 20)), LimitChange::Shrunk);
    assert_eq!(learned.effective(), per_second(20));
}

// 69 of 70 would be a twentieth; three windows after the first step it is.
#[test]
fn a_limit_that_was_just_lowered_loses_a_quarter_at_least() {
    for (again_at, left) in [(1_100, 52), (3_999, 52), (4_000, 66)] {
        let mut learned = guard(per_second(100));
        learned.evidence(Nanos::from_millis(1_000), throttled(900, 70));
        learned.clean(Nanos::from_millis(1_050), passed(1_001, 60));
        learned.evidence(Nanos::from_millis(again_at), throttled(again_at, 69));
        assert_eq!(learned.effective(), per_second(left), "at {again_at} ms");
    }
}

// Half of 35/s in use is 18 calls of a window; at 2/s and below two calls are needed.
#[test]
fn a_throttle_counts_only_if_half_of_the_limit_was_in_use() {
    for (configured, admitted, used, change) in [
        (35, 7, 18, LimitChange::Shrunk),
        (35, 7, 17, LimitChange::Unmoved),
        (35, 8, 17, LimitChange::Unmoved),
        (35, 0, 35, LimitChange::Unmoved),
        (2, 1, 2, LimitChange::Shrunk),
        (2, 1, 1, LimitChange::Unmoved),
        (1, 1, 1, LimitChange::Unmoved),
    ] {
        let mut learned = guard(per_second(configured));
        let evidence = Evidence::Throttled {
            sent: Nanos::from_secs(1),
            admitted,
            used,
        };
        let seen = learned.evidence(Nanos::from_secs(1), evidence);
        assert_eq!(seen, change, "{configured}/s: {used} used, {admitted} passed");
    }
}

#[test]
fn each_kind_of_evidence_has_its_own_effect() {
    let now = Nanos::from_secs(10);
    let until = Nanos::from_secs(3_610);
    let new = || guard(per_second(100));
    let mut quota = new();
    assert_eq!(quota.evidence(now, Evidence::QuotaUntil(until)), LimitChange::Unmoved);
    assert_eq!(quota.effective(), per_second(100), "the rate was right");
    let mut banned = new();
    let ban = Evidence::Ban { sent: now, until };
    assert_eq!(banned.evidence(now, ban), LimitChange::Shrunk);
    assert_eq!(banned.effective(), per_second(50), "we were far too fast");
    banned.clean(until.saturating_sub(Duration::from_nanos(1)), passed(20_000, 1_000));
    assert_eq!(banned.effective(), per_second(50), "nothing is learned while banned");
    banned.clean(until, passed(20_000, 1_000));
    assert_eq!(banned.effective(), per_second(62), "a quarter more");
}

// The header comes with every response: a repeated value must not stop the growth.
#[test]
fn an_advertised_limit_holds_until_the_next() {
    let mut learned = guard(per_second(50));
    let advertise = |learned: &mut AdaptiveLimit, secs, rate| {
        learned.evidence(Nanos::from_secs(secs), Evidence::Limit(per_second(rate)));
        clean_at(learned, secs, 1_000);
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

// Two servers behind one name, one with a limit of 90 and the other of 42: only a clean second
// raises the rate, and the next header lowers it again.
#[test]
fn contradicting_advertised_limits_do_not_raise() {
    let mut learned = guard(per_second(50));
    let mut above = 0;
    for tenth in 0..40 {
        let advertised = if tenth % 2 == 0 { 42 } else { 90 };
        let now = Nanos::from_millis(tenth * 100);
        let change = learned.evidence(now, Evidence::Limit(per_second(advertised)));
        assert_ne!(change, LimitChange::Raised, "at {now:?}");
        learned.clean(now, passed(tenth * 100, 1_000));
        above += u32::from(learned.effective().quantity() > 42);
    }
    assert!(above <= 4, "{above} tenths above 42");
}

// Throttled at 42 under a limit of 42, which is then raised: that rate is no upper bound any more.
#[test]
fn a_raised_limit_drops_earlier_throttles() {
    let mut learned = guard(per_second(50));
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
        let mut learned = guard(configured);
        learned.evidence(Nanos::ZERO, Evidence::Limit(advertised));
        let lapses = Nanos::from_secs(believed);
        learned.clean(lapses.saturating_sub(Duration::from_nanos(1)), passed(1, u64::MAX));
        assert!(learned.effective().cmp_speed(advertised).is_eq(), "{advertised}");
        let mut now = lapses;
        while learned.drift(now).is_some() {
            now = now.saturating_add(configured.per());
            assert!(now < Nanos::from_secs(believed * 60), "{advertised} for ever");
            learned.clean(now, passed(1, u64::MAX));
        }
        assert_eq!(learned.effective(), configured);
    }
}

// Advertised at 0 for ten minutes; six minutes here, three on disk, and one is left.
#[test]
fn an_advertised_limit_expires_across_a_restart() {
    let mut learned = guard(per_second(50));
    learned.evidence(Nanos::ZERO, Evidence::Limit(per_second(10)));
    let stored = learned.snapshot(Nanos::from_secs(360));
    assert_eq!(stored.advertised_for, Duration::from_mins(4));
    let start = Nanos::from_secs(5);
    let after = |on_disk, later: u64| {
        let aged = stored.aged(Duration::from_secs(on_disk));
        let mut restored = AdaptiveLimit::restore(AdaptiveMode::Guard, per_second(50), &aged, start);
        clean_at(&mut restored, 5 + later, 1_000);
        restored.snapshot(start).level
    };
    assert_eq!(after(180, 59), 10_000_000, "still believed");
    assert!(after(180, 60) > 10_000_000, "a minute was left of it");
    assert!(after(240, 1) > 10_000_000, "it lapsed on disk");
}

// Two hours of drift, a snapshot, an hour on disk, and a lower limit in the configuration.
#[test]
fn the_learned_speed_survives_a_restart() {
    let hours = |hours| Nanos::ZERO.saturating_add(Duration::from_hours(hours));
    let mut learned = guard(per_second(50));
    learned.evidence(
        hours(1),
        Evidence::Throttled {
            sent: hours(1),
            admitted: 39,
            used: 40,
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

// Where nothing passes the rate is not the cause, and a throttle a second is no burst.
#[test]
fn throttles_where_nothing_passes_do_not_lower_the_limit() {
    let mut learned = guard(per_second(200));
    for secs in 1..100 {
        let change = learned.evidence(Nanos::from_secs(secs), throttled(secs * 1_000, 0));
        assert_eq!(change, LimitChange::Unmoved);
    }
    assert_eq!(learned.effective(), per_second(200));
}

// Throttled a hundred times over, each time after two have passed.
#[test]
fn throttles_alone_never_stop_all_calls() {
    let mut learned = guard(per_second(200));
    for secs in 1..100 {
        clean_at(&mut learned, secs, 1);
        learned.evidence(Nanos::from_secs(secs), throttled(secs * 1_000, 2));
    }
    assert_eq!(learned.effective(), per_second(2), "one per cent is left");
    clean_at(&mut learned, 100, 1);
    let once_more = learned.evidence(Nanos::from_secs(100), throttled(100_000, 2));
    assert_eq!(once_more, LimitChange::Unmoved, "it was not the rate");
}

// One misleading response after an idle hour, in the first burst of two hundred.
#[test]
fn a_small_count_takes_at_most_half() {
    for admitted in 1..8 {
        let mut learned = guard(per_second(200));
        learned.evidence(Nanos::from_secs(1), throttled(900, admitted));
        assert_eq!(learned.effective(), per_second(100), "{admitted} passed");
    }
}

// Eight of a second are enough to count. Fewer may be chance, and fifty of a minute may have met a
// limit per second.
#[test]
fn a_reliable_count_is_the_limit() {
    for (configured, admitted, left) in [
        ("500/s", 50, "50/s"),
        ("500/s", 8, "8/s"),
        ("500/s", 7, "250/s"),
        ("500/s", 0, "500/s"),
        ("500/s", 480, "475/s"),
        ("1000/min", 50, "900/min"),
        ("5000/h", 100, "4500/h"),
        ("5000/h", 4990, "4750/h"),
    ] {
        let mut learned = guard(configured.parse().expect("valid"));
        learned.evidence(Nanos::from_secs(1), throttled(900, admitted));
        assert_eq!(learned.effective().to_string(), left, "{admitted} passed");
    }
}

// Seven passed when the first throttle was read, twelve when the third was, and another success
// came last.
#[test]
fn a_burst_with_a_small_count_is_recounted() {
    let mut learned = guard(per_second(1_000));
    let at = |millis| Nanos::from_millis(millis);
    let mut refused = |now, admitted| {
        let reaction = learned.evidence(at(now), throttled(0, admitted));
        (reaction, learned.effective().quantity())
    };
    assert_eq!(refused(20, 7), (LimitChange::Shrunk, 500));
    assert_eq!(refused(21, 7), (LimitChange::SameBurst, 500));
    assert_eq!(refused(22, 12), (LimitChange::Shrunk, 12));
    assert_eq!(refused(23, 10), (LimitChange::SameBurst, 12));
    learned.clean(at(24), passed(0, 13));
    assert_eq!(learned.effective(), per_second(13));
}
