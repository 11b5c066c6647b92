//! Reads the variables of the health machine.
//!
//! A profile sets all of them, and each can be overridden. The machine itself checks the combination;
//! this reader reports each of its errors at the key that caused it.

use std::time::Duration;

use outflow_config::value_readers::{
    read_choice, read_duration, read_factor, read_rate, read_share, read_u16, read_u32,
};
use outflow_config::{FieldValue, TableReader, TreeValue, ValueError};
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
        .read("profile", |item| read_choice(item, &PROFILES))
        .unwrap_or_default();
    let mut settings = profile.settings();
    read_thresholds(&table, &mut settings);
    read_sleep(&table, &mut settings);
    read_recovery(&table, &mut settings, rules.timeout);
    let concurrency = api.read("concurrency", |item| read_word_or(item, "auto", read_u32));
    set(&mut settings.concurrency, concurrency);
    let scope = table.read("scope", |item| read_choice(item, &SCOPES));
    rules.health_scope = scope.unwrap_or_default();
    let asleep = table.read("when_asleep", |item| read_choice(item, &ASLEEP));
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

/// Variables of the machine that can be set by their name alone, with their units.
pub(super) const VARIABLES: [(&str, VariableUnit); 39] = [
    ("window", VariableUnit::Time),
    ("window_length", VariableUnit::Other),
    ("min_samples", VariableUnit::Other),
    ("min_failures", VariableUnit::Other),
    ("p_throttle", VariableUnit::Other),
    ("n_throttle", VariableUnit::Other),
    ("n_failures", VariableUnit::Other),
    ("escalation", VariableUnit::Other),
    ("p_recover", VariableUnit::Other),
    ("s_recover", VariableUnit::Other),
    ("throttle_exit", VariableUnit::Other),
    ("n_cacheonly", VariableUnit::Other),
    ("p_sleep", VariableUnit::Other),
    ("p_sleep_held", VariableUnit::Time),
    ("confirm_after", VariableUnit::Time),
    ("short_retry_after", VariableUnit::Time),
    ("max_retry_after", VariableUnit::Time),
    ("sleep_min", VariableUnit::Time),
    ("sleep_max", VariableUnit::Time),
    ("sleep_jitter", VariableUnit::Other),
    ("cooldown", VariableUnit::Other),
    ("cooldown_factor", VariableUnit::Other),
    ("sleep_share", VariableUnit::Other),
    ("throttle_share", VariableUnit::Other),
    ("throttle_floor", VariableUnit::Other),
    ("probe_success", VariableUnit::Other),
    ("neutral_per_success", VariableUnit::Other),
    ("probe_start", VariableUnit::Other),
    ("probe_concurrency", VariableUnit::Other),
    ("probe_rate", VariableUnit::Other),
    ("probe_timeout", VariableUnit::Time),
    ("probe_patience", VariableUnit::Other),
    ("probe_from", VariableUnit::Other),
    ("ramp_factor", VariableUnit::Other),
    ("ramp_every", VariableUnit::Time),
    ("ramp_after", VariableUnit::Other),
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
    set(&mut settings.min_failures, table.read("min_failures", read_u16));
    let throttles = table.read("n_throttle", |item| or_never(item, read_u32));
    set(&mut settings.n_throttle, throttles);
    let failures = table.read("n_failures", |item| or_never(item, read_u32));
    set(&mut settings.n_failures, failures);
    let escalation = table.read("escalation", |item| read_choice(item, &ESCALATIONS));
    set(&mut settings.escalation, escalation);
    set(&mut settings.p_recover, table.read("p_recover", read_share));
    set(&mut settings.s_recover, table.read("s_recover", read_u32));
    let exit = table.read("throttle_exit", |item| read_choice(item, &THROTTLE_EXITS));
    set(&mut settings.throttle_exit, exit);
    let throttles = table.read("n_cacheonly", |item| or_never(item, read_u32));
    set(&mut settings.n_cacheonly, throttles);
    set(
        &mut settings.p_sleep,
        table.read("p_sleep", |item| or_never(item, read_share)),
    );
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
    let cooldown = table.read("cooldown", |item| read_choice(item, &COOLDOWNS));
    set(&mut settings.cooldown, cooldown);
    set(&mut settings.sleep_share, table.read("sleep_share", read_share));
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
    set(&mut settings.probe_start, table.read("probe_start", read_u32));
    let together = table.read("probe_concurrency", read_u32);
    set(&mut settings.probe_concurrency, together);
    let rate = table.read("probe_rate", |item| read_word_or(item, "unlimited", read_rate));
    set(&mut settings.probe_rate, rate);
    let patience = table.read("probe_patience", |item| read_choice(item, &PATIENCES));
    set(&mut settings.probe_patience, patience);
    let from = table.read("probe_from", |item| read_choice(item, &PROBE_INSTANTS));
    set(&mut settings.probe_from, from);
    // Half as much again as an attempt may take, so that a slow API does not count as dead.
    let longest = attempt.saturating_add(attempt / 2);
    settings.probe_timeout = settings.probe_timeout.max(longest);
    let timeout = table.read("probe_timeout", read_duration);
    set(&mut settings.probe_timeout, timeout);
    set(&mut settings.ramp_factor, table.read("ramp_factor", read_factor));
    set(&mut settings.ramp_every, table.read("ramp_every", read_duration));
    let ramp = table.read("ramp_after", |item| read_choice(item, &RAMPS));
    set(&mut settings.ramp_after, ramp);
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
    read_word_or(item, "never", read)
}

/// Reads a value, or a word that stands for none.
fn read_word_or<T>(
    item: &FieldValue<'_>,
    none: &str,
    read: impl FnOnce(&FieldValue<'_>) -> Result<T, ValueError>,
) -> Result<Option<T>, ValueError> {
    match &item.node.value {
        TreeValue::Text(text) if text == none => Ok(None),
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

/// Set of values for all variables.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum HealthProfile {
    #[default]
    Adaptive,
    Cautious,
    Breaker,
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

const PROFILES: [(&str, HealthProfile); 3] = [
    ("adaptive", HealthProfile::Adaptive),
    ("cautious", HealthProfile::Cautious),
    ("breaker", HealthProfile::Breaker),
];

const SCOPES: [(&str, HealthScope); 2] = [("api", HealthScope::Api), ("group", HealthScope::Group)];

const ASLEEP: [(&str, WhenAsleep); 2] = [("refuse", WhenAsleep::Refuse), ("wait", WhenAsleep::Wait)];

const THROTTLE_EXITS: [(&str, ThrottleExit); 2] =
    [("normal", ThrottleExit::Normal), ("half_open", ThrottleExit::HalfOpen)];

const COOLDOWNS: [(&str, CooldownRule); 2] = [("share", CooldownRule::Share), ("doubling", CooldownRule::Doubling)];

const PATIENCES: [(&str, ProbePatience); 2] = [("latency", ProbePatience::Latency), ("fixed", ProbePatience::Fixed)];

const PROBE_INSTANTS: [(&str, ProbeInstant); 2] =
    [("sending", ProbeInstant::Sending), ("failure", ProbeInstant::Failure)];

const RAMPS: [(&str, RampRule); 3] = [
    ("throttles", RampRule::Throttles),
    ("always", RampRule::Always),
    ("never", RampRule::Never),
];

const ESCALATIONS: [(&str, Escalation); 2] = [("throttle", Escalation::Throttle), ("sleep", Escalation::Sleep)];
