//! Reads the variables of the health machine.
//!
//! A profile sets all of them, and each can be overridden. The machine itself checks the combination;
//! this reader reports each of its errors at the key that caused it.

use std::time::Duration;

use outflow_config::value_readers::{
    read_choice, read_duration, read_factor, read_rate, read_share, read_u16, read_u32,
};
use outflow_config::{FieldValue, TableReader, TreeValue, ValueError};
use outflow_core::{Escalation, HealthConfig, HealthConfigError, HealthSettings, StreakRule};

use crate::rules::{HealthScope, Rules, WhenAsleep};

/// Reads `health` and `concurrency` into the rules.
pub(super) fn read_health(api: &TableReader<'_>, rules: &mut Rules) {
    let table = api.section("health");
    let before = api.diagnostic_count();
    let profile = table.read("profile", |item| read_choice(item, &PROFILES));
    let mut settings = profile.unwrap_or_default();
    read_thresholds(&table, &mut settings);
    read_sleep(&table, &mut settings);
    read_recovery(&table, &mut settings, rules.timeout);
    set(&mut settings.concurrency, api.read("concurrency", read_u32));
    let scope = table.read("scope", |item| read_choice(item, &SCOPES));
    rules.health_scope = scope.unwrap_or_default();
    let asleep = table.read("when_asleep", |item| read_choice(item, &ASLEEP));
    rules.when_asleep = asleep.unwrap_or_default();
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

/// Variables of the machine that can be set by their name alone, with their units.
pub(super) const VARIABLES: [(&str, VariableUnit); 31] = [
    ("window", VariableUnit::Time),
    ("window_length", VariableUnit::Other),
    ("min_samples", VariableUnit::Other),
    ("p_throttle", VariableUnit::Other),
    ("n_throttle", VariableUnit::Other),
    ("streak", VariableUnit::Other),
    ("escalation", VariableUnit::Other),
    ("p_recover", VariableUnit::Other),
    ("s_recover", VariableUnit::Other),
    ("n_cacheonly", VariableUnit::Other),
    ("p_sleep", VariableUnit::Other),
    ("p_sleep_held", VariableUnit::Time),
    ("confirm_after", VariableUnit::Time),
    ("short_retry_after", VariableUnit::Time),
    ("max_retry_after", VariableUnit::Time),
    ("sleep_min", VariableUnit::Time),
    ("sleep_max", VariableUnit::Time),
    ("sleep_jitter", VariableUnit::Other),
    ("cooldown_factor", VariableUnit::Other),
    ("throttle_share", VariableUnit::Other),
    ("throttle_floor", VariableUnit::Other),
    ("probe_success", VariableUnit::Other),
    ("neutral_per_success", VariableUnit::Other),
    ("probe_concurrency", VariableUnit::Other),
    ("probe_rate", VariableUnit::Other),
    ("probe_timeout", VariableUnit::Time),
    ("ramp_factor", VariableUnit::Other),
    ("ramp_every", VariableUnit::Time),
    ("cache_only_after", VariableUnit::Other),
    ("auto_recover", VariableUnit::Time),
    ("release_jitter", VariableUnit::Time),
];

/// Unit of a variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum VariableUnit {
    /// Time; a plain number is seconds.
    Time,
    /// A whole number, which may end in `.0`.
    Count,
    /// Anything else.
    Other,
}

fn read_thresholds(table: &TableReader<'_>, settings: &mut HealthSettings) {
    set(&mut settings.window, table.read("window", read_duration));
    set(&mut settings.window_length, table.read("window_length", read_u16));
    set(&mut settings.min_samples, table.read("min_samples", read_u16));
    set(&mut settings.p_throttle, table.read("p_throttle", read_share));
    set(&mut settings.n_throttle, table.read("n_throttle", read_u32));
    let streak = table.read("streak", |item| read_choice(item, &STREAKS));
    set(&mut settings.streak, streak);
    let escalation = table.read("escalation", |item| read_choice(item, &ESCALATIONS));
    set(&mut settings.escalation, escalation);
    set(&mut settings.p_recover, table.read("p_recover", read_share));
    set(&mut settings.s_recover, table.read("s_recover", read_u32));
    set(&mut settings.n_cacheonly, table.read("n_cacheonly", read_u32));
    set(&mut settings.p_sleep, table.read("p_sleep", read_share));
    let held = table.read("p_sleep_held", read_duration);
    set(&mut settings.p_sleep_held, held);
    let confirm = table.read("confirm_after", read_duration);
    set(&mut settings.confirm_after, confirm);
}

