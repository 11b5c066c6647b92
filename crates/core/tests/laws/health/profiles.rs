//! Every value of every profile, so that none drifts unseen.

use core::time::Duration;

use outflow_core::{
    CooldownRule, Escalation, HealthConfig, HealthSettings, ProbeInstant, ProbePatience, RampRule, RateFactor, Share,
    ThrottleExit,
};

use super::api::rate;

/// One row for each setting: its value in `ADAPTIVE`, `CAUTIOUS` and `BREAKER`. A setting without a
/// row does not compile.
macro_rules! rows {
    ($($setting:ident: [$($value:expr),+];)+) => {{
        let [adaptive, cautious, breaker] = PROFILES;
        let HealthSettings { $($setting: _),+ } = adaptive;
        $(assert_eq!(
            [adaptive.$setting, cautious.$setting, breaker.$setting],
            [$($value),+],
            stringify!($setting)
        );)+
    }};
}

const PROFILES: [HealthSettings; 3] = [
    HealthSettings::ADAPTIVE,
    HealthSettings::CAUTIOUS,
    HealthSettings::BREAKER,
];

#[test]
fn the_default_machine_is_adaptive() {
    assert_eq!(HealthSettings::default(), HealthSettings::ADAPTIVE);
    assert_eq!(*HealthConfig::default().settings(), HealthSettings::ADAPTIVE);
    assert_eq!(*HealthConfig::cautious().settings(), HealthSettings::CAUTIOUS);
    assert_eq!(*HealthConfig::breaker().settings(), HealthSettings::BREAKER);
}

#[test]
#[rustfmt::skip]
fn each_profile_has_exactly_these_values() {
    let secs = Duration::from_secs;
    let millis = Duration::from_millis;
    let percent = Share::percent;
    rows! {
        window:              [secs(30), secs(30), secs(30)];
        window_length:       [300, 300, 300];
        min_samples:         [8, 20, 20];
        min_failures:        [8, 0, 0];
        p_throttle:          [percent(20), percent(20), percent(50)];
        n_throttle:          [None, Some(3), None];
        n_failures:          [Some(8), None, Some(5)];
        escalation:          [Escalation::Throttle, Escalation::Throttle, Escalation::Sleep];
        p_recover:           [percent(10), percent(10), percent(10)];
        s_recover:           [10, 10, 10];
        throttle_exit:       [ThrottleExit::Normal, ThrottleExit::HalfOpen, ThrottleExit::HalfOpen];
        n_cacheonly:         [None, Some(5), None];
        p_sleep:             [None, Some(percent(60)), None];
        p_sleep_held:        [secs(300), secs(300), secs(300)];
        confirm_after:       [millis(250), millis(250), millis(250)];
        short_retry_after:   [secs(5), secs(5), secs(5)];
        max_retry_after:     [secs(86_400), secs(86_400), secs(86_400)];
        sleep_min:           [secs(1), secs(2), secs(30)];
        sleep_max:           [secs(30), secs(300), secs(30)];
        sleep_jitter:        [percent(25), percent(25), Share::NONE];
        cooldown:            [CooldownRule::Share, CooldownRule::Doubling, CooldownRule::Doubling];
        cooldown_factor:     [RateFactor::percent(200), RateFactor::percent(200), RateFactor::ONE];
        sleep_share:         [percent(4), percent(5), percent(5)];
        throttle_share:      [percent(50), percent(50), percent(50)];
        throttle_floor:      [rate("5/s"), rate("5/s"), rate("5/s")];
        concurrency:         [None, Some(4), None];
        probe_success:       [3, 5, 3];
        neutral_per_success: [1, 4, 4];
        probe_start:         [1, 1, 3];
        probe_concurrency:   [2, 1, 3];
        probe_rate:          [None, Some(rate("3/s")), Some(rate("3/s"))];
        probe_timeout:       [secs(15), secs(15), secs(15)];
        probe_patience:      [ProbePatience::Latency, ProbePatience::Fixed, ProbePatience::Fixed];
        probe_from:          [ProbeInstant::Sending, ProbeInstant::Failure, ProbeInstant::Failure];
        ramp_factor:         [RateFactor::percent(110), RateFactor::percent(110), RateFactor::percent(110)];
        ramp_every:          [millis(1_250), secs(300), secs(300)];
        ramp_after:          [RampRule::Throttles, RampRule::Always, RampRule::Never];
        cache_only_after:    [None, Some(5), None];
        auto_recover:        [Some(secs(900)), None, Some(secs(900))];
        release_jitter:      [secs(1), secs(1), secs(1)];
    }
}
