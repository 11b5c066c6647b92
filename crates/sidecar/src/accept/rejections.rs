//! Counts of rejected connections and requests.

use std::sync::atomic::{AtomicU64, Ordering};

use outflow_listener::TooManyConnections;

/// Counts of connections and requests that never became calls.
#[derive(Debug, Default)]
pub struct RejectionCounts {
    in_total: AtomicU64,
    per_address: AtomicU64,
    malformed: AtomicU64,
    unauthorized: AtomicU64,
}

impl RejectionCounts {
    /// Returns the number of connections beyond the total limit.
    pub fn too_many_connections(&self) -> u64 {
        self.in_total.load(Ordering::Relaxed)
    }

    /// Returns the number of connections beyond the limit of their address.
    pub fn too_many_per_address(&self) -> u64 {
        self.per_address.load(Ordering::Relaxed)
    }

    /// Returns the number of requests with ambiguous, too large or too slow framing.
    pub fn malformed(&self) -> u64 {
        self.malformed.load(Ordering::Relaxed)
    }

    /// Returns the number of requests without the token.
    pub fn unauthorized(&self) -> u64 {
        self.unauthorized.load(Ordering::Relaxed)
    }

    pub(crate) fn count_connection(&self, reason: TooManyConnections) {
        let count = match reason {
            TooManyConnections::InTotal => &self.in_total,
            TooManyConnections::FromAddress => &self.per_address,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_malformed(&self) {
        self.malformed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_unauthorized(&self) {
        self.unauthorized.fetch_add(1, Ordering::Relaxed);
    }
}
