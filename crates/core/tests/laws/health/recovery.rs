//! The rate of each state, and the recoveries: ramps, growing cooldowns, and rests in `CacheOnly`.

use core::time::Duration;

use outflow_core::{
    HealthConfig, HealthDecision, HealthOverride, HealthSettings, HealthState, Outcome, RampStage, RateFactor, Share,
    TransitionReason,
};

use super::api::{Api, RECOVERING, SECOND, moved, rate};

// Half of 35 is 17; at 5/s and below only the concurrency is cut; between, 5/s is the floor.
#[test]
fn throttle_halves_rates_down_to_a_floor() {
    let api = Api::throttled();
    let cases = [
        ("35/s", "17/s"),
        ("10/s", "5/s"),
        ("8/s", "5/s"),
        ("5/s", "5/s"),
        ("2/s", "2/s"),
        ("100/min", "100/min"),
        ("400/min", "300/min"),
        ("6000/min", "3000/min"),
        ("1/100ms", "1/200ms"),
    ];
    for (configured, left) in cases {
        assert_eq!(api.health.effective(rate(configured)), rate(left), "{configured}");
    }
}

#[test]
fn each_state_has_its_concurrency_and_its_rate() {
    let expected = [
        (HealthState::Normal, 4, "35/s"),
        (HealthState::Throttle, 2, "17/s"),
        (HealthState::Sleep, 0, "3/s"),
        (HealthState::HalfOpen, 1, "3/s"),
        (HealthState::CacheOnly, 0, "3/s"),
    ];
    for (state, concurrency, left) in expected {
        let api = Api::in_state(state);
        assert_eq!(api.health.concurrency(), concurrency, "{state}");
        assert_eq!(api.health.effective(rate("35/s")), rate(left), "{state}");
        assert_eq!(api.health.effective(rate("2/s")), rate("2/s"), "{state}");
    }
}

#[test]
fn a_concurrency_of_one_is_left_in_throttle() {
    let mut api = Api::new(&HealthSettings {
        concurrency: Some(1),
        ..HealthSettings::CAUTIOUS
    });
    api.calls(3, Outcome::THROTTLED);
    assert_eq!((api.state(), api.health.concurrency()), (HealthState::Throttle, 1));
}

// 17.5 × 1.1⁷ is 34.1, the first above 95 % of 35; the eighth step reaches 35 after forty minutes.
#[test]
fn the_ramp_takes_forty_minutes_to_full_speed() {
    let mut api = Api::half_open();
    let recovered = api.now;
    api.calls(5, Outcome::SUCCESS);
    let mut speeds = vec![api.health.effective(rate("35/s")).quantity()];
    while api.health.snapshot(api.now).ramp != RampStage::None {
        assert_eq!(api.wake_when_due(), None, "a step is no transition");
        speeds.push(api.health.effective(rate("35/s")).quantity());
    }
    assert_eq!(speeds, [17, 19, 21, 23, 25, 28, 31, 34, 35]);
    assert_eq!(api.now.since(recovered), Duration::from_mins(40));
    assert_eq!(api.health.next_wakeup(), None);
}

#[test]
fn a_ramp_without_wakeups_catches_up() {
    let mut api = Api::half_open();
    api.calls(5, Outcome::SUCCESS);
    api.pass(Duration::from_mins(17));
    assert_eq!(api.health.admission(api.now), HealthDecision::Overdue);
    assert_eq!(api.wake(), None);
    assert_eq!(api.health.effective(rate("35/s")), rate("23/s"));
    assert!(matches!(api.health.admission(api.now), HealthDecision::Go(_)));
}

/// Recovered, and one step of 10 % up the ramp.
fn ramping() -> Api {
    let mut api = Api::half_open();
    api.calls(5, Outcome::SUCCESS);
    api.wake_when_due();
    assert_eq!(api.health.effective(rate("100/s")), rate("55/s"));
    api
}

fn reload(api: &mut Api, settings: &HealthSettings) {
    let config = HealthConfig::new(*settings).expect("valid");
    api.health.configure(api.now, config);
}

