//! Laws of the congestion formula for any count, speed and bounds.

use core::time::Duration;

use outflow_core::{
    CongestionLevel, CongestionRule, CongestionStats, Nanos, StatsWindow, estimate_completion, rate_limit_speed,
};
use proptest::prelude::*;

/// Mostly the small numbers of real backlogs, and the edges of 64 bits.
fn counts() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0_u64..50_000, 1 => any::<u64>(), 1 => Just(u64::MAX)]
}

/// A count and a speed, a base and how much higher the maximum is, in milliseconds.
type Numbers = ((u64, u64), (u64, u64));

fn numbers() -> impl Strategy<Value = Numbers> {
    ((counts(), counts()), (0_u64..100_000, 0_u64..1_000_000))
}

fn waits_by_the_formula(((count, speed), (base, above)): Numbers) -> Result<(), TestCaseError> {
    let max = base + above;
    let rule = CongestionRule::new(Duration::from_millis(base), Duration::from_millis(max)).expect("in order");
    let reading = rule.reading(count, speed);
    let steps = u128::from(count / speed.max(1));
    let expected = (u128::from(base) + steps * 1_000).min(u128::from(max));
    prop_assert_eq!(reading.backoff.as_millis(), expected);
    prop_assert_eq!(reading.speed, speed.max(1));
    prop_assert_eq!(reading.level, level(expected, u128::from(base)));
    prop_assert!(rule.reading(count.saturating_add(1), speed).backoff >= reading.backoff);
    Ok(())
}

fn level(wait: u128, base: u128) -> CongestionLevel {
    match wait {
        _ if base == 0 || wait <= base => CongestionLevel::None,
        _ if wait >= base * 30 => CongestionLevel::Critical,
        _ if wait >= base * 10 => CongestionLevel::High,
        _ if wait >= base * 3 => CongestionLevel::Moderate,
        _ => CongestionLevel::Low,
    }
}

fn estimates_enclose_the_truth((count, speed): (u64, u64)) -> Result<(), TestCaseError> {
    let (jobs, divisor) = (u128::from(count), u128::from(speed.max(1)));
    let done = u128::from(estimate_completion(count, speed).as_secs());
    prop_assert!(done * divisor >= jobs, "all are done by then");
    prop_assert!(done == 0 || (done - 1) * divisor < jobs, "and not a second earlier");
    let part = u128::from(rate_limit_speed(count, speed));
    prop_assert!(part >= 1);
    prop_assert!(part == 1 || part * divisor <= jobs, "parts fit the whole");
    prop_assert!((part + 1) * divisor > jobs, "and no larger ones would");
    Ok(())
}

/// Times of snapshots, their retention, their interval, and the number shown.
type Course = (Vec<u64>, (u64, u64), usize);

fn courses() -> impl Strategy<Value = Course> {
    let spans = proptest::collection::vec(0_u64..5, 0..100);
    (spans, (0_u64..40, 1_u64..5), 0_usize..50)
}

// The oracle keeps every snapshot that was due.
fn shows_the_end((spans, (retention, interval), limit): Course) -> Result<(), TestCaseError> {
    let [kept, apart] = [retention, interval].map(Duration::from_nanos);
    let mut stats = CongestionStats::new(StatsWindow::new(kept, apart).expect("positive"));
    let mut all: Vec<(u64, u64)> = Vec::new();
    let mut now = 0;
    for (jobs, span) in (0..).zip(spans) {
        now += span;
        let at = Nanos::from_nanos(now);
        stats.entered(at, &CongestionRule::default().reading(jobs, 1));
        stats.snapshot(at);
        if all.last().is_none_or(|(last, _)| now - last >= interval) {
            all.push((now, jobs));
        }
    }
    let kept = usize::try_from(retention / interval).expect("few").max(1);
    let expected = all.iter().skip(all.len().saturating_sub(kept.min(limit)));
    let seen = stats.history(limit).map(|s| (s.at.as_nanos(), s.non_ready));
    prop_assert!(seen.eq(expected.copied()));
    Ok(())
}

outflow_testkit::laws! {
    // The oracle computes in 128 bits of milliseconds, as the formula is written.
    #[test]
    fn the_wait_is_the_formula_for_any_numbers / fn stress_the_wait_is_the_formula_for_any_numbers
        (numbers()) = waits_by_the_formula;

    #[test]
    fn estimates_are_exact_to_the_unit / fn stress_estimates_are_exact_to_the_unit
        ((counts(), counts())) = estimates_enclose_the_truth;

    #[test]
    fn history_holds_the_latest_due_snapshots / fn stress_history_holds_the_latest_due_snapshots
        (courses()) = shows_the_end;
}
