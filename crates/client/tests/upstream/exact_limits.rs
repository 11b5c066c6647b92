//! Limits exact to the nanosecond, against a model that stores everything.

use outflow::core::Accounting;
use proptest::prelude::*;

use crate::support::history::{ApiShape, CallHistory, CallerStep, shapes, steps};

fn histories(accounting: Accounting) -> impl Strategy<Value = (ApiShape, Vec<CallerStep>)> {
    (shapes(accounting), steps())
}

outflow_testkit::laws! {
    // Never more than the limit in any window of resume instants; the next call with quota was
    // dispatched; nothing is lost.
    #[test]
    fn limits_counted_by_sending_are_exact_and_no_call_waits_needlessly
    / fn stress_limits_counted_by_sending_are_exact(histories(Accounting::Send)) = |(shape, steps)| {
        let mut history = CallHistory::new(shape);
        history.play(&steps)?;
        history.end()
    };

    // Over all possible arrival times, under any network delay.
    #[test]
    fn limits_counted_by_arrival_are_exact_and_no_call_waits_needlessly
    / fn stress_limits_counted_by_arrival_are_exact(histories(Accounting::Safe)) = |(shape, steps)| {
        let mut history = CallHistory::new(shape);
        history.play(&steps)?;
        history.end()
    };
}
