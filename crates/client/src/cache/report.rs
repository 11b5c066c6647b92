//! What a cache holds, and what went wrong with it.
//!
//! A cache that fails slows things down and breaks nothing, so nobody would notice: it counts.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What a cache holds, and what went wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheReport {
    /// Requests whose answers are in memory.
    pub entries: usize,
    /// The bytes that they take there.
    pub memory: u64,
    /// The bytes that files take.
    pub disk: u64,
    /// Whether the directory is used.
    pub state: DiskState,
    /// Files that were dropped because they were damaged, foreign or of another version.
    pub dropped_files: u64,
    /// Writes and removals that failed.
    pub failed_writes: u64,
    /// Answers that were not written because the disk was too slow or had failed just before.
    pub skipped_writes: u64,
}

/// Whether the directory is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskState {
    /// None was named.
    None,
    /// It is.
    Used,
    /// It is, and the last write failed: the disk may be full.
    Failing,
    /// Another process uses it; this one works from memory.
    Elsewhere,
    /// It cannot be written; this process works from memory.
    Unusable,
}

/// What went wrong so far.
#[derive(Default)]
pub(super) struct CacheFaults {
    dropped: AtomicU64,
    failed: AtomicU64,
    skipped: AtomicU64,
    /// Whether the last write failed.
    failing: AtomicBool,
}

impl CacheFaults {
    /// A file could not be believed.
    pub(super) fn dropped_file(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// A file could not be removed.
    pub(super) fn failed_removal(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// A file could not be written.
    pub(super) fn failed_write(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        self.failing.store(true, Ordering::Relaxed);
    }

    /// A file was not written.
    pub(super) fn skipped_write(&self) {
        self.skipped.fetch_add(1, Ordering::Relaxed);
    }

    /// A file was written.
    pub(super) fn wrote(&self) {
        self.failing.store(false, Ordering::Relaxed);
    }

    /// Enters the counts into a report.
    pub(super) fn fill(&self, report: CacheReport) -> CacheReport {
        let failing = self.failing.load(Ordering::Relaxed);
        CacheReport {
            state: match report.state {
                DiskState::Used if failing => DiskState::Failing,
                state => state,
            },
            dropped_files: self.dropped.load(Ordering::Relaxed),
            failed_writes: self.failed.load(Ordering::Relaxed),
            skipped_writes: self.skipped.load(Ordering::Relaxed),
            ..report
        }
    }
}
