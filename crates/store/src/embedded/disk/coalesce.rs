//! What happens to many jobs alike is done to all of them at once.
//!
//! Jobs of one line have numbers that follow each other, and claims and settlements take them by the
//! hundred. A statement for each of them would mostly begin and end; so a transaction gathers what
//! becomes of its jobs, and at its end there is one statement for every range of numbers. Until then a
//! job that is over still has its row, from which its outcome or its dead letter is made.

use std::collections::BTreeMap;
use std::mem;

use outflow_core::WallTime;
use rusqlite::params;

use super::int_codec::{millis, nanos, stored};
use super::sql_writer::SqlWriter;
use super::write_op::JobMark;
use crate::embedded::state::job_entry::IdRun;

/// What a transaction has to do to jobs.
#[derive(Default)]
pub(crate) struct CoalescedOps {
    /// The last that was said of each: its mark, or that it has none.
    marks: BTreeMap<u64, Option<JobMark>>,
    /// Jobs that are over, and since when.
    over: Vec<(u64, i64)>,
    runs: Vec<IdRun>,
}

impl SqlWriter<'_> {
    /// A job has a state of its own.
    pub(crate) fn mark(&mut self, mark: JobMark) {
        self.gathered.marks.insert(mark.seq, Some(mark));
    }

    /// It has none any more.
    pub(crate) fn unmark(&mut self, seq: u64) {
        self.gathered.marks.insert(seq, None);
    }

    /// A job is over: its row goes, its mark with it, and its name after a while.
    pub(crate) fn let_go(&mut self, seq: u64, at: WallTime) {
        self.gathered.marks.remove(&seq);
        self.gathered.over.push((seq, millis(at)));
    }

    /// The last job of a run is over.
    pub(crate) fn run_over(&mut self, run: IdRun) {
        self.gathered.runs.push(run);
    }

    /// Does what was gathered.
    pub(crate) fn flush(&mut self) -> rusqlite::Result<()> {
        let CoalescedOps {
            marks,
            mut over,
            runs,
        } = mem::take(&mut self.gathered);
        let marks: Vec<_> = marks.into_iter().collect();
        for alike in marks.chunk_by(|(a, of), (b, then)| *b == a + 1 && is_alike(*of, *then)) {
            if let ([(first, mark), ..], [.., (last, _)]) = (alike, alike) {
                self.mark_range((*first, *last), *mark)?;
            }
        }
        over.sort_unstable();
        for alike in over.chunk_by(|(a, at), (b, then)| *b == a + 1 && at == then) {
            if let ([(first, at), ..], [.., (last, _)]) = (alike, alike) {
                self.drop_range((*first, *last), *at)?;
            }
        }
        runs.into_iter().try_for_each(|run| self.drop_run(run))
    }

    fn mark_range(&self, (first, last): (u64, u64), mark: Option<JobMark>) -> rusqlite::Result<()> {
        let (first, last) = (stored(first), stored(last));
        let Some(mark) = mark else {
            let sql = "DELETE FROM mark WHERE seq BETWEEN ?1 AND ?2";
            return self.run(sql, params![first, last]);
        };
        let sql = "INSERT OR REPLACE INTO mark (seq, state, attempts, retries, throttles, \
                   recoveries, due, span) SELECT seq, ?3, ?4, ?5, ?6, ?7, ?8, ?9 FROM job \
                   WHERE seq BETWEEN ?1 AND ?2";
        let tries = mark.tries;
        self.run(
            sql,
            params![
                first,
                last,
                mark.state.number(),
                tries.attempts,
                tries.retries,
                tries.throttles,
                tries.recoveries,
                mark.due.map(millis),
                mark.span.map(nanos),
            ],
        )
    }

    fn drop_range(&self, (first, last): (u64, u64), at: i64) -> rusqlite::Result<()> {
        let (first, last) = (stored(first), stored(last));
        let sql = "UPDATE name SET until = ?3 + remember WHERE name IN \
                   (SELECT name FROM job WHERE seq BETWEEN ?1 AND ?2 AND name IS NOT NULL)";
        self.run(sql, params![first, last, at])?;
        let sql = "DELETE FROM job WHERE seq BETWEEN ?1 AND ?2";
        self.run(sql, params![first, last])?;
        let sql = "DELETE FROM mark WHERE seq BETWEEN ?1 AND ?2";
        self.run(sql, params![first, last])
    }

    /// Looks once more before it lets go of a run: a job that nobody could find any more is lost.
    fn drop_run(&self, run: IdRun) -> rusqlite::Result<()> {
        let sql = "DELETE FROM run WHERE first = ?1 AND NOT EXISTS \
                   (SELECT 1 FROM job WHERE seq >= ?1 AND seq < ?2)";
        self.run(sql, params![stored(run.first), stored(run.end())])
    }
}

/// Whether two jobs get the same mark, or lose theirs.
fn is_alike(one: Option<JobMark>, other: Option<JobMark>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => JobMark { seq: 0, ..one } == JobMark { seq: 0, ..other },
        (None, None) => true,
        _ => false,
    }
}
