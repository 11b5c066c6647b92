//! What is written of a job that failed, and of one that is over.

use rusqlite::{OptionalExtension as _, params};

use super::change::Over;
use super::ledger::Ledger;
use super::number::{millis, nanos, stored};
use super::sums::Sum;
use crate::settle::Ended;

impl Ledger<'_> {
    pub(super) fn mishap(&self, seq: u64, at: i64, words: &str) -> rusqlite::Result<()> {
        let seq = stored(seq);
        self.run(
            "INSERT INTO mishap (seq, at, words) VALUES (?1, ?2, ?3)",
            params![seq, at, words],
        )?;
        let sql = "DELETE FROM mishap WHERE id IN (SELECT id FROM mishap WHERE seq = ?1 \
                   ORDER BY id DESC LIMIT -1 OFFSET ?2)";
        self.run(sql, params![seq, HISTORY])
    }

    pub(super) fn over(&mut self, over: &Over) -> rusqlite::Result<()> {
        if over.ended == Ended::Failed {
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

    fn count_over(&mut self, over: &Over) {
        let mut sum = Sum {
            live: -1,
            ..Sum::default()
        };
        match over.ended {
            Ended::Done => (sum.done, sum.busy) = (1, nanos(over.took)),
            Ended::Failed => sum.dead = 1,
            Ended::Expired | Ended::Cancelled => sum.cancelled = 1,
        }
        *self.sums.lines.entry(over.place.line).or_default() -= 1;
        self.add(over.place.tenant, over.action, sum);
    }

    fn bury(&mut self, over: &Over) -> rusqlite::Result<()> {
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

    fn outcome(&mut self, over: &Over) -> rusqlite::Result<()> {
        self.place += 1;
        let sql = "INSERT INTO outcome (place, action, seq, name, tenant, ended, at, attempts, \
                   throttles, status, body, until, words) \
                   SELECT ?1, ?2, seq, name, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12 FROM job \
                   WHERE seq = ?3";
        let words = match over.ended {
            Ended::Failed => self.last_words(over.seq)?,
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

pub(super) const fn ended_number(ended: Ended) -> u32 {
    match ended {
        Ended::Done => 0,
        Ended::Failed => 1,
        Ended::Expired => 2,
        Ended::Cancelled => 3,
    }
}

pub(super) const fn ended_of(number: u32) -> Ended {
    match number {
        0 => Ended::Done,
        1 => Ended::Failed,
        2 => Ended::Expired,
        _ => Ended::Cancelled,
    }
}

/// What is remembered of what befell a job: enough to see a pattern.
const HISTORY: u32 = 10;
