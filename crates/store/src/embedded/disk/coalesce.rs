//! Coalesces equal changes of many jobs into one statement.
//!
//! Jobs of one queue have consecutive numbers, and claims and settlements take them by the hundred. So a
//! transaction collects the changes of its jobs, and ends with one statement for each range of numbers.
//! Until then a finished job keeps its row, from which its outcome or its dead letter is made.

use std::collections::BTreeMap;
use std::mem;

use outflow_core::WallTime;
use rusqlite::{Connection, params};

use super::int_codec::{to_millis, to_nanos, to_sql};
use super::write_op::JobMark;
use crate::embedded::state::job_entry::IdRun;

/// The collected changes of a transaction.
#[derive(Default)]
pub(crate) struct CoalescedOps {
    /// The last mark of each job, or nothing if its mark is deleted.
    marks: BTreeMap<u64, Option<JobMark>>,
    /// Finished jobs, their end in milliseconds, and what becomes of their names.
    over: Vec<(u64, i64, NameFate)>,
    runs: Vec<IdRun>,
}

/// What becomes of the name of an ended job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum NameFate {
    /// It stays known for a while, so that the job is not repeated.
    Expires,
    /// It is free at once: the job was cancelled, and its caller may submit it again.
    Free,
}

impl CoalescedOps {
    pub(crate) fn mark(&mut self, mark: JobMark) {
        self.marks.insert(mark.seq, Some(mark));
    }

    pub(crate) fn unmark(&mut self, seq: u64) {
        self.marks.insert(seq, None);
    }

    /// Deletes a finished job with its mark.
    pub(crate) fn end_job(&mut self, seq: u64, at: WallTime, name: NameFate) {
        self.marks.remove(&seq);
        self.over.push((seq, to_millis(at), name));
    }

    /// Deletes a run whose last job is over.
    pub(crate) fn end_run(&mut self, run: IdRun) {
        self.runs.push(run);
    }

    /// Writes all changes.
    pub(crate) fn flush(&mut self, disk: &Connection) -> rusqlite::Result<()> {
        let Self { marks, mut over, runs } = mem::take(self);
        let marks: Vec<_> = marks.into_iter().collect();
        for range in marks.chunk_by(|(a, of), (b, then)| *b == a + 1 && is_same(*of, *then)) {
            if let ([(first, mark), ..], [.., (last, _)]) = (range, range) {
                write_marks(disk, *first, *last, *mark)?;
            }
        }
        over.sort_unstable();
        for range in over.chunk_by(|(a, at, name), (b, then, its)| *b == a + 1 && (at, name) == (then, its)) {
            if let ([(first, at, name), ..], [.., (last, ..)]) = (range, range) {
                end_names(disk, *first, *last, *at, *name)?;
                delete_jobs(disk, *first, *last)?;
            }
        }
        runs.into_iter().try_for_each(|run| delete_run(disk, run))
    }
}

fn write_marks(disk: &Connection, first: u64, last: u64, mark: Option<JobMark>) -> rusqlite::Result<()> {
    let (first, last) = (to_sql(first), to_sql(last));
    let Some(mark) = mark else {
        let sql = "DELETE FROM mark WHERE seq BETWEEN ?1 AND ?2";
        return disk.prepare_cached(sql)?.execute(params![first, last]).map(drop);
    };
    let sql = "INSERT OR REPLACE INTO mark (seq, state, attempts, retries, throttles, \
               recoveries, due, span) SELECT seq, ?3, ?4, ?5, ?6, ?7, ?8, ?9 FROM job \
               WHERE seq BETWEEN ?1 AND ?2";
    let history = mark.history;
    let values = params![
        first,
        last,
        mark.state.number(),
        history.attempts,
        history.retries,
        history.throttles,
        history.recoveries,
        mark.due.map(to_millis),
        mark.span.map(to_nanos),
    ];
    disk.prepare_cached(sql)?.execute(values).map(drop)
}

fn end_names(disk: &Connection, first: u64, last: u64, at: i64, name: NameFate) -> rusqlite::Result<()> {
    let (first, last) = (to_sql(first), to_sql(last));
    match name {
        NameFate::Expires => {
            let sql = "UPDATE name SET until = ?3 + remember WHERE name IN \
                       (SELECT name FROM job WHERE seq BETWEEN ?1 AND ?2 AND name IS NOT NULL)";
            disk.prepare_cached(sql)?.execute(params![first, last, at]).map(drop)
        }
        NameFate::Free => {
            let sql = "DELETE FROM name WHERE name IN \
                       (SELECT name FROM job WHERE seq BETWEEN ?1 AND ?2 AND name IS NOT NULL)";
            disk.prepare_cached(sql)?.execute(params![first, last]).map(drop)
        }
    }
}

fn delete_jobs(disk: &Connection, first: u64, last: u64) -> rusqlite::Result<()> {
    let (first, last) = (to_sql(first), to_sql(last));
    for sql in [
        "DELETE FROM job WHERE seq BETWEEN ?1 AND ?2",
        "DELETE FROM mark WHERE seq BETWEEN ?1 AND ?2",
    ] {
        disk.prepare_cached(sql)?.execute(params![first, last])?;
    }
    Ok(())
}

/// Deletes a run only if it has no job: without its run, a job could not be found again.
fn delete_run(disk: &Connection, run: IdRun) -> rusqlite::Result<()> {
    let sql = "DELETE FROM run WHERE first = ?1 AND NOT EXISTS \
               (SELECT 1 FROM job WHERE seq >= ?1 AND seq < ?2)";
    let range = params![to_sql(run.first), to_sql(run.end())];
    disk.prepare_cached(sql)?.execute(range).map(drop)
}

/// Returns true if two jobs get the same mark, or lose theirs.
fn is_same(one: Option<JobMark>, other: Option<JobMark>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => JobMark { seq: 0, ..one } == JobMark { seq: 0, ..other },
        (None, None) => true,
        _ => false,
    }
}
