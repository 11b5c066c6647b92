//! Evidence of a throttle about the rate.
//!
//! The rate was too high, and the units let through before show by how much, as far as they can be
//! counted. Halving at each throttle would overshoot downwards as often as it helps. Of one burst
//! only the first throttle counts, unless a later one brings a better count.

use core::time::Duration;

use super::fine_rate::FineRate;
use super::upper_bound::UpperBound;
use super::{AdaptiveLimit, LimitChange, SHORTEST_WINDOW};
use crate::Nanos;

/// A throttle that lowered the rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThrottleBurst {
    pub(super) since: Nanos,
    throttled_at: FineRate,
    /// Units let through before it.
    admitted: u64,
}

impl AdaptiveLimit {
    pub(super) fn throttled(&mut self, now: Nanos, sent: Nanos, admitted: u64) -> LimitChange {
        let throttled_at = self.level;
        let reaction = self.step_down(now, sent, self.shrunk_to(admitted));
        match (reaction, self.burst) {
            (LimitChange::Shrunk, _) => {
                self.burst = Some(ThrottleBurst {
                    since: now,
                    throttled_at,
                    admitted,
                });
                self.place_upper_bound(throttled_at, admitted);
                reaction
            }
            (LimitChange::SameBurst, Some(burst)) => self.count_on(now, burst, admitted),
            (_, _) => reaction,
        }
    }

    /// Recounts within a burst. The first throttle may overtake successes that were sent before it,
    /// so its count is too low; a later one of the same burst then has a better count.
    fn count_on(&mut self, now: Nanos, burst: ThrottleBurst, admitted: u64) -> LimitChange {
        let counted = burst.throttled_at.shrunk_to(admitted, self.floor());
        let is_better = !self.is_countable(burst.admitted) && self.is_countable(admitted);
        if !is_better || counted >= self.level {
            return LimitChange::SameBurst;
        }
        self.lower(now, counted);
        self.burst = Some(ThrottleBurst { admitted, ..burst });
        self.place_upper_bound(burst.throttled_at, admitted);
        LimitChange::Shrunk
    }

    /// Returns true if enough units were let through to count by.
    fn is_countable(&self, admitted: u64) -> bool {
        admitted >= Self::MIN_COUNTED && self.configured.per() <= LONGEST_COUNTED
    }

    /// Returns the rate after one throttle. A single throttle may mislead, so it leaves at least a
    /// quarter. With enough units let through, the count itself is the server's limit. An expected
    /// throttle near the last one carries no new information.
    fn shrunk_to(&self, admitted: u64) -> FineRate {
        let tried = |upper_bound: UpperBound| upper_bound.is_tried_at(self.last, self.level);
        if self.upper_bound.is_some_and(tried) {
            return self.level.eased().max(self.floor()).min(self.level);
        }
        let least = if self.is_countable(admitted) {
            self.floor()
        } else {
            self.floor().max(self.level.quarter())
        };
        self.level.shrunk_to(admitted, least)
    }

    /// Raises the rate to the units that the throttled burst got through, one step below its old
    /// rate.
    pub(super) fn recount(&mut self, burst: ThrottleBurst, admitted: u64) {
        let max = burst.throttled_at.eased().min(self.top());
        let counted = FineRate::units(admitted).min(max);
        if counted > self.level {
            self.level = counted;
            self.place_upper_bound(burst.throttled_at, admitted);
        }
    }

    /// Places the upper bound at the throttled rate. If the count is reliable and far below, it
    /// goes there: no rate between the two was ever let through.
    fn place_upper_bound(&mut self, throttled_at: FineRate, admitted: u64) {
        let counted = self.is_countable(admitted)
            && self.level == FineRate::units(admitted)
            && self.level.is_far_below(throttled_at);
        if let Some(upper_bound) = &mut self.upper_bound {
            upper_bound.at = if counted { self.level } else { throttled_at };
        }
    }
}

/// Over a longer span the throttle may come from another limit with a shorter window. A burst that
/// is cut short does not describe an hour.
const LONGEST_COUNTED: Duration = SHORTEST_WINDOW;
