//! Copies of accounts that survive a crash of the host.
//!
//! Writes reach the disk late, and after a power failure the file of an account may have pages of several
//! turns. So once a second a copy of a long window is written beside it, synced, and renamed into its place. A
//! thread does this, because a sync takes as long as the disk likes and a renewal takes microseconds.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use crate::account_copy::AccountCopy;
use crate::file_access;
use crate::ledger_thread;

/// A checkpoint to write.
#[derive(Debug)]
pub(crate) struct CheckpointJob {
    pub(crate) path: PathBuf,
    pub(crate) sequence: u64,
    pub(crate) bytes: Vec<u8>,
}

/// The thread that writes checkpoints. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct CheckpointWriter(SyncSender<CheckpointJob>);

impl CheckpointWriter {
    pub(crate) fn start() -> io::Result<Self> {
        let (jobs, queue) = sync_channel(QUEUE);
        ledger_thread::start("outflow-checkpoint", move || write_all(&queue))?;
        Ok(Self(jobs))
    }

    /// Writes a checkpoint soon. On a slow disk it drops some: the next one is due in a second.
    pub(crate) fn write(&self, job: CheckpointJob) {
        match self.0.try_send(job) {
            Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
        }
    }
}

/// A failed checkpoint costs nothing unless the host crashes as well.
fn write_all(queue: &Receiver<CheckpointJob>) {
    while let Ok(job) = queue.recv() {
        let _failed_checkpoint = write(&job);
    }
}

/// Writes a checkpoint, unless there is a newer one.
pub(crate) fn write(job: &CheckpointJob) -> io::Result<()> {
    if read(&job.path)?.is_some_and(|copy| copy.sequence >= job.sequence) {
        return Ok(());
    }
    let new = job.path.with_extension(format!("{}.new", std::process::id()));
    let _left_by_a_crash = fs::remove_file(&new);
    let file = file_access::create_new(&new)?;
    file_access::write_at(&file, &job.bytes, 0)?;
    file.sync_data()?;
    fs::rename(&new, &job.path)?;
    sync_dir(&job.path)
}

#[cfg(unix)]
fn sync_dir(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}

/// Here a directory cannot be synced.
#[cfg(not(unix))]
fn sync_dir(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Reads a checkpoint; nothing if it is missing or damaged.
pub(crate) fn read(path: &Path) -> io::Result<Option<AccountCopy>> {
    match file_access::open(path) {
        Ok(file) => {
            let length = usize::try_from(file.metadata()?.len()).unwrap_or(0);
            let mut bytes = vec![0; length.min(LARGEST)];
            let read = file_access::read_at(&file, &mut bytes, 0)?;
            Ok(bytes.get(..read).and_then(|bytes| AccountCopy::decode(bytes).ok()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Checkpoints that may wait for a slow disk.
const QUEUE: usize = 64;
/// No copy is larger.
const LARGEST: usize = 1024 * 1024;
