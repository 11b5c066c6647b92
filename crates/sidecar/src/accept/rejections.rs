//! How many were turned away before they could ask anything.

use std::sync::atomic::{AtomicU64, Ordering};

use super::connection_limits::TooManyConnections;

/// Counts of connections and requests that never became calls.
#[derive(Debug, Default)]
pub struct RejectionCounts {
    crowded: AtomicU64,
    greedy: AtomicU64,
    malformed: AtomicU64,
    strangers: AtomicU64,
}

impl RejectionCounts {
    /// Connections for which there was no place at all.
    pub fn too_many_connections(&self) -> u64 {
        self.crowded.load(Ordering::Relaxed)
    }

    /// Connections from an address that had its share already.
    pub fn greedy(&self) -> u64 {
        self.greedy.load(Ordering::Relaxed)
    }

    /// Requests whose framing could be read in two ways, was too large or too slow.
    pub fn malformed(&self) -> u64 {
        self.malformed.load(Ordering::Relaxed)
    }

    /// Requests without the token.
    pub fn strangers(&self) -> u64 {
        self.strangers.load(Ordering::Relaxed)
    }

    pub(crate) fn no_place(&self, why: TooManyConnections) {
        let count = match why {
            TooManyConnections::InAll => &self.crowded,
            TooManyConnections::FromThere => &self.greedy,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn bad_framing(&self) {
        self.malformed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn no_token(&self) {
        self.strangers.fetch_add(1, Ordering::Relaxed);
    }
}
