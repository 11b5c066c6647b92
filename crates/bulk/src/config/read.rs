//! Reads `[bulk]`: each key, then the combinations of two keys.

use std::time::Duration;

use outflow_config::value_readers::{
    read_bool, read_choice, read_duration, read_integer, read_path, read_positive_duration, read_u32, read_word_or,
};
use outflow_config::{Environment, FieldValue, SecretKeys, TableReader, ValueError, read_fields, read_secret};
use outflow_core::{Backoff, CongestionRule};

use super::{BulkConfig, redis, tenants};
use crate::settings::{EngineSettings, RetentionSettings, SchedulerKind, WorkerSettings};

/// Reads `[bulk]`.
pub(super) fn read_bulk(table: &TableReader<'_>, environment: &Environment) -> BulkConfig {
    let mut bulk = BulkConfig {
        store: redis::read_store(table, environment),
        dir: table.read("dir", read_path),
        ..BulkConfig::default()
    };
    let engine = &mut bulk.engine;
    engine.workers = read_workers(&table.section("workers"));
    read_lease(table, engine);
    read_bounds(table, engine);
    engine.backoff = read_retry(&table.section("retry"), engine.backoff);
    read_congestion(table, engine);
    tenants::read_tenants(table, engine);
    read_retention(&table.section("retention"), &mut engine.retention);
    report_unused_shared(&table.section("shared"));
    let webhook = table.section("webhook");
    bulk.webhook_secret = read_secret(&webhook, environment, WEBHOOK);
    webhook.finish();
    bulk
}

fn read_workers(table: &TableReader<'_>) -> WorkerSettings {
    let count = |item: &FieldValue<'_>| read_word_or(item, "auto", |item| read_integer(item, 1..=MAX_WORKERS));
    let slots = |count: Option<u64>| count.and_then(|count| usize::try_from(count).ok());
    let read = |name| slots(table.read(name, count).flatten());
    let workers = WorkerSettings {
        min: read("min"),
        max: read("max"),
        depth: table
            .read("depth", read_job_count)
            .unwrap_or(WorkerSettings::default().depth),
    };
    table.finish();
    if let (Some(min), Some(max)) = (workers.min, workers.max)
        && min > max
    {
        let error = ValueError::new(format!("these are more than the {max} of `max`"));
        table.report("min", error.help("lower `min` or raise `max`"));
    }
    workers
}

/// Reads the lease of a worker, and its timeouts.
fn read_lease(table: &TableReader<'_>, settings: &mut EngineSettings) {
    let before = table.diagnostic_count();
    read_fields!(table => settings, lease: read_positive_duration, heartbeat: read_positive_duration,);
    if settings.heartbeat >= settings.lease && table.diagnostic_count() == before {
        let error = ValueError::new("a worker's lease would end before its next heartbeat");
        let key = written_key(table, ["heartbeat", "lease"]);
        table.report(key, error.help("make `heartbeat` a third of `lease`"));
    }
    read_fields!(table => settings,
        recoveries: read_u32,
        timeout: read_positive_duration,
        action_timeout: read_positive_duration,
        grace: read_duration,
    );
}

fn read_bounds(table: &TableReader<'_>, settings: &mut EngineSettings) {
    read_fields!(table => settings,
        ready_queue_max: read_job_count,
        queue_max: read_job_count,
        global_rate: read_job_count,
    );
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

fn read_congestion(table: &TableReader<'_>, settings: &mut EngineSettings) {
    let own = table.section("congestion");
    let before = table.diagnostic_count();
    let base = own.read("base_backoff", read_positive_duration);
    let max = own.read("max_backoff", read_positive_duration);
    let base = base.unwrap_or(settings.congestion.base());
    let max = max.unwrap_or(settings.congestion.max());
    match CongestionRule::new(base, max) {
        Ok(rule) => settings.congestion = rule,
        // The default of a value that could not be read may not fit the other value.
        Err(_) if table.diagnostic_count() > before => {}
        Err(error) => {
            let key = written_key(&own, ["max_backoff", "base_backoff"]);
            own.report(key, ValueError::new(error.to_string()));
        }
    }
    let every = own.read("snapshot_interval", read_positive_duration);
    settings.snapshot_every = every.unwrap_or(settings.snapshot_every);
    let kept = own.read("stats_retention", read_positive_duration);
    settings.retention.statistics = kept.unwrap_or(settings.retention.statistics);
    let enabled = own.read("enabled", read_bool);
    own.finish();
    let written = table.read("scheduler", read_choice(&SCHEDULERS));
    settings.scheduler = match enabled {
        Some(false) => scheduler_without_control(&own, written),
        _ => written.unwrap_or_default(),
    };
}

/// Returns the scheduler without congestion control: no formula is used, so every deferred job waits the
/// same time.
fn scheduler_without_control(own: &TableReader<'_>, written: Option<SchedulerKind>) -> SchedulerKind {
    let warning = |message: &str, help: &str| {
        own.report("enabled", ValueError::warning(message).help(help));
    };
    match written {
        None | Some(SchedulerKind::Fixed) => SchedulerKind::Fixed,
        Some(SchedulerKind::Backoff) => {
            warning(
                "without congestion control every job is deferred by the base",
                "say `scheduler = \"fixed\"`, which is what this means",
            );
            SchedulerKind::Fixed
        }
        Some(SchedulerKind::Permit) => {
            warning(
                "this changes nothing: with permits first no job is deferred",
                "leave it out, or say `scheduler = \"fixed\"`",
            );
            SchedulerKind::Permit
        }
    }
}

fn read_retention(table: &TableReader<'_>, retention: &mut RetentionSettings) {
    read_fields!(table => retention,
        results: read_positive_duration,
        names: read_positive_duration,
        dead: read_positive_duration,
    );
    table.finish();
}

/// Reports keys of earlier versions, which scheduled starts ahead on a shared store.
fn report_unused_shared(table: &TableReader<'_>) {
    for key in ["guard", "horizon"] {
        if table.has(key) && table.read(key, read_duration).is_some() {
            let warning =
                ValueError::warning("this has no effect: machines share limits by the arrivals of their calls");
            table.report(key, warning.help("leave it out"));
        }
    }
    table.finish();
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

/// Keys of the secret that signs webhooks.
const WEBHOOK: SecretKeys = SecretKeys {
    inline: "secret",
    variable: "secret_env",
    file: "secret_file",
};

const SCHEDULERS: [(&str, SchedulerKind); 3] = [
    ("permit", SchedulerKind::Permit),
    ("backoff", SchedulerKind::Backoff),
    ("fixed", SchedulerKind::Fixed),
];

/// As in [`Backoff::default`], whose parts are private.
const RETRY_BASE: Duration = Duration::from_millis(1_500);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// Each may hold a connection: a process cannot open more.
const MAX_WORKERS: u64 = 100_000;

/// More than any store holds.
const MAX_JOBS: u64 = 1_000_000_000;
