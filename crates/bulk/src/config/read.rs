//! Reads `[bulk]`: each key by itself, then what two of them say together.

use std::time::Duration;

use outflow_core::{Backoff, CongestionRule};

use super::super::credential;
use super::super::environment::Environment;
use super::super::reader::{FieldValue, TableReader, ValueError};
use super::super::value_readers::{choice, duration, number, path, span, truth, whole};
use super::{BulkConfig, BulkRetention, BulkScheduler, BulkShared, BulkWorkers, redis, tenants};

/// Reads `[bulk]`.
pub(in super::super) fn read(root: &TableReader<'_>, environment: &Environment) -> BulkConfig {
    let fields = root.section("bulk");
    let mut bulk = BulkConfig {
        store: redis::store(&fields, environment),
        dir: fields.read("dir", path),
        workers: workers(&fields.section("workers")),
        ..BulkConfig::default()
    };
    lease(&fields, &mut bulk);
    bounds(&fields, &mut bulk);
    bulk.retry = retry(&fields.section("retry"), bulk.retry);
    congestion(&fields, &mut bulk);
    tenants::read(&fields, &mut bulk);
    bulk.retention = retention(&fields.section("retention"));
    bulk.shared = shared(&fields.section("shared"));
    let webhook = fields.section("webhook");
    bulk.webhook_secret = credential::secret(&webhook, environment, credential::WEBHOOK);
    webhook.finish();
    fields.finish();
    bulk
}

fn workers(fields: &TableReader<'_>) -> BulkWorkers {
    let usual = BulkWorkers::default();
    let count = |name| fields.read(name, |item| whole(item, 1..=MOST_WORKERS));
    let small = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    let (min, max) = (count("min"), count("max"));
    let depth = fields.read("depth", some);
    fields.finish();
    let workers = BulkWorkers {
        min: min.map_or(usual.min, small),
        max: max.map_or(usual.max, small),
        depth: depth.unwrap_or(usual.depth),
    };
    let read = |name, value: Option<u64>| value.is_some() || !fields.has(name);
    if workers.min > workers.max && read("min", min) && read("max", max) {
        let wrong = ValueError::new(format!("these are more than the {} of `max`", workers.max));
        fields.tell("min", wrong.help("lower `min` or raise `max`"));
    }
    workers
}

/// Reads how a worker is known to live, and how long it may take.
fn lease(fields: &TableReader<'_>, bulk: &mut BulkConfig) {
    let before = fields.book().count();
    set(&mut bulk.lease, fields.read("lease", span));
    set(&mut bulk.heartbeat, fields.read("heartbeat", span));
    if bulk.heartbeat >= bulk.lease && fields.book().count() == before {
        let wrong = ValueError::new("a worker would be given up before it says that it lives");
        let key = written(fields, ["heartbeat", "lease"]);
        fields.tell(key, wrong.help("make `heartbeat` a third of `lease`"));
    }
    set(&mut bulk.recoveries, fields.read("recoveries", number));
    set(&mut bulk.timeout, fields.read("timeout", span));
    let action = fields.read("action_timeout", span);
    set(&mut bulk.action_timeout, action);
    set(&mut bulk.grace, fields.read("grace", duration));
}

fn bounds(fields: &TableReader<'_>, bulk: &mut BulkConfig) {
    let ready = fields.read("ready_queue_max", some);
    set(&mut bulk.ready_queue_max, ready);
    set(&mut bulk.queue_max, fields.read("queue_max", some));
    set(&mut bulk.global_rate, fields.read("global_rate", some));
}

fn retry(fields: &TableReader<'_>, usual: Backoff) -> Backoff {
    let before = fields.book().count();
    let base = fields.read("base", span).unwrap_or(RETRY_BASE);
    let max = fields.read("max", span).unwrap_or(RETRY_MAX);
    fields.finish();
    Backoff::full_jitter(base, max).unwrap_or_else(|_| {
        if fields.book().count() == before {
            let wrong = ValueError::new("the longest wait of a retry is below the first");
            let key = written(fields, ["max", "base"]);
            fields.tell(key, wrong.help("raise `max` or lower `base`"));
        }
        usual
    })
}

