//! Every edge of the machine, and next to each the event that falls just short of it.

use core::time::Duration;

use outflow_core::{HealthState, Outcome, OutcomeClass, TransitionReason};

use super::api::{Api, SECOND, moved};

type Move = Option<(HealthState, TransitionReason)>;

/// Event, its implementation, and its expected transition.
type Row = (&'static str, fn(&mut Api) -> Move, Move);

fn table(from: HealthState, rows: &[Row]) {
    for (what, event, expected) in rows {
        let mut api = Api::in_state(from);
        assert_eq!(api.state(), from);
        assert_eq!(event(&mut api), *expected, "{from}: {what}");
        let landed = expected.map_or(from, |(to, _)| to);
        assert_eq!(api.state(), landed, "{from}: {what}");
    }
}

fn refused_for(seconds: u64) -> Outcome {
    Outcome::THROTTLED.with_retry_after(Duration::from_secs(seconds))
}

/// Runs calls at an interval of `every` milliseconds, of which the first `failing` in ten fail.
fn mixed(api: &mut Api, count: u64, failing: u64, every: u64) -> Move {
    for call in 0..count {
        api.pass_millis(every);
        if let Some(woken) = api.wake() {
            return Some((woken.to, woken.reason));
        }
        let outcome = if call % 10 < failing {
            Outcome::SERVER_FAILED
        } else {
            Outcome::SUCCESS
        };
        if let Some(change) = moved(api.call(outcome)) {
            return Some(change);
        }
    }
    None
}

fn woken(api: &mut Api) -> Move {
    api.wake().map(|t| (t.to, t.reason))
}

// Three throttles in a row and a fifth of the calls are the thresholds; each row has its neighbour
// on the other side of one of them.
#[test]
fn normal_leaves_by_a_streak_or_a_ratio() {
    table(
        HealthState::Normal,
        &[
            (
                "three refusals",
                |a| moved(a.calls(3, Outcome::THROTTLED)),
                Some((HealthState::Throttle, TransitionReason::Streak)),
            ),
            ("two refusals", |a| moved(a.calls(2, Outcome::THROTTLED)), None),
            (
                "a success ends the streak",
                |a| {
                    a.calls(2, Outcome::THROTTLED);
                    a.call(Outcome::SUCCESS);
                    moved(a.calls(2, Outcome::THROTTLED))
                },
                None,
            ),
            (
                "a server failure ends the streak",
                |a| {
                    a.calls(2, Outcome::THROTTLED);
                    a.call(Outcome::SERVER_FAILED);
                    moved(a.calls(2, Outcome::THROTTLED))
                },
                None,
            ),
            (
                "a neutral outcome does not",
                |a| {
                    a.calls(2, Outcome::THROTTLED);
                    a.calls(100, Outcome::NEUTRAL);
                    moved(a.call(Outcome::THROTTLED))
                },
                Some((HealthState::Throttle, TransitionReason::Streak)),
            ),
            (
                "a fifth fails",
                |a| mixed(a, 100, 2, 50),
                Some((HealthState::Throttle, TransitionReason::ErrorRatio)),
            ),
            ("a tenth fails", |a| mixed(a, 1_000, 1, 50), None),
            (
                "all fail, too few samples",
                |a| moved(a.calls(19, Outcome::SERVER_FAILED)),
                None,
            ),
            (
                "all fail, too early",
                |a| {
                    a.calls(20, Outcome::SERVER_FAILED);
                    a.pass_millis(249);
                    moved(a.call(Outcome::SERVER_FAILED))
                },
                None,
            ),
            (
                "all fail and still do",
                |a| {
                    a.calls(20, Outcome::SERVER_FAILED);
                    a.pass_millis(249);
                    a.call(Outcome::SERVER_FAILED);
                    a.pass_millis(1);
                    woken(a)
                },
                Some((HealthState::Throttle, TransitionReason::ErrorRatio)),
            ),
        ],
    );
}

// Five seconds are waited out without a transition, six are not.
#[test]
fn normal_leaves_by_a_servers_wait() {
    table(
        HealthState::Normal,
        &[
            (
                "a ban without a time",
                |a| moved(a.call(Outcome::BANNED)),
                Some((HealthState::Sleep, TransitionReason::Banned)),
            ),
            (
                "a ban with a short time",
                |a| moved(a.call(Outcome::BANNED.with_retry_after(SECOND))),
                Some((HealthState::Sleep, TransitionReason::Banned)),
            ),
            (
                "six seconds asked",
                |a| moved(a.call(refused_for(6))),
                Some((HealthState::Sleep, TransitionReason::RetryAfter)),
            ),
            (
                "six seconds asked by a failing server",
                |a| moved(a.call(Outcome::SERVER_FAILED.with_retry_after(SECOND * 6))),
                Some((HealthState::Sleep, TransitionReason::RetryAfter)),
            ),
            ("five seconds asked", |a| moved(a.call(refused_for(5))), None),
            (
                "an hour asked of what does not count",
                |a| moved(a.call(Outcome::NEUTRAL.with_retry_after(SECOND * 3_600))),
                None,
            ),
            ("successes", |a| moved(a.calls(1_000, Outcome::SUCCESS)), None),
            ("neutral outcomes", |a| moved(a.calls(1_000, Outcome::NEUTRAL)), None),
            ("cancelled calls", |a| moved(a.calls(1_000, Outcome::CANCELLED)), None),
            ("a wake-up for nothing", woken, None),
        ],
    );
}

// Ten successes and a tenth of failures are the thresholds.
#[test]
fn throttle_recovers_by_its_edges_only() {
    table(
        HealthState::Throttle,
        &[
            (
                "ten successes that last",
                |a| {
                    a.calls(10, Outcome::SUCCESS);
                    a.pass_millis(250);
                    woken(a)
                },
                Some((HealthState::HalfOpen, TransitionReason::SuccessWindowOk)),
            ),
            ("ten successes at once", |a| moved(a.calls(10, Outcome::SUCCESS)), None),
            (
                "nine successes",
                |a| {
                    a.calls(9, Outcome::SUCCESS);
                    a.pass(SECOND);
                    woken(a)
                },
                None,
            ),
            (
                "ten successes and two failures",
                |a| {
                    a.calls(2, Outcome::SERVER_FAILED);
                    a.calls(10, Outcome::SUCCESS);
                    a.pass(SECOND);
                    woken(a)
                },
                None,
            ),
            (
                "failures below a tenth",
                |a| {
                    a.call(Outcome::SERVER_FAILED);
                    a.calls(10, Outcome::SUCCESS);
                    a.pass_millis(250);
                    woken(a)
                },
                Some((HealthState::HalfOpen, TransitionReason::SuccessWindowOk)),
            ),
            (
                "failures of a tenth exactly",
                |a| {
                    a.calls(2, Outcome::SERVER_FAILED);
                    a.calls(18, Outcome::SUCCESS);
                    a.pass_millis(250);
                    woken(a)
                },
                None,
            ),
            (
                "one success more than a tenth",
                |a| {
                    a.calls(2, Outcome::SERVER_FAILED);
                    a.calls(19, Outcome::SUCCESS);
                    a.pass_millis(250);
                    woken(a)
                },
                Some((HealthState::HalfOpen, TransitionReason::SuccessWindowOk)),
            ),
        ],
    );
}

// Nineteen and twenty in thirty seconds are either side of the minimum sample.
#[test]
fn throttle_degrades_by_its_edges_only() {
    table(
        HealthState::Throttle,
        &[
            (
                "five refusals",
                |a| moved(a.calls(5, Outcome::THROTTLED)),
                Some((HealthState::Sleep, TransitionReason::Streak)),
            ),
            ("four refusals", |a| moved(a.calls(4, Outcome::THROTTLED)), None),
            (
                "six in ten fail for five minutes",
                |a| mixed(a, 3_200, 6, 100),
                Some((HealthState::Sleep, TransitionReason::ErrorRatioHeld)),
            ),
            ("six in ten fail for less", |a| mixed(a, 2_990, 6, 100), None),
            ("half fail for an hour", |a| mixed(a, 36_000, 5, 100), None),
            (
                "all fail, nineteen in any window of thirty seconds",
                |a| mixed(a, 2_000, 10, 1_650),
                None,
            ),
            (
                "all fail, twenty in any window of thirty seconds",
                |a| mixed(a, 2_000, 10, 1_500),
                Some((HealthState::Sleep, TransitionReason::ErrorRatioHeld)),
            ),
            (
                "a ban",
                |a| moved(a.call(Outcome::BANNED)),
                Some((HealthState::Sleep, TransitionReason::Banned)),
            ),
            (
                "six seconds asked",
                |a| moved(a.call(refused_for(6))),
                Some((HealthState::Sleep, TransitionReason::RetryAfter)),
            ),
            ("five seconds asked", |a| moved(a.call(refused_for(5))), None),
            ("neutral outcomes", |a| moved(a.calls(1_000, Outcome::NEUTRAL)), None),
            ("cancelled calls", |a| moved(a.calls(1_000, Outcome::CANCELLED)), None),
        ],
    );
}

#[test]
fn sleep_and_cache_only_leave_by_timer_only() {
    table(
        HealthState::Sleep,
        &[
            (
                "its time is over",
                |a| a.wake_when_due().map(|t| (t.to, t.reason)),
                Some((HealthState::HalfOpen, TransitionReason::SleepOver)),
            ),
            (
                "a nanosecond earlier",
                |a| {
                    a.now = a.health.next_wakeup().expect("a timer");
                    a.now = a.now.saturating_sub(Duration::from_nanos(1));
                    woken(a)
                },
                None,
            ),
        ],
    );
    table(
        HealthState::CacheOnly,
        &[
            (
                "its period is over",
                |a| a.wake_when_due().map(|t| (t.to, t.reason)),
                Some((HealthState::Sleep, TransitionReason::AutoRecover)),
            ),
            (
                "a second earlier",
                |a| {
                    a.pass(SECOND * (15 * 60 - 1));
                    woken(a)
                },
                None,
            ),
        ],
    );
}

#[test]
fn half_open_leaves_by_its_edges_only() {
    let failed = Some((HealthState::Sleep, TransitionReason::ProbeFailed));
    table(
        HealthState::HalfOpen,
        &[
            (
                "five successes",
                |a| moved(a.calls(5, Outcome::SUCCESS)),
                Some((HealthState::Normal, TransitionReason::ProbesOk)),
            ),
            ("four successes", |a| moved(a.calls(4, Outcome::SUCCESS)), None),
            ("a refusal", |a| moved(a.call(Outcome::THROTTLED)), failed),
            ("a refusal for a second", |a| moved(a.call(refused_for(1))), failed),
            ("a server failure", |a| moved(a.call(Outcome::SERVER_FAILED)), failed),
            ("a network failure", |a| moved(a.call(Outcome::NETWORK_FAILED)), failed),
            (
                "another failure that counts",
                |a| moved(a.call(Outcome::from_class(OutcomeClass::OtherFailed))),
                failed,
            ),
            (
                "a failure after four successes",
                |a| {
                    a.calls(4, Outcome::SUCCESS);
                    moved(a.call(Outcome::SERVER_FAILED))
                },
                failed,
            ),
            (
                "a ban",
                |a| moved(a.call(Outcome::BANNED)),
                Some((HealthState::Sleep, TransitionReason::Banned)),
            ),
            (
                "a minute asked",
                |a| moved(a.call(refused_for(60))),
                Some((HealthState::Sleep, TransitionReason::RetryAfter)),
            ),
            (
                "a probe that hangs",
                |a| {
                    let _hangs = a.send();
                    a.wake_when_due().map(|t| (t.to, t.reason))
                },
                Some((HealthState::Sleep, TransitionReason::ProbeTimedOut)),
            ),
            (
                "a probe given up",
                |a| {
                    let ticket = a.send();
                    a.health.abandon(a.now, ticket);
                    a.pass(SECOND * 3_600);
                    woken(a)
                },
                None,
            ),
        ],
    );
}

// Four neutral responses weigh like one success, twenty like five; a missing response weighs nothing.
#[test]
fn half_open_leaves_by_neutral_responses() {
    let failed = Some((HealthState::Sleep, TransitionReason::ProbeFailed));
    table(
        HealthState::HalfOpen,
        &[
            (
                "twenty neutral answers",
                |a| moved(a.calls(20, Outcome::NEUTRAL)),
                Some((HealthState::Normal, TransitionReason::ProbesAnswered)),
            ),
            (
                "nineteen neutral answers",
                |a| moved(a.calls(19, Outcome::NEUTRAL)),
                None,
            ),
            ("cancelled probes", |a| moved(a.calls(1_000, Outcome::CANCELLED)), None),
            (
                "cancelled probes among neutral answers",
                |a| {
                    a.calls(19, Outcome::NEUTRAL);
                    moved(a.calls(1_000, Outcome::CANCELLED))
                },
                None,
            ),
            (
                "a failure after nineteen neutral answers",
                |a| {
                    a.calls(19, Outcome::NEUTRAL);
                    moved(a.call(Outcome::SERVER_FAILED))
                },
                failed,
            ),
            (
                "four successes and three neutral answers",
                |a| {
                    a.calls(4, Outcome::SUCCESS);
                    moved(a.calls(3, Outcome::NEUTRAL))
                },
                None,
            ),
            (
                "four successes and four neutral answers",
                |a| {
                    a.calls(4, Outcome::SUCCESS);
                    moved(a.calls(4, Outcome::NEUTRAL))
                },
                Some((HealthState::Normal, TransitionReason::ProbesAnswered)),
            ),
        ],
    );
}
