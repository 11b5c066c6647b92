//! Trouble that is not about the rate, and the way back from it.

use std::time::Duration;

use outflow_core::{AdaptiveLimit, AdaptiveMode, AdaptiveSnapshot, Evidence, LimitChange, Nanos, PassedUnits};
use proptest::prelude::*;

use super::laws::{Step, any_rate, history, take};
use super::{guard, per_second};

const MILLION: u128 = 1_000_000;

fn level(learned: &AdaptiveLimit, now: Nanos) -> u128 {
    learned.snapshot(now).level
}

/// Returns 95 % of a rate in millionths, and a whole call less.
fn below(rate: u128) -> u128 {
    let whole = (rate / MILLION * MILLION).saturating_sub(MILLION / 20);
    (rate * 95 / 100).min(if rate < 2 * MILLION { rate } else { whole })
}

/// An API on which `used` units were sent in the last window is throttled now and then.
fn stays_as_configured(configured: u64, throttles: &[(u64, u64, u64)]) -> Result<(), TestCaseError> {
    let mut learned = guard(per_second(configured));
    let mut now = Nanos::ZERO;
    for (gap, used, admitted) in throttles {
        now = now.saturating_add(Duration::from_millis(*gap));
        let evidence = Evidence::Throttled {
            sent: now,
            admitted: *admitted,
            used: *used,
        };
        prop_assert_eq!(learned.evidence(now, evidence), LimitChange::Unmoved);
        learned.clean(
            now,
            PassedUnits {
                sent: now,
                surely: *admitted,
                possibly: *admitted,
            },
        );
    }
    prop_assert_eq!(learned.effective(), per_second(configured));
    prop_assert_eq!(learned.drift(now), None);
    Ok(())
}

/// A storm hits a client that used its limit: what passed before leaves the window and nothing
/// passes any more.
#[derive(Clone, Debug)]
struct ThrottleStorm {
    configured: u64,
    round_trip: u64,
    /// Milliseconds between two throttles.
    every: u64,
    lasts: u64,
}

fn storm() -> impl Strategy<Value = ThrottleStorm> {
    (3..1_000_u64, 1..2_000_u64, 1..500_u64, 1..60_000_u64).prop_map(|(configured, round_trip, every, lasts)| {
        ThrottleStorm {
            configured,
            round_trip,
            every,
            lasts,
        }
    })
}

impl ThrottleStorm {
    const BEGINS: u64 = 100_000;

    /// Returns the number of steps by which the limit fell.
    fn rage(&self, learned: &mut AdaptiveLimit) -> u32 {
        let mut steps = 0;
        for since in (0..self.lasts).step_by(usize::try_from(self.every).expect("small")) {
            let at = Self::BEGINS + since;
            let left = self.configured * 1_000_u64.saturating_sub(since) / 1_000;
            let evidence = Evidence::Throttled {
                sent: Nanos::from_millis(at - self.round_trip),
                admitted: left,
                used: left.max(2),
            };
            let before = level(learned, Nanos::ZERO);
            learned.evidence(Nanos::from_millis(at), evidence);
            steps += u32::from(level(learned, Nanos::ZERO) < before);
        }
        steps
    }
}

fn storm_takes_one_step(storm: &ThrottleStorm) -> Result<(), TestCaseError> {
    let mut learned = guard(per_second(storm.configured));
    let steps = storm.rage(&mut learned);
    prop_assert!(steps <= 1, "{steps} steps");
    let left = level(&learned, Nanos::ZERO);
    prop_assert!(left * 10 >= u128::from(storm.configured) * MILLION * 9, "{left} left");
    Ok(())
}

/// Each clean window adds a quarter until the bound is near, and careful steps lead past it.
fn grows_by_a_quarter(configured: u64, first: u64) -> Result<(), TestCaseError> {
    let units = |units: u64| u128::from(units) * MILLION;
    let mut learned = guard(per_second(configured));
    let throttled = Evidence::Throttled {
        sent: Nanos::from_secs(1),
        admitted: 1,
        used: configured,
    };
    learned.evidence(Nanos::from_secs(1), throttled);
    let stored = AdaptiveSnapshot {
        level: units(first),
        ..learned.snapshot(Nanos::from_secs(1))
    };
    prop_assert_eq!(stored.upper_bound, Some(units(configured)));
    let mut learned = AdaptiveLimit::restore(
        AdaptiveMode::Guard,
        per_second(configured),
        &stored,
        Nanos::from_secs(1),
    );
    let top = below(units(configured));
    for secs in 2..60 {
        let now = Nanos::from_secs(secs);
        let before = level(&learned, now);
        learned.clean(
            now,
            PassedUnits {
                sent: now,
                surely: 0,
                possibly: configured,
            },
        );
        let after = level(&learned, now);
        if before + MILLION * 2 < top {
            prop_assert_eq!(after, before.saturating_add(before / 4).min(top), "from {}", before);
        }
        prop_assert!(after <= units(configured));
    }
    prop_assert_eq!(learned.effective(), per_second(configured));
    Ok(())
}

outflow_testkit::laws! {
    #[test]
    fn throttles_leave_one_per_cent_at_least / fn stress_throttles_leave_one_per_cent_at_least
        ((any_rate(), history())) = |(configured, history)| {
            let mut learned = guard(configured);
            for (now, step) in history {
                if matches!(step, Step::Limit(_)) {
                    continue;
                }
                take(&mut learned, AdaptiveMode::Guard, now, &step);
                let least = u128::from(configured.quantity()) * MILLION / 100;
                prop_assert!(level(&learned, now) >= least.max(1), "after {:?}", step);
                prop_assert!(learned.effective().cmp_speed(configured).is_le());
            }
            Ok(())
        };

    #[test]
    fn single_throttles_on_an_idle_api_change_nothing / fn stress_single_throttles_on_an_idle_api_change_nothing
        ((5..10_000_u64, prop::collection::vec((0..60_000_u64, 0..3_u64, 0..3_u64), 3..20)))
        = |(configured, throttles)| stays_as_configured(configured, &throttles);

    #[test]
    fn a_storm_takes_one_step_at_most / fn stress_a_storm_takes_one_step_at_most
        (storm()) = |storm| storm_takes_one_step(&storm);

    #[test]
    fn a_clean_window_adds_a_quarter_up_to_the_bound / fn stress_a_clean_window_adds_a_quarter_up_to_the_bound
        ((10..1_000_u64, 1..=100_u64)) = |(configured, percent)| {
            grows_by_a_quarter(configured, (configured * percent / 100).max(1))
        };
}
