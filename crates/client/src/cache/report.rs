//! Content and faults of a cache.
//!
//! A failing cache slows calls down and breaks nothing, so only counters show it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Content and faults of a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheReport {
    /// Requests with a response in memory.
    pub entries: usize,
    /// Bytes in memory.
    pub memory: u64,
    /// Bytes on disk.
    pub disk: u64,
    /// State of the directory.
    pub state: DiskState,
    /// Files dropped as damaged, foreign or of another version.
    pub dropped_files: u64,
    /// Failed writes and removals.
    pub failed_writes: u64,
    /// Writes skipped because the disk was too slow or had just failed.
    pub skipped_writes: u64,
}

outflow_core::named_enum! {
    /// State of the cache directory.
    pub enum DiskState {
        /// No directory is configured.
        None = "none",
        /// In use.
        Used = "used",
        /// In use, and the last write failed: the disk may be full.
        Failing = "failing",
        /// Another process uses it; this one works from memory.
        Elsewhere = "elsewhere",
        /// Not writable; this process works from memory.
        Unusable = "unusable",
    }
}

/// Fault counters.
#[derive(Default)]
pub(super) struct CacheFaults {
    dropped: AtomicU64,
    failed: AtomicU64,
    skipped: AtomicU64,
    /// True if the last write failed.
    failing: AtomicBool,
}

impl CacheFaults {
    /// Counts a dropped file.
    pub(super) fn count_dropped_file(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a failed removal.
    pub(super) fn count_failed_removal(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a failed write.
    pub(super) fn count_failed_write(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        self.failing.store(true, Ordering::Relaxed);
    }

    /// Counts a skipped write.
    pub(super) fn count_skipped_write(&self) {
        self.skipped.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes a successful write.
    pub(super) fn clear_failing(&self) {
        self.failing.store(false, Ordering::Relaxed);
    }

    /// Fills the counters into a report.
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
