//! File of results that belongs to one run.
//!
//! The file is never truncated. Bytes after the checkpoint must be the start of the next results, and are
//! completed. Any other bytes belong to another program and stay.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::commands::bulk::run::checkpoint::{LastWrite, RunNote};

/// File of results.
#[derive(Debug)]
pub(super) struct ResultFile {
    file: File,
    /// Known length.
    pub(super) end: u64,
}

impl ResultFile {
    /// Opens a file, or creates an empty one.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let end = file.metadata()?.len();
        Ok(Self { file, end })
    }

    /// Returns true if the file holds the noted results. A note of an earlier version has no checksum, and is
    /// trusted.
    pub(super) fn matches(&self, note: &RunNote) -> io::Result<bool> {
        if self.end < note.length {
            return Ok(false);
        }
        let Some(last) = &note.last else {
            return Ok(true);
        };
        let from = note.length.saturating_sub(last.length);
        Ok(LastWrite::from_bytes(&self.read(from, last.length)?) == *last)
    }

    /// Writes bytes at an offset, where a prefix of them may exist already. Returns false and changes nothing
    /// if other bytes are there.
    pub(super) fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<bool> {
        if self.file.metadata()?.len() != self.end {
            return Ok(false);
        }
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let existing = self.read(at, length.min(self.end.saturating_sub(at)))?;
        let Some(rest) = bytes.strip_prefix(existing.as_slice()) else {
            return Ok(false);
        };
        if !rest.is_empty() {
            self.file.write_all(rest)?;
            self.end = at.saturating_add(length);
        }
        self.file.sync_data()?;
        Ok(true)
    }

    fn read(&self, at: u64, length: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        self.file.read_exact_at(&mut bytes, at)?;
        Ok(bytes)
    }
}
