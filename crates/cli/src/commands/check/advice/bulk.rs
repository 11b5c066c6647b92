//! The same for the bulk engine: waits that do not fit the limits or the jobs, and statistics that fill
//! the memory.

use std::time::Duration;

use outflow::Api;
use outflow_bulk::config::{BulkConfig, BulkScheduler};

use super::{ConfigAdvice, WrittenKey};
use crate::config::ProgramConfig;

/// All that is worth another look.
pub(super) fn advice(config: &ProgramConfig) -> impl Iterator<Item = ConfigAdvice> {
    let rules = [
        base_beside_the_window,
        wait_beyond_the_job,
        memory_of_statistics,
    ];
    rules.into_iter().filter_map(|rule| rule(config))
}

/// A job that comes back before the window is over finds it as full as it left it, and one that comes
/// later leaves it unused.
fn base_beside_the_window(config: &ProgramConfig) -> Option<ConfigAdvice> {
    let written = waits(config, "bulk.congestion.base_backoff")?;
    let base = config.bulk.congestion.base();
    let differs =
        |api: &&Api| windows(api).next().is_some() && !windows(api).any(|one| one == base);
    let api = config.client.apis.iter().find(differs)?;
    let window = windows(api).min()?;
    Some(written.says(
        format!(
            "a job that finds no room is put off by {base:?}, and the window of the limit of `{}` is \
             {window:?}",
            api.name
        ),
        "make `bulk.congestion.base_backoff` as long as the window",
    ))
}

fn windows(api: &Api) -> impl Iterator<Item = Duration> {
    let groups = api.rules.groups.iter().flat_map(|group| &*group.limits);
    let limits = api.rules.limits.iter().chain(groups);
    limits.map(|limit| limit.rate().per())
}

/// A job that is put off for longer than all of its attempts may take is late by the wait alone.
fn wait_beyond_the_job(config: &ProgramConfig) -> Option<ConfigAdvice> {
    let written = waits(config, "bulk.congestion.max_backoff")?;
    let longest = config.bulk.congestion.max();
    let attempts = config.bulk.timeout.saturating_mul(ATTEMPTS);
    (longest > attempts).then(|| {
        written.says(
            format!(
                "a job may be put off for {longest:?}, and all its attempts together take {attempts:?} \
                 at most"
            ),
            "lower `bulk.congestion.max_backoff` to how late a job may be, or raise `bulk.timeout`",
        )
    })
}

/// A key of the formula that somebody set, or the scheduler that uses it.
fn waits(config: &ProgramConfig, key: &str) -> Option<WrittenKey> {
    let scheduler = || {
        let uses = config.bulk.scheduler != BulkScheduler::Permit;
        uses.then(|| WrittenKey::key(&config.client, "bulk.scheduler".to_owned()))?
    };
    WrittenKey::key(&config.client, key.to_owned()).or_else(scheduler)
}

/// Of each tenant with work one snapshot is kept for each interval.
fn memory_of_statistics(config: &ProgramConfig) -> Option<ConfigAdvice> {
    let keys = ["stats_retention", "snapshot_interval"];
    let written = |key| WrittenKey::key(&config.client, format!("bulk.congestion.{key}"));
    let written = keys.into_iter().find_map(written)?;
    let (tenants, bytes) = statistics(&config.bulk);
    (bytes > MOST_MEMORY).then(|| {
        written.says(
            format!(
                "the statistics of {tenants} tenants take up to {} MB",
                bytes / 1_000_000
            ),
            "lower `stats_retention` or raise `snapshot_interval`",
        )
    })
}

/// How many tenants are reckoned with, and what is kept of them in bytes.
fn statistics(bulk: &BulkConfig) -> (u128, u128) {
    let interval = bulk.snapshot_interval.as_nanos().max(1);
    let each = (bulk.stats_retention.as_nanos() / interval).max(1);
    let named = u128::try_from(bulk.tenants.len()).unwrap_or(u128::MAX);
    let tenants = named.max(USUAL_TENANTS);
    (
        tenants,
        each.saturating_mul(SNAPSHOT).saturating_mul(tenants),
    )
}

/// The first attempt of a job and its three retries.
const ATTEMPTS: u32 = 4;

/// Nobody names every tenant: so many are reckoned with in any case.
const USUAL_TENANTS: u128 = 1_000;

/// Bytes of one snapshot: when, how many, how fast and how long.
const SNAPSHOT: u128 = 48;

/// What the defaults take for a thousand tenants, and half as much again.
const MOST_MEMORY: u128 = 256 * 1024 * 1024;
