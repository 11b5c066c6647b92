//! Reads the variables of the health machine.
//!
//! A profile sets all of them, and each can be overridden. The machine itself checks the combination;
//! this reader reports each of its errors at the key that caused it.

use std::time::Duration;

use outflow_config::value_readers::{
    read_choice, read_duration, read_factor, read_rate, read_share, read_u16, read_u32, read_word_or,
};
use outflow_config::{FieldValue, TableReader, ValueError, read_fields};
use outflow_core::{
    CooldownRule, Escalation, HealthConfig, HealthConfigError, HealthSettings, ProbeInstant, ProbePatience, RampRule,
    ThrottleExit,
};

use crate::rules::{HealthScope, Rules, WhenAsleep};

/// Reads `health` and `concurrency` into the rules.
pub(super) fn read_health(api: &TableReader<'_>, rules: &mut Rules) {
    let table = api.section("health");
    let before = api.diagnostic_count();
    let profile = table
        .read("profile", read_choice(&HealthProfile::NAMED))
        .unwrap_or_default();
    let mut settings = profile.settings();
    read_thresholds(&table, &mut settings);
    read_sleep(&table, &mut settings);
    read_recovery(&table, &mut settings, rules.timeout);
    read_fields!(api => settings, concurrency: |item| read_word_or(item, "auto", read_u32),);
    let scope = table.read("scope", read_choice(&HealthScope::NAMED));
    rules.health_scope = scope.unwrap_or_default();
    let asleep = table.read("when_asleep", read_choice(&WhenAsleep::NAMED));
    rules.when_asleep = asleep.unwrap_or(profile.when_asleep());
    table.finish();
    match HealthConfig::new(settings) {
        Ok(config) => rules.health = config,
        // The default of a value that could not be read may not fit the other values.
        Err(_) if api.diagnostic_count() > before => {}
        Err(invalid) => {
            for error in invalid.all() {
                report_error(api, &table, *error);
            }
        }
    }
    if settings.probe_timeout <= rules.timeout && table.has("probe_timeout") {
        let error = ValueError::warning("a probe is given up before its attempt times out");
        table.report("probe_timeout", error.help("make it longer than `timeout`"));
    }
}

/// Variables of the machine that can be set by their name alone.
pub(super) const VARIABLES: [&str; 39] = [
    "window",
    "window_length",
    "min_samples",
    "min_failures",
    "p_throttle",
    "n_throttle",
    "n_failures",
    "escalation",
    "p_recover",
    "s_recover",
    "throttle_exit",
    "n_cacheonly",
    "p_sleep",
    "p_sleep_held",
    "confirm_after",
    "short_retry_after",
    "max_retry_after",
    "sleep_min",
    "sleep_max",
    "sleep_jitter",
    "cooldown",
    "cooldown_factor",
    "sleep_share",
    "throttle_share",
    "throttle_floor",
    "probe_success",
    "neutral_per_success",
    "probe_start",
    "probe_concurrency",
    "probe_rate",
    "probe_timeout",
    "probe_patience",
    "probe_from",
    "ramp_factor",
    "ramp_every",
    "ramp_after",
    "cache_only_after",
    "auto_recover",
    "release_jitter",
];

/// The variables that are times.
pub(super) const SPANS: [&str; 11] = [
    "window",
    "p_sleep_held",
    "confirm_after",
    "short_retry_after",
    "max_retry_after",
    "sleep_min",
    "sleep_max",
    "probe_timeout",
    "ramp_every",
    "auto_recover",
    "release_jitter",
];

fn read_thresholds(table: &TableReader<'_>, settings: &mut HealthSettings) {
    read_fields!(table => settings,
        window: read_duration,
        window_length: read_u16,
        min_samples: read_u16,
        min_failures: read_u16,
        p_throttle: read_share,
        n_throttle: |item| or_never(item, read_u32),
        n_failures: |item| or_never(item, read_u32),
        escalation: read_choice(&Escalation::NAMED),
        p_recover: read_share,
        s_recover: read_u32,
        throttle_exit: read_choice(&ThrottleExit::NAMED),
        n_cacheonly: |item| or_never(item, read_u32),
        p_sleep: |item| or_never(item, read_share),
        p_sleep_held: read_duration,
        confirm_after: read_duration,
    );
}

fn read_sleep(table: &TableReader<'_>, settings: &mut HealthSettings) {
    read_fields!(table => settings,
        short_retry_after: read_duration,
        max_retry_after: read_duration,
        sleep_min: read_duration,
        sleep_max: read_duration,
        sleep_jitter: read_share,
        cooldown: read_choice(&CooldownRule::NAMED),
        cooldown_factor: read_factor,
        sleep_share: read_share,
        throttle_share: read_share,
        throttle_floor: read_rate,
    );
}