// A minute into its second step the ramp gets two minutes a step, and growth by half.
#[test]
fn a_ramp_continues_in_new_steps() {
    let mut api = ramping();
    let stepped = api.now;
    api.pass(SECOND * 60);
    let settings = HealthSettings {
        ramp_every: SECOND * 120,
        ramp_factor: RateFactor::percent(150),
        ..HealthSettings::CAUTIOUS
    };
    reload(&mut api, &settings);
    let next = stepped.saturating_add(SECOND * 120);
    // From 55 of 100 by half: 82, then the top.
    let end = Some(next.saturating_add(SECOND * 120));
    assert_eq!(api.health.snapshot(api.now).ramp, RampStage::Ramping { next, end });
    assert_eq!(api.health.effective(rate("100/s")), rate("55/s"));
    assert_eq!(api.wake_when_due(), None);
    assert_eq!(api.now, next);
    assert_eq!(api.health.effective(rate("100/s")), rate("82/s"));
    let next = next.saturating_add(SECOND * 120);
    assert_eq!(api.health.next_wakeup(), Some(next));
}

// Four minutes into a step of five, steps of one second make one step due and not two hundred.
#[test]
fn shorter_steps_are_taken_one_by_one() {
    let mut api = ramping();
    api.pass(SECOND * 240);
    let settings = HealthSettings {
        ramp_every: SECOND,
        ..HealthSettings::CAUTIOUS
    };
    reload(&mut api, &settings);
    assert_eq!(api.health.next_wakeup(), Some(api.now));
    api.wake();
    assert_eq!(api.health.effective(rate("100/s")), rate("60/s"));
    let next = api.now.saturating_add(SECOND);
    assert_eq!(api.health.next_wakeup(), Some(next));
}

// Two steps were due under the old settings without a wake-up; they follow those.
#[test]
fn a_reload_first_makes_the_steps_that_were_due() {
    let mut api = ramping();
    api.pass(SECOND * 601);
    let settings = HealthSettings {
        ramp_factor: RateFactor::percent(300),
        ..HealthSettings::CAUTIOUS
    };
    reload(&mut api, &settings);
    assert_eq!(api.health.effective(rate("100/s")), rate("66/s"));
    let next = api.now.saturating_add(SECOND * 299);
    assert_eq!(api.health.next_wakeup(), Some(next));
}

// Doubling a half is all there is, not a step short of it.
#[test]
fn a_ramp_ends_exactly_at_the_full_rate() {
    let mut api = Api::new(&HealthSettings {
        ramp_factor: RateFactor::percent(200),
        ..HealthSettings::CAUTIOUS
    });
    api.call(Outcome::BANNED);
    api.wake_when_due();
    api.calls(5, Outcome::SUCCESS);
    assert_eq!(api.wake_when_due(), None);
    assert_eq!(api.health.snapshot(api.now).ramp, RampStage::None);
    assert_eq!(api.health.next_wakeup(), None);
}

// 110 % of 91 % is all there is; of 90 % it is not.
#[test]
fn a_larger_share_may_end_a_ramp_and_a_smaller_one_lowers_it() {
    let cases = [(91, "100/s"), (90, "99/s"), (40, "44/s")];
    for (percent, left) in cases {
        let mut api = ramping();
        let settings = HealthSettings {
            throttle_share: Share::percent(percent),
            ..HealthSettings::CAUTIOUS
        };
        reload(&mut api, &settings);
        assert_eq!(api.health.effective(rate("100/s")), rate(left));
        let over = api.health.snapshot(api.now).ramp == RampStage::None;
        assert_eq!(over, percent == 91, "{percent} %");
        assert_eq!(over, api.health.next_wakeup().is_none(), "{percent} %");
    }
}

#[test]
fn failures_during_a_ramp_throttle_and_end_it() {
    let mut api = Api::half_open();
    api.calls(5, Outcome::SUCCESS);
    let change = api.calls(3, Outcome::THROTTLED);
    assert_eq!(moved(change), Some((HealthState::Throttle, TransitionReason::Streak)));
    assert_eq!(api.health.snapshot(api.now).ramp, RampStage::None);
}

// 2, 4, 8, … s, each up to a quarter longer, capped at 300 s; without `CacheOnly` in the way.
#[test]
fn the_cooldown_doubles_up_to_its_cap_and_resets_in_normal() {
    let mut api = Api::new(&HealthSettings {
        cache_only_after: None,
        ..HealthSettings::CAUTIOUS
    });
    api.calls(3, Outcome::THROTTLED);
    let mut slept = api.calls(5, Outcome::THROTTLED).transition();
    for expected in [2_u32, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
        let transition = slept.expect("asleep");
        let span = transition.until.expect("a timer").since(transition.at);
        let (low, high) = match expected {
            256.. => (240, 300),
            _ => (expected, expected + expected.div_ceil(4)),
        };
        assert!(span >= SECOND * low && span <= SECOND * high, "{span:?} for {expected}");
        assert_eq!(api.health.snapshot(api.now).cooldown, SECOND * expected);
        api.wake_when_due();
        slept = api.call(Outcome::SERVER_FAILED).transition();
    }
    api.wake_when_due();
    api.calls(5, Outcome::SUCCESS);
    assert_eq!(api.state(), HealthState::Normal);
    assert_eq!(api.health.snapshot(api.now).cooldown, SECOND * 2);
}

