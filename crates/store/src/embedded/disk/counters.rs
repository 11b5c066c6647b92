//! Counts that change within a transaction: of lines, tenants, actions and of all.

use std::collections::HashMap;

use rusqlite::params;

use super::int_codec::stored;
use super::sql_writer::SqlWriter;
use crate::embedded::state::job_entry::JobPosition;

/// What a transaction changes of the counts.
#[derive(Default)]
pub(crate) struct CountDeltas {
    pub(crate) lines: HashMap<u32, i64>,
    tenants: HashMap<u32, CountDelta>,
    actions: HashMap<u32, CountDelta>,
    total: CountDelta,
}

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

/// How a statement adds a sum to the counts that tenants, actions and all have.
macro_rules! counts {
    () => {
        "done = done + ?2, dead = dead + ?3, failed = failed + ?4, cancelled = cancelled + ?5, \
         throttles = throttles + ?6, busy = busy + ?7"
    };
}

impl SqlWriter<'_> {
    /// A job was added to a line and to an action.
    pub(crate) fn add_live(&mut self, place: JobPosition, action: Option<u32>) {
        *self.sums.lines.entry(place.line).or_default() += 1;
        if let Some(action) = action {
            self.sums.actions.entry(action).or_default().live += 1;
        }
    }

    pub(crate) fn add_to_action(&mut self, action: u32, sum: CountDelta) {
        self.sums.actions.entry(action).or_default().add(sum);
    }

    pub(crate) fn add(&mut self, tenant: u32, action: Option<u32>, sum: CountDelta) {
        self.sums.total.add(sum);
        self.sums.tenants.entry(tenant).or_default().add(sum);
        if let Some(action) = action {
            self.sums.actions.entry(action).or_default().add(sum);
        }
    }

    /// A refusal counts when it happens, whatever becomes of its job.
    pub(crate) fn count_throttle(&mut self, tenant: u32, action: Option<u32>) {
        let sum = CountDelta {
            throttles: 1,
            ..CountDelta::default()
        };
        self.add(tenant, action, sum);
    }

    /// Adds what changed to what is written of lines, tenants and actions.
    pub(crate) fn write_sums(&self) -> rusqlite::Result<()> {
        for (line, live) in &self.sums.lines {
            let sql = "UPDATE line SET live = live + ?2 WHERE id = ?1";
            self.run(sql, params![line, live])?;
        }
        for (tenant, sum) in &self.sums.tenants {
            let sql = concat!("UPDATE tenant SET ", counts!(), " WHERE id = ?1");
            self.run(sql, sum.get(i64::from(*tenant)))?;
        }
        for (action, sum) in &self.sums.actions {
            let sql = concat!(
                "UPDATE action SET live = live + ?8, ",
                counts!(),
                " WHERE id = ?1"
            );
            self.run(sql, sum.between(i64::from(*action), sum.live))?;
        }
        Ok(())
    }

    /// The same for all, and where the numbers stand.
    pub(crate) fn write_total(&self, seq: u64) -> rusqlite::Result<()> {
        let sql = concat!("UPDATE total SET seq = ?1, place = ?8, ", counts!());
        let (seq, place) = (stored(seq), stored(self.place));
        self.run(sql, self.sums.total.between(seq, place))
    }
}

impl CountDeltas {
    /// Of what a tenant was to get, only what a reset leaves: its dead letters.
    pub(crate) fn reset(&mut self, tenant: u32) {
        if let Some(sum) = self.tenants.get_mut(&tenant) {
            *sum = CountDelta {
                live: sum.live,
                dead: sum.dead,
                ..CountDelta::default()
            };
        }
    }

    /// Whether anything changed for all.
    pub(crate) fn move_total(&self) -> bool {
        self.total != CountDelta::default()
    }
}

impl CountDelta {
    /// What a statement takes that adds this to a row.
    const fn get(&self, row: i64) -> [i64; 7] {
        let Self {
            done, dead, failed, ..
        } = *self;
        let (cancelled, throttles, busy) = (self.cancelled, self.throttles, self.busy);
        [row, done, dead, failed, cancelled, throttles, busy]
    }

    /// The same with one number more.
    const fn between(&self, row: i64, last: i64) -> [i64; 8] {
        let [row, done, dead, failed, cancelled, throttles, busy] = self.get(row);
        [row, done, dead, failed, cancelled, throttles, busy, last]
    }

    fn add(&mut self, other: Self) {
        self.live += other.live;
        self.done += other.done;
        self.dead += other.dead;
        self.failed += other.failed;
        self.cancelled += other.cancelled;
        self.throttles += other.throttles;
        self.busy = self.busy.saturating_add(other.busy);
    }
}
