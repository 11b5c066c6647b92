//! The embedded store: one process, one directory, no server.
//!
//! The order of jobs and the claims on them are in memory, under one lock; `SQLite` is the record that
//! outlives the process. It could be asked for every turn instead, but then a turn would cost a query,
//! and fairness among a hundred thousand tenants would be an index that every job rewrites. Memory holds
//! counts, the jobs that are next and those that something befell, and not the payloads of the rest.
//!
//! Nothing is answered before it is written. Submissions and whatever an operator asks for are on the
//! disk by then; claims and settlements are with the operating system, which a killed process cannot take
//! back. After a power cut at most the last of those are unknown, and their work is done again under the
//! same key.

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
use shared::StoreShared;
use state::StoreState;
pub use writer::Writer;

/// A job store in a directory of this process. Clones are the same store.
///
/// ```
/// use std::sync::Arc;
/// use outflow_core::ManualClock;
/// use outflow_store::{Batch, Embedded, JobStore, NewJob};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let dir = tempfile::tempdir()?;
/// let (store, writer) = Embedded::open(dir.path(), Arc::new(ManualClock::default()))?;
/// std::thread::scope(|threads| {
///     threads.spawn(|| writer.run());
///     let runtime = tokio::runtime::Builder::new_current_thread().build()?;
///     let job = NewJob::new("customer-A".parse()?, "mail".parse()?, "hello".into());
///     let submitted = runtime.block_on(store.submit(Batch::of(vec![job])))?;
///     assert_eq!(submitted.queued, 1);
///     store.end();
///     Ok(())
/// })
/// # }
/// ```
#[derive(Clone)]
pub struct EmbeddedStore {
    shared: Arc<StoreShared>,
    _last: Arc<StoreGuard>,
}

/// Ends the store with its last handle.
struct StoreGuard(Arc<StoreShared>);

impl Drop for StoreGuard {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl EmbeddedStore {
    /// Opens the store in a directory, which is made if there is none. Nothing is answered until
    /// somebody lets the [`Writer`] run, on a thread of its own.
    ///
    /// # Errors
    /// If another process has it, or it cannot be read or written, or a store was made there and its
    /// database is empty or gone.
    pub fn open(
        dir: &Path,
        clock: Arc<dyn Clock + Send + Sync>,
    ) -> Result<(Self, Writer), StoreError> {
        let files = StoreFiles::hold(dir)?;
        let disk = files.writing()?;
        files.identify(&disk)?;
        begin_epoch(&disk, clock.wall()).map_err(|error| files.broken(&error))?;
        let memory = StoreState::load(files.reading()?, clock.moment());
        let memory = memory.map_err(|error| files.broken(&error))?;
        files.take_over(&disk)?;
        files.seal(&memory.mint)?;
        let shared = Arc::new(StoreShared {
            memory: Mutex::new(memory),
            work: Condvar::new(),
            call: Notify::new(),
            bell: Notify::new(),
            letters: tokio::sync::Mutex::new(()),
            clock,
            files,
        });
        let writer = Writer::new(Arc::clone(&shared), disk)?;
        let last = Arc::new(StoreGuard(Arc::clone(&shared)));
        let store = Self {
            shared,
            _last: last,
        };
        Ok((store, writer))
    }

    /// Lets the writer finish what was asked for, and stop. Whatever is asked for afterwards is refused.
    pub fn end(&self) {
        self.shared.end();
    }
}

impl fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded")
            .field("files", &self.shared.files)
            .finish_non_exhaustive()
    }
}

/// Counts one more opening, and makes the one row of a new store.
fn begin_epoch(disk: &Connection, at: WallTime) -> rusqlite::Result<()> {
    let mint = format!("{:x}", at.as_duration().as_nanos());
    let sql = "INSERT INTO total (id, seq, place, epoch, mint) VALUES (1, 0, 0, 1, ?1) \
               ON CONFLICT (id) DO UPDATE SET epoch = epoch + 1";
    disk.execute(sql, params![mint]).map(drop)
}

#[cfg(test)]
mod interleaving_tests;
#[cfg(test)]
mod tests;
