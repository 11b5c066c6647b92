//! Counting anew what was counted as it moved.
//!
//! Ten million rows take many seconds, and whoever has a lease lives by the store's lock. So the numbers in memory are
//! copied at an instant at which the disk has the same, a reader of its own holds that instant's rows, and they are
//! counted a piece at a time with everybody else at work.

use std::collections::HashMap;

use rusqlite::{Connection, params};
use tokio::sync::oneshot;

use crate::action::JobCounts;
use crate::embedded::disk::int_codec::{counted, many, stored};
use crate::embedded::state::StoreState;
use crate::error::StoreError;

/// A recount that somebody wants.
#[derive(Debug)]
pub(crate) struct RecountAsk {
    /// Nobody else reads with it.
    pub(crate) reader: Connection,
    pub(crate) reply: oneshot::Sender<Result<AuditPass, StoreError>>,
}

/// Rows of one instant, and what was known of them then.
#[derive(Debug)]
pub(crate) struct AuditPass {
    reader: Connection,
    known: MemoryCounts,
    found: RowCounts,
    table: AuditTable,
    after: u64,
}

/// What memory said.
#[derive(Debug)]
struct MemoryCounts {
    lines: HashMap<u32, u64>,
    total: JobCounts,
    claims: u64,
    waiting: u64,
}

/// What rows say.
#[derive(Debug, Default)]
struct RowCounts {
    lines: HashMap<u32, u64>,
    claims: u64,
    dead: u64,
}

/// What is being counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AuditTable {
    Jobs,
    Marks,
    Dead,
}

impl StoreState {
    /// What there is to be counted, as of now. Disk and memory have to be in step.
    pub(crate) fn begin_recount(&self, reader: Connection) -> rusqlite::Result<AuditPass> {
        reader.execute_batch("BEGIN")?;
        // The instant is that of the first row that is read.
        reader.query_row("SELECT seq FROM total", [], |_| Ok(()))?;
        Ok(AuditPass {
            reader,
            known: MemoryCounts {
                lines: self.live_lines(),
                total: self.total,
                claims: many(self.claims.by_job.len()),
                waiting: many(self.waiting.len()),
            },
            found: RowCounts::default(),
            table: AuditTable::Jobs,
            after: 0,
        })
    }

    fn live_lines(&self) -> HashMap<u32, u64> {
        let lines = self.places.iter().filter_map(|(id, place)| {
            let live = self.line(*place)?.live;
            (live > 0).then_some((*id, live))
        });
        lines.collect()
    }
}

impl AuditPass {
    /// Counts a piece more. Answers the difference once all is counted.
    pub(crate) fn step(&mut self) -> rusqlite::Result<Option<u64>> {
        let sql = match self.table {
            AuditTable::Jobs => "SELECT seq, line FROM job WHERE seq > ?1 ORDER BY seq LIMIT ?2",
            AuditTable::Marks => "SELECT seq, state FROM mark WHERE seq > ?1 ORDER BY seq LIMIT ?2",
            AuditTable::Dead => {
                "SELECT place, 0 FROM dead WHERE place > ?1 ORDER BY place LIMIT ?2"
            }
        };
        let mut statement = self.reader.prepare_cached(sql)?;
        let mut rows = statement.query(params![stored(self.after), PIECE])?;
        let mut seen = 0;
        while let Some(row) = rows.next()? {
            seen += 1;
            self.after = counted(row.get(0)?);
            self.found.note(self.table, row.get(1)?);
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

    /// The difference between what was counted and what the rows say: of each line, of claims, of jobs that wait
    /// for an instant, and of dead letters.
    fn difference(&self) -> u64 {
        let (known, found) = (&self.known, &self.found);
        let total = &known.total;
        let rows: u64 = found.lines.values().sum();
        let lines: u64 = found
            .lines
            .iter()
            .map(|(line, count)| known.lines.get(line).unwrap_or(&0).abs_diff(*count))
            .sum();
        // Lines that have no row, and should.
        let missing = known.lines.iter();
        let missing = missing.filter(|(line, _)| !found.lines.contains_key(line));
        let missing: u64 = missing.map(|(_, live)| live).sum();
        lines
            + missing
            + total.open().abs_diff(rows)
            + found.claims.abs_diff(total.in_flight)
            + total.in_flight.abs_diff(known.claims)
            + (total.non_ready + total.delayed).abs_diff(known.waiting)
            + found.dead.abs_diff(total.dead)
    }
}

impl RowCounts {
    fn note(&mut self, table: AuditTable, value: u32) {
        match table {
            AuditTable::Jobs => *self.lines.entry(value).or_default() += 1,
            AuditTable::Marks => self.claims += u64::from(CLAIMED.contains(&value)),
            AuditTable::Dead => self.dead += 1,
        }
    }
}

/// The states of a job that somebody works on.
const CLAIMED: [u32; 2] = [1, 2];

/// Rows that are counted at once: some milliseconds of a thread that has other things to do.
const PIECE: u32 = 2_000;
