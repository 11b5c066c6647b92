//! Advice for the bulk engine: backoffs that do not fit limits or jobs, and statistics that use much memory.

use std::time::Duration;

use outflow::Api;
use outflow_bulk::{EngineSettings, SchedulerKind};

use super::{ConfigAdvice, WrittenKey};
use crate::config::ProgramConfig;

/// Returns all advice for the bulk engine.
pub(super) fn find_advice(config: &ProgramConfig) -> impl Iterator<Item = ConfigAdvice> {
    let rules = [check_backoff_base, check_backoff_max, check_statistics_memory];
    rules.into_iter().filter_map(|rule| rule(config))
}

/// Compares the base of the backoff with the windows. An earlier job meets the same full window, and a later
/// one leaves quota unused.
fn check_backoff_base(config: &ProgramConfig) -> Option<ConfigAdvice> {
    let written = backoff_key(config, "bulk.congestion.base_backoff")?;
    let base = config.bulk.engine.congestion.base();
    let differs = |api: &&Api| windows(api).next().is_some() && !windows(api).any(|one| one == base);
    let api = config.client.apis.iter().find(differs)?;
    let window = windows(api).min()?;
    Some(written.advise(
        format!(
            "a job without quota is deferred by {base:?}, but the window of the limit of `{}` is \
             {window:?}",
            api.name
        ),
        "set `bulk.congestion.base_backoff` to the window",
    ))
}

fn windows(api: &Api) -> impl Iterator<Item = Duration> {
    let groups = api.rules.groups.iter().flat_map(|group| &*group.limits);
    let limits = api.rules.limits.iter().chain(groups);
    limits.map(|limit| limit.rate().per())
}

/// Finds a backoff that is longer than all attempts of a job together.
fn check_backoff_max(config: &ProgramConfig) -> Option<ConfigAdvice> {
    let written = backoff_key(config, "bulk.congestion.max_backoff")?;
    let longest = config.bulk.engine.congestion.max();
    let attempts = config.bulk.engine.timeout.saturating_mul(ATTEMPTS);
    (longest > attempts).then(|| {
        written.advise(
            format!(
                "a job may be deferred by {longest:?}, but all its attempts together take at most \
                 {attempts:?}"
            ),
            "lower `bulk.congestion.max_backoff` to the latest start of a job, or raise `bulk.timeout`",
        )
    })
}

/// Returns a written key of the formula, or the scheduler that uses it.
fn backoff_key(config: &ProgramConfig, key: &str) -> Option<WrittenKey> {
    let scheduler = || {
        let uses = config.bulk.engine.scheduler != SchedulerKind::Permit;
        uses.then(|| WrittenKey::from_key(&config.client, "bulk.scheduler".to_owned()))?
    };
    WrittenKey::from_key(&config.client, key.to_owned()).or_else(scheduler)
}

/// Finds long histories: each tenant with work has one sample per interval.
fn check_statistics_memory(config: &ProgramConfig) -> Option<ConfigAdvice> {
    let keys = ["stats_retention", "snapshot_interval"];
    let written = |key| WrittenKey::from_key(&config.client, format!("bulk.congestion.{key}"));
    let written = keys.into_iter().find_map(written)?;
    let (tenants, bytes) = statistics(&config.bulk.engine);
    (bytes > MAX_MEMORY).then(|| {
        written.advise(
            format!(
                "the statistics of {tenants} tenants take up to {} MB",
                bytes / 1_000_000
            ),
            "lower `stats_retention` or raise `snapshot_interval`",
        )
    })
}

/// Returns the number of tenants and the bytes of their samples.
fn statistics(settings: &EngineSettings) -> (u128, u128) {
    let interval = settings.snapshot_every.as_nanos().max(1);
    let each = (settings.retention.statistics.as_nanos() / interval).max(1);
    let named = u128::try_from(settings.tenants.len()).unwrap_or(u128::MAX);
    let tenants = named.max(MIN_TENANTS);
    (tenants, each.saturating_mul(SAMPLE_BYTES).saturating_mul(tenants))
}

/// The first attempt of a job and its three retries.
const ATTEMPTS: u32 = 4;

/// The configuration rarely names all tenants: at least this number is assumed.
const MIN_TENANTS: u128 = 1_000;

/// Bytes of one sample: instant, count, speed and backoff.
const SAMPLE_BYTES: u128 = 48;

/// The defaults for a thousand tenants, and half as much again.
const MAX_MEMORY: u128 = 256 * 1024 * 1024;
