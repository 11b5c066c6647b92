//! What is done from time to time: statistics brought up to date, answers written to disk.
//!
//! Nothing is decided by any of it. Limits and health look at the clock whenever they are asked, and the
//! cache answers from memory; without upkeep an alert is late and a restart finds less.

use std::sync::Arc;
use std::time::Duration;

use outflow_core::Clock;

use super::super::api_table::ApiTable;
use super::{InitError, OURSELVES};
use crate::cache::{Cache, DiskState};
use crate::clock::SystemClock;
use crate::event::{Event, EventKind, Events};
use crate::tasks::{CancelToken, Tasks};
use crate::upstream::Upstream;

/// How often the statistics are brought up to date: as the most impatient API wants it.
fn rhythm(roster: &ApiTable) -> Duration {
    let outlets = roster.all();
    let wanted = outlets.values().map(|outlet| outlet.api.rules.thresholds);
    let every = wanted.map(|thresholds| thresholds.statistics_every).min();
    every
        .unwrap_or(LONGEST_RHYTHM)
        .clamp(SHORTEST_RHYTHM, LONGEST_RHYTHM)
}

pub(super) fn keep_house(tasks: &Tasks, roster: Arc<ApiTable>) -> Result<(), InitError> {
    let tidy = move |stop: CancelToken| {
        let roster = Arc::clone(&roster);
        async move {
            loop {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(rhythm(&roster)) => {}
                }
                roster.upstreams().iter().for_each(Upstream::prune);
            }
        }
    };
    tasks.spawn("tidy", tidy).map_err(InitError::Tasks)
}

/// Writes answers as they come, and tells when the directory stops being written or is again: nobody
/// would notice a cache that forgets everything with its process.
pub(super) fn write_answers(tasks: &Tasks, cache: Cache, events: Events) -> Result<(), InitError> {
    let first = cache.report().state;
    if !matches!(first, DiskState::None | DiskState::Used) {
        emit_disk_state(&events, first);
    }
    let write = move |stop: &CancelToken| {
        let mut known = first;
        while !stop.is_cancelled() {
            cache.flush();
            let state = cache.report().state;
            if std::mem::replace(&mut known, state) != state {
                emit_disk_state(&events, state);
            }
            std::thread::park_timeout(WRITE_EVERY);
        }
        cache.flush();
    };
    tasks.thread("cache", write).map_err(InitError::Tasks)
}

fn emit_disk_state(events: &Events, state: DiskState) {
    events.emit(|| Event {
        api: OURSELVES,
        at: SystemClock::new().now(),
        what: EventKind::Disk { state },
    });
}

/// Does it now and then again and again, until it is told to stop. What was late is done once.
pub(super) async fn every_so_often(stop: CancelToken, every: Duration, work: impl Fn()) {
    let mut ticks = tokio::time::interval(every.max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => work(),
        }
    }
}

/// More often, statistics would cost more than the calls they are about.
const SHORTEST_RHYTHM: Duration = Duration::from_millis(100);

/// Other APIs may come at any time, and theirs must not wait for an hour to be looked at.
const LONGEST_RHYTHM: Duration = Duration::from_mins(1);

/// An answer that is lost in a crash is asked for again; a disk that is written all the time is not
/// worth it.
const WRITE_EVERY: Duration = Duration::from_millis(200);
