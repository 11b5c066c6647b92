//! Facts about one meter at one instant.
//!
//! Plain facts for people and metrics, filled in by the owner of the meter. No decision uses them:
//! they are out of date when read.

use core::time::Duration;

use crate::{Nanos, Share};

/// Facts about one meter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Number of requests that count now, as far as the meter stores them.
    pub count: u64,
    /// Their cost.
    pub weight: u64,
    /// Maximum that may count at once.
    pub limit: u64,
    /// The highest weight so far.
    pub peak: u64,
    /// Time of the oldest request that counts.
    pub oldest: Option<Nanos>,
    /// Time of the newest.
    pub newest: Option<Nanos>,
    /// Start of the counted window.
    pub window_start: Nanos,
    /// End of it.
    pub window_end: Nanos,
    /// Memory of the meter.
    pub memory_bytes: u64,
    /// Number of expired requests.
    pub expired: u64,
    /// Number of waiting callers.
    pub waiting: u64,
    /// Wait of a request of cost one now; `None` if it can never go.
    pub predicted_delay: Option<Duration>,
    /// Allowed requests so far.
    pub admitted: u64,
    /// Requests refused so far.
    pub refused: u64,
}

impl Usage {
    /// Returns the remaining quota.
    pub const fn remaining(&self) -> u64 {
        self.limit.saturating_sub(self.weight)
    }

    /// Returns true if this share of the limit or more is used.
    pub fn reaches(&self, share: Share) -> bool {
        !share.is_above(self.weight, self.limit)
    }

    /// Returns the used part of the limit, for display: 1.0 is all of it.
    #[expect(
        clippy::as_conversions,
        clippy::cast_precision_loss,
        reason = "shown, never compared: 52 bits are plenty"
    )]
    pub fn used(&self) -> f64 {
        self.weight as f64 / self.limit.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_reached_exactly_at_its_value() {
        let used = |weight| Usage {
            weight,
            limit: 10,
            ..Usage::default()
        };
        let max = Share::percent(80);
        assert!(!used(7).reaches(max) && used(8).reaches(max));
        assert_eq!((used(8).remaining(), used(11).remaining()), (2, 0));
        assert!((used(8).used() - 0.8).abs() < 1e-12);
    }
}
