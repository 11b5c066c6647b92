//! The floor on a disk: a record for each job at the end of a file, and a sync for each batch.

use std::fs::File;
use std::io::{self, Write};

use tempfile::TempDir;

use super::contender::{Contender, RECORD};

/// A bare journal.
pub(super) struct Journal {
    file: File,
    batch: usize,
    _home: TempDir,
}

impl Journal {
    /// Creates a journal that syncs after this many records.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub(super) fn syncing(batch: usize) -> io::Result<Self> {
        let home = home()?;
        Ok(Self {
            file: File::create(home.path().join("journal"))?,
            batch,
            _home: home,
        })
    }
}

impl Contender for Journal {
    fn name(&self) -> &'static str {
        "raw journal, synced by the batch"
    }

    fn enqueue(&mut self, jobs: u64) -> io::Result<()> {
        let mut left = usize::try_from(jobs).map_err(io::Error::other)?;
        let records = vec![b'x'; RECORD * self.batch];
        while left > 0 {
            let now = left.min(self.batch);
            let batch = records.get(..RECORD * now).unwrap_or_default();
            self.file.write_all(batch)?;
            self.file.sync_data()?;
            left -= now;
        }
        Ok(())
    }

    /// Does nothing: a journal never removes a job.
    fn drain(&mut self, _jobs: u64) -> io::Result<()> {
        Ok(())
    }
}

/// Creates a directory on a real disk: the system's temporary folder is often memory, which syncs in no time.
///
/// # Errors
/// If it cannot be created.
pub(super) fn home() -> io::Result<TempDir> {
    let folder = std::env::current_exe()?;
    let folder = folder.parent().ok_or(io::ErrorKind::NotFound)?;
    tempfile::Builder::new().prefix("outflow-bench-").tempdir_in(folder)
}
