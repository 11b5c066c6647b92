//! Audit: compares the running counts with a new count of all rows.
//!
//! Counting ten million rows takes many seconds, and sessions renew their leases under the store's lock.
//! So the audit copies the counts of memory at an instant at which the disk agrees with them. Its own
//! connection holds the rows of that instant, and counts them a piece at a time without the lock.

use std::collections::HashMap;

use rusqlite::{Connection, params};
use tokio::sync::oneshot;

use crate::action::JobCounts;
use crate::embedded::disk::int_codec::{to_count, to_sql, to_u64};
use crate::embedded::state::StoreState;
use crate::error::StoreError;

/// A requested audit.
#[derive(Debug)]
pub(crate) struct AuditRequest {
    /// A connection of its own.
    pub(crate) reader: Connection,
    pub(crate) reply: oneshot::Sender<Result<AuditPass, StoreError>>,
}

/// Rows of one instant, and the counts of memory at that instant.
#[derive(Debug)]
pub(crate) struct AuditPass {
    reader: Connection,
    expected: MemoryCounts,
    found: RowCounts,
    table: AuditTable,
    after: u64,
}

/// Counts of memory.
#[derive(Debug)]
struct MemoryCounts {
    queues: HashMap<u32, u64>,
    total: JobCounts,
    claims: u64,
    delayed: u64,
}

/// Counts of rows.
#[derive(Debug, Default)]
struct RowCounts {
    queues: HashMap<u32, u64>,
    claims: u64,
    dead: u64,
}

/// The table that is being counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AuditTable {
    Jobs,
    Marks,
    Dead,
}

/// Starts an audit. Disk and memory must agree.
pub(crate) fn begin_audit(state: &StoreState, reader: Connection) -> rusqlite::Result<AuditPass> {
    reader.execute_batch("BEGIN")?;
    // The transaction sees the instant of its first read.
    reader.query_row("SELECT seq FROM total", [], |_| Ok(()))?;
    Ok(AuditPass {
        reader,
        expected: MemoryCounts {
            queues: state.lanes.queue_lengths(),
            total: state.counts,
            claims: to_count(state.claims.by_job.len()),
            delayed: to_count(state.delayed.len()),
        },
        found: RowCounts::default(),
        table: AuditTable::Jobs,
        after: 0,
    })
}

impl AuditPass {
    /// Counts one more piece, and returns the difference after the last.
    pub(crate) fn step(&mut self) -> rusqlite::Result<Option<u64>> {
        let sql = match self.table {
            AuditTable::Jobs => "SELECT seq, line FROM job WHERE seq > ?1 ORDER BY seq LIMIT ?2",
            AuditTable::Marks => "SELECT seq, state FROM mark WHERE seq > ?1 ORDER BY seq LIMIT ?2",
            AuditTable::Dead => "SELECT place, 0 FROM dead WHERE place > ?1 ORDER BY place LIMIT ?2",
        };
        let mut statement = self.reader.prepare_cached(sql)?;
        let mut rows = statement.query(params![to_sql(self.after), PIECE])?;
        let mut seen = 0;
        while let Some(row) = rows.next()? {
            seen += 1;
            self.after = to_u64(row.get(0)?);
            self.found.add(self.table, row.get(1)?);
        }
        if seen == PIECE {
            return Ok(None);
        }
        self.after = 0;
        match self.table {
            AuditTable::Jobs => self.table = AuditTable::Marks,
            AuditTable::Marks => self.table = AuditTable::Dead,
            AuditTable::Dead => return Ok(Some(self.difference())),
        }
        Ok(None)
    }

    /// Sums the differences of each queue, of claims, of delayed jobs and of dead letters.
    fn difference(&self) -> u64 {
        let (expected, found) = (&self.expected, &self.found);
        let total = &expected.total;
        let rows: u64 = found.queues.values().sum();
        let queues = found.queues.iter();
        let queues = queues.map(|(id, count)| expected.queues.get(id).unwrap_or(&0).abs_diff(*count));
        // Queues without a row, although memory counts jobs in them.
        let missing = expected.queues.iter();
        let missing = missing.filter(|(id, _)| !found.queues.contains_key(id));
        let missing: u64 = missing.map(|(_, live)| live).sum();
        queues.sum::<u64>()
            + missing
            + total.open().abs_diff(rows)
            + found.claims.abs_diff(total.in_flight)
            + total.in_flight.abs_diff(expected.claims)
            + (total.non_ready + total.delayed).abs_diff(expected.delayed)
            + found.dead.abs_diff(total.dead)
    }
}

impl RowCounts {
    fn add(&mut self, table: AuditTable, value: u32) {
        match table {
            AuditTable::Jobs => *self.queues.entry(value).or_default() += 1,
            AuditTable::Marks => self.claims += u64::from(CLAIMED.contains(&value)),
            AuditTable::Dead => self.dead += 1,
        }
    }
}

/// The marks of claimed jobs, cancelled or not.
const CLAIMED: [u32; 2] = [1, 2];

/// Rows of one piece: some milliseconds of a shared thread.
const PIECE: u32 = 2_000;
