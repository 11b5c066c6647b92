//! Laws of alerts, against a complete history.

use core::time::Duration;

use outflow_core::{Alert, AlertChange, Nanos, Observation};
use proptest::prelude::*;

const HOLD: u64 = 10;

fn observations() -> impl Strategy<Value = Vec<(u64, Observation)>> {
    // `Over` is twice as likely as the others and steps are short against the hold, so that alerts
    // are raised in most histories and just missed in many.
    let observation = prop_oneof![
        4 => Just(Observation::Over),
        1 => Just(Observation::Between),
        1 => Just(Observation::Under),
    ];
    proptest::collection::vec((0_u64..6, observation), 1..80)
}

/// Returns true if every observation of the last `HOLD` up to the `end`th was over.
fn held(history: &[(u64, Observation)], end: usize) -> bool {
    let Some((now, _)) = history.get(end) else {
        return false;
    };
    let run = history.iter().take(end + 1).rev();
    let first = run
        .take_while(|(_, observation)| *observation == Observation::Over)
        .last();
    first.is_some_and(|(since, _)| now - since >= HOLD)
}

fn alerts_do_not_flap(steps: Vec<(u64, Observation)>) -> Result<(), TestCaseError> {
    let mut alert = Alert::new(Duration::from_nanos(HOLD));
    let (mut now, mut raised) = (0, false);
    let mut history = Vec::new();
    for (i, (span, observation)) in steps.into_iter().enumerate() {
        now += span;
        history.push((now, observation));
        let expected = match observation {
            Observation::Under if raised => Some(AlertChange::Cleared),
            Observation::Over if !raised && held(&history, i) => Some(AlertChange::Raised),
            _ => None,
        };
        let change = alert.observe(Nanos::from_nanos(now), observation);
        prop_assert_eq!(change, expected, "at {} after {:?}", now, history);
        raised = expected.map_or(raised, |change| change == AlertChange::Raised);
        prop_assert_eq!(alert.is_raised(), raised);
    }
    Ok(())
}

outflow_testkit::laws! {
    #[test]
    fn raises_once_per_held_condition_and_clears_once_per_recovery / fn stress_raises_once_per_held_condition_and_clears_once_per_recovery
        (observations()) = alerts_do_not_flap;
}
