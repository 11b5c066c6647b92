//! Deletes old rows, one piece at a time.

use rusqlite::params;

use super::int_codec::{to_count, to_millis};
use super::sql_writer::SqlWriter;
use crate::embedded::ops::collect_garbage::{GarbageSweep, IdleTenants};

impl SqlWriter<'_> {
    /// Deletes the rows of one sweep, with these tenants.
    pub(crate) fn sweep(&self, sweep: &GarbageSweep, idle: &IdleTenants) -> rusqlite::Result<()> {
        let mut removed = to_count(idle.tenants.len());
        let at = to_millis(sweep.at.wall);
        for queue in &idle.queues {
            self.run("DELETE FROM line WHERE id = ?1", params![queue])?;
        }
        for tenant in &idle.tenants {
            self.run("DELETE FROM tenant WHERE id = ?1", params![tenant])?;
        }
        removed += self.count_changed(
            "DELETE FROM name WHERE name IN \
             (SELECT name FROM name WHERE until <= ?1 LIMIT ?2)",
            params![at, PIECE],
        )?;
        removed += self.count_changed(
            "UPDATE outcome SET status = NULL, body = NULL, until = NULL WHERE place IN \
             (SELECT place FROM outcome WHERE until <= ?1 LIMIT ?2)",
            params![at, PIECE],
        )?;
        for action in &sweep.actions {
            let outcomes = self.delete_outcomes(*action)?;
            if outcomes < u64::from(PIECE) {
                self.run("DELETE FROM action WHERE id = ?1", params![action])?;
                removed += 1;
                sweep.result.lock().actions.push(*action);
            }
            removed += outcomes;
        }
        removed += self.delete_stray_outcomes()?;
        sweep.result.lock().removed += removed;
        Ok(())
    }

    fn delete_outcomes(&self, action: u32) -> rusqlite::Result<u64> {
        self.count_changed(
            "DELETE FROM outcome WHERE place IN \
             (SELECT place FROM outcome WHERE action = ?1 LIMIT ?2)",
            params![action, PIECE],
        )
    }

    /// Deletes outcomes of an action whose name another one took. The query steps from action to action
    /// along the index, not from outcome to outcome.
    fn delete_stray_outcomes(&self) -> rusqlite::Result<u64> {
        let sql = "WITH RECURSIVE of (action) AS (SELECT min(action) FROM outcome UNION ALL \
                   SELECT (SELECT min(action) FROM outcome WHERE action > of.action) FROM of \
                   WHERE of.action IS NOT NULL) SELECT action FROM of WHERE action IS NOT NULL \
                   AND action NOT IN (SELECT id FROM action) LIMIT 1";
        let stray: Option<u32> = {
            let mut statement = self.disk.prepare_cached(sql)?;
            let mut rows = statement.query([])?;
            rows.next()?.map(|row| row.get(0)).transpose()?
        };
        stray.map_or(Ok(0), |action| self.delete_outcomes(action))
    }

    fn count_changed(&self, sql: &str, values: impl rusqlite::Params) -> rusqlite::Result<u64> {
        let rows = self.disk.prepare_cached(sql)?.execute(values)?;
        Ok(to_count(rows))
    }
}

/// Rows of each kind in one piece: some milliseconds of disk time.
const PIECE: u32 = 1_000;
