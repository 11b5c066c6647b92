//! What is written of a job that failed, and of one that is over.

use rusqlite::{OptionalExtension as _, params};

use super::counters::CountDelta;
use super::int_codec::{millis, nanos, stored};
use super::sql_writer::SqlWriter;
use super::write_op::JobOver;
use crate::settle::JobStatus;

impl SqlWriter<'_> {
    pub(crate) fn mishap(&self, seq: u64, at: i64, words: &str) -> rusqlite::Result<()> {
        let seq = stored(seq);
        self.run(
            "INSERT INTO mishap (seq, at, words) VALUES (?1, ?2, ?3)",
            params![seq, at, words],
        )?;
        let sql = "DELETE FROM mishap WHERE id IN (SELECT id FROM mishap WHERE seq = ?1 \
                   ORDER BY id DESC LIMIT -1 OFFSET ?2)";
        self.run(sql, params![seq, HISTORY])
    }

    pub(crate) fn over(&mut self, over: &JobOver) -> rusqlite::Result<()> {
        if over.ended == JobStatus::Failed {
            self.bury(over)?;
        } else if over.tries.may_have_history() {
            let sql = "DELETE FROM mishap WHERE seq = ?1";
            self.run(sql, params![stored(over.seq)])?;
        }
        // Right behind its letter, by whose place it is found again.
        if over.action.is_some() {
            self.outcome(over)?;
        }
        self.let_go(over.seq, over.at);
        self.count_over(over);
        Ok(())
    }

    fn count_over(&mut self, over: &JobOver) {
        let mut sum = CountDelta {
            live: -1,
            ..CountDelta::default()
        };
        match over.ended {
            JobStatus::Done => (sum.done, sum.busy) = (1, nanos(over.took)),
            JobStatus::Failed => sum.dead = 1,
            JobStatus::Expired | JobStatus::Cancelled => sum.cancelled = 1,
        }
        *self.sums.lines.entry(over.place.line).or_default() -= 1;
        self.add(over.place.tenant, over.action, sum);
    }

    fn bury(&mut self, over: &JobOver) -> rusqlite::Result<()> {
        self.place += 1;
        // A job that was damaged may hold anything, and a letter is what its table says.
        let sql = "INSERT INTO dead (place, seq, line, name, action, cost, deadline, retries, at, \
                   attempts, recoveries, throttles, payload, sum) SELECT ?2, seq, ?7, \
                   CAST(name AS TEXT), ?8, ifnull(CAST(cost AS INTEGER), 0), \
                   CAST(deadline AS INTEGER), ifnull(CAST(retries AS INTEGER), 0), ?3, ?4, ?5, \
                   ?6, ifnull(CAST(payload AS BLOB), x''), CAST(sum AS INTEGER) \
                   FROM job WHERE seq = ?1";
        self.run(
            sql,
            params![
                stored(over.seq),
                stored(self.place),
                millis(over.at),
                over.tries.attempts,
                over.tries.recoveries,
                over.tries.throttles,
                over.place.line,
                over.action,
            ],
        )
    }

    fn outcome(&mut self, over: &JobOver) -> rusqlite::Result<()> {
        self.place += 1;
        let sql = "INSERT INTO outcome (place, action, seq, name, tenant, ended, at, attempts, \
                   throttles, status, body, until, words) \
                   SELECT ?1, ?2, seq, name, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12 FROM job \
                   WHERE seq = ?3";
        let words = match over.ended {
            JobStatus::Failed => self.last_words(over.seq)?,
            _ => None,
        };
        let kept = over.kept.as_ref();
        let until = kept.map(|kept| millis(over.at.saturating_add(kept.keep)));
        self.run(
            sql,
            params![
                stored(self.place),
                over.action,
                stored(over.seq),
                over.tenant.as_str(),
                ended_number(over.ended),
                millis(over.at),
                over.tries.attempts,
                over.tries.throttles,
                kept.map(|kept| kept.status),
                kept.map(|kept| kept.body.as_ref()),
                until,
                words,
            ],
        )
    }

    /// What happened to a job last.
    fn last_words(&self, seq: u64) -> rusqlite::Result<Option<String>> {
        let sql = "SELECT words FROM mishap WHERE seq = ?1 ORDER BY id DESC LIMIT 1";
        let mut statement = self.disk.prepare_cached(sql)?;
        let words = statement.query_row(params![stored(seq)], |row| row.get(0));
        words.optional()
    }
}

pub(crate) const fn ended_number(ended: JobStatus) -> u32 {
    match ended {
        JobStatus::Done => 0,
        JobStatus::Failed => 1,
        JobStatus::Expired => 2,
        JobStatus::Cancelled => 3,
    }
}

pub(crate) const fn ended_of(number: u32) -> JobStatus {
    match number {
        0 => JobStatus::Done,
        1 => JobStatus::Failed,
        2 => JobStatus::Expired,
        _ => JobStatus::Cancelled,
    }
}

/// What is remembered of what befell a job: enough to see a pattern.
const HISTORY: u32 = 10;
