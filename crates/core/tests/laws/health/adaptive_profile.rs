//! The default profile: what leads to Sleep, how long it lasts, and the way back.

use core::time::Duration;
use std::collections::VecDeque;

use outflow_core::{
    HealthChange, HealthDecision, HealthOverride, HealthSettings, HealthState, LimitContext, Outcome, OutcomeClass,
    TransitionReason,
};
use proptest::prelude::*;

use super::api::{Api, SECOND, moved};

fn adaptive() -> Api {
    Api::new(&HealthSettings::ADAPTIVE)
}

/// Eight failures in a row.
pub(super) fn asleep_after(outcome: Outcome) -> Api {
    let mut api = adaptive();
    let change = api.calls(8, outcome);
    assert_eq!(moved(change), Some((HealthState::Sleep, TransitionReason::Streak)));
    api
}

pub(super) fn half_open_after(outcome: Outcome) -> Api {
    let mut api = asleep_after(outcome);
    assert_eq!(api.wake_when_due().map(|t| t.to), Some(HealthState::HalfOpen));
    api
}

fn failure() -> impl Strategy<Value = Outcome> {
    prop::sample::select(vec![
        Outcome::THROTTLED,
        Outcome::SERVER_FAILED,
        Outcome::NETWORK_FAILED,
        Outcome::from_class(OutcomeClass::OtherFailed),
    ])
}

/// Outcomes that neither end nor extend a streak.
fn nothing() -> impl Strategy<Value = Outcome> {
    prop::sample::select(vec![
        Outcome::NEUTRAL,
        Outcome::CANCELLED,
        Outcome::THROTTLED.explained(),
    ])
}

/// Takes the outcomes of each pair in turn. Returns the last change and the number of failures.
fn fail(api: &mut Api, outcomes: &[(Outcome, Outcome)]) -> (HealthState, usize) {
    let taken = outcomes.iter().take_while(|(nothing, failure)| {
        api.call(*nothing);
        api.call(*failure);
        api.state() != HealthState::Sleep
    });
    let taken = taken.count();
    (api.state(), taken + 1)
}

outflow_testkit::laws! {
    #[test]
    fn eight_failures_in_a_row_of_any_kind_lead_to_sleep
        / fn stress_eight_failures_in_a_row_of_any_kind_lead_to_sleep
        ((prop::collection::vec((nothing(), failure()), 8), 0..30_u32)) = |(outcomes, successes)| {
            let mut api = adaptive();
            api.calls(successes, Outcome::SUCCESS);
            prop_assert_eq!(fail(&mut api, &outcomes), (HealthState::Sleep, 8));
            Ok(())
        };

    #[test]
    fn eight_failures_in_a_row_leave_throttle_too
        / fn stress_eight_failures_in_a_row_leave_throttle_too
        (prop::collection::vec((nothing(), failure()), 8)) = |outcomes| {
            let mut api = throttle_after(Outcome::SERVER_FAILED);
            prop_assert_eq!(fail(&mut api, &outcomes), (HealthState::Sleep, 8));
            Ok(())
        };

    #[test]
    fn a_sleep_is_a_twentieth_of_the_outage_at_most / fn stress_a_sleep_is_a_twentieth_of_the_outage_at_most
        ((failure(), prop::collection::vec((0..20_000_u64, 0..2_000_u64), 1..60)))
        = |(outcome, probes)| sleeps_for_a_share(outcome, &probes);

    #[test]
    fn a_hanging_probe_is_given_up_and_adds_no_time / fn stress_a_hanging_probe_is_given_up_and_adds_no_time
        (prop::collection::vec(1..8_000_u64, 0..40)) = |latencies| gives_up_in_time(&latencies);

    #[test]
    fn a_slow_server_is_not_locked_out / fn stress_a_slow_server_is_not_locked_out
        ((0..10_000_u64, prop::bool::ANY)) = |(latency, is_missing)| {
            let outcome = if is_missing { Outcome::NEUTRAL } else { Outcome::SUCCESS };
            let took = recovers_slowly(Duration::from_millis(latency), outcome);
            prop_assert!(took <= SECOND * 180, "{took:?} at {latency} ms");
            Ok(())
        };
}

