//! How often the configuration was read again, and what became of it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::event::ReloadEvent;

/// The counters of reloads.
#[derive(Debug, Default)]
pub(super) struct ReloadCells {
    applied: AtomicU64,
    refused: AtomicU64,
    /// Whether the last one was refused.
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

    /// Each outcome with how often it was.
    pub(super) fn totals(&self) -> [(&'static str, u64); 2] {
        let read = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        [
            ("applied", read(&self.applied)),
            ("refused", read(&self.refused)),
        ]
    }

    /// 1, or 0 while the last one was refused.
    pub(super) fn ok(&self) -> u8 {
        u8::from(!self.failing.load(Ordering::Relaxed))
    }
}
