//! Reads `[bulk]`: each key, then the combinations of two keys.

use std::time::Duration;

use outflow_config::value_readers::{
    read_bool, read_choice, read_duration, read_integer, read_path, read_positive_duration, read_u32,
};
use outflow_config::{Environment, FieldValue, SecretKeys, TableReader, ValueError, read_secret};
use outflow_core::{Backoff, CongestionRule};

use super::{BulkConfig, BulkRetention, BulkScheduler, BulkShared, BulkWorkers, redis, tenants};

/// Reads `[bulk]`.
pub(super) fn read_bulk(table: &TableReader<'_>, environment: &Environment) -> BulkConfig {
    let mut bulk = BulkConfig {
        store: redis::read_store(table, environment),
        dir: table.read("dir", read_path),
        workers: read_workers(&table.section("workers")),
        ..BulkConfig::default()
    };
    read_lease(table, &mut bulk);
    read_bounds(table, &mut bulk);
    bulk.retry = read_retry(&table.section("retry"), bulk.retry);
    read_congestion(table, &mut bulk);
    tenants::read_tenants(table, &mut bulk);
    bulk.retention = read_retention(&table.section("retention"));
    bulk.shared = read_shared(&table.section("shared"));
    let webhook = table.section("webhook");
    bulk.webhook_secret = read_secret(&webhook, environment, WEBHOOK);
    webhook.finish();
    bulk
}

fn read_workers(table: &TableReader<'_>) -> BulkWorkers {
    let default = BulkWorkers::default();
    let count = |name| table.read(name, |item| read_integer(item, 1..=MAX_WORKERS));
    let small = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    let (min, max) = (count("min"), count("max"));
    let depth = table.read("depth", read_job_count);
    table.finish();
    let workers = BulkWorkers {
        min: min.map_or(default.min, small),
        max: max.map_or(default.max, small),
        depth: depth.unwrap_or(default.depth),
    };
    let is_known = |name, value: Option<u64>| value.is_some() || !table.has(name);
    if workers.min > workers.max && is_known("min", min) && is_known("max", max) {
        let error = ValueError::new(format!("these are more than the {} of `max`", workers.max));
        table.report("min", error.help("lower `min` or raise `max`"));
    }
    workers
}

/// Reads the lease of a worker, and its timeouts.
fn read_lease(table: &TableReader<'_>, bulk: &mut BulkConfig) {
    let before = table.diagnostic_count();
    set(&mut bulk.lease, table.read("lease", read_positive_duration));
    set(&mut bulk.heartbeat, table.read("heartbeat", read_positive_duration));
    if bulk.heartbeat >= bulk.lease && table.diagnostic_count() == before {
        let error = ValueError::new("a worker's lease would end before its next heartbeat");
        let key = written_key(table, ["heartbeat", "lease"]);
        table.report(key, error.help("make `heartbeat` a third of `lease`"));
    }
    set(&mut bulk.recoveries, table.read("recoveries", read_u32));
    set(&mut bulk.timeout, table.read("timeout", read_positive_duration));
    let action = table.read("action_timeout", read_positive_duration);
    set(&mut bulk.action_timeout, action);
    set(&mut bulk.grace, table.read("grace", read_duration));
}

fn read_bounds(table: &TableReader<'_>, bulk: &mut BulkConfig) {
    let ready = table.read("ready_queue_max", read_job_count);
    set(&mut bulk.ready_queue_max, ready);
    set(&mut bulk.queue_max, table.read("queue_max", read_job_count));
    set(&mut bulk.global_rate, table.read("global_rate", read_job_count));
}

fn read_retry(table: &TableReader<'_>, default: Backoff) -> Backoff {
    let before = table.diagnostic_count();
    let base = table.read("base", read_positive_duration).unwrap_or(RETRY_BASE);
    let max = table.read("max", read_positive_duration).unwrap_or(RETRY_MAX);
    table.finish();
    Backoff::full_jitter(base, max).unwrap_or_else(|_| {
        if table.diagnostic_count() == before {
            let error = ValueError::new("the longest wait of a retry is below the first");
            let key = written_key(table, ["max", "base"]);
            table.report(key, error.help("raise `max` or lower `base`"));
        }
        default
    })
}

