//! Settings that are allowed, that fit their types, and that work against each other.
//!
//! Only what somebody wrote is judged: a default that fits most is not worth a line in every check.

mod bulk;

use std::fmt;
use std::time::Duration;

use outflow::config::{ValueOrigin, read_duration};
use outflow::core::LimitKind;
use outflow::{Api, Config};
use serde::Serialize;

use crate::config::ProgramConfig;

/// One thing worth another look.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct ConfigAdvice {
    /// The key.
    key: String,
    /// Where its value was written.
    origin: String,
    /// What is odd about it.
    message: String,
    /// What to do.
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
        write!(
            f,
            "warning: {message}\n --> {origin} ({key})\n  = help: {help}"
        )
    }
}

/// All that is worth another look.
pub(super) fn advice(config: &ProgramConfig) -> Vec<ConfigAdvice> {
    let rules = [
        backoff_beside_the_window,
        backoff_beyond_patience,
        memory_of_logs,
    ];
    let client = &config.client;
    let judge = |api| rules.into_iter().filter_map(move |rule| rule(client, api));
    let of_apis = client.apis.iter().flat_map(judge);
    of_apis.chain(bulk::advice(config)).collect()
}

/// A retry that comes before the window is over meets the same full window again; one that comes much
/// later leaves it unused.
fn backoff_beside_the_window(config: &Config, api: &Api) -> Option<ConfigAdvice> {
    let written = WrittenKey::new(config, api, "retry.backoff.base")?;
    let base = written.span(config)?;
    let windows = api.rules.limits.iter().map(|limit| limit.rate().per());
    let window = windows.min()?;
    let fits = window <= base && base <= window.saturating_mul(WIDELY);
    (!fits).then(|| {
        written.says(
            format!(
                "the first wait of a retry is {base:?}, and the window of the limit is {window:?}"
            ),
            "begin with the window: whoever was refused can go when it is over",
        )
    })
}

/// A wait that nobody sees the end of.
fn backoff_beyond_patience(config: &Config, api: &Api) -> Option<ConfigAdvice> {
    let written = WrittenKey::new(config, api, "retry.backoff.cap")?;
    let (cap, patience) = (written.span(config)?, api.rules.max_wait);
    (cap > patience).then(|| {
        written.says(
            format!("a retry may wait for {cap:?}, and a call is given up after {patience:?}"),
            "lower `retry.backoff.cap` or raise `max_wait`",
        )
    })
}

/// An exact log holds one entry for each call of its window.
fn memory_of_logs(config: &Config, api: &Api) -> Option<ConfigAdvice> {
    let groups = api.rules.groups.iter().flat_map(|group| &*group.limits);
    let limits = api.rules.limits.iter().chain(groups);
    let exact = limits.filter(|limit| limit.kind() == LimitKind::Sliding);
    let entries: u64 = exact.map(|limit| limit.rate().quantity()).sum();
    let bytes = entries.saturating_mul(ENTRY);
    let written = WrittenKey::new(config, api, "limits")?;
    (bytes > api.rules.thresholds.memory).then(|| {
        written.says(
            format!("exact logs of {entries} entries take up to {} MB", bytes / 1_000_000),
            "say `kind = \"bucket\"` where an exact count is not needed, or raise `memory_threshold_mb`",
        )
    })
}

/// A key that somebody set.
struct WrittenKey {
    key: String,
    origin: ValueOrigin,
}

impl WrittenKey {
    fn new(config: &Config, api: &Api, key: &str) -> Option<Self> {
        Self::key(config, format!("apis.{}.{key}", api.name))
    }

    fn key(config: &Config, key: String) -> Option<Self> {
        match config.origins.get(&key)? {
            ValueOrigin::Default | ValueOrigin::Preset { .. } => None,
            origin => Some(Self { key, origin }),
        }
    }

    /// The time that it says.
    fn span(&self, config: &Config) -> Option<Duration> {
        let text = config.origins.written(&self.key)?;
        read_duration(text.trim_matches('"')).ok()
    }

    fn says(self, message: String, help: &str) -> ConfigAdvice {
        ConfigAdvice {
            key: self.key,
            origin: self.origin.to_string(),
            message,
            help: help.to_owned(),
        }
    }
}

/// A first wait of more windows than this wastes most of them.
const WIDELY: u32 = 10;

/// Bytes of one entry: when, how much, and its place.
const ENTRY: u64 = 24;
