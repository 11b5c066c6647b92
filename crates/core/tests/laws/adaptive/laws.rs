//! Laws of any history of evidence, with any numbers.

use std::time::Duration;

use outflow_core::{AdaptiveLimit, AdaptiveMode, Evidence, Nanos, PassedUnits, Rate};
use proptest::prelude::*;

/// Event of an adaptive limit.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Throttled { ago: u64, admitted: u64, used: u64 },
    Limit(Rate),
    Quota { ahead: u64 },
    Ban { ago: u64, ahead: u64 },
    Clean { admitted: u64 },
    Restart,
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..300_u64, Just(u64::MAX), any::<u64>()]
}

pub(super) fn any_rate() -> impl Strategy<Value = Rate> {
    let span = prop_oneof![Just(1_000_000_000_u64), 1..=u64::MAX];
    (number(), span)
        .prop_map(|(quantity, nanos)| Rate::new(quantity.max(1), Duration::from_nanos(nanos)).expect("positive"))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (number(), number(), number()).prop_map(|(ago, admitted, used)| Step::Throttled { ago, admitted, used }),
        any_rate().prop_map(Step::Limit),
        number().prop_map(|ahead| Step::Quota { ahead }),
        (number(), number()).prop_map(|(ago, ahead)| Step::Ban { ago, ahead }),
        number().prop_map(|admitted| Step::Clean { admitted }),
        Just(Step::Restart),
    ]
}

/// Steps at instants that mostly go forward by up to three windows, and sometimes anywhere.
pub(super) fn history() -> impl Strategy<Value = Vec<(Nanos, Step)>> {
    let jump = prop_oneof![9 => 0..3_000_000_000_u64, 1 => any::<u64>()];
    prop::collection::vec((jump, step()), 1..60).prop_map(|steps| {
        let mut now = 0_u64;
        let place = |(jump, step): (u64, Step)| {
            now = now.wrapping_add(jump);
            (Nanos::from_nanos(now), step)
        };
        steps.into_iter().map(place).collect()
    })
}

/// Evidence never raises a rate, but for a throttle that shows a long window not to be full. Clean
/// windows never lower it, nothing exceeds the configured rate, no step of a short window grows by more
/// than a quarter, and a restart changes nothing.
fn keeps_its_laws(mode: AdaptiveMode, configured: Rate, history: Vec<(Nanos, Step)>) -> Result<(), TestCaseError> {
    let mut learned = AdaptiveLimit::new(mode, configured, Nanos::ZERO);
    for (now, step) in history {
        let before = learned.effective();
        take(&mut learned, mode, now, &step);
        let after = learned.effective();
        let moved = after.cmp_speed(before);
        match &step {
            Step::Clean { admitted } => {
                prop_assert!(moved.is_ge(), "{before} fell to {after} after {step:?}");
                // A long window that was not full has its old rate at once.
                if configured.per() <= Duration::from_secs(1) {
                    grew_slowly(mode, before, after, *admitted)?;
                }
            }
            Step::Restart => prop_assert!(moved.is_eq(), "{before} became {after}"),
            Step::Limit(advertised) => {
                let lifted = moved.is_gt();
                prop_assert!(
                    !lifted || after.cmp_speed(*advertised).is_le(),
                    "{after} of {advertised}"
                );
            }
            // It may restore the rate of before the storm, which the bound below covers.
            Step::Throttled { .. } if configured.per() > Duration::from_secs(1) => {}
            _ => prop_assert!(moved.is_le(), "{before} rose to {after} after {step:?}"),
        }
        if mode != AdaptiveMode::Learn {
            prop_assert!(after.cmp_speed(configured).is_le(), "{after} over {configured}");
        }
        let drifts = learned.drift(now).is_some();
        prop_assert!(!drifts || mode == AdaptiveMode::Guard);
        if mode == AdaptiveMode::Guard {
            prop_assert!(drifts || after == configured, "{after} without a drift");
        }
        if mode == AdaptiveMode::Off {
            prop_assert_eq!(after, configured);
        }
    }
    Ok(())
}

fn grew_slowly(mode: AdaptiveMode, before: Rate, after: Rate, admitted: u64) -> Result<(), TestCaseError> {
    if after.cmp_speed(before).is_eq() || after.per() != before.per() {
        return Ok(());
    }
    prop_assert!(after.quantity() <= admitted.saturating_mul(2), "untried {after}");
    if mode == AdaptiveMode::Guard && after.quantity() > admitted {
        // Rounding down may have hidden almost one unit before.
        let max = (u128::from(before.quantity()) + 1) * 125 / 100;
        prop_assert!(u128::from(after.quantity()) <= max, "{before} to {after}");
    }
    Ok(())
}

pub(super) fn take(learned: &mut AdaptiveLimit, mode: AdaptiveMode, now: Nanos, step: &Step) {
    let before = |ago| now.saturating_sub(Duration::from_nanos(ago));
    let after = |ahead| now.saturating_add(Duration::from_nanos(ahead));
    let evidence = match *step {
        Step::Throttled { ago, admitted, used } => Evidence::Throttled {
            sent: before(ago),
            admitted,
            used,
        },
        Step::Limit(rate) => Evidence::Limit(rate),
        Step::Quota { ahead } => Evidence::QuotaUntil(after(ahead)),
        Step::Ban { ago, ahead } => Evidence::Ban {
            sent: before(ago),
            until: after(ahead),
        },
        Step::Clean { admitted } => {
            let passed = PassedUnits {
                sent: now,
                surely: admitted,
                possibly: admitted,
            };
            return learned.clean(now, passed);
        }
        Step::Restart => return restart(learned, mode, now),
    };
    learned.evidence(now, evidence);
}

/// Stored, restored and stored again is equal.
fn restart(learned: &mut AdaptiveLimit, mode: AdaptiveMode, now: Nanos) {
    let stored = learned.snapshot(now);
    let restored = AdaptiveLimit::restore(mode, stored.configured, &stored, now);
    if mode != AdaptiveMode::Off {
        assert_eq!(restored.snapshot(now).level, stored.level);
        assert_eq!(restored.snapshot(now).upper_bound, stored.upper_bound);
        assert_eq!(restored.snapshot(now).advertised, stored.advertised);
    }
    assert_eq!(restored.effective(), learned.effective());
    *learned = restored;
}

fn modes() -> impl Strategy<Value = AdaptiveMode> {
    prop_oneof![
        1 => Just(AdaptiveMode::Off),
        4 => Just(AdaptiveMode::Guard),
        2 => Just(AdaptiveMode::Learn),
    ]
}

outflow_testkit::laws! {
    #[test]
    fn only_clean_windows_and_the_server_raise_the_limit / fn stress_only_clean_windows_and_the_server_raise_the_limit
        ((modes(), any_rate(), history()))
        = |(mode, configured, history)| keeps_its_laws(mode, configured, history);
}