fn read_congestion(table: &TableReader<'_>, bulk: &mut BulkConfig) {
    let own = table.section("congestion");
    let before = table.diagnostic_count();
    let base = own.read("base_backoff", read_positive_duration);
    let max = own.read("max_backoff", read_positive_duration);
    let base = base.unwrap_or(bulk.congestion.base());
    let max = max.unwrap_or(bulk.congestion.max());
    match CongestionRule::new(base, max) {
        Ok(rule) => bulk.congestion = rule,
        // The default of a value that could not be read may not fit the other value.
        Err(_) if table.diagnostic_count() > before => {}
        Err(error) => {
            let key = written_key(&own, ["max_backoff", "base_backoff"]);
            own.report(key, ValueError::new(error.to_string()));
        }
    }
    let interval = own.read("snapshot_interval", read_positive_duration);
    set(&mut bulk.snapshot_interval, interval);
    let retention = own.read("stats_retention", read_positive_duration);
    set(&mut bulk.stats_retention, retention);
    let enabled = own.read("enabled", read_bool);
    own.finish();
    let written = table.read("scheduler", read_choice(&SCHEDULERS));
    bulk.scheduler = match enabled {
        Some(false) => scheduler_without_control(&own, written),
        _ => written.unwrap_or_default(),
    };
}

/// Returns the scheduler without congestion control: no formula is used, so every deferred job waits the
/// same time.
fn scheduler_without_control(own: &TableReader<'_>, written: Option<BulkScheduler>) -> BulkScheduler {
    let warning = |message: &str, help: &str| {
        own.report("enabled", ValueError::warning(message).help(help));
    };
    match written {
        None | Some(BulkScheduler::Fixed) => BulkScheduler::Fixed,
        Some(BulkScheduler::Backoff) => {
            warning(
                "without congestion control every job is deferred by the base",
                "say `scheduler = \"fixed\"`, which is what this means",
            );
            BulkScheduler::Fixed
        }
        Some(BulkScheduler::Permit) => {
            warning(
                "this changes nothing: with permits first no job is deferred",
                "leave it out, or say `scheduler = \"fixed\"`",
            );
            BulkScheduler::Permit
        }
    }
}

fn read_retention(table: &TableReader<'_>) -> BulkRetention {
    let mut retention = BulkRetention::default();
    set(&mut retention.results, table.read("results", read_positive_duration));
    set(&mut retention.names, table.read("names", read_positive_duration));
    set(&mut retention.dead, table.read("dead", read_positive_duration));
    table.finish();
    retention
}

fn read_shared(table: &TableReader<'_>) -> BulkShared {
    let mut shared = BulkShared::default();
    set(&mut shared.guard, table.read("guard", read_duration));
    set(&mut shared.horizon, table.read("horizon", read_positive_duration));
    table.finish();
    shared
}

/// Returns the written one of two keys, or the first.
fn written_key(table: &TableReader<'_>, [first, second]: [&'static str; 2]) -> &'static str {
    if table.has(first) || !table.has(second) {
        first
    } else {
        second
    }
}

/// Reads a number of jobs above zero.
fn read_job_count(item: &FieldValue<'_>) -> Result<u64, ValueError> {
    read_integer(item, 1..=MAX_JOBS)
}

fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

/// Keys of the secret that signs webhooks.
const WEBHOOK: SecretKeys = SecretKeys {
    inline: "secret",
    variable: "secret_env",
    file: "secret_file",
};

const SCHEDULERS: [(&str, BulkScheduler); 3] = [
    ("permit", BulkScheduler::Permit),
    ("backoff", BulkScheduler::Backoff),
    ("fixed", BulkScheduler::Fixed),
];

/// As in [`Backoff::default`], whose parts are private.
const RETRY_BASE: Duration = Duration::from_millis(1_500);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// Each may hold a connection: a process cannot open more.
const MAX_WORKERS: u64 = 100_000;

/// More than any store holds.
const MAX_JOBS: u64 = 1_000_000_000;
