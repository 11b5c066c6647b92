//! Reads the variables of the health machine.
//!
//! A profile gives all of them and each can be written over. Whether they make sense together is the
//! machine's own knowledge; here each of its complaints is put at the key that caused it.

use std::time::Duration;

use outflow_core::{Escalation, HealthConfig, HealthConfigError, HealthSettings, StreakRule};

use super::reader::{FieldValue, TableReader, ValueError};
use super::tree::TreeValue;
use super::value_readers::{choice, duration, factor, number, rate, share, small};
use crate::rules::{HealthScope, Rules, WhenAsleep};

/// Reads `health` and `concurrency` into the rules.
pub(super) fn read(api: &TableReader<'_>, rules: &mut Rules) {
    let fields = api.section("health");
    let before = api.book().count();
    let profile = fields.read("profile", |item| choice(item, &PROFILES));
    let mut settings = profile.unwrap_or_default();
    thresholds(&fields, &mut settings);
    sleeping(&fields, &mut settings);
    recovering(&fields, &mut settings, rules.timeout);
    set(&mut settings.concurrency, api.read("concurrency", number));
    let scope = fields.read("scope", |item| choice(item, &SCOPES));
    rules.health_scope = scope.unwrap_or_default();
    let asleep = fields.read("when_asleep", |item| choice(item, &ASLEEP));
    rules.when_asleep = asleep.unwrap_or_default();
    fields.finish();
    match HealthConfig::new(settings) {
        Ok(config) => rules.health = config,
        // A value that could not be read was taken as the default, which may not fit the others.
        Err(_) if api.book().count() > before => {}
        Err(invalid) => {
            for mistake in invalid.all() {
                report(api, &fields, *mistake);
            }
        }
    }
    if settings.probe_timeout <= rules.timeout && fields.has("probe_timeout") {
        let wrong = ValueError::warning("a probe is given up before its attempt times out");
        fields.tell("probe_timeout", wrong.help("make it longer than `timeout`"));
    }
}

/// Every variable of the machine that can be named by itself, and whether it is a duration.
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

/// What a variable is measured in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum VariableUnit {
    /// Time, which may be told in seconds where it has no unit.
    Time,
    /// A whole number, which may end in `.0`.
    Count,
    /// Anything else.
    Other,
}

fn thresholds(fields: &TableReader<'_>, settings: &mut HealthSettings) {
    set(&mut settings.window, fields.read("window", duration));
    set(
        &mut settings.window_length,
        fields.read("window_length", small),
    );
    set(&mut settings.min_samples, fields.read("min_samples", small));
    set(&mut settings.p_throttle, fields.read("p_throttle", share));
    set(&mut settings.n_throttle, fields.read("n_throttle", number));
    let streak = fields.read("streak", |item| choice(item, &STREAKS));
    set(&mut settings.streak, streak);
    let escalation = fields.read("escalation", |item| choice(item, &ESCALATIONS));
    set(&mut settings.escalation, escalation);
    set(&mut settings.p_recover, fields.read("p_recover", share));
    set(&mut settings.s_recover, fields.read("s_recover", number));
    set(
        &mut settings.n_cacheonly,
        fields.read("n_cacheonly", number),
    );
    set(&mut settings.p_sleep, fields.read("p_sleep", share));
    let held = fields.read("p_sleep_held", duration);
    set(&mut settings.p_sleep_held, held);
    let confirm = fields.read("confirm_after", duration);
    set(&mut settings.confirm_after, confirm);
}

fn sleeping(fields: &TableReader<'_>, settings: &mut HealthSettings) {
    let short = fields.read("short_retry_after", duration);
    set(&mut settings.short_retry_after, short);
    let max = fields.read("max_retry_after", duration);
    set(&mut settings.max_retry_after, max);
    set(&mut settings.sleep_min, fields.read("sleep_min", duration));
    set(&mut settings.sleep_max, fields.read("sleep_max", duration));
    let jitter = fields.read("sleep_jitter", share);
    set(&mut settings.sleep_jitter, jitter);
    let growth = fields.read("cooldown_factor", factor);
    set(&mut settings.cooldown_factor, growth);
    let left = fields.read("throttle_share", share);
    set(&mut settings.throttle_share, left);
    let floor = fields.read("throttle_floor", rate);
    set(&mut settings.throttle_floor, floor);
}

fn recovering(fields: &TableReader<'_>, settings: &mut HealthSettings, attempt: Duration) {
    let success = fields.read("probe_success", number);
    set(&mut settings.probe_success, success);
    let neutral = fields.read("neutral_per_success", number);
    set(&mut settings.neutral_per_success, neutral);
    let together = fields.read("probe_concurrency", number);
    set(&mut settings.probe_concurrency, together);
    set(&mut settings.probe_rate, fields.read("probe_rate", rate));
    // Half as much again as an attempt may take, so that a slow API is not taken for a dead one.
    let longest = attempt.saturating_add(attempt / 2);
    settings.probe_timeout = settings.probe_timeout.max(longest);
    let timeout = fields.read("probe_timeout", duration);
    set(&mut settings.probe_timeout, timeout);
    set(
        &mut settings.ramp_factor,
        fields.read("ramp_factor", factor),
    );
    set(
        &mut settings.ramp_every,
        fields.read("ramp_every", duration),
    );
    let after = fields.read("cache_only_after", |item| or_never(item, number));
    set(&mut settings.cache_only_after, after);
    let recover = fields.read("auto_recover", |item| or_never(item, duration));
    set(&mut settings.auto_recover, recover);
    let jitter = fields.read("release_jitter", duration);
    set(&mut settings.release_jitter, jitter);
}

fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
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

/// Puts a mistake at the key that was written, or at the first of those it is about.
fn report(api: &TableReader<'_>, fields: &TableReader<'_>, mistake: HealthConfigError) {
    let wrong = match mistake {
        HealthConfigError::CacheOnlyAtOnce | HealthConfigError::AutoRecoverAtOnce => {
            ValueError::new("this must be above 0").help("say \"never\" to do without")
        }
        _ => ValueError::new(mistake.to_string()),
    };
    if mistake == HealthConfigError::NoConcurrency {
        api.tell("concurrency", wrong);
        return;
    }
    let keys = keys_of(mistake);
    let written = keys.iter().find(|key| fields.has(key));
    let key = written.or(keys.first()).copied().unwrap_or("profile");
    fields.tell(key, wrong);
}

const fn keys_of(mistake: HealthConfigError) -> &'static [&'static str] {
    match mistake {
        HealthConfigError::NoWindow => &["window", "window_length"],
        HealthConfigError::SamplesOutsideWindow => &["min_samples", "window_length"],
        HealthConfigError::TripsOnNothing | HealthConfigError::RecoversAboveThrottle => {
            &["p_recover", "p_throttle"]
        }
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

const ASLEEP: [(&str, WhenAsleep); 2] =
    [("refuse", WhenAsleep::Refuse), ("wait", WhenAsleep::Wait)];

const STREAKS: [(&str, StreakRule); 2] = [
    ("throttled", StreakRule::Throttled),
    ("failures", StreakRule::Failures),
];

const ESCALATIONS: [(&str, Escalation); 2] = [
    ("throttle", Escalation::Throttle),
    ("sleep", Escalation::Sleep),
];
