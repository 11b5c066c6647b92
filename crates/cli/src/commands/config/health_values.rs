//! Default values of the health machine as a configuration writes them.
//!
//! They depend on the profile, and one on the timeout, so they are formatted from the settings in effect.

use std::time::Duration;

use outflow::Rules;
use outflow::core::{HealthSettings, RateFactor, Share};

/// Returns the value of a key below `health`; `None` for a key of another reader.
pub(super) fn written(rules: &Rules, key: &str) -> Option<String> {
    let settings = rules.health.settings();
    counts(settings, key)
        .or_else(|| shares(settings, key))
        .or_else(|| spans(settings, key))
        .or_else(|| words(rules, key).map(quoted))
}

/// Returns the maximum number of calls in flight, which belongs to the profile too.
pub(super) fn concurrency(rules: &Rules) -> String {
    let most = rules.health.settings().concurrency;
    most.map_or_else(|| quoted("auto"), |most| most.to_string())
}

fn counts(settings: &HealthSettings, key: &str) -> Option<String> {
    let count = match key {
        "n_throttle" => return Some(or_never(settings.n_throttle)),
        "n_failures" => return Some(or_never(settings.n_failures)),
        "n_cacheonly" => return Some(or_never(settings.n_cacheonly)),
        "cache_only_after" => return Some(or_never(settings.cache_only_after)),
        "window_length" => settings.window_length.into(),
        "min_samples" => settings.min_samples.into(),
        "min_failures" => settings.min_failures.into(),
        "s_recover" => settings.s_recover,
        "probe_success" => settings.probe_success,
        "neutral_per_success" => settings.neutral_per_success,
        "probe_start" => settings.probe_start,
        "probe_concurrency" => settings.probe_concurrency,
        _ => return None,
    };
    Some(count.to_string())
}

fn shares(settings: &HealthSettings, key: &str) -> Option<String> {
    let share = match key {
        "cooldown_factor" => return Some(factor(settings.cooldown_factor)),
        "ramp_factor" => return Some(factor(settings.ramp_factor)),
        "throttle_floor" => return Some(quoted(&settings.throttle_floor.to_string())),
        "probe_rate" => {
            let rate = settings.probe_rate.map(|rate| rate.to_string());
            return Some(quoted(rate.as_deref().unwrap_or("unlimited")));
        }
        "p_throttle" => settings.p_throttle,
        "p_recover" => settings.p_recover,
        "p_sleep" => return Some(settings.p_sleep.map_or_else(|| quoted("never"), percent)),
        "sleep_jitter" => settings.sleep_jitter,
        "sleep_share" => settings.sleep_share,
        "throttle_share" => settings.throttle_share,
        _ => return None,
    };
    Some(percent(share))
}

fn spans(settings: &HealthSettings, key: &str) -> Option<String> {
    let span = match key {
        "window" => settings.window,
        "p_sleep_held" => settings.p_sleep_held,
        "confirm_after" => settings.confirm_after,
        "short_retry_after" => settings.short_retry_after,
        "max_retry_after" => settings.max_retry_after,
        "sleep_min" => settings.sleep_min,
        "sleep_max" => settings.sleep_max,
        "probe_timeout" => settings.probe_timeout,
        "ramp_every" => settings.ramp_every,
        "release_jitter" => settings.release_jitter,
        "auto_recover" => return Some(settings.auto_recover.map_or_else(|| quoted("never"), time)),
        _ => return None,
    };
    Some(time(span))
}

fn words(rules: &Rules, key: &str) -> Option<&'static str> {
    let settings = rules.health.settings();
    Some(match key {
        "escalation" => settings.escalation.name(),
        "throttle_exit" => settings.throttle_exit.name(),
        "cooldown" => settings.cooldown.name(),
        "probe_patience" => settings.probe_patience.name(),
        "probe_from" => settings.probe_from.name(),
        "ramp_after" => settings.ramp_after.name(),
        "when_asleep" => rules.when_asleep.name(),
        _ => return None,
    })
}

fn or_never(count: Option<u32>) -> String {
    count.map_or_else(|| quoted("never"), |count| count.to_string())
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

/// Formats a share as a percentage, with as many decimals as it has.
fn percent(share: Share) -> String {
    let parts = share.as_parts_per_million();
    let text = format!("{}.{:04}", parts / 10_000, parts % 10_000);
    format!("\"{}%\"", without_zeros(&text))
}

fn factor(factor: RateFactor) -> String {
    let parts = factor.as_parts_per_million();
    let text = format!("{}.{:06}", parts / 1_000_000, parts % 1_000_000);
    without_zeros(&text).to_owned()
}

fn without_zeros(decimal: &str) -> &str {
    decimal.trim_end_matches('0').trim_end_matches('.')
}

/// Formats a time in its largest unit without a remainder.
fn time(span: Duration) -> String {
    let millis = span.as_millis();
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    let unit = units
        .into_iter()
        .find(|(unit, _)| millis > 0 && millis.is_multiple_of(*unit));
    let (unit, name) = unit.unwrap_or((1, "ms"));
    format!("\"{}{name}\"", millis / unit)
}

#[cfg(test)]
mod tests {
    use outflow::Config;
    use outflow::config::{Environment, Source};

    use super::*;

    fn read(text: &str) -> Config {
        Config::read(&[Source::new("it", text)], &Environment::empty()).expect("valid")
    }

    // The printed values of one profile, written over another profile, give the first one again.
    #[test]
    fn the_printed_values_of_a_profile_are_that_profile() {
        for (profile, other) in [
            ("cautious", "breaker"),
            ("breaker", "cautious"),
            ("adaptive", "cautious"),
        ] {
            let base = "[apis.a]\nbase_url = \"https://a.example\"\nconcurrency = 4\n[apis.a.health]\n";
            let config = read(&format!("{base}profile = \"{profile}\"\n"));
            let keys = config
                .origins
                .iter()
                .filter_map(|(key, _)| key.strip_prefix("apis.a.health."));
            let lines: Vec<_> = keys
                .filter_map(|key| written(&config.apis[0].rules, key).map(|value| format!("{key} = {value}\n")))
                .collect();
            assert!(lines.len() >= 39, "{lines:?}");
            let copied = read(&format!("{base}profile = \"{other}\"\n{}", lines.concat()));
            let (copied, rules) = (&copied.apis[0].rules, &config.apis[0].rules);
            assert_eq!(copied.health.settings(), rules.health.settings(), "{profile}");
            assert_eq!(copied.when_asleep, rules.when_asleep, "{profile}");
        }
    }
}
