//! Whoever keeps jobs.

use std::io;

/// A queue of jobs that do nothing, measured from outside.
///
/// How many are put in or taken out at a time is its own business, and part of what it is called.
pub(super) trait Contender {
    /// What it is called in the table.
    fn name(&self) -> &'static str;

    /// The most jobs that it can have waiting. More are fed to it in portions.
    fn portion(&self) -> u64 {
        u64::MAX
    }

    /// The server was emptied, and all that it knew of the queue is gone.
    ///
    /// # Errors
    /// If it cannot go on after that.
    fn emptied(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Puts so many jobs in, each with a record of [`RECORD`] bytes, and returns when all are kept.
    ///
    /// # Errors
    /// If any was not.
    fn enqueue(&mut self, jobs: u64) -> io::Result<()>;

    /// Takes so many jobs out and completes them, and returns when all are over.
    ///
    /// # Errors
    /// If any was not.
    fn drain(&mut self, jobs: u64) -> io::Result<()>;
}

/// What a call to an API needs, more or less: a path, a header or two, and names.
pub(super) const RECORD: usize = 105;
