//! Throttles that a lower rate would not avoid.

use outflow_core::{AdaptiveLimit, Evidence, LimitChange, Nanos, PassedUnits};

use super::{guard, passed, per_second};

const CONFIGURED: u64 = 200;

/// A throttle while ten of two hundred were used.
fn far(millis: u64) -> Evidence {
    Evidence::Throttled {
        sent: Nanos::from_millis(millis),
        admitted: 10,
        used: 11,
    }
}

/// Throttles at these instants, with ten calls a second between them unless the server asked to wait.
fn throttle_at(instants: &[u64], waits: u64) -> (AdaptiveLimit, Vec<LimitChange>) {
    let mut learned = guard(per_second(CONFIGURED));
    let mut changes = Vec::new();
    let mut last = 0;
    for at in instants {
        for millis in (last + waits..*at).step_by(100) {
            learned.clean(Nanos::from_millis(millis), passed(millis, 10));
        }
        changes.push(learned.evidence(Nanos::from_millis(*at), far(*at)));
        last = *at;
    }
    (learned, changes)
}

// A twentieth of the limit is in use. One throttle, or two of one burst, say nothing about the rate.
#[test]
fn one_throttle_far_below_the_limit_lowers_nothing() {
    let (learned, changes) = throttle_at(&[5_000, 5_001], 0);
    assert_eq!(changes, [LimitChange::Unmoved; 2]);
    assert_eq!(learned.effective(), per_second(CONFIGURED));
}

#[test]
fn three_throttles_far_below_the_limit_lower_it_to_what_passed() {
    let (learned, changes) = throttle_at(&[5_000, 6_000, 7_000], 0);
    assert_eq!(
        changes,
        [LimitChange::Unmoved, LimitChange::Unmoved, LimitChange::Shrunk]
    );
    assert_eq!(learned.effective(), per_second(10));
}

// Every five seconds one call of fifty: four windows of successes lie between two throttles.
#[test]
fn rare_throttles_far_below_the_limit_lower_nothing() {
    let hour: Vec<u64> = (1..720).map(|number| number * 5_000).collect();
    let (learned, changes) = throttle_at(&hour, 0);
    assert!(changes.iter().all(|change| *change == LimitChange::Unmoved));
    assert_eq!(learned.effective(), per_second(CONFIGURED));
}

// The server asks to wait for 60 s each time, and throttles again after half a second.
#[test]
fn a_wait_that_the_server_asks_for_separates_no_throttles() {
    let (learned, changes) = throttle_at(&[60_500, 121_000, 181_500], 60_000);
    assert_eq!(changes.last(), Some(&LimitChange::Shrunk));
    assert_eq!(learned.effective(), per_second(10));
}

/// Ten calls a second for this many seconds, of which the server always throttles one. Returns the units
/// that passed in each second.
fn with_one_call_always_throttled(configured: u64, seconds: u64) -> Vec<u64> {
    let mut learned = guard(per_second(configured));
    let (mut served, mut passed_last) = (Vec::new(), 9);
    for second in 1..=seconds {
        let calls = learned.effective().quantity().min(10);
        let passes = calls.saturating_sub(1).max(1);
        let at = |tenth: u64| Nanos::from_millis(second * 1_000 + tenth * 100);
        for tenth in 1..=passes {
            let units = (passed_last * (10 - tenth) + passes * tenth) / 10;
            learned.clean(
                at(tenth),
                PassedUnits {
                    sent: at(tenth),
                    surely: units,
                    possibly: units,
                },
            );
        }
        let evidence = Evidence::Throttled {
            sent: at(9),
            admitted: passes,
            used: calls,
        };
        learned.evidence(at(9), evidence);
        served.push(passes);
        passed_last = passes;
    }
    served
}

// One endpoint is throttled at any rate. Lowering the limit would starve the others and help nothing: of
// the 180 calls that pass in 20 s six in ten still do, and nearly all in an hour. A limit of 12/s is in use.
#[test]
fn a_call_that_is_always_throttled_does_not_starve_the_others() {
    for configured in [200, 20, 12] {
        let served = with_one_call_always_throttled(configured, 3_600);
        let worst = served.windows(20).map(|window| window.iter().sum::<u64>()).min();
        assert!(worst >= Some(108), "{configured}/s: {worst:?} of 180");
        let all: u64 = served.iter().sum();
        assert!(all >= 9 * 3_600 * 97 / 100, "{configured}/s: {all} of 32400");
    }
}
