//! The lock of one account, as a file of its own.
//!
//! The system releases it when a process dies. It is held for microseconds, so a process waits by yielding
//! first; a process that was stopped inside keeps the others out, which then send nothing.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::file_access;

/// A locked file; dropping it unlocks.
#[derive(Debug)]
pub(crate) struct FileLock<'a>(&'a File);

/// Locks the file at this path, and opens it if that is not done yet.
///
/// # Errors
/// If the file cannot be opened, or another process keeps it locked.
pub(crate) fn lock<'a>(opened: &'a mut Option<File>, path: &Path) -> io::Result<FileLock<'a>> {
    for _ in 0..OPENS {
        if opened.is_none() {
            *opened = Some(file_access::open_or_create(path)?);
        }
        if let Some(file) = opened.as_ref() {
            wait_for(file)?;
            // A file that was removed while this process waited locks nothing any more.
            if !file_access::is_removed(file)? {
                break;
            }
        }
        *opened = None;
    }
    let locked = opened.as_ref().map(FileLock);
    locked.ok_or_else(|| io::Error::other("its lock file is removed again and again"))
}

fn wait_for(file: &File) -> io::Result<()> {
    for attempt in 0..ATTEMPTS {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if attempt < YIELDS => std::thread::yield_now(),
            // No event says when another process unlocks.
            Err(TryLockError::WouldBlock) => std::thread::park_timeout(PAUSE),
        }
    }
    Err(io::Error::new(
        io::ErrorKind::WouldBlock,
        "another process keeps it locked: is one of them stopped?",
    ))
}

impl Drop for FileLock<'_> {
    fn drop(&mut self) {
        let _the_system_unlocks_a_closed_file = self.0.unlock();
    }
}

/// A new file may be removed at once by a process that cleans up, but hardly three times in a row.
const OPENS: u32 = 3;
/// Another turn takes 10 µs: most locks are free again after a yield.
const YIELDS: u32 = 20;
const PAUSE: Duration = Duration::from_micros(100);
/// About 20 ms in all, with the time that a short sleep takes.
const ATTEMPTS: u32 = YIELDS + 130;
