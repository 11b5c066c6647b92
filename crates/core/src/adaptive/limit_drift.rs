//! The distance between the effective and the configured limit, for reports.

use core::fmt;
use core::time::Duration;

use super::{AdaptiveLimit, AdaptiveMode};
use crate::{Nanos, Rate};

/// Difference between the effective and the configured limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LimitDrift {
    /// The configured rate.
    pub configured: Rate,
    /// The rate that the evidence allows.
    pub evidence: Rate,
    /// Duration of the difference, restarts included.
    pub lasting: Duration,
}

impl fmt::Display for LimitDrift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "configured {}, evidence says {}", self.configured, self.evidence)
    }
}

/// Duration of a drift: its start in this process, and its length in earlier ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct DriftSpan {
    pub(super) since: Nanos,
    pub(super) before: Duration,
}

impl AdaptiveLimit {
    /// Returns the distance between the effective and the configured rate, if they differ. While
    /// learning there is no configured rate to compare with.
    pub fn drift(&self, now: Nanos) -> Option<LimitDrift> {
        let drifting = self.drifting.filter(|_| self.mode == AdaptiveMode::Guard)?;
        let here = now.max(self.last).since(drifting.since);
        Some(LimitDrift {
            configured: self.configured,
            evidence: self.effective(),
            lasting: drifting.before.saturating_add(here),
        })
    }
}
