//! Changes of counts within a transaction: of queues, tenants, actions and the total.

use std::collections::HashMap;

use rusqlite::{Connection, params};

use super::int_codec::to_sql;
use crate::embedded::state::job_entry::JobPosition;

/// The changes of all counts in one transaction.
#[derive(Default)]
pub(crate) struct CountDeltas {
    queues: HashMap<u32, i64>,
    tenants: HashMap<u32, CountDelta>,
    actions: HashMap<u32, CountDelta>,
    total: CountDelta,
}

/// The change of one row's counts.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CountDelta {
    pub(crate) live: i64,
    pub(crate) done: i64,
    pub(crate) dead: i64,
    pub(crate) failed: i64,
    pub(crate) cancelled: i64,
    pub(crate) throttles: i64,
    pub(crate) busy: i64,
}

/// The assignments that add a delta to the columns that tenants, actions and the total share.
macro_rules! add_counts {
    () => {
        "done = done + ?2, dead = dead + ?3, failed = failed + ?4, cancelled = cancelled + ?5, \
         throttles = throttles + ?6, busy = busy + ?7"
    };
}

impl CountDeltas {
    /// Counts a job that joins a queue and an action.
    pub(crate) fn add_live(&mut self, position: JobPosition, action: Option<u32>) {
        *self.queues.entry(position.queue).or_default() += 1;
        if let Some(action) = action {
            self.actions.entry(action).or_default().live += 1;
        }
    }

    /// Counts a job that leaves a queue.
    pub(crate) fn remove_live(&mut self, position: JobPosition) {
        *self.queues.entry(position.queue).or_default() -= 1;
    }

    pub(crate) fn add_to_action(&mut self, action: u32, delta: CountDelta) {
        self.actions.entry(action).or_default().add(delta);
    }

    pub(crate) fn add(&mut self, tenant: u32, action: Option<u32>, delta: CountDelta) {
        self.total.add(delta);
        self.tenants.entry(tenant).or_default().add(delta);
        if let Some(action) = action {
            self.add_to_action(action, delta);
        }
    }

    /// Counts a throttle when it happens, independent of the job's end.
    pub(crate) fn add_throttle(&mut self, tenant: u32, action: Option<u32>) {
        let delta = CountDelta {
            throttles: 1,
            ..CountDelta::default()
        };
        self.add(tenant, action, delta);
    }

    /// Drops the changes of a tenant, except of its dead letters, which a reset keeps.
    pub(crate) fn reset(&mut self, tenant: u32) {
        if let Some(delta) = self.tenants.get_mut(&tenant) {
            *delta = CountDelta {
                live: delta.live,
                dead: delta.dead,
                ..CountDelta::default()
            };
        }
    }

    pub(crate) fn has_total(&self) -> bool {
        self.total != CountDelta::default()
    }

    /// Adds the changes to the rows of queues, tenants and actions.
    pub(crate) fn write(&self, disk: &Connection) -> rusqlite::Result<()> {
        for (queue, live) in &self.queues {
            let sql = "UPDATE line SET live = live + ?2 WHERE id = ?1";
            disk.prepare_cached(sql)?.execute(params![queue, live])?;
        }
        for (tenant, delta) in &self.tenants {
            let sql = concat!("UPDATE tenant SET ", add_counts!(), " WHERE id = ?1");
            let values = delta.values(i64::from(*tenant));
            disk.prepare_cached(sql)?.execute(values)?;
        }
        for (action, delta) in &self.actions {
            let sql = concat!("UPDATE action SET live = live + ?8, ", add_counts!(), " WHERE id = ?1");
            let values = delta.values_and(i64::from(*action), delta.live);
            disk.prepare_cached(sql)?.execute(values)?;
        }
        Ok(())
    }

    /// Adds the changes to the total, and writes the last numbers.
    pub(crate) fn write_total(&self, disk: &Connection, seq: u64, place: u64) -> rusqlite::Result<()> {
        let sql = concat!("UPDATE total SET seq = ?1, place = ?8, ", add_counts!());
        let values = self.total.values_and(to_sql(seq), to_sql(place));
        disk.prepare_cached(sql)?.execute(values).map(drop)
    }
}

impl CountDelta {
    /// Returns the values of a statement that adds this to a row.
    const fn values(&self, row: i64) -> [i64; 7] {
        let Self { done, dead, failed, .. } = *self;
        let (cancelled, throttles, busy) = (self.cancelled, self.throttles, self.busy);
        [row, done, dead, failed, cancelled, throttles, busy]
    }

    /// Returns the values with one more at the end.
    const fn values_and(&self, row: i64, last: i64) -> [i64; 8] {
        let [row, done, dead, failed, cancelled, throttles, busy] = self.values(row);
        [row, done, dead, failed, cancelled, throttles, busy, last]
    }

    const fn add(&mut self, other: Self) {
        self.live += other.live;
        self.done += other.done;
        self.dead += other.dead;
        self.failed += other.failed;
        self.cancelled += other.cancelled;
        self.throttles += other.throttles;
        self.busy = self.busy.saturating_add(other.busy);
    }
}