fn read_recovery(table: &TableReader<'_>, settings: &mut HealthSettings, attempt: Duration) {
    // Half as much again as an attempt may take, so that a slow API does not count as dead.
    let longest = attempt.saturating_add(attempt / 2);
    settings.probe_timeout = settings.probe_timeout.max(longest);
    read_fields!(table => settings,
        probe_success: read_u32,
        neutral_per_success: read_u32,
        probe_start: read_u32,
        probe_concurrency: read_u32,
        probe_rate: |item| read_word_or(item, "unlimited", read_rate),
        probe_timeout: read_duration,
        probe_patience: read_choice(&ProbePatience::NAMED),
        probe_from: read_choice(&ProbeInstant::NAMED),
        ramp_factor: read_factor,
        ramp_every: read_duration,
        ramp_after: read_choice(&RampRule::NAMED),
        cache_only_after: |item| or_never(item, read_u32),
        auto_recover: |item| or_never(item, read_duration),
        release_jitter: read_duration,
    );
}

fn or_never<T>(
    item: &FieldValue<'_>,
    read: impl FnOnce(&FieldValue<'_>) -> Result<T, ValueError>,
) -> Result<Option<T>, ValueError> {
    read_word_or(item, "never", read)
}

/// Reports an error at the first written key that it concerns, or at the first key of all.
fn report_error(api: &TableReader<'_>, table: &TableReader<'_>, cause: HealthConfigError) {
    let error = match cause {
        HealthConfigError::CacheOnlyAtOnce | HealthConfigError::AutoRecoverAtOnce => {
            ValueError::new("this must be above 0").help("say \"never\" to do without")
        }
        _ => ValueError::new(cause.to_string()),
    };
    if cause == HealthConfigError::NoConcurrency {
        api.report("concurrency", error);
        return;
    }
    let keys = keys_of(cause);
    let written = keys.iter().find(|key| table.has(key));
    let key = written.or(keys.first()).copied().unwrap_or("profile");
    table.report(key, error);
}

const fn keys_of(cause: HealthConfigError) -> &'static [&'static str] {
    match cause {
        HealthConfigError::NoWindow => &["window", "window_length"],
        HealthConfigError::SamplesOutsideWindow => &["min_samples", "min_failures", "window_length"],
        HealthConfigError::TripsOnNothing | HealthConfigError::RecoversAboveThrottle => &["p_recover", "p_throttle"],
        HealthConfigError::NoStreak => &["n_throttle", "n_failures", "n_cacheonly"],
        HealthConfigError::ThrottlesAboveSleep => &["p_throttle", "p_sleep"],
        HealthConfigError::NoRecovery => &["s_recover"],
        HealthConfigError::ShortAboveMax => &["short_retry_after", "max_retry_after"],
        HealthConfigError::NoSleep => &["sleep_min"],
        HealthConfigError::SleepMinAboveMax => &["sleep_min", "sleep_max"],
        HealthConfigError::CooldownShrinks => &["cooldown_factor"],
        HealthConfigError::ThrottlesToNothing => &["throttle_share"],
        HealthConfigError::NoConcurrency => &["concurrency"],
        HealthConfigError::NoProbes => &["probe_success", "neutral_per_success"],
        HealthConfigError::ProbeConcurrencyOutOfRange => &["probe_concurrency", "probe_start"],
        HealthConfigError::NoProbeTime => &["probe_timeout"],
        HealthConfigError::NoRamp => &["ramp_factor", "ramp_every"],
        HealthConfigError::CacheOnlyAtOnce => &["cache_only_after"],
        HealthConfigError::AutoRecoverAtOnce => &["auto_recover"],
    }
}

outflow_core::named_enum! {
    /// Set of values for all variables.
    #[derive(Default)]
    enum HealthProfile {
        #[default]
        Adaptive = "adaptive",
        Cautious = "cautious",
        Breaker = "breaker",
    }
}

impl HealthProfile {
    const fn settings(self) -> HealthSettings {
        match self {
            Self::Adaptive => HealthSettings::ADAPTIVE,
            Self::Cautious => HealthSettings::CAUTIOUS,
            Self::Breaker => HealthSettings::BREAKER,
        }
    }

    const fn when_asleep(self) -> WhenAsleep {
        match self {
            Self::Adaptive => WhenAsleep::Wait,
            Self::Cautious | Self::Breaker => WhenAsleep::Refuse,
        }
    }
}