fn read_sleep(table: &TableReader<'_>, settings: &mut HealthSettings) {
    let short = table.read("short_retry_after", read_duration);
    set(&mut settings.short_retry_after, short);
    let max = table.read("max_retry_after", read_duration);
    set(&mut settings.max_retry_after, max);
    set(&mut settings.sleep_min, table.read("sleep_min", read_duration));
    set(&mut settings.sleep_max, table.read("sleep_max", read_duration));
    let jitter = table.read("sleep_jitter", read_share);
    set(&mut settings.sleep_jitter, jitter);
    let growth = table.read("cooldown_factor", read_factor);
    set(&mut settings.cooldown_factor, growth);
    let left = table.read("throttle_share", read_share);
    set(&mut settings.throttle_share, left);
    let floor = table.read("throttle_floor", read_rate);
    set(&mut settings.throttle_floor, floor);
}

fn read_recovery(table: &TableReader<'_>, settings: &mut HealthSettings, attempt: Duration) {
    let success = table.read("probe_success", read_u32);
    set(&mut settings.probe_success, success);
    let neutral = table.read("neutral_per_success", read_u32);
    set(&mut settings.neutral_per_success, neutral);
    let together = table.read("probe_concurrency", read_u32);
    set(&mut settings.probe_concurrency, together);
    set(&mut settings.probe_rate, table.read("probe_rate", read_rate));
    // Half as much again as an attempt may take, so that a slow API does not count as dead.
    let longest = attempt.saturating_add(attempt / 2);
    settings.probe_timeout = settings.probe_timeout.max(longest);
    let timeout = table.read("probe_timeout", read_duration);
    set(&mut settings.probe_timeout, timeout);
    set(&mut settings.ramp_factor, table.read("ramp_factor", read_factor));
    set(&mut settings.ramp_every, table.read("ramp_every", read_duration));
    let after = table.read("cache_only_after", |item| or_never(item, read_u32));
    set(&mut settings.cache_only_after, after);
    let recover = table.read("auto_recover", |item| or_never(item, read_duration));
    set(&mut settings.auto_recover, recover);
    let jitter = table.read("release_jitter", read_duration);
    set(&mut settings.release_jitter, jitter);
}

fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

fn or_never<T>(
    item: &FieldValue<'_>,
    read: impl FnOnce(&FieldValue<'_>) -> Result<T, ValueError>,
) -> Result<Option<T>, ValueError> {
    match &item.node.value {
        TreeValue::Text(text) if text == "never" => Ok(None),
        _ => read(item).map(Some),
    }
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
        HealthConfigError::SamplesOutsideWindow => &["min_samples", "window_length"],
        HealthConfigError::TripsOnNothing | HealthConfigError::RecoversAboveThrottle => &["p_recover", "p_throttle"],
        HealthConfigError::NoStreak => &["n_throttle", "n_cacheonly"],
        HealthConfigError::ThrottlesAboveSleep => &["p_throttle", "p_sleep"],
        HealthConfigError::NoRecovery => &["s_recover"],
        HealthConfigError::ShortAboveMax => &["short_retry_after", "max_retry_after"],
        HealthConfigError::NoSleep => &["sleep_min"],
        HealthConfigError::SleepMinAboveMax => &["sleep_min", "sleep_max"],
        HealthConfigError::CooldownShrinks => &["cooldown_factor"],
        HealthConfigError::ThrottlesToNothing => &["throttle_share"],
        HealthConfigError::NoConcurrency => &["concurrency"],
        HealthConfigError::NoProbes => &["probe_success", "neutral_per_success"],
        HealthConfigError::ProbeConcurrencyOutOfRange => &["probe_concurrency"],
        HealthConfigError::NoProbeTime => &["probe_timeout"],
        HealthConfigError::NoRamp => &["ramp_factor", "ramp_every"],
        HealthConfigError::CacheOnlyAtOnce => &["cache_only_after"],
        HealthConfigError::AutoRecoverAtOnce => &["auto_recover"],
    }
}

const PROFILES: [(&str, HealthSettings); 2] = [
    ("adaptive", HealthSettings::ADAPTIVE),
    ("breaker", HealthSettings::BREAKER),
];

const SCOPES: [(&str, HealthScope); 2] = [("api", HealthScope::Api), ("group", HealthScope::Group)];

const ASLEEP: [(&str, WhenAsleep); 2] = [("refuse", WhenAsleep::Refuse), ("wait", WhenAsleep::Wait)];

const STREAKS: [(&str, StreakRule); 2] = [("throttled", StreakRule::Throttled), ("failures", StreakRule::Failures)];

const ESCALATIONS: [(&str, Escalation); 2] = [("throttle", Escalation::Throttle), ("sleep", Escalation::Sleep)];
