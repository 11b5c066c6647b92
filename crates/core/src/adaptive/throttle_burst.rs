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
    refused_at: FineRate,
    /// Units let through before it.
    admitted: u64,
}

impl AdaptiveLimit {
    pub(super) fn throttled(&mut self, now: Nanos, sent: Nanos, admitted: u64) -> LimitChange {
        let refused_at = self.level;
        let reaction = self.step_down(now, sent, self.shrunk_to(admitted));
        match (reaction, self.wave) {
            (LimitChange::Shrunk, _) => {
                self.wave = Some(ThrottleBurst {
                    since: now,
                    refused_at,
                    admitted,
                });
                self.place_ceiling(refused_at, admitted);
                reaction
            }
            (LimitChange::SameWave, Some(wave)) => self.count_on(now, wave, admitted),
            (_, _) => reaction,
        }
    }

    /// Recounts within a burst. The first throttle may overtake successes that were sent before it,
    /// so its count is too low; a later one of the same burst then has a better count.
    fn count_on(&mut self, now: Nanos, wave: ThrottleBurst, admitted: u64) -> LimitChange {
        let counted = wave.refused_at.shrunk_to(admitted, self.floor());
        let news = !self.is_telling(wave.admitted) && self.is_telling(admitted);
        if !news || counted >= self.level {
            return LimitChange::SameWave;
        }
        self.lower(now, counted);
        self.wave = Some(ThrottleBurst { admitted, ..wave });
        self.place_ceiling(wave.refused_at, admitted);
        LimitChange::Shrunk
    }

    /// Returns true if enough units were let through to count by.
    fn is_telling(&self, admitted: u64) -> bool {
        admitted >= Self::TELLING && self.configured.per() <= LONGEST_COUNTED
    }

    /// Returns the rate after one throttle. A single throttle may mislead, so it leaves at least a
    /// quarter. With enough units let through, the count itself is the server's limit. An expected
    /// throttle near the last one carries no new information.
    fn shrunk_to(&self, admitted: u64) -> FineRate {
        let tried = |ceiling: UpperBound| ceiling.is_tried_at(self.last, self.level);
        if self.ceiling.is_some_and(tried) {
            return self.level.eased().max(self.floor()).min(self.level);
        }
        let least = if self.is_telling(admitted) {
            self.floor()
        } else {
            self.floor().max(self.level.quarter())
        };
        self.level.shrunk_to(admitted, least)
    }

    /// Raises the rate to the units that the throttled burst got through, one step below its old
    /// rate.
    pub(super) fn recount(&mut self, wave: ThrottleBurst, admitted: u64) {
        let most = wave.refused_at.eased().min(self.top());
        let counted = FineRate::units(admitted).min(most);
        if counted > self.level {
            self.level = counted;
            self.place_ceiling(wave.refused_at, admitted);
        }
    }

    /// Places the upper bound at the throttled rate. If the count is reliable and far below, it
    /// goes there: no rate between the two was ever let through.
    fn place_ceiling(&mut self, refused_at: FineRate, admitted: u64) {
        let counted = self.is_telling(admitted)
            && self.level == FineRate::units(admitted)
            && self.level.is_far_below(refused_at);
        if let Some(ceiling) = &mut self.ceiling {
            ceiling.at = if counted { self.level } else { refused_at };
        }
    }
}

/// Over a longer span the throttle may come from another limit with a shorter window. A burst that
/// is cut short does not describe an hour.
const LONGEST_COUNTED: Duration = SHORTEST_WINDOW;
