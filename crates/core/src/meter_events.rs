//! What a meter has to tell besides its decisions: that little remains, and that it is paced.
//!
//! Events wait here until somebody polls them, at most one of each sort, so a meter that nobody
//! listens to neither grows nor slows down. A condition that lasts is told once.

use core::time::Duration;

use crate::{Limit, MeterStatus, Nanos, Pacing};

/// Something about a limit that an operator may want to know. `limit` is its place in the set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeterEvent {
    /// Less remains than the limit's threshold; told again only after it had recovered.
    Low {
        /// Which limit.
        limit: usize,
        /// What is left.
        remaining: u64,
        /// Of how much.
        capacity: u64,
    },
    /// Pacing asked for more than its cap allows; told at most once a minute.
    PacingCapped {
        /// Which limit.
        limit: usize,
        /// The window that is being spread.
        window: Duration,
        /// The pause that would spread it evenly.
        asked: Duration,
        /// The pause that was given.
        cap: Duration,
    },
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

    /// Compares what remains with the limit's threshold.
    pub(crate) fn observe(&mut self, place: usize, limit: &Limit, standing: MeterStatus) {
        let Some(share) = limit.warn_below() else {
            return;
        };
        let (remaining, capacity) = (standing.remaining(), standing.capacity);
        let is_low = share.is_above(remaining, capacity);
        if is_low && !self.is_low {
            self.low = Some(MeterEvent::Low {
                limit: place,
                remaining,
                capacity,
            });
        }
        self.is_low = is_low;
    }

    /// The pause that the limit's pacing gives of what was asked for.
    pub(crate) fn cap(
        &mut self,
        place: usize,
        limit: &Limit,
        now: Nanos,
        asked: Duration,
    ) -> Duration {
        let Pacing::Soft { max_delay: cap } = limit.pacing() else {
            return Duration::ZERO;
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
        asked.min(cap)
    }

    fn warn(&mut self, now: Nanos, event: MeterEvent) {
        if self
            .warned_at
            .is_none_or(|at| now.since(at) >= BETWEEN_WARNINGS)
        {
            self.capped = Some(event);
            self.warned_at = Some(now);
        }
    }
}

/// A paced limit is asked many times a second; its operator reads once a minute at best.
const BETWEEN_WARNINGS: Duration = Duration::from_mins(1);