// A fifth fails, and never two in a row: eight of forty, seen twice 250 ms apart.
pub(super) fn throttle_after(outcome: Outcome) -> Api {
    let mut api = adaptive();
    for _ in 0..8 {
        api.calls(4, Outcome::SUCCESS);
        api.call(outcome);
    }
    let woken = api.wake_when_due().map(|t| (t.to, t.reason));
    assert_eq!(woken, Some((HealthState::Throttle, TransitionReason::ErrorRatio)));
    api
}

/// Each probe goes `late` after the wake-up and fails after `latency`.
fn sleeps_for_a_share(outcome: Outcome, probes: &[(u64, u64)]) -> Result<(), TestCaseError> {
    let mut api = asleep_after(outcome);
    let left = api.now;
    let first = api.health.next_wakeup().expect("a timer").since(left);
    prop_assert!(first >= SECOND && first <= SECOND * 5 / 4, "{first:?}");
    for (late, latency) in probes {
        api.wake_when_due();
        api.pass_millis(*late);
        let sent = api.now;
        let probe = api.send();
        api.pass_millis(*latency);
        let failed = api.answer(probe, outcome).transition().expect("a failed probe");
        prop_assert_eq!(failed.to, HealthState::Sleep);
        // With its jitter of a quarter it is a twentieth at most.
        let share = (failed.at.since(left) / 25).clamp(SECOND, SECOND * 30);
        let until = failed.until.expect("a timer");
        let earliest = sent.saturating_add(share).max(failed.at);
        let latest = sent.saturating_add(share * 5 / 4).max(failed.at);
        prop_assert!(
            until >= earliest && until <= latest,
            "{:?} of {share:?}",
            until.since(sent)
        );
    }
    Ok(())
}

/// Three times the usual latency, at least two seconds and at most the timeout.
fn gives_up_in_time(latencies: &[u64]) -> Result<(), TestCaseError> {
    let mut api = half_open_after(Outcome::NETWORK_FAILED);
    let mut usual = 0.2;
    for millis in latencies {
        let latency = Duration::from_millis(*millis);
        api.health.observe_latency(latency);
        usual += (latency.as_secs_f64() - usual) / 10.0;
    }
    let sent = api.now;
    let _hangs = api.send();
    let given_up = api.wake_when_due().expect("given up");
    prop_assert_eq!(
        (given_up.to, given_up.reason),
        (HealthState::Sleep, TransitionReason::ProbeTimedOut)
    );
    let patience = given_up.at.since(sent).as_secs_f64();
    prop_assert!(
        (patience - (3.0 * usual).clamp(2.0, 15.0)).abs() < 0.001,
        "{patience} s"
    );
    // The Sleep of a second counts from the sending and is over.
    prop_assert_eq!(given_up.until, Some(given_up.at));
    Ok(())
}

/// Every call is answered after `latency`, late or not. Returns the time until Normal.
fn recovers_slowly(latency: Duration, outcome: Outcome) -> Duration {
    let mut api = half_open_after(Outcome::NETWORK_FAILED);
    let began = api.now;
    let mut in_flight = VecDeque::new();
    while api.state() != HealthState::Normal {
        while let HealthDecision::Go(ticket) = api.health.admission(api.now) {
            in_flight.push_back((api.now.saturating_add(latency), ticket));
        }
        let answered = in_flight.front().map(|(at, _)| *at);
        let woken = api.health.next_wakeup();
        api.now = answered.into_iter().chain(woken).min().expect("an event").max(api.now);
        if woken.is_some_and(|at| at <= api.now) {
            api.wake();
        } else if let Some((_, ticket)) = in_flight.pop_front() {
            api.health.observe_latency(latency);
            api.answer(ticket, outcome);
        }
        assert!(api.now.since(began) < SECOND * 3_600, "stuck in {}", api.state());
    }
    api.now.since(began)
}

#[test]
fn seven_failures_in_a_row_are_not_enough() {
    let mut api = adaptive();
    api.calls(7, Outcome::SERVER_FAILED);
    assert_eq!(api.health.next_wakeup(), None, "no ratio counts either");
    api.call(Outcome::SUCCESS);
    api.calls(7, Outcome::NETWORK_FAILED);
    assert_eq!(api.state(), HealthState::Normal);
}

