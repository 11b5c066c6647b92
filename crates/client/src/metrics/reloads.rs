//! Counters of configuration reloads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::event::ReloadEvent;

/// Counters of reloads.
#[derive(Debug, Default)]
pub(super) struct ReloadCells {
    applied: AtomicU64,
    refused: AtomicU64,
    /// True if the last one was refused.
    failing: AtomicBool,
}

impl ReloadCells {
    pub(super) fn count(&self, reload: ReloadEvent) {
        let (cell, failing) = match reload {
            ReloadEvent::Applied { .. } => (&self.applied, false),
            ReloadEvent::Refused { .. } => (&self.refused, true),
        };
        cell.fetch_add(1, Ordering::Relaxed);
        self.failing.store(failing, Ordering::Relaxed);
    }

    /// Returns each result with its count.
    pub(super) fn totals(&self) -> [(&'static str, u64); 2] {
        let read = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        [("applied", read(&self.applied)), ("refused", read(&self.refused))]
    }

    /// Returns 1, or 0 while the last reload was refused.
    pub(super) fn ok_gauge(&self) -> u8 {
        u8::from(!self.failing.load(Ordering::Relaxed))
    }
}
