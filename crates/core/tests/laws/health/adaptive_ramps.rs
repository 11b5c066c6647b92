//! The speed after a recovery by its cause, in the default profile.

use outflow_core::{HealthOverride, HealthSettings, HealthState, Outcome, OutcomeClass, RampStage, TransitionReason};

use super::adaptive_profile::{asleep_after, half_open_after, throttle_after};
use super::api::{Api, SECOND, rate};

// 17, 19, … 34 and 35 of 35/s, a step every 1.25 s.
#[test]
fn a_recovery_from_throttles_ramps_for_ten_seconds() {
    for outcome in [Outcome::THROTTLED, Outcome::BANNED] {
        let mut api = match outcome.effect() {
            OutcomeClass::Banned => Api::half_open_with(&HealthSettings::ADAPTIVE),
            _ => half_open_after(outcome),
        };
        api.calls(3, Outcome::SUCCESS);
        let recovered = api.now;
        let mut speeds = vec![api.health.effective(rate("35/s")).quantity()];
        while api.health.snapshot(api.now).ramp != RampStage::None {
            assert_eq!(api.wake_when_due(), None);
            speeds.push(api.health.effective(rate("35/s")).quantity());
        }
        assert_eq!(speeds, [17, 19, 21, 23, 25, 28, 31, 34, 35]);
        assert_eq!(api.now.since(recovered), SECOND * 10);
    }
}

#[test]
fn a_recovery_from_other_failures_has_no_ramp() {
    for outcome in [Outcome::SERVER_FAILED, Outcome::NETWORK_FAILED] {
        let mut api = half_open_after(outcome);
        api.call(Outcome::THROTTLED);
        api.wake_when_due();
        api.calls(3, Outcome::SUCCESS);
        assert_eq!(api.state(), HealthState::Normal);
        assert_eq!(
            api.health.effective(rate("35/s")),
            rate("35/s"),
            "the outage began otherwise"
        );
    }
}

// Ten successes end Throttle; the ramp follows only if most failures were throttles, whichever
// outcome came last.
#[test]
fn throttle_leaves_to_normal_with_a_ramp_after_throttles() {
    for (outcome, speed) in [(Outcome::THROTTLED, "17/s"), (Outcome::SERVER_FAILED, "35/s")] {
        let mut api = throttle_after(outcome);
        api.calls(10, Outcome::SUCCESS);
        let left = api.wake_when_due().map(|t| (t.to, t.reason));
        assert_eq!(left, Some((HealthState::Normal, TransitionReason::SuccessWindowOk)));
        assert_eq!(api.health.effective(rate("35/s")), rate(speed));
    }
}

// The hold of a day is no outage: the next Sleep is the shortest, and full speed follows.
#[test]
fn an_operators_release_has_no_ramp_and_no_outage() {
    for hold in [HealthOverride::Sleep, HealthOverride::CacheOnly] {
        let mut api = asleep_after(Outcome::THROTTLED);
        api.health.force(api.now, hold);
        api.pass(SECOND * 86_400);
        api.health.release(api.now);
        assert_eq!(api.health.snapshot(api.now).cooldown, SECOND);
        api.calls(3, Outcome::SUCCESS);
        assert_eq!(api.state(), HealthState::Normal);
        assert_eq!(api.health.effective(rate("35/s")), rate("35/s"));
    }
}

// A cautious machine ramps after every recovery by probes.
#[test]
fn a_cautious_recovery_ramps_after_a_release_too() {
    let mut api = Api::usual();
    api.health.force(api.now, HealthOverride::Sleep);
    api.health.release(api.now);
    api.calls(5, Outcome::SUCCESS);
    assert_eq!(api.health.effective(rate("35/s")), rate("17/s"));
}