#[test]
fn cache_only_retries_once_per_period() {
    let mut api = Api::cache_only();
    for _ in 0..10 {
        let entered = api.now;
        let tried = api.wake_when_due().expect("a try");
        assert_eq!(
            (tried.to, tried.reason),
            (HealthState::Sleep, TransitionReason::AutoRecover)
        );
        assert_eq!(tried.at.since(entered), Duration::from_mins(15));
        let open = api.wake_when_due().expect("a probe");
        assert_eq!(open.to, HealthState::HalfOpen);
        assert!(open.at.since(tried.at) <= Duration::from_millis(2_500));
        assert_eq!(
            moved(api.call(Outcome::NETWORK_FAILED)),
            Some((HealthState::CacheOnly, TransitionReason::RecoveriesExhausted))
        );
    }
    api.wake_when_due();
    api.wake_when_due();
    api.calls(5, Outcome::SUCCESS);
    assert_eq!(api.state(), HealthState::Normal);
    assert_eq!(api.health.snapshot(api.now).failed_recoveries, 0);
}

#[test]
fn cache_only_without_auto_recovery_waits_for_an_operator() {
    let mut api = Api::cache_only();
    let settings = HealthSettings {
        auto_recover: None,
        ..HealthSettings::CAUTIOUS
    };
    let config = HealthConfig::new(settings).expect("valid");
    api.health.configure(api.now, config);
    api.pass(SECOND * 86_400);
    assert_eq!((api.wake(), api.health.next_wakeup()), (None, None));
    api.health.force(api.now, HealthOverride::CacheOnly);
    assert_eq!(api.health.release(api.now).map(|t| t.to), Some(HealthState::HalfOpen));
}

#[test]
fn a_forced_cache_only_gets_no_timer_from_a_reload() {
    let mut api = Api::cache_only();
    api.health.force(api.now, HealthOverride::CacheOnly);
    reload(&mut api, &RECOVERING);
    api.pass(SECOND * 86_400);
    assert_eq!((api.wake(), api.health.next_wakeup()), (None, None));
    assert_eq!(api.state(), HealthState::CacheOnly);
}

// A minute of the quarter of an hour is over when it is cut to five minutes.
#[test]
fn a_new_period_of_cache_only_counts_from_its_start() {
    let mut api = Api::cache_only();
    let entered = api.now;
    api.pass(SECOND * 60);
    let settings = HealthSettings {
        auto_recover: Some(SECOND * 300),
        ..HealthSettings::CAUTIOUS
    };
    reload(&mut api, &settings);
    let due = entered.saturating_add(SECOND * 300);
    assert_eq!(api.health.next_wakeup(), Some(due));
}

#[test]
fn an_operators_normal_is_full_speed_at_once() {
    let mut api = Api::half_open();
    api.health.force(api.now, HealthOverride::Normal);
    assert_eq!(api.health.effective(rate("35/s")), rate("35/s"));
    assert_eq!(api.health.snapshot(api.now).ramp, RampStage::None);
}

// The forced Normal was at full speed, so no ramp follows when it ends.
#[test]
fn a_released_normal_stays_at_full_speed() {
    let mut api = Api::half_open();
    api.health.force(api.now, HealthOverride::Normal);
    let released = api.health.release(api.now).map(|t| (t.to, t.reason));
    assert_eq!(released, Some((HealthState::Normal, TransitionReason::Released)));
    assert_eq!(api.health.effective(rate("35/s")), rate("35/s"));
    assert_eq!(api.health.snapshot(api.now).ramp, RampStage::None);
    assert_eq!(api.health.next_wakeup(), None);
}

// Four failures make a cooldown of 32 s, which a new longest sleep of 10 s cuts for the next.
#[test]
fn a_grown_cooldown_is_brought_within_new_bounds() {
    let mut api = Api::half_open();
    for _ in 0..4 {
        api.call(Outcome::SERVER_FAILED);
        api.wake_when_due();
    }
    assert_eq!(api.health.snapshot(api.now).cooldown, SECOND * 32);
    let shorter = HealthSettings {
        sleep_max: SECOND * 10,
        ..HealthSettings::CAUTIOUS
    };
    let config = HealthConfig::new(shorter).expect("valid");
    api.health.configure(api.now, config);
    assert_eq!(api.health.snapshot(api.now).cooldown, SECOND * 10);
}
