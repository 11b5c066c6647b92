//! Evidence of a throttle about the rate.
//!
//! The rate was too high, and the units let through before show by how much, as far as they can be
//! counted. Of one burst only the first throttle counts, unless a later one brings a better count.

use super::fine_rate::FineRate;
use super::upper_bound::UpperBound;
use super::{AdaptiveLimit, LimitChange};
use crate::Nanos;

/// A throttle that lowered the rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThrottleBurst {
    pub(super) since: Nanos,
    throttled_at: FineRate,
    /// Units let through before it.
    admitted: u64,
}

/// Counts of the window before a throttle.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThrottleCounts {
    pub(super) admitted: u64,
    pub(super) used: u64,
}

impl AdaptiveLimit {
    pub(super) fn throttled(&mut self, now: Nanos, sent: Nanos, counts: ThrottleCounts) -> LimitChange {
        let admitted = counts.admitted;
        if self.shrunk.is_some_and(|shrunk| sent <= shrunk) {
            let change = self.throttled_again(now, admitted);
            return match (change, self.burst) {
                (LimitChange::Unmoved, Some(burst)) => self.count_on(now, burst, admitted),
                (LimitChange::Unmoved, None) => LimitChange::SameBurst,
                (change, _) => change,
            };
        }
        // A lowered rate is tried before it is lowered again.
        if !self.is_tried || admitted == 0 {
            return self.throttled_again(now, admitted);
        }
        if !self.is_about_rate(now, counts) {
            if self.is_long() {
                self.full_window.suspect(now, admitted);
                self.full_window.begin(admitted, self.level);
                self.is_tried = false;
            }
            return LimitChange::Unmoved;
        }
        self.clean_since = now;
        let throttled_at = self.level;
        let to = self.shrunk_to(now, admitted).max(self.floor()).min(throttled_at);
        self.full_window.suspect(now, admitted);
        let change = self.step_down(now, to);
        if change == LimitChange::Shrunk {
            self.burst = Some(ThrottleBurst {
                since: now,
                throttled_at,
                admitted,
            });
            self.full_window.begin(admitted, throttled_at);
            self.place_upper_bound(throttled_at, admitted);
        }
        change
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

    /// Returns true if enough units were let through to count by. Over a longer span the throttle may
    /// come from another limit with a shorter window. A burst that is cut short does not describe an
    /// hour.
    pub(super) fn is_countable(&self, admitted: u64) -> bool {
        admitted >= Self::MIN_COUNTED && !self.is_long()
    }

    /// Returns the rate after one throttle. An expected throttle near the last one carries no new
    /// information. With enough units let through, the count itself is the server's limit; a count
    /// soon after a shrink still holds calls from before it, so that step is larger. Fewer units may
    /// be chance, so half of the rate stays.
    fn shrunk_to(&self, now: Nanos, admitted: u64) -> FineRate {
        let tried = |upper_bound: UpperBound| upper_bound.is_tried_at(now, self.level);
        if self.upper_bound.is_some_and(tried) {
            return self.level.below();
        }
        if self.is_long() {
            return self.level.eased_by(admitted);
        }
        if !self.is_countable(admitted) {
            return self.level.shrunk_to(admitted, self.level.halved(self.floor()));
        }
        let counted = self.level.shrunk_to(admitted, self.floor());
        let again = self.shrunk.is_some_and(|shrunk| now.since(shrunk) < self.window() * 3);
        if again {
            counted.min(self.level.three_quarters())
        } else {
            counted
        }
    }

    /// Raises the rate to the units that the throttled burst got through, one step below its old
    /// rate.
    pub(super) fn recount(&mut self, burst: ThrottleBurst, admitted: u64) {
        let max = burst.throttled_at.below().min(self.top());
        let counted = FineRate::units(admitted).min(max);
        if counted > self.level {
            self.level = counted;
            self.place_upper_bound(burst.throttled_at, admitted);
        }
    }

    /// Places the upper bound at the throttled rate, or one unit above a reliable count: that many
    /// passed, and one more did not.
    fn place_upper_bound(&mut self, throttled_at: FineRate, admitted: u64) {
        let counted = FineRate::units(admitted);
        let is_reliable = self.is_countable(admitted) && self.level <= counted;
        let at = if is_reliable {
            counted.plus_unit().min(throttled_at)
        } else {
            throttled_at
        };
        if let Some(upper_bound) = &mut self.upper_bound {
            upper_bound.at = at;
        }
    }
}
