//! What a refusal says about the rate.
//!
//! That it was too high, and what was let through before says by how much, as far as that can be counted.
//! Halving at each refusal instead would pass the real limit from above as often as from below. It says
//! nothing about the refusals of one wave but the first, unless they tell more of the same count.

use core::time::Duration;

use super::fine_rate::FineRate;
use super::upper_bound::UpperBound;
use super::{AdaptiveLimit, LimitChange, SHORTEST_WINDOW};
use crate::Nanos;

/// A refusal that lowered the rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThrottleBurst {
    pub(super) since: Nanos,
    refused_at: FineRate,
    /// What was let through when it came, in units.
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

    /// The first refusal of a wave may overtake what was let through before it, so that there was too
    /// little to count by. Another of the same wave then tells more.
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

    /// Whether so much was let through that it can be counted by.
    fn is_telling(&self, admitted: u64) -> bool {
        admitted >= Self::TELLING && self.configured.per() <= LONGEST_COUNTED
    }

    /// What one refusal leaves. It may mislead, so it takes three quarters at most, unless enough was
    /// let through to count by: then the count itself is the limit that the server has. A refusal that
    /// was looked for, where the last one came, says nothing new.
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

    /// What got through of a wave that was refused, and still a step below where it was.
    pub(super) fn recount(&mut self, wave: ThrottleBurst, admitted: u64) {
        let most = wave.refused_at.eased().min(self.top());
        let counted = FineRate::units(admitted).min(most);
        if counted > self.level {
            self.level = counted;
            self.place_ceiling(wave.refused_at, admitted);
        }
    }

    /// The ceiling is where the refusal came, unless what was let through can be counted by and is far
    /// below that: then it is there, for nothing between the two was ever let through.
    fn place_ceiling(&mut self, refused_at: FineRate, admitted: u64) {
        let counted = self.is_telling(admitted)
            && self.level == FineRate::units(admitted)
            && self.level.is_far_below(refused_at);
        if let Some(ceiling) = &mut self.ceiling {
            ceiling.at = if counted { self.level } else { refused_at };
        }
    }
}

/// Over a longer span, what stopped us may be another limit with a shorter window: a burst that is cut
/// short says nothing about an hour.
const LONGEST_COUNTED: Duration = SHORTEST_WINDOW;
