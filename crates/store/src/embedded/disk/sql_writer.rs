//! Writes changes into the database, within one transaction.
//!
//! Counts are summed up first: a transaction that ends a thousand jobs of one tenant writes that tenant
//! once. Changes of many jobs are coalesced, and written together at the end.

use rusqlite::{Connection, params};

use super::coalesce::CoalescedOps;
use super::counters::CountDeltas;
use super::int_codec::{class_number, to_millis, to_nanos, to_sql};
use super::write_op::{PauseWrite, WriteOp};
use crate::embedded::state::action::ActionState;
use crate::embedded::state::job_entry::JobPosition;
use crate::tenant::TenantRule;

/// The writer of one transaction.
pub(crate) struct SqlWriter<'a> {
    pub(crate) disk: &'a Connection,
    pub(crate) deltas: CountDeltas,
    pub(crate) coalesced: CoalescedOps,
    /// The place of the last outcome or dead letter.
    pub(crate) last_place: u64,
    first_place: u64,
}

impl<'a> SqlWriter<'a> {
    pub(crate) fn new(disk: &'a Connection, last_place: u64) -> Self {
        Self {
            disk,
            deltas: CountDeltas::default(),
            coalesced: CoalescedOps::default(),
            last_place,
            first_place: last_place,
        }
    }

    /// Writes one change, except a submission or a sweep: the writer decides about those first.
    pub(crate) fn write(&mut self, op: &WriteOp) -> rusqlite::Result<()> {
        match op {
            WriteOp::Submit(_) | WriteOp::Sweep(_) => {}
            WriteOp::Mark(mark) => self.coalesced.mark(*mark),
            WriteOp::Unmark(seq) => self.coalesced.unmark(*seq),
            WriteOp::RunOver(run) => self.coalesced.end_run(*run),
            WriteOp::Throttled { tenant, action } => self.deltas.add_throttle(*tenant, *action),
            WriteOp::AttemptError { seq, at, words } => {
                self.insert_error(*seq, to_millis(*at), words)?;
            }
            WriteOp::Over(tenant, over) => self.end_job(tenant, over)?,
            WriteOp::Letters(letters) => self.write_letters(letters)?,
            WriteOp::Action(id, action) => self.write_action(*id, action)?,
            WriteOp::Lane(id, name) => {
                let sql = "INSERT INTO lane (id, name) VALUES (?1, ?2)";
                self.run(sql, params![id, name.as_str()])?;
            }
            WriteOp::Queue(position) => self.insert_queue(*position)?,
            WriteOp::Tenant(..)
            | WriteOp::Rule(..)
            | WriteOp::Paused(..)
            | WriteOp::Congested { .. }
            | WriteOp::Reset(_) => self.write_tenant(op)?,
        }
        Ok(())
    }

    /// Executes a prepared statement.
    pub(crate) fn run(&self, sql: &str, values: impl rusqlite::Params) -> rusqlite::Result<()> {
        self.disk.prepare_cached(sql)?.execute(values).map(drop)
    }

    fn insert_queue(&self, position: JobPosition) -> rusqlite::Result<()> {
        let sql = "INSERT INTO line (id, lane, tenant, class) VALUES (?1, ?2, ?3, ?4)";
        let class = class_number(position.class);
        let row = params![position.queue, position.lane, position.tenant, class];
        self.run(sql, row)
    }

    fn write_tenant(&mut self, op: &WriteOp) -> rusqlite::Result<()> {
        match op {
            WriteOp::Tenant(id, name) => {
                let sql = "INSERT INTO tenant (id, name) VALUES (?1, ?2)";
                self.run(sql, params![id, name.as_str()])
            }
            WriteOp::Rule(tenant, Some(rule)) => self.write_rule(*tenant, rule),
            WriteOp::Rule(tenant, None) => {
                let sql = "UPDATE tenant SET ruled = 0 WHERE id = ?1";
                self.run(sql, params![tenant])
            }
            WriteOp::Paused(tenant, pause) => {
                let sql = "UPDATE tenant SET paused = ?2 WHERE id = ?1";
                self.run(sql, params![tenant, *pause == PauseWrite::Paused])
            }
            WriteOp::Congested {
                tenant,
                backoff,
                speed,
                at,
            } => {
                let sql = "UPDATE tenant SET backoff = ?2, speed = ?3, updated = ?4 WHERE id = ?1";
                let (backoff, speed) = (to_nanos(*backoff), to_sql(*speed));
                self.run(sql, params![tenant, backoff, speed, to_millis(*at)])
            }
            WriteOp::Reset(tenant) => self.reset_counts(*tenant),
            _ => Ok(()),
        }
    }

    fn write_rule(&self, tenant: u32, rule: &TenantRule) -> rusqlite::Result<()> {
        let sql = "UPDATE tenant SET ruled = 1, weight = ?2, priority = ?3, rate = ?4, per = ?5, \
                   in_flight = ?6 WHERE id = ?1";
        self.run(
            sql,
            params![
                tenant,
                rule.weight.as_u32(),
                class_number(rule.priority),
                rule.rate.map(|rate| to_sql(rate.quantity())),
                rule.rate.map(|rate| to_nanos(rate.per())),
                rule.in_flight,
            ],
        )
    }

    /// Clears the counts of a tenant, including changes that this transaction has not written yet.
    fn reset_counts(&mut self, tenant: u32) -> rusqlite::Result<()> {
        self.deltas.reset(tenant);
        let sql = "UPDATE tenant SET done = 0, failed = 0, cancelled = 0, throttles = 0, busy = 0, \
                   backoff = 0, speed = 0, updated = NULL WHERE id = ?1";
        self.run(sql, params![tenant])
    }

    fn write_action(&self, id: u32, action: &ActionState) -> rusqlite::Result<()> {
        let spec = &action.spec;
        // A new action may take the name of a finished one. Garbage collection removes its outcomes.
        self.run(
            "DELETE FROM action WHERE name = ?1 AND id <> ?2",
            params![spec.id.as_str(), id],
        )?;
        let sql = "INSERT INTO action (id, name, timeout, keep, note, opened, started, ended, \
                   closed, told, fate, paused) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) \
                   ON CONFLICT (id) DO UPDATE SET timeout = ?3, keep = ?4, note = ?5, \
                   started = ?7, ended = ?8, closed = ?9, told = ?10, fate = ?11, paused = ?12";
        self.run(
            sql,
            params![
                id,
                spec.id.as_str(),
                to_nanos(spec.timeout),
                to_nanos(spec.keep),
                spec.note,
                to_millis(action.opened),
                action.started.map(to_millis),
                action.ended.map(to_millis),
                action.closed,
                action.notified,
                action.end.number(),
                action.paused,
            ],
        )
    }

    /// Writes the coalesced changes, the counts and the last numbers, and returns the last place.
    pub(crate) fn close(mut self, first_seq: u64, seq: u64) -> rusqlite::Result<u64> {
        self.coalesced.flush(self.disk)?;
        self.deltas.write(self.disk)?;
        let is_numbered = self.last_place != self.first_place || seq != first_seq;
        if is_numbered || self.deltas.has_total() {
            self.deltas.write_total(self.disk, seq, self.last_place)?;
        }
        Ok(self.last_place)
    }
}
