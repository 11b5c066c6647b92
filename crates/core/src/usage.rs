//! What one meter looks like at one instant.
//!
//! Plain facts for people and metrics, filled in by whoever holds the meter. Nothing decides on
//! them: by the time they are read, they were true.

use core::time::Duration;

use crate::{Nanos, Share};

/// The facts of one meter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Requests that count now, as far as the meter keeps them apart.
    pub count: u64,
    /// Their cost.
    pub weight: u64,
    /// The most that may count at once.
    pub limit: u64,
    /// The highest weight so far.
    pub peak: u64,
    /// When the oldest request that counts was taken.
    pub oldest: Option<Nanos>,
    /// When the newest was.
    pub newest: Option<Nanos>,
    /// Where the window begins that is counted.
    pub window_start: Nanos,
    /// Where it ends.
    pub window_end: Nanos,
    /// What the meter holds in memory.
    pub memory_bytes: u64,
    /// Requests that no longer count and were removed.
    pub expired: u64,
    /// Callers that wait for room.
    pub waiting: u64,
    /// How long a request of cost one would wait now; nothing if it never could go.
    pub predicted_delay: Option<Duration>,
    /// Requests let through so far.
    pub admitted: u64,
    /// Requests refused so far.
    pub refused: u64,
}

impl Usage {
    /// What is left of the limit.
    pub const fn remaining(&self) -> u64 {
        self.limit.saturating_sub(self.weight)
    }

    /// True if this share of the limit or more is used.
    pub fn reaches(&self, share: Share) -> bool {
        !share.is_above(self.weight, self.limit)
    }

    /// The used part of the limit, for people: 1.0 is all of it.
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
    fn a_share_is_reached_exactly_at_it() {
        let used = |weight| Usage {
            weight,
            limit: 10,
            ..Usage::default()
        };
        let most = Share::percent(80);
        assert!(!used(7).reaches(most) && used(8).reaches(most));
        assert_eq!((used(8).remaining(), used(11).remaining()), (2, 0));
        assert!((used(8).used() - 0.8).abs() < 1e-12);
    }
}
