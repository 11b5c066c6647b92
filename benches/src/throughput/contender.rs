//! A contender of `throughput`.

use std::io;

/// A queue of jobs that do nothing, measured from outside.
///
/// Its batch size is its own choice, and part of its name.
pub(super) trait Contender {
    /// Returns its name in the table.
    fn name(&self) -> &'static str;

    /// Returns the most jobs that it can have waiting. More are fed to it in portions.
    fn portion(&self) -> u64 {
        u64::MAX
    }

    /// Handles a server that was emptied, with all data of the queue.
    ///
    /// # Errors
    /// If it cannot continue after that.
    fn emptied(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Submits jobs, each with a record of [`RECORD`] bytes, and returns when all are stored.
    ///
    /// # Errors
    /// If any was not.
    fn enqueue(&mut self, jobs: u64) -> io::Result<()>;

    /// Claims and completes jobs, and returns when all are over.
    ///
    /// # Errors
    /// If any was not.
    fn drain(&mut self, jobs: u64) -> io::Result<()>;
}

/// About the size of a call to an API: a path, a header or two, and names.
pub(super) const RECORD: usize = 105;
