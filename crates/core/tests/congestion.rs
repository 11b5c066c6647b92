//! Laws of the congestion formula for any count, speed and bounds.

use core::time::Duration;

use outflow_core::{
    CongestionLevel, CongestionRule, CongestionStats, Nanos, StatsWindow, estimate_completion,
    rate_limit_speed,
};
use proptest::prelude::*;

/// Mostly the small numbers of real backlogs, and the edges of 64 bits.
fn counts() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0_u64..50_000, 1 => any::<u64>(), 1 => Just(u64::MAX)]
}

// The oracle computes in 128 bits of milliseconds, as the formula is written.
fn formula(cases: u32) {
    proptest!(ProptestConfig::with_cases(cases), |(
        count in counts(), speed in counts(), base in 0_u64..100_000, above in 0_u64..1_000_000,
    )| {
        let max = base + above;
        let rule = CongestionRule::new(Duration::from_millis(base), Duration::from_millis(max))
            .expect("in order");
        let reading = rule.reading(count, speed);
        let steps = u128::from(count / speed.max(1));
        let expected = (u128::from(base) + steps * 1_000).min(u128::from(max));
        prop_assert_eq!(reading.backoff.as_millis(), expected);
        prop_assert_eq!(reading.speed, speed.max(1));
        let multiple = |times: u128| base > 0 && expected >= u128::from(base) * times;
        let level = match () {
            () if base == 0 || expected <= u128::from(base) => CongestionLevel::None,
            () if multiple(30) => CongestionLevel::Critical,
            () if multiple(10) => CongestionLevel::High,
            () if multiple(3) => CongestionLevel::Moderate,
            () => CongestionLevel::Low,
        };
        prop_assert_eq!(reading.level, level);
        prop_assert!(rule.reading(count.saturating_add(1), speed).backoff >= reading.backoff);
        let done = u128::from(estimate_completion(count, speed).as_secs());
        prop_assert!(done * u128::from(speed.max(1)) >= u128::from(count));
        prop_assert!(done.saturating_sub(1) * u128::from(speed.max(1)) < u128::from(count).max(1));
        let part = rate_limit_speed(count, speed);
        prop_assert!(part >= 1 && (part == 1 || u128::from(part) * u128::from(speed.max(1)) <= u128::from(count)));
    });
}

// The oracle keeps every snapshot that was due.
fn history(cases: u32) {
    let spans = proptest::collection::vec(0_u64..5, 0..100);
    proptest!(ProptestConfig::with_cases(cases), |(
        spans in spans, retention in 0_u64..40, interval in 1_u64..5, limit in 0_usize..50,
    )| {
        let window = StatsWindow::new(Duration::from_nanos(retention), Duration::from_nanos(interval))
            .expect("positive");
        let mut stats = CongestionStats::new(window);
        let mut all: Vec<(u64, u64)> = Vec::new();
        let mut now = 0;
        for (i, span) in spans.into_iter().enumerate() {
            now += span;
            let jobs = u64::try_from(i).expect("few");
            stats.entered(Nanos::from_nanos(now), &CongestionRule::default().reading(jobs, 1));
            stats.snapshot(Nanos::from_nanos(now));
            if all.last().is_none_or(|(last, _)| now - last >= interval) {
                all.push((now, jobs));
            }
        }
        let kept = usize::try_from(retention / interval).expect("few").max(1).min(limit);
        let expected = all.iter().skip(all.len().saturating_sub(kept)).copied();
        let seen = stats.history(limit).map(|s| (s.at.as_nanos(), s.non_ready));
        prop_assert!(seen.eq(expected));
    });
}

#[test]
fn the_wait_is_the_formula_for_any_numbers() {
    formula(10_000);
}

#[test]
#[ignore = "long run: cargo xtask test --stress"]
fn stress_the_wait_is_the_formula() {
    formula(1_000_000);
}

#[test]
fn history_is_the_end_of_all_that_was_due() {
    history(10_000);
}

#[test]
#[ignore = "long run: cargo xtask test --stress"]
fn stress_history_is_the_end_of_all_that_was_due() {
    history(1_000_000);
}
