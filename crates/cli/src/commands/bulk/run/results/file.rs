//! A file of results, which is ours as far as it can be told.
//!
//! Nothing is ever cut off: what a crash left behind the note is a beginning of what comes next, and is
//! completed. If it is anything else, somebody else wrote it, and it is theirs to keep.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::commands::bulk::run::checkpoint::{LastWrite, RunNote};

/// A file of results.
#[derive(Debug)]
pub(super) struct ResultFile {
    file: File,
    /// How long it is, as far as we know.
    end: u64,
}

impl ResultFile {
    /// The file as it is, or an empty one.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)?;
        let end = file.metadata()?.len();
        Ok(Self { file, end })
    }

    /// How long it is.
    pub(super) const fn end(&self) -> u64 {
        self.end
    }

    /// Whether it holds what was noted. A note of an earlier version has no checksum, and is believed.
    pub(super) fn holds(&self, note: &RunNote) -> io::Result<bool> {
        if self.end < note.length {
            return Ok(false);
        }
        let Some(last) = &note.last else {
            return Ok(true);
        };
        let from = note.length.saturating_sub(last.length);
        Ok(LastWrite::from_bytes(&self.piece(from, last.length)?) == *last)
    }

    /// Sees to it that this stands at this place, of which a part may stand there already; or does nothing
    /// and says no, if something else does.
    pub(super) fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<bool> {
        if self.file.metadata()?.len() != self.end {
            return Ok(false);
        }
        let wanted = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let there = self.piece(at, wanted.min(self.end.saturating_sub(at)))?;
        let Some(more) = bytes.strip_prefix(there.as_slice()) else {
            return Ok(false);
        };
        if !more.is_empty() {
            self.file.write_all(more)?;
            self.end = at.saturating_add(wanted);
        }
        self.file.sync_data()?;
        Ok(true)
    }

    fn piece(&self, at: u64, length: u64) -> io::Result<Vec<u8>> {
        let mut piece = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        self.file.read_exact_at(&mut piece, at)?;
        Ok(piece)
    }
}