fn congestion(fields: &TableReader<'_>, bulk: &mut BulkConfig) {
    let own = fields.section("congestion");
    let before = fields.book().count();
    let base = own.read("base_backoff", span);
    let max = own.read("max_backoff", span);
    let base = base.unwrap_or(bulk.congestion.base());
    let max = max.unwrap_or(bulk.congestion.max());
    match CongestionRule::new(base, max) {
        Ok(rule) => bulk.congestion = rule,
        // A value that could not be read was taken as the default, which may not fit the other.
        Err(_) if fields.book().count() > before => {}
        Err(wrong) => {
            let key = written(&own, ["max_backoff", "base_backoff"]);
            own.tell(key, ValueError::new(wrong.to_string()));
        }
    }
    let interval = own.read("snapshot_interval", span);
    set(&mut bulk.snapshot_interval, interval);
    let kept = own.read("stats_retention", span);
    set(&mut bulk.stats_retention, kept);
    let enabled = own.read("enabled", truth);
    own.finish();
    let said = fields.read("scheduler", |item| choice(item, &SCHEDULERS));
    bulk.scheduler = match enabled {
        Some(false) => without_control(&own, said),
        _ => said.unwrap_or_default(),
    };
}

/// Without congestion control nothing is reckoned: a job that finds no room waits as long as the last.
fn without_control(own: &TableReader<'_>, said: Option<BulkScheduler>) -> BulkScheduler {
    let warning = |message: &str, help: &str| {
        own.tell("enabled", ValueError::warning(message).help(help));
    };
    match said {
        None | Some(BulkScheduler::Fixed) => BulkScheduler::Fixed,
        Some(BulkScheduler::Backoff) => {
            warning(
                "without congestion control every job is put off by the base",
                "say `scheduler = \"fixed\"`, which is what this means",
            );
            BulkScheduler::Fixed
        }
        Some(BulkScheduler::Permit) => {
            warning(
                "this changes nothing: with permits first no job is put off",
                "leave it out, or say `scheduler = \"fixed\"`",
            );
            BulkScheduler::Permit
        }
    }
}

fn retention(fields: &TableReader<'_>) -> BulkRetention {
    let mut kept = BulkRetention::default();
    set(&mut kept.results, fields.read("results", span));
    set(&mut kept.names, fields.read("names", span));
    set(&mut kept.dead, fields.read("dead", span));
    fields.finish();
    kept
}

fn shared(fields: &TableReader<'_>) -> BulkShared {
    let mut shared = BulkShared::default();
    set(&mut shared.guard, fields.read("guard", duration));
    set(&mut shared.horizon, fields.read("horizon", span));
    fields.finish();
    shared
}

/// The one of two keys that somebody wrote, or the first.
fn written(fields: &TableReader<'_>, [first, second]: [&'static str; 2]) -> &'static str {
    if fields.has(first) || !fields.has(second) {
        first
    } else {
        second
    }
}

/// A number of jobs above zero.
fn some(item: &FieldValue<'_>) -> Result<u64, ValueError> {
    whole(item, 1..=MOST_JOBS)
}

fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

const SCHEDULERS: [(&str, BulkScheduler); 3] = [
    ("permit", BulkScheduler::Permit),
    ("backoff", BulkScheduler::Backoff),
    ("fixed", BulkScheduler::Fixed),
];

/// As of [`Backoff::default`], which keeps its parts to itself.
const RETRY_BASE: Duration = Duration::from_millis(1_500);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// Each may hold a connection: more than a process may have open.
const MOST_WORKERS: u64 = 100_000;

/// More than any store of ours was ever seen to hold.
const MOST_JOBS: u64 = 1_000_000_000;
