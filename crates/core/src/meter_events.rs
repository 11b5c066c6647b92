//! Events of a meter apart from its decisions: low quota and capped pacing.
//!
//! Events wait here until the owner polls them, at most one of each kind. A meter without an
//! observer neither grows nor slows down. A lasting condition is reported once.

use core::time::Duration;

use crate::{Limit, MeterStatus, Nanos, Pacing};

/// Event about a limit for an operator. `limit` is its index in the set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeterEvent {
    /// Less remains than the limit's threshold; reported again only after a recovery.
    Low {
        /// Index of the limit.
        limit: usize,
        /// Window of the limit in force.
        window: Duration,
        /// Remaining quota.
        remaining: u64,
        /// Capacity of the limit in force.
        capacity: u64,
    },
    /// Pacing asked for more than its cap allows; reported at most once a minute.
    PacingCapped {
        /// Index of the limit.
        limit: usize,
        /// Window that is being spread.
        window: Duration,
        /// Pause that would spread it evenly.
        asked: Duration,
        /// Pause that was granted.
        cap: Duration,
    },
}

impl MeterEvent {
    /// Returns the index of its limit in the set.
    pub const fn limit(&self) -> usize {
        match self {
            Self::Low { limit, .. } | Self::PacingCapped { limit, .. } => *limit,
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MeterEventQueue {
    is_low: bool,
    low: Option<MeterEvent>,
    capped: Option<MeterEvent>,
    warned_at: Option<Nanos>,
}

impl MeterEventQueue {
    pub(crate) fn poll(&mut self) -> Option<MeterEvent> {
        self.low.take().or_else(|| self.capped.take())
    }

    /// Compares the remaining quota with the limit's threshold.
    pub(crate) fn observe(&mut self, place: usize, limit: &Limit, status: MeterStatus) {
        let Some(share) = limit.warn_below() else {
            return;
        };
        let (remaining, capacity) = (status.remaining(), status.capacity);
        let is_low = share.is_above(remaining, capacity);
        if is_low && !self.is_low {
            self.low = Some(MeterEvent::Low {
                limit: place,
                window: limit.rate().per(),
                remaining,
                capacity,
            });
        }
        self.is_low = is_low;
    }

    /// Warns of a pause that the limit's pacing caps.
    pub(crate) fn warn_capped(&mut self, place: usize, limit: &Limit, now: Nanos, asked: Duration) {
        let Pacing::Soft { max_delay: cap } = limit.pacing() else {
            return;
        };
        if asked > cap {
            let window = limit.rate().per();
            self.warn(
                now,
                MeterEvent::PacingCapped {
                    limit: place,
                    window,
                    asked,
                    cap,
                },
            );
        }
    }

    fn warn(&mut self, now: Nanos, event: MeterEvent) {
        if self.warned_at.is_none_or(|at| now.since(at) >= BETWEEN_WARNINGS) {
            self.capped = Some(event);
            self.warned_at = Some(now);
        }
    }
}

/// A paced limit is asked many times a second; its operator reads once a minute at best.
const BETWEEN_WARNINGS: Duration = Duration::from_mins(1);
