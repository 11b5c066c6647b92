//! Periodic maintenance: statistics and cache writes.
//!
//! No decision depends on it. Limits and health read the clock on demand, and the cache serves from
//! memory; without maintenance an alert is late and a restart finds fewer responses.

use std::sync::Arc;
use std::time::Duration;

use super::super::api_table::ApiTable;
use super::{InitError, emit_own};
use crate::cache::{Cache, DiskState};
use crate::event::{EventKind, Events};
use crate::tasks::{CancelToken, Tasks};
use crate::upstream::Upstream;

/// Returns the interval of statistics: the shortest that any API wants.
fn statistics_interval(table: &ApiTable) -> Duration {
    let clients = table.all();
    let thresholds = clients.values().map(|client| client.api.rules.thresholds);
    let interval = thresholds.map(|thresholds| thresholds.statistics_every).min();
    interval.unwrap_or(MAX_INTERVAL).clamp(MIN_INTERVAL, MAX_INTERVAL)
}

pub(super) fn spawn_maintenance(tasks: &Tasks, table: Arc<ApiTable>) -> Result<(), InitError> {
    let work = move |cancel: CancelToken| {
        let table = Arc::clone(&table);
        async move {
            loop {
                tokio::select! {
                    () = cancel.cancelled() => return,
                    () = tokio::time::sleep(statistics_interval(&table)) => {}
                }
                table.upstreams().iter().for_each(Upstream::prune);
            }
        }
    };
    tasks.spawn("tidy", work).map_err(InitError::Tasks)
}

/// Writes responses as they come, and reports when the directory becomes unwritable or writable.
/// Without that, a cache that loses everything at exit goes unnoticed.
pub(super) fn spawn_cache_writer(tasks: &Tasks, cache: Cache, events: Events) -> Result<(), InitError> {
    let first = cache.report().state;
    if !matches!(first, DiskState::None | DiskState::Used) {
        emit_own(&events, EventKind::Disk { state: first });
    }
    let write = move |cancel: &CancelToken| {
        let mut reported = first;
        while !cancel.is_cancelled() {
            cache.flush();
            let state = cache.report().state;
            if std::mem::replace(&mut reported, state) != state {
                emit_own(&events, EventKind::Disk { state });
            }
            std::thread::park_timeout(WRITE_INTERVAL);
        }
        cache.flush();
    };
    tasks.spawn_thread("cache", write).map_err(InitError::Tasks)
}

/// Runs work now and after every interval until it is cancelled. Missed runs are done once.
pub(super) async fn repeat_every(cancel: CancelToken, interval: Duration, work: impl Fn()) {
    let mut ticks = tokio::time::interval(interval.max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            _ = ticks.tick() => work(),
        }
    }
}

/// Shorter, statistics would cost more than the calls they are about.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// A reload may add APIs, whose statistics must not wait for an hour.
const MAX_INTERVAL: Duration = Duration::from_mins(1);

/// A response lost in a crash is fetched again; constant disk writes are not worth it.
const WRITE_INTERVAL: Duration = Duration::from_millis(200);
