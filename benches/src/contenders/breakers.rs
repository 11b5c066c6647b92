//! recloser and failsafe: breakers that read no clock while closed.

use std::time::Duration;

use failsafe::failure_policy::{self, SuccessRateOverTimeWindow};
use failsafe::{StateMachine, backoff};
use recloser::Recloser;

/// failsafe by the share of successes in a window of time, its closest equivalent of an error rate.
pub(crate) type Failsafe = StateMachine<SuccessRateOverTimeWindow<backoff::Constant>, ()>;

/// Builds recloser over the last 100 calls, opening at half of them. It has no check without a call.
pub(crate) fn recloser() -> Recloser {
    Recloser::custom()
        .error_rate(0.5)
        .closed_len(100)
        .half_open_len(10)
        .open_wait(HOUR)
        .build()
}

pub(crate) fn failsafe() -> Failsafe {
    // It counts by time, so opening it takes about as long as its window.
    let window = Duration::from_secs(1);
    let policy = failure_policy::success_rate_over_time_window(0.5, 10, window, backoff::constant(HOUR));
    StateMachine::new(policy, ())
}

/// An opened breaker stays open for longer than any run.
const HOUR: Duration = Duration::from_hours(1);
