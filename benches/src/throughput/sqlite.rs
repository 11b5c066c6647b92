//! The common way to store a job in a file: one transaction for each.

use std::io;

use rusqlite::Connection;
use tempfile::TempDir;

use super::contender::{Contender, RECORD};
use super::journal::home;

/// `SQLite` with a write-ahead log, durable at every commit, and a commit for every job.
///
/// Sixty-four submitters would wait for the same commits, so one is enough.
pub(super) struct CommitPerJob {
    database: Connection,
    _home: TempDir,
}

impl CommitPerJob {
    /// Creates a database.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub(super) fn open() -> io::Result<Self> {
        let home = home()?;
        let database = Connection::open(home.path().join("jobs.db")).map_err(io::Error::other)?;
        let prepared = database.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
             CREATE TABLE jobs (number INTEGER PRIMARY KEY, record BLOB NOT NULL);",
        );
        prepared.map_err(io::Error::other)?;
        Ok(Self { database, _home: home })
    }
}

impl Contender for CommitPerJob {
    fn name(&self) -> &'static str {
        "SQLite, a commit per job"
    }

    fn enqueue(&mut self, jobs: u64) -> io::Result<()> {
        let record = vec![b'x'; RECORD];
        let insert = self.database.prepare("INSERT INTO jobs (record) VALUES (?1)");
        let mut insert = insert.map_err(io::Error::other)?;
        for _ in 0..jobs {
            insert.execute([&record]).map_err(io::Error::other)?;
        }
        Ok(())
    }

    /// Does nothing: the goal is about submitters of single jobs.
    fn drain(&mut self, _jobs: u64) -> io::Result<()> {
        Ok(())
    }
}
