//! Soft and hard waits by the published formulas: `cost × time left / remaining`, capped.

use std::time::Duration;

use outflow_core::{Accounting, ClockPair, Cost, Limit, Meter, Nanos, WaitTime};

use crate::support::{rate, sliding};

const SECOND: u64 = 1_000_000_000;
const CAP: Duration = Duration::from_millis(500);

fn ms(millis: u64) -> Nanos {
    Nanos::from_millis(millis)
}

fn fixed(quantity: u64, seconds: u64) -> Meter {
    let limit = Limit::fixed(rate(quantity, seconds * SECOND)).counted(Accounting::Send);
    Meter::new(&limit, ClockPair::default())
}

fn soft(delay: u64, asked: u64) -> WaitTime {
    WaitTime::Soft {
        delay: Duration::from_millis(delay),
        asked: Duration::from_millis(asked),
    }
}

// 100 a minute, 40 used at once: 60 left for 60 s is a second each, of which half is given.
#[test]
fn a_fixed_window_spreads_the_rest_until_its_reset() {
    let mut meter = fixed(100, 60);
    assert_eq!(meter.wait_time(ms(0), Cost::ONE, CAP), soft(0, 0), "untouched");
    assert!(meter.take(ms(0), Cost::new(40)).is_allow());
    assert_eq!(meter.wait_time(ms(0), Cost::ONE, CAP), soft(500, 1_000));
    assert_eq!(meter.wait_time(ms(54_000), Cost::ONE, CAP), soft(100, 100));
    assert_eq!(meter.wait_time(ms(54_000), Cost::new(3), CAP), soft(300, 300));
    assert_eq!(meter.wait_time(ms(54_000), Cost::ZERO, CAP), soft(0, 0));
}

// 10 in 2 s, the oldest entry at 0 s: from 1.5 s the next recovery is 500 ms away.
#[test]
fn a_sliding_window_spreads_the_rest_until_its_next_recovery() {
    let mut meter = Meter::new(&sliding(10, 2 * SECOND), ClockPair::default());
    assert!(meter.take(ms(0), Cost::new(4)).is_allow());
    assert!(meter.take(ms(1_000), Cost::ONE).is_allow());
    assert_eq!(meter.wait_time(ms(1_500), Cost::ONE, CAP), soft(100, 100));
    assert_eq!(meter.wait_time(ms(1_500), Cost::new(2), CAP), soft(200, 200));
}

// A bucket's next recovery is the token that is refilling: 10/s, 5 gone, 5 left.
#[test]
fn a_bucket_spreads_the_rest_until_its_next_token() {
    let limit = Limit::bucket(rate(10, SECOND), 10)
        .expect("positive")
        .counted(Accounting::Send);
    let mut meter = Meter::new(&limit, ClockPair::default());
    assert!(meter.take(ms(0), Cost::new(5)).is_allow());
    assert_eq!(meter.wait_time(ms(0), Cost::ONE, CAP), soft(20, 20));
}

#[test]
fn without_enough_quota_the_wait_is_hard() {
    let mut meter = fixed(10, 60);
    assert!(meter.take(ms(1_000), Cost::new(8)).is_allow());
    assert_eq!(
        meter.wait_time(ms(2_000), Cost::new(3), CAP),
        WaitTime::Hard(Nanos::from_secs(61))
    );
    assert_eq!(meter.wait_time(ms(2_000), Cost::new(11), CAP), WaitTime::Never);
}

// Cost zero is the default of the published interface: with nothing left it returns the next
// recovery, and nothing is divided by zero.
#[test]
fn a_zero_cost_on_an_empty_limit_reports_the_next_recovery() {
    let mut meter = Meter::new(&sliding(2, SECOND), ClockPair::default());
    assert!(meter.take(ms(100), Cost::ONE).is_allow());
    assert!(meter.take(ms(300), Cost::ONE).is_allow());
    assert_eq!(meter.wait_time(ms(400), Cost::ZERO, CAP), WaitTime::Hard(ms(1_100)));
    assert_eq!(meter.wait_time(ms(1_100), Cost::ZERO, CAP), soft(0, 0));
}

#[test]
fn the_remaining_rate_runs_from_one_to_zero() {
    let mut meter = fixed(8, 1);
    let rate = |meter: &mut Meter, millis| meter.status(ms(millis)).remaining_rate();
    assert!((rate(&mut meter, 0) - 1.0).abs() < f64::EPSILON);
    assert!(meter.take(ms(0), Cost::new(6)).is_allow());
    assert!((rate(&mut meter, 0) - 0.25).abs() < f64::EPSILON);
    assert!(meter.take(ms(0), Cost::new(2)).is_allow());
    assert!(rate(&mut meter, 0).abs() < f64::EPSILON);
    assert!(
        (rate(&mut meter, 1_000) - 1.0).abs() < f64::EPSILON,
        "the reset is applied first"
    );
}
