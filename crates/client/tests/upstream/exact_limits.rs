//! Limits exact to the nanosecond, against a model that stores everything.

use outflow::core::Accounting;
use proptest::prelude::*;

use crate::support::history::{ApiShape, CallHistory, CallerStep, shapes, steps};
use crate::support::{INSTANT, TestBed, by_sending, ms, rules, secs};

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

// Ten of ten a second at the start of every five seconds: the history sees every burst, also those
// between two records of it.
#[test]
fn the_history_sees_bursts_between_its_records() {
    let bed = TestBed::new(rules(vec![by_sending("10/s")]));
    for _ in 0..24 {
        bed.sends(10, bed.options());
        bed.pass(secs(3));
        bed.upstream.prune();
        bed.pass(secs(2));
    }
    let history = bed.upstream.report().limits.remove(0).history;
    assert_eq!((history.peak, history.prediction), (10, Some(10)), "{history:?}");
}

// All but the first would leave together after half a second if a start did not reserve its pace.
#[test]
fn paced_calls_of_one_instant_leave_one_pace_apart() {
    let limit = by_sending("60/min").paced(outflow::core::Pacing::SOFT);
    let bed = TestBed::new(rules(vec![limit]));
    let mut callers: Vec<_> = (0..10).map(|_| bed.caller(bed.options())).collect();
    callers[0].goes();
    let mut waiting: Vec<_> = callers.split_off(1);
    assert!(waiting.iter_mut().all(|caller| caller.poll().is_none()));
    for caller in &mut waiting {
        bed.pass_until_just_before(ms(500));
        assert!(!caller.is_woken(), "it leaves too early");
        bed.pass(INSTANT);
        caller.goes();
    }
}
