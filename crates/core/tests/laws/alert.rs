//! Laws of alerts, against a history that is kept in full.

use core::time::Duration;

use outflow_core::{Alert, AlertChange, Nanos, Sight};
use proptest::prelude::*;

const HOLD: u64 = 10;

fn sights() -> impl Strategy<Value = Vec<(u64, Sight)>> {
    // Trouble is twice as likely as anything else and steps are short against the hold, so that
    // alerts are raised in most histories and just missed in many.
    let sight = prop_oneof![
        4 => Just(Sight::Over),
        1 => Just(Sight::Between),
        1 => Just(Sight::Under),
    ];
    proptest::collection::vec((0_u64..6, sight), 1..80)
}

/// True if every sight of the last `HOLD` up to the `end`th was over.
fn held(history: &[(u64, Sight)], end: usize) -> bool {
    let Some((now, _)) = history.get(end) else {
        return false;
    };
    let run = history.iter().take(end + 1).rev();
    let first = run.take_while(|(_, sight)| *sight == Sight::Over).last();
    first.is_some_and(|(since, _)| now - since >= HOLD)
}

fn alerts_do_not_flap(steps: Vec<(u64, Sight)>) -> Result<(), TestCaseError> {
    let mut alert = Alert::new(Duration::from_nanos(HOLD));
    let (mut now, mut raised) = (0, false);
    let mut history = Vec::new();
    for (i, (span, sight)) in steps.into_iter().enumerate() {
        now += span;
        history.push((now, sight));
        let expected = match sight {
            Sight::Under if raised => Some(AlertChange::Cleared),
            Sight::Over if !raised && held(&history, i) => Some(AlertChange::Raised),
            _ => None,
        };
        let told = alert.observe(Nanos::from_nanos(now), sight);
        prop_assert_eq!(told, expected, "at {} after {:?}", now, history);
        raised = expected.map_or(raised, |change| change == AlertChange::Raised);
        prop_assert_eq!(alert.is_raised(), raised);
    }
    Ok(())
}

outflow_testkit::laws! {
    #[test]
    fn raises_once_per_held_trouble_and_clears_once_per_recovery / fn stress_raises_once_per_held_trouble
        (sights()) = alerts_do_not_flap;
}
