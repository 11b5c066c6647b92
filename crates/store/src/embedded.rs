//! Embedded store: one process, one directory, no server.
//!
//! Memory holds the order of jobs and their claims, under one lock; `SQLite` is the record that survives
//! the process. A query for each claim instead would cost time, and fairness among a hundred thousand
//! tenants would be an index that every job rewrites. Memory holds counts, marked jobs and the jobs that
//! are next, and not the payloads of the rest.
//!
//! Every response follows its write. Submissions and operator commands are on the disk by then. Claims
//! and settlements are in the operating system, so they survive a killed process. A power cut may lose
//! the last of those, and their work is done again under the same key.

mod contract;
mod disk;
mod failpoints;
mod ops;
mod shared;
mod state;
mod writer;

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

use outflow_core::{Clock, WallTime};
use rusqlite::{Connection, params};
use tokio::sync::Notify;

use crate::error::StoreError;
use disk::directory::StoreFiles;
use disk::load::load_state;
use shared::StoreShared;
pub use writer::Writer;

/// A job store in a directory of this process. Clones share one store.
///
/// ```
/// use std::sync::Arc;
/// use outflow_core::ManualClock;
/// use outflow_store::{EmbeddedStore, JobQueue, NewJob, SubmitBatch};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let dir = tempfile::tempdir()?;
/// let (store, writer) = EmbeddedStore::open(dir.path(), Arc::new(ManualClock::default()))?;
/// std::thread::scope(|threads| {
///     threads.spawn(|| writer.run());
///     let runtime = tokio::runtime::Builder::new_current_thread().build()?;
///     let job = NewJob::new("customer-A".parse()?, "mail".parse()?, "hello".into());
///     let submitted = runtime.block_on(store.submit(SubmitBatch::from_jobs(vec![job])))?;
///     assert_eq!(submitted.queued, 1);
///     store.end();
///     Ok(())
/// })
/// # }
/// ```
#[derive(Clone)]
pub struct EmbeddedStore {
    shared: Arc<StoreShared>,
    _guard: Arc<StoreGuard>,
}

/// Closes the store with its last handle.
struct StoreGuard(Arc<StoreShared>);

impl Drop for StoreGuard {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl EmbeddedStore {
    /// Opens the store in a directory, and creates a missing one. Calls get no response until the
    /// [`Writer`] runs, on its own thread.
    ///
    /// # Errors
    /// If another process uses the directory, if it cannot be read or written, or if the database of an
    /// earlier store in it is empty or missing.
    pub fn open(dir: &Path, clock: Arc<dyn Clock + Send + Sync>) -> Result<(Self, Writer), StoreError> {
        let files = StoreFiles::open(dir)?;
        let disk = files.open_writer()?;
        files.check_id(&disk)?;
        files.check(begin_epoch(&disk, clock.wall()))?;
        let state = files.check(load_state(files.open_reader()?, clock.moment()))?;
        files.accept(&disk)?;
        files.write_id(&state.ids.name_prefix)?;
        let shared = Arc::new(StoreShared {
            state: Mutex::new(state),
            work: Condvar::new(),
            work_async: Notify::new(),
            changed: Notify::new(),
            letters: tokio::sync::Mutex::new(()),
            clock,
            files,
        });
        let writer = Writer::new(Arc::clone(&shared), disk)?;
        let guard = Arc::new(StoreGuard(Arc::clone(&shared)));
        let store = Self { shared, _guard: guard };
        Ok((store, writer))
    }

    /// Closes the store: the writer finishes earlier calls and stops, and later calls fail.
    pub fn end(&self) {
        self.shared.end();
    }
}

impl fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedStore")
            .field("files", &self.shared.files)
            .finish_non_exhaustive()
    }
}

/// Counts one more opening, and inserts the row of a new store.
fn begin_epoch(disk: &Connection, at: WallTime) -> rusqlite::Result<()> {
    let name_prefix = format!("{:x}", at.as_duration().as_nanos());
    let sql = "INSERT INTO total (id, seq, place, epoch, mint) VALUES (1, 0, 0, 1, ?1) \
               ON CONFLICT (id) DO UPDATE SET epoch = epoch + 1";
    disk.execute(sql, params![name_prefix]).map(drop)
}

#[cfg(test)]
mod interleaving_tests;
#[cfg(test)]
mod tests;
