//! Probes that succeed, fail, hang, come late or are lost.

use outflow_core::{HealthChange, HealthDecision, HealthSettings, HealthState, Outcome, RampStage, TransitionReason};
use outflow_testkit::laws::{CASES, STRESS_CASES, law};
use proptest::prelude::*;

use super::api::{Api, SECOND, moved, rate};

#[test]
fn five_good_probes_of_five_return_to_normal() {
    let mut api = Api::half_open();
    assert_eq!(
        moved(api.calls(5, Outcome::SUCCESS)),
        Some((HealthState::Normal, TransitionReason::ProbesOk))
    );
}

#[test]
fn one_bad_probe_of_three_returns_to_sleep() {
    let mut api = Api::half_open();
    api.calls(2, Outcome::SUCCESS);
    assert_eq!(
        moved(api.call(Outcome::THROTTLED)),
        Some((HealthState::Sleep, TransitionReason::ProbeFailed))
    );
}

#[test]
fn a_hundred_callers_send_one_probe() {
    let mut api = Api::half_open();
    let mut sent = Vec::new();
    for _ in 0..100 {
        if let HealthDecision::Go(ticket) = api.health.admission(api.now) {
            sent.push(ticket);
        }
    }
    assert_eq!(sent.len(), 1);
    assert!(sent[0].is_probe());
    assert_eq!(api.health.snapshot(api.now).probes_out, 1);
}

// Dropped, answered 404, or answered after the machine had left and returned: within one probe
// timeout of 15 s the machine has left `HalfOpen` or lets the next probe go.
#[test]
fn no_probe_keeps_the_machine_half_open() {
    let spoil: [fn(&mut Api); 4] = [
        |api| {
            let dropped = api.send();
            api.health.abandon(api.now, dropped);
        },
        |api| {
            let missing = api.send();
            assert_eq!(api.answer(missing, Outcome::NEUTRAL), HealthChange::None);
        },
        |api| {
            let late = api.send();
            api.wake_when_due();
            assert_eq!(api.state(), HealthState::Sleep, "timed out");
            api.wake_when_due();
            assert_eq!(api.answer(late, Outcome::SERVER_FAILED), HealthChange::None);
        },
        |api| {
            let late = api.send();
            api.wake_when_due();
            api.wake_when_due();
            let probe = api.send();
            api.health.abandon(api.now, late);
            assert_eq!(api.health.snapshot(api.now).probes_out, 1, "not its slot");
            api.answer(probe, Outcome::SUCCESS);
        },
    ];
    for spoiled in spoil {
        let mut api = Api::half_open();
        spoiled(&mut api);
        assert_eq!(api.state(), HealthState::HalfOpen);
        let change = (0..5).find_map(|_| moved(api.call(Outcome::SUCCESS)));
        assert_eq!(change, Some((HealthState::Normal, TransitionReason::ProbesOk)));
    }
}

#[test]
fn a_hanging_probe_fails_at_its_timeout() {
    let mut api = Api::half_open();
    let sent = api.now;
    let hanging = api.send();
    assert_eq!(api.health.next_wakeup(), Some(sent.saturating_add(SECOND * 15)));
    api.pass_millis(14_999);
    assert_eq!(api.wake(), None);
    api.pass_millis(1);
    assert_eq!(api.health.admission(api.now), HealthDecision::Overdue);
    assert_eq!(api.wake().map(|t| t.reason), Some(TransitionReason::ProbeTimedOut));
    assert_eq!(api.answer(hanging, Outcome::SUCCESS), HealthChange::None);
    assert_eq!(api.state(), HealthState::Sleep);
    let cooldown = api.health.snapshot(api.now).cooldown;
    assert_eq!(cooldown, SECOND * 4, "a failure like any other");
}

// Four of five successes and nineteen of twenty neutral responses decide nothing, and one more of
// either does: 24 probes at three a second are 8 s, within one probe timeout of 15 s.
fn answered_probes_lead_on(cases: u32) {
    let neutral = prop::collection::vec(any::<bool>(), 24);
    law(cases, neutral, |neutral| {
        let mut api = Api::half_open();
        let opened = api.now;
        let left = neutral.into_iter().find_map(|neutral| {
            api.pass_millis(334);
            moved(api.call(if neutral { Outcome::NEUTRAL } else { Outcome::SUCCESS }))
        });
        prop_assert_eq!(left.map(|(to, _)| to), Some(HealthState::Normal));
        prop_assert!(api.now.since(opened) <= SECOND * 15);
        Ok(())
    });
}

#[test]
fn answered_probes_never_keep_the_machine_half_open() {
    answered_probes_lead_on(CASES);
}

#[test]
#[ignore = "long run: cargo xtask test --stress"]
fn stress_answered_probes_never_keep_the_machine_half_open() {
    answered_probes_lead_on(STRESS_CASES);
}

// A neutral response is no success: the ramp starts at Throttle's rate.
#[test]
fn a_recovery_by_neutral_responses_ramps_and_resets_failures() {
    let mut api = Api::half_open();
    api.call(Outcome::SERVER_FAILED);
    api.wake_when_due();
    api.calls(20, Outcome::NEUTRAL);
    let normal = api.health.snapshot(api.now);
    assert!(matches!(normal.ramp, RampStage::Ramping { .. }));
    assert_eq!(api.health.effective(rate("35/s")), rate("17/s"));
    assert_eq!((normal.failed_recoveries, normal.cooldown), (0, SECOND * 2));
}

// Neutral responses of an earlier recovery do not count for this one.
#[test]
fn neutral_responses_count_from_the_start_of_probing() {
    let mut api = Api::half_open();
    api.calls(19, Outcome::NEUTRAL);
    api.call(Outcome::SERVER_FAILED);
    api.wake_when_due();
    assert_eq!(moved(api.calls(19, Outcome::NEUTRAL)), None);
    let left = moved(api.call(Outcome::NEUTRAL));
    assert_eq!(left, Some((HealthState::Normal, TransitionReason::ProbesAnswered)));
}

// Two may be in flight; the second is sent five seconds after the first and answered.
#[test]
fn the_first_of_several_probes_times_out_first() {
    let mut api = Api::new(&HealthSettings {
        probe_start: 2,
        probe_concurrency: 2,
        ..HealthSettings::CAUTIOUS
    });
    api.call(Outcome::BANNED);
    api.wake_when_due();
    let first_out = api.now;
    let _hanging = api.send();
    api.pass(SECOND * 5);
    let second = api.send();
    let due = Some(first_out.saturating_add(SECOND * 15));
    assert_eq!(api.health.next_wakeup(), due);
    api.answer(second, Outcome::SUCCESS);
    assert_eq!(api.health.next_wakeup(), due);
}

// A probe that is throttled "for 1 s" rests exactly so long, and neither our shortest sleep of 2 s
// nor the 4 s of a grown cooldown.
#[test]
fn a_servers_time_replaces_our_cooldown() {
    let mut api = Api::half_open();
    let slept = api.call(Outcome::THROTTLED.with_retry_after(SECOND)).transition();
    assert_eq!(slept.and_then(|t| t.until), Some(api.now.saturating_add(SECOND)));
}
