//! How safe a commit is, and what the writer does for it beside the commits themselves.

use super::directory::{CHECKPOINT_PAGES, failed};
use super::rows::rows;
use crate::embedded::writer::Writer;
use crate::error::StoreError;

/// How far a commit reaches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SyncLevel {
    /// To the operating system: safe when the process is killed.
    Handed,
    /// To the disk: safe when the power fails.
    Kept,
}

/// What is known of the journal that commits are added to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum JournalState {
    Sound,
    /// A write or a sync of it failed: nothing is added until it was written once more.
    Doubtful,
}

impl Writer {
    /// How far a commit of so many steps reaches, if it only has to reach the operating system.
    pub(crate) fn reaches(&mut self, asked: SyncLevel, steps: usize) -> SyncLevel {
        self.handed = match asked {
            SyncLevel::Handed => self.handed.saturating_add(steps),
            SyncLevel::Kept => 0,
        };
        if self.handed > HANDED_MOST {
            self.handed = 0;
            return SyncLevel::Kept;
        }
        asked
    }

    /// Says how far the next commits reach. Costs nothing while that stays the same.
    ///
    /// The journal is brought home after commits that were synced, and never after others: that begins
    /// with a sync whose failure `SQLite` tells nobody.
    pub(crate) fn reach(&mut self, sync: SyncLevel) -> rusqlite::Result<()> {
        if self.sync != Some(sync) {
            let (word, pages) = match sync {
                SyncLevel::Handed => ("normal", 0),
                SyncLevel::Kept => ("full", CHECKPOINT_PAGES),
            };
            self.disk.pragma_update(None, "synchronous", word)?;
            self.disk.pragma_update(None, "wal_autocheckpoint", pages)?;
            self.sync = Some(sync);
        }
        Ok(())
    }

    /// Writes the journal once more if it is in doubt.
    pub(crate) fn settle_doubts(&mut self) -> Result<(), StoreError> {
        if self.journal == JournalState::Doubtful {
            self.shared.files.renew_journal()?;
            self.journal = JournalState::Sound;
        }
        Ok(())
    }

    /// Gives pages that nobody needs back to the disk, some at a time. What fails is left for the next
    /// time: it is only room.
    pub(crate) fn shrink(&mut self) {
        let sql = format!("PRAGMA incremental_vacuum({SHRINK_PAGES})");
        let freed = rows(&self.disk, &sql, |_| Ok(())).map_err(failed);
        if freed.is_err_and(|error| error.is_doubtful()) {
            self.journal = JournalState::Doubtful;
        }
    }
}

/// Claims and settlements that are not synced at most: what a power cut may let happen again, and the
/// journal may grow by between two chances to bring it home. A sync is worth a hundred of them.
const HANDED_MOST: usize = 4_096;

/// A piece of half a megabyte: a transaction that nobody notices.
const SHRINK_PAGES: u32 = 256;
