//! The limit, to the nanosecond, against a model that keeps everything.

use outflow::core::Accounting;
use proptest::prelude::*;

use crate::support::history::{History, Shape, Step, shapes, steps};

fn histories(accounting: Accounting) -> impl Strategy<Value = (Shape, Vec<Step>)> {
    (shapes(accounting), steps())
}

outflow_testkit::laws! {
    // Never more than the limit in any window over the instants of resuming; whoever is next and has
    // room was called; nothing is lost.
    #[test]
    fn counted_by_sending_limits_are_exact_and_nobody_waits_in_vain
    / fn stress_counted_by_sending_limits_are_exact(histories(Accounting::Send)) = |(shape, steps)| {
        let mut history = History::new(shape);
        history.play(&steps)?;
        history.end()
    };

    // The same over all the time in which a call can have arrived, whatever the network does.
    #[test]
    fn counted_by_arrival_limits_are_exact_and_nobody_waits_in_vain
    / fn stress_counted_by_arrival_limits_are_exact(histories(Accounting::Safe)) = |(shape, steps)| {
        let mut history = History::new(shape);
        history.play(&steps)?;
        history.end()
    };
}
