//! Durability of commits, and the writer's care for the journal.

use super::database_error::failed;
use super::rows::rows;
use crate::embedded::writer::Writer;
use crate::error::StoreError;

/// The durability of a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SyncLevel {
    /// The operating system has it: it survives a killed process.
    Process,
    /// The disk has it: it survives a power cut.
    Disk,
}

/// The state of the journal to which commits are added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum JournalState {
    Sound,
    /// A write or sync of it failed: it must be rewritten before the next commit.
    Doubtful,
}

impl Writer {
    /// Raises the durability of a commit if many steps before it were not synced.
    pub(crate) const fn choose_sync(&mut self, wanted: SyncLevel, steps: usize) -> SyncLevel {
        self.unsynced = match wanted {
            SyncLevel::Process => self.unsynced.saturating_add(steps),
            SyncLevel::Disk => 0,
        };
        if self.unsynced > UNSYNCED_LIMIT {
            self.unsynced = 0;
            return SyncLevel::Disk;
        }
        wanted
    }

    /// Sets the durability of the next commits. Costs nothing while it stays the same.
    ///
    /// `SQLite` moves the journal into the database only after synced commits. The move begins with a
    /// sync whose failure `SQLite` does not report.
    pub(crate) fn set_sync(&mut self, sync: SyncLevel) -> rusqlite::Result<()> {
        if self.sync != Some(sync) {
            let (word, pages) = match sync {
                SyncLevel::Process => ("normal", 0),
                SyncLevel::Disk => ("full", CHECKPOINT_PAGES),
            };
            self.disk.pragma_update(None, "synchronous", word)?;
            self.disk.pragma_update(None, "wal_autocheckpoint", pages)?;
            self.sync = Some(sync);
        }
        Ok(())
    }

    /// Rewrites a doubtful journal.
    pub(crate) fn repair_journal(&mut self) -> Result<(), StoreError> {
        if self.journal == JournalState::Doubtful {
            self.shared.files.rewrite_journal()?;
            self.journal = JournalState::Sound;
        }
        Ok(())
    }

    /// Returns some unused pages to the disk. After a failure the next sweep tries again, because only
    /// space is at stake.
    pub(crate) fn shrink(&mut self) {
        let sql = format!("PRAGMA incremental_vacuum({SHRINK_PAGES})");
        let freed = rows(&self.disk, &sql, |_| Ok(())).map_err(failed);
        if freed.is_err_and(|error| error.is_doubtful()) {
            self.journal = JournalState::Doubtful;
        }
    }
}

/// Eight megabytes of journal between two moves into the database: pages that change often are moved
/// once, and a start after a crash reads little.
const CHECKPOINT_PAGES: u32 = 4_096;

/// Unsynced claims and settlements at most: a power cut may repeat them, and the journal grows by them. A
/// sync costs as much as a hundred.
const UNSYNCED_LIMIT: usize = 4_096;

/// Half a megabyte: a transaction that delays no caller noticeably.
const SHRINK_PAGES: u32 = 256;