// Seven of eight are 88 %, and one failure too few.
#[test]
fn a_ratio_needs_eight_failures() {
    let mut api = adaptive();
    api.calls(4, Outcome::SERVER_FAILED);
    api.call(Outcome::SUCCESS);
    api.calls(3, Outcome::SERVER_FAILED);
    assert_eq!(api.health.next_wakeup(), None);
    api.call(Outcome::SUCCESS);
    api.call(Outcome::SERVER_FAILED);
    assert_eq!(api.wake_when_due().map(|t| t.to), Some(HealthState::Throttle));
}

#[test]
fn throttled_calls_have_no_streak_of_their_own() {
    let mut api = adaptive();
    assert_eq!(moved(api.calls(7, Outcome::THROTTLED)), None);
}

// A limit was lowered because of them; a wait of a minute is obeyed all the same.
#[test]
fn explained_throttles_do_not_count() {
    let mut api = adaptive();
    assert_eq!(api.calls(1_000, Outcome::THROTTLED.explained()), HealthChange::None);
    let snapshot = api.health.snapshot(api.now);
    assert_eq!(
        (snapshot.counts.throttled, snapshot.streak, snapshot.failures),
        (0, 0, 0)
    );
    let asked = Outcome::THROTTLED.explained().with_retry_after(SECOND * 60);
    let slept = api.call(asked).transition().expect("a long wait");
    assert_eq!(
        (slept.to, slept.reason),
        (HealthState::Sleep, TransitionReason::RetryAfter)
    );
    assert_eq!(slept.until, Some(api.now.saturating_add(SECOND * 60)));
}

// A probe decides by itself, also if something explains its throttle.
#[test]
fn an_explained_throttle_fails_a_probe() {
    let mut api = half_open_after(Outcome::THROTTLED);
    let change = api.call(Outcome::THROTTLED.explained());
    assert_eq!(moved(change), Some((HealthState::Sleep, TransitionReason::ProbeFailed)));
}

// One, and after its success two at once; the third success ends it.
#[test]
fn three_good_probes_lead_to_normal() {
    let mut api = half_open_after(Outcome::SERVER_FAILED);
    let first = api.send();
    assert!(!matches!(api.health.admission(api.now), HealthDecision::Go(_)));
    assert_eq!(api.answer(first, Outcome::SUCCESS), HealthChange::None);
    let [second, third] = [api.send(), api.send()];
    assert!(!matches!(api.health.admission(api.now), HealthDecision::Go(_)));
    assert_eq!(api.answer(second, Outcome::SUCCESS), HealthChange::None);
    let recovered = moved(api.answer(third, Outcome::SUCCESS));
    assert_eq!(recovered, Some((HealthState::Normal, TransitionReason::ProbesOk)));
}

#[test]
fn a_missing_page_is_a_good_response() {
    for good in 0..4 {
        let mut api = half_open_after(Outcome::SERVER_FAILED);
        let outcome = |at| if at < good { Outcome::SUCCESS } else { Outcome::NEUTRAL };
        let changes = [0, 1, 2].map(|at| moved(api.call(outcome(at))).map(|(to, _)| to));
        assert_eq!(changes, [None, None, Some(HealthState::Normal)], "{good} successes");
    }
}

// Given up after two seconds; the answer comes during the next Sleep.
#[test]
fn a_late_good_response_ends_the_sleep() {
    for outcome in [Outcome::SUCCESS, Outcome::NEUTRAL] {
        let mut api = half_open_after(Outcome::SERVER_FAILED);
        api.pass(SECOND * 400);
        let late = api.send();
        api.wake_when_due();
        assert!(api.health.next_wakeup().is_some_and(|at| at > api.now), "a long Sleep");
        let ended = moved(api.answer(late, outcome));
        assert_eq!(ended, Some((HealthState::HalfOpen, TransitionReason::LateResponse)));
        assert_eq!(
            moved(api.calls(3, Outcome::SUCCESS)).map(|(to, _)| to),
            Some(HealthState::Normal)
        );
    }
}

