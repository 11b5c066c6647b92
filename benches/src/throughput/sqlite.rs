//! What most programs do that keep a job in a file: one transaction for each.

use std::io;

use rusqlite::Connection;
use tempfile::TempDir;

use super::contender::{Contender, RECORD};
use super::journal::home;

/// `SQLite` with a write-ahead log, durable at every commit, and a commit for every job.
///
/// Sixty-four submitters would stand in line for the same commits, so one does.
pub(super) struct CommitPerJob {
    database: Connection,
    _home: TempDir,
}

impl CommitPerJob {
    /// A fresh one.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub(super) fn open() -> io::Result<Self> {
        let home = home()?;
        let database = Connection::open(home.path().join("jobs.db")).map_err(io::Error::other)?;
        let prepared = database.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
             CREATE TABLE jobs (number INTEGER PRIMARY KEY, record BLOB NOT NULL);",
        );
        prepared.map_err(io::Error::other)?;
        Ok(Self {
            database,
            _home: home,
        })
    }
}

impl Contender for CommitPerJob {
    fn name(&self) -> &'static str {
        "SQLite, a commit per job"
    }

    fn enqueue(&mut self, jobs: u64) -> io::Result<()> {
        let record = vec![b'x'; RECORD];
        let insert = self
            .database
            .prepare("INSERT INTO jobs (record) VALUES (?1)");
        let mut insert = insert.map_err(io::Error::other)?;
        for _ in 0..jobs {
            insert.execute([&record]).map_err(io::Error::other)?;
        }
        Ok(())
    }

    /// Only submission is compared: what is promised is about those who submit one job each.
    fn drain(&mut self, _jobs: u64) -> io::Result<()> {
        Ok(())
    }
}
