//! Writes changes into the database, within one transaction.
//!
//! Counts are not written as they change but summed up first: a transaction that ends a thousand jobs of
//! one tenant writes that tenant once. What jobs have in common is gathered, and done to all of them at
//! the end.

use rusqlite::{Connection, params};

use super::coalesce::CoalescedOps;
use super::counters::CountDeltas;
use super::int_codec::{class_number, millis, nanos, stored};
use super::write_op::{ActionRow, PauseWrite, WriteOp};
use crate::embedded::state::action::ActionState;
use crate::embedded::state::job_entry::JobPosition;
use crate::tenant::TenantRule;

/// One transaction's work.
pub(crate) struct SqlWriter<'a> {
    pub(crate) disk: &'a Connection,
    pub(crate) sums: CountDeltas,
    pub(crate) gathered: CoalescedOps,
    /// The place of the last outcome or dead letter.
    pub(crate) place: u64,
    first_place: u64,
}

impl<'a> SqlWriter<'a> {
    pub(crate) fn new(disk: &'a Connection, place: u64) -> Self {
        Self {
            disk,
            sums: CountDeltas::default(),
            gathered: CoalescedOps::default(),
            place,
            first_place: place,
        }
    }

    /// Writes one change. A submission is not one, nor is a sweep: whoever decided what is in it writes it.
    pub(crate) fn write(&mut self, change: &WriteOp) -> rusqlite::Result<()> {
        match change {
            WriteOp::Submit(_) | WriteOp::Tidy(_) => Ok(()),
            WriteOp::Lane(id, name) => {
                let sql = "INSERT INTO lane (id, name) VALUES (?1, ?2)";
                self.run(sql, params![id, name.as_str()])
            }
            WriteOp::Tenant(id, name) => {
                let sql = "INSERT INTO tenant (id, name) VALUES (?1, ?2)";
                self.run(sql, params![id, name.as_str()])
            }
            WriteOp::Line(place) => self.line(*place),
            WriteOp::Mark(mark) => {
                self.mark(*mark);
                Ok(())
            }
            WriteOp::Unmark(seq) => {
                self.unmark(*seq);
                Ok(())
            }
            WriteOp::Mishap { seq, at, words } => self.mishap(*seq, millis(*at), words),
            WriteOp::Over(over) => self.over(over),
            WriteOp::Throttled { tenant, action } => {
                self.count_throttle(*tenant, *action);
                Ok(())
            }
            WriteOp::RunOver(run) => {
                self.run_over(*run);
                Ok(())
            }
            WriteOp::Rule(tenant, Some(rule)) => self.rule(*tenant, rule),
            WriteOp::Rule(tenant, None) => {
                let sql = "UPDATE tenant SET ruled = 0 WHERE id = ?1";
                self.run(sql, params![tenant])
            }
            WriteOp::Paused(tenant, pause) => {
                let sql = "UPDATE tenant SET paused = ?2 WHERE id = ?1";
                self.run(sql, params![tenant, *pause == PauseWrite::Stopped])
            }
            WriteOp::Congested {
                tenant,
                backoff,
                speed,
                at,
            } => {
                let sql = "UPDATE tenant SET backoff = ?2, speed = ?3, updated = ?4 WHERE id = ?1";
                let (backoff, speed) = (nanos(*backoff), stored(*speed));
                self.run(sql, params![tenant, backoff, speed, millis(*at)])
            }
            WriteOp::Reset(tenant) => self.reset(*tenant),
            WriteOp::Action(row) => self.action(row),
            WriteOp::Letters(letters) => self.letters(letters),
        }
    }

    pub(crate) fn run(&self, sql: &str, values: impl rusqlite::Params) -> rusqlite::Result<()> {
        self.disk.prepare_cached(sql)?.execute(values).map(drop)
    }

    fn line(&self, place: JobPosition) -> rusqlite::Result<()> {
        let sql = "INSERT INTO line (id, lane, tenant, class) VALUES (?1, ?2, ?3, ?4)";
        let class = class_number(place.class);
        self.run(sql, params![place.line, place.lane, place.tenant, class])
    }

    fn rule(&self, tenant: u32, rule: &TenantRule) -> rusqlite::Result<()> {
        let sql = "UPDATE tenant SET ruled = 1, weight = ?2, priority = ?3, rate = ?4, per = ?5, \
                   in_flight = ?6 WHERE id = ?1";
        self.run(
            sql,
            params![
                tenant,
                rule.weight.as_u32(),
                class_number(rule.priority),
                rule.rate.map(|rate| stored(rate.quantity())),
                rule.rate.map(|rate| nanos(rate.per())),
                rule.in_flight,
            ],
        )
    }

    /// Counts of a tenant begin anew, those too that this transaction has not written yet.
    fn reset(&mut self, tenant: u32) -> rusqlite::Result<()> {
        self.sums.reset(tenant);
        let sql = "UPDATE tenant SET done = 0, failed = 0, cancelled = 0, throttles = 0, busy = 0, \
                   backoff = 0, speed = 0, updated = NULL WHERE id = ?1";
        self.run(sql, params![tenant])
    }

    fn action(&self, row: &ActionRow) -> rusqlite::Result<()> {
        let ActionRow { id, state } = row;
        let ActionState { spec, .. } = state;
        // The name of one that is over may be taken by a new one; its outcomes go with the next tidying.
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
                nanos(spec.timeout),
                nanos(spec.keep),
                spec.note,
                millis(state.opened),
                state.started.map(millis),
                state.ended.map(millis),
                state.closed,
                state.told,
                state.fate.number(),
                state.paused,
            ],
        )
    }

    /// Writes what was gathered, the sums, and where the numbers stand.
    pub(crate) fn close(mut self, first_seq: u64, seq: u64) -> rusqlite::Result<u64> {
        self.flush()?;
        self.write_sums()?;
        if self.place != self.first_place || seq != first_seq || self.sums.move_total() {
            self.write_total(seq)?;
        }
        Ok(self.place)
    }
}