// A failure is no news, an operator's hold stays, and so does a wait that the server asked for.
#[test]
fn a_late_response_ends_no_other_sleep() {
    let late = || {
        let mut api = half_open_after(Outcome::SERVER_FAILED);
        api.call(Outcome::SUCCESS);
        api.pass(SECOND * 400);
        let tickets = [api.send(), api.send()];
        (api, tickets)
    };
    let (mut api, [first, _]) = late();
    api.wake_when_due();
    assert_eq!(api.answer(first, Outcome::SERVER_FAILED), HealthChange::None);
    let (mut api, [first, _]) = late();
    api.health.force(api.now, HealthOverride::Sleep);
    assert_eq!(api.answer(first, Outcome::SUCCESS), HealthChange::None);
    let (mut api, [first, second]) = late();
    api.answer(second, Outcome::THROTTLED.with_retry_after(SECOND * 60));
    assert_eq!(api.answer(first, Outcome::SUCCESS), HealthChange::None);
    assert_eq!(api.state(), HealthState::Sleep);
}

// A plain call of before the Sleep proves nothing about now.
#[test]
fn a_late_call_that_is_no_probe_does_not_end_a_sleep() {
    let mut api = adaptive();
    let late = api.send();
    api.calls(8, Outcome::SERVER_FAILED);
    assert_eq!(api.answer(late, Outcome::SUCCESS), HealthChange::None);
    assert_eq!(api.state(), HealthState::Sleep);
}

// Maintenance of two hours that asks for ten seconds each time; the server named the time.
#[test]
fn an_obeyed_wait_is_no_failed_recovery() {
    for settings in [HealthSettings::ADAPTIVE, HealthSettings::CAUTIOUS] {
        let mut api = Api::half_open_with(&settings);
        for _ in 0..720 {
            let asked = Outcome::SERVER_FAILED.with_retry_after(SECOND * 10);
            let slept = api.call(asked).transition().expect("asleep");
            assert_eq!(slept.until, Some(api.now.saturating_add(SECOND * 10)));
            assert_eq!(api.health.snapshot(api.now).failed_recoveries, 0);
            api.wake_when_due();
        }
        let cooldown = api.health.snapshot(api.now).cooldown;
        assert!(cooldown <= SECOND * 30, "{cooldown:?}");
    }
}

// A ban without a time is a failed recovery like any other.
#[test]
fn a_ban_without_a_time_is_a_failed_recovery() {
    let mut api = Api::half_open();
    for cooldown in [4, 8, 16, 32] {
        assert_eq!(
            moved(api.call(Outcome::BANNED)).map(|(_, why)| why),
            Some(TransitionReason::Banned)
        );
        assert_eq!(api.health.snapshot(api.now).cooldown, SECOND * cooldown);
        api.wake_when_due();
    }
    assert_eq!(
        moved(api.call(Outcome::BANNED)).map(|(to, _)| to),
        Some(HealthState::CacheOnly)
    );
}

#[test]
fn a_thousand_failed_recoveries_do_not_lead_to_cache_only() {
    let mut api = asleep_after(Outcome::SERVER_FAILED);
    for _ in 0..1_000 {
        api.wake_when_due();
        let failed = moved(api.call(Outcome::SERVER_FAILED));
        assert_eq!(failed, Some((HealthState::Sleep, TransitionReason::ProbeFailed)));
    }
}

// A tenth of a minute after throttles, a second after other failures.
#[test]
fn a_sleep_after_throttles_takes_a_tenth_of_the_longest_window() {
    for (outcome, least) in [(Outcome::THROTTLED, 6), (Outcome::SERVER_FAILED, 1)] {
        let mut api = adaptive();
        api.health.set_limits(LimitContext {
            longest_window: SECOND * 60,
            concurrency: 4,
        });
        let slept = api.calls(8, outcome).transition().expect("asleep");
        let span = slept.until.expect("a timer").since(slept.at);
        assert!(span >= SECOND * least && span <= SECOND * least * 5 / 4, "{span:?}");
    }
}
