//! Advice on settings that are valid, but work against each other.
//!
//! Only written values are judged: advice on defaults would appear in every check.

mod bulk;
mod sharing;

use std::fmt;
use std::time::Duration;

use outflow::config::{ValueOrigin, read_duration};
use outflow::core::LimitKind;
use outflow::{Api, Config};
use serde::Serialize;

use crate::config::ProgramConfig;

/// Advice on one setting.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct ConfigAdvice {
    /// Key of the setting.
    key: String,
    /// Origin of its value.
    origin: String,
    /// Description of the problem.
    message: String,
    /// Suggested change.
    help: String,
}

impl fmt::Display for ConfigAdvice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            key,
            origin,
            message,
            help,
        } = self;
        write!(f, "warning: {message}\n --> {origin} ({key})\n  = help: {help}")
    }
}

/// Returns all advice for a configuration.
pub(super) fn find_advice(config: &ProgramConfig) -> Vec<ConfigAdvice> {
    let rules = [
        check_backoff_base,
        check_backoff_cap,
        check_log_memory,
        check_concurrency,
    ];
    let client = &config.client;
    let judge = |api| rules.into_iter().filter_map(move |rule| rule(client, api));
    let of_apis = client.apis.iter().flat_map(judge);
    of_apis
        .chain(bulk::find_advice(config))
        .chain(sharing::find_advice(config))
        .collect()
}

/// Compares the first backoff with the window. An earlier retry meets the same full window, and a much later
/// one leaves quota unused.
fn check_backoff_base(config: &Config, api: &Api) -> Option<ConfigAdvice> {
    let written = WrittenKey::new(config, api, "retry.backoff.base")?;
    let base = written.span(config)?;
    let windows = api.rules.limits.iter().map(|limit| limit.rate().per());
    let window = windows.min()?;
    let fits = window <= base && base <= window.saturating_mul(MAX_WINDOWS);
    (!fits).then(|| {
        written.advise(
            format!("the first backoff is {base:?}, but the window of the limit is {window:?}"),
            "start with the window, after which a throttled call can go",
        )
    })
}

/// Finds a backoff that is longer than the longest wait of a call.
fn check_backoff_cap(config: &Config, api: &Api) -> Option<ConfigAdvice> {
    let written = WrittenKey::new(config, api, "retry.backoff.cap")?;
    let (cap, max_wait) = (written.span(config)?, api.rules.max_wait);
    (cap > max_wait).then(|| {
        written.advise(
            format!("a backoff may take {cap:?}, but a call is refused after {max_wait:?}"),
            "lower `retry.backoff.cap` or raise `max_wait`",
        )
    })
}

/// Finds large exact logs, which hold one entry for each call of the window.
fn check_log_memory(config: &Config, api: &Api) -> Option<ConfigAdvice> {
    let groups = api.rules.groups.iter().flat_map(|group| &*group.limits);
    let limits = api.rules.limits.iter().chain(groups);
    let exact = limits.filter(|limit| limit.kind() == LimitKind::Sliding);
    let entries: u64 = exact.map(|limit| limit.rate().quantity()).sum();
    let bytes = entries.saturating_mul(ENTRY_BYTES);
    let written = WrittenKey::new(config, api, "limits")?;
    (bytes > api.rules.thresholds.memory).then(|| {
        written.advise(
            format!("exact logs of {entries} entries take up to {} MB", bytes / 1_000_000),
            "use `kind = \"bucket\"` for limits that need no exact count, or raise `memory_threshold_mb`",
        )
    })
}

/// Finds a written concurrency that reaches the limit only with fast calls. Half a second is slow for one call and
/// common in the slowest hundredth of a distant API: below it the limit is out of reach on ordinary days. A
/// concurrency that a preset states is the provider's rule.
fn check_concurrency(config: &Config, api: &Api) -> Option<ConfigAdvice> {
    let written = WrittenKey::new(config, api, "concurrency")?;
    let (latency, rate) = api.rules.latency_at_limits()?;
    let most = api.rules.concurrency();
    (latency < SLOW_CALL).then(|| {
        written.advise(
            format!(
                "{most} calls in flight reach the limit {rate} only if a call takes at most {} ms",
                latency.as_millis()
            ),
            "leave `concurrency` out or set it to \"auto\", unless the API itself allows no more at once",
        )
    })
}

/// Key with a written value.
struct WrittenKey {
    key: String,
    origin: ValueOrigin,
}

impl WrittenKey {
    fn new(config: &Config, api: &Api, key: &str) -> Option<Self> {
        Self::from_key(config, format!("apis.{}.{key}", api.name))
    }

    fn from_key(config: &Config, key: String) -> Option<Self> {
        match config.origins.get(&key)? {
            ValueOrigin::Default | ValueOrigin::Preset { .. } => None,
            origin => Some(Self { key, origin }),
        }
    }

    /// Returns the value as a time.
    fn span(&self, config: &Config) -> Option<Duration> {
        let text = config.origins.written(&self.key)?;
        read_duration(text.trim_matches('"')).ok()
    }

    fn advise(self, message: String, help: &str) -> ConfigAdvice {
        ConfigAdvice {
            key: self.key,
            origin: self.origin.to_string(),
            message,
            help: help.to_owned(),
        }
    }
}

/// A first backoff of more windows wastes most of them.
const MAX_WINDOWS: u32 = 10;

/// Time that a call to a distant API may well take.
const SLOW_CALL: Duration = Duration::from_millis(500);

/// Bytes of one entry: instant, cost and position.
const ENTRY_BYTES: u64 = 24;
