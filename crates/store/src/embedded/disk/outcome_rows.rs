//! Rows of failed attempts, finished jobs and dead letters.

use rusqlite::{OptionalExtension as _, params};

use super::coalesce::NameFate;
use super::counters::CountDelta;
use super::int_codec::{to_millis, to_nanos, to_sql};
use super::sql_writer::SqlWriter;
use super::write_op::{JobMark, LetterOp, LetterWrite, MarkState};
use crate::action::with_last_error;
use crate::embedded::ops::transitions::JobEnding;
use crate::embedded::state::job_entry::AttemptHistory;
use crate::name::Name;
use crate::settle::JobStatus;

impl SqlWriter<'_> {
    pub(super) fn insert_error(&self, seq: u64, at: i64, words: &str) -> rusqlite::Result<()> {
        let seq = to_sql(seq);
        self.run(
            "INSERT INTO mishap (seq, at, words) VALUES (?1, ?2, ?3)",
            params![seq, at, words],
        )?;
        let mut statement = self.disk.prepare_cached(SELECT_ERRORS)?;
        let surplus = statement.query_map(params![seq], |row| row.get(2))?.nth(ERROR_LIMIT);
        surplus.map_or(Ok(()), |id| self.delete_errors(seq, id?))
    }

    /// Deletes the errors of a job up to one of them.
    fn delete_errors(&self, seq: i64, last: i64) -> rusqlite::Result<()> {
        self.run("DELETE FROM mishap WHERE seq = ?1 AND id <= ?2", params![seq, last])
    }

    pub(super) fn end_job(&mut self, tenant: &Name, over: &JobEnding) -> rusqlite::Result<()> {
        if over.status == JobStatus::Failed {
            self.insert_dead_letter(over)?;
        }
        // Directly after its dead letter: a requeue finds the outcome by that place.
        if over.entry.action.is_some() {
            self.insert_outcome(tenant, over)?;
        }
        if over.status != JobStatus::Failed && over.entry.history.may_have_errors() {
            self.delete_errors(to_sql(over.seq), i64::MAX)?;
        }
        let name = match over.status {
            JobStatus::Cancelled => NameFate::Free,
            JobStatus::Done | JobStatus::Failed | JobStatus::Expired => NameFate::Expires,
        };
        self.coalesced.end_job(over.seq, over.at, name);
        self.count_end(over);
        Ok(())
    }

    fn count_end(&mut self, over: &JobEnding) {
        let mut delta = CountDelta {
            live: -1,
            ..CountDelta::default()
        };
        match over.status {
            JobStatus::Done => (delta.done, delta.busy) = (1, to_nanos(over.took)),
            JobStatus::Failed => delta.dead = 1,
            JobStatus::Expired | JobStatus::Cancelled => delta.cancelled = 1,
        }
        self.deltas.remove_live(over.entry.position);
        self.deltas.add(over.entry.position.tenant, over.entry.action, delta);
    }

    fn insert_dead_letter(&mut self, over: &JobEnding) -> rusqlite::Result<()> {
        self.last_place += 1;
        // A damaged row may hold values of any type; the casts keep the letter readable.
        let sql = "INSERT INTO dead (place, seq, line, name, action, cost, deadline, retries, at, \
                   attempts, recoveries, throttles, payload, sum) SELECT ?2, seq, ?7, \
                   CAST(name AS TEXT), ?8, ifnull(CAST(cost AS INTEGER), 0), \
                   CAST(deadline AS INTEGER), ifnull(CAST(retries AS INTEGER), 0), ?3, ?4, ?5, \
                   ?6, ifnull(CAST(payload AS BLOB), x''), CAST(sum AS INTEGER) \
                   FROM job WHERE seq = ?1";
        self.run(
            sql,
            params![
                to_sql(over.seq),
                to_sql(self.last_place),
                to_millis(over.at),
                over.entry.history.attempts,
                over.entry.history.recoveries,
                over.entry.history.throttles,
                over.entry.position.queue,
                over.entry.action,
            ],
        )
    }

    fn insert_outcome(&mut self, tenant: &Name, over: &JobEnding) -> rusqlite::Result<()> {
        self.last_place += 1;
        let sql = "INSERT INTO outcome (place, action, seq, name, tenant, ended, at, attempts, \
                   throttles, status, body, until, words) \
                   SELECT ?1, ?2, seq, name, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12 FROM job \
                   WHERE seq = ?3";
        let last_error = match (over.status, &over.reason) {
            (JobStatus::Failed, _) => self.read_last_error(over.seq)?,
            (_, Some(reason)) if over.entry.history.may_have_errors() => {
                Some(with_last_error(reason, self.read_last_error(over.seq)?.as_deref()))
            }
            (_, reason) => reason.clone(),
        };
        let result = over.result.as_ref();
        let until = result.map(|result| to_millis(over.at.saturating_add(result.keep)));
        self.run(
            sql,
            params![
                to_sql(self.last_place),
                over.entry.action,
                to_sql(over.seq),
                tenant.as_str(),
                status_number(over.status),
                to_millis(over.at),
                over.entry.history.attempts,
                over.entry.history.throttles,
                result.map(|result| result.status),
                result.map(|result| result.body.as_ref()),
                until,
                last_error,
            ],
        )
    }

    fn read_last_error(&self, seq: u64) -> rusqlite::Result<Option<String>> {
        let mut statement = self.disk.prepare_cached(SELECT_ERRORS)?;
        let words = statement.query_row(params![to_sql(seq)], |row| row.get(1));
        words.optional()
    }

    pub(super) fn write_letters(&mut self, letters: &LetterOp) -> rusqlite::Result<()> {
        match letters {
            LetterOp::Requeued(letters) => letters.iter().try_for_each(|of| self.requeue(of)),
            LetterOp::Purged(letters) => letters.iter().try_for_each(|of| self.delete(of, 1)),
        }
    }

    fn requeue(&mut self, letter: &LetterWrite) -> rusqlite::Result<()> {
        let sql = "INSERT INTO job (seq, line, name, action, cost, deadline, retries, payload, \
                   sum) SELECT seq, line, name, ?2, cost, deadline, retries, payload, sum \
                   FROM dead WHERE place = ?1";
        self.run(sql, params![to_sql(letter.place), letter.entry.action])?;
        let sql = "UPDATE name SET until = NULL WHERE name = (SELECT name FROM dead WHERE place = ?1)";
        self.run(sql, params![to_sql(letter.place)])?;
        let history = AttemptHistory::default();
        let mark = JobMark::new(letter.seq, MarkState::Returned, history);
        self.coalesced.mark(mark);
        let (position, action) = (letter.entry.position, letter.entry.action);
        self.deltas.add_live(position, action);
        self.delete_outcome(letter)?;
        self.delete(letter, 0)
    }

    /// Deletes the outcome of a requeued job of an open action. It stands directly after the letter.
    fn delete_outcome(&self, letter: &LetterWrite) -> rusqlite::Result<()> {
        let sql = "DELETE FROM outcome WHERE place = ?1 AND seq = ?2 AND action = ?3";
        let place = to_sql(letter.place + 1);
        let outcome = params![place, to_sql(letter.seq), letter.entry.action];
        self.run(sql, outcome)
    }

    /// Deletes a dead letter, and counts it as failed `failed` times.
    fn delete(&mut self, letter: &LetterWrite, failed: i64) -> rusqlite::Result<()> {
        let delta = |failed| CountDelta {
            dead: -1,
            failed,
            ..CountDelta::default()
        };
        let tenant = letter.entry.position.tenant;
        self.deltas.add(tenant, letter.entry.action, delta(failed));
        if let Some(action) = letter.ended_action {
            self.deltas.add_to_action(action, delta(1));
        }
        self.delete_errors(to_sql(letter.seq), i64::MAX)?;
        self.run("DELETE FROM dead WHERE place = ?1", params![to_sql(letter.place)])
    }
}

const fn status_number(status: JobStatus) -> u32 {
    match status {
        JobStatus::Done => 0,
        JobStatus::Failed => 1,
        JobStatus::Expired => 2,
        JobStatus::Cancelled => 3,
    }
}

pub(crate) const fn status_from_number(number: u32) -> JobStatus {
    match number {
        0 => JobStatus::Done,
        1 => JobStatus::Failed,
        2 => JobStatus::Expired,
        _ => JobStatus::Cancelled,
    }
}

/// Errors that the store keeps of one job: enough to show a pattern.
const ERROR_LIMIT: usize = 10;

/// Selects the errors of a job, newest first.
pub(crate) const SELECT_ERRORS: &str = "SELECT at, words, id FROM mishap WHERE seq = ?1 ORDER BY id DESC";
