//! Tells throttles that a lower rate would avoid from those that it would not.
//!
//! A throttle while the limit is in use is about the rate. One far below the limit comes from another
//! user of the key, a limit of a single resource, or an outage: health judges it. Only several of them,
//! between which few calls pass, show a limit that is configured far too high.
//!
//! A lower rate must help. If the API goes on throttling while clearly fewer calls pass than before,
//! twice in a row, some calls are throttled at any rate: the limit stops falling and grows back.

use core::time::Duration;

use super::fine_rate::FineRate;
use super::throttle_burst::ThrottleCounts;
use super::{AdaptiveLimit, UpperBound};
use crate::Nanos;

/// Earlier throttles, as far as they tell whether the next is about the rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateEvidence {
    /// Throttles far below the limit between which few calls passed.
    far: u32,
    /// Windows with successes since the last of them.
    windows: u32,
    window_start: Nanos,
    /// Units let through before the last shrink, while later ones are compared with them.
    before_shrink: Option<u64>,
    /// Shrinks in a row that did not help.
    vain: u32,
    /// Throttles are not about the rate before this instant.
    doubted_until: Nanos,
    doubted_for: Duration,
}

impl RateEvidence {
    pub(super) const NONE: Self = Self {
        far: 0,
        windows: 0,
        window_start: Nanos::ZERO,
        before_shrink: None,
        vain: 0,
        doubted_until: Nanos::ZERO,
        doubted_for: Duration::ZERO,
    };

    /// Counts the windows with successes. A wait that the server asked for has none.
    pub(super) fn record_pass(&mut self, now: Nanos, window: Duration) {
        if now.since(self.window_start) >= window {
            self.windows = self.windows.saturating_add(1);
            self.window_start = now;
        }
    }

    /// Counts a throttle far below the limit. Returns true if it is one of several.
    fn is_repeated(&mut self, now: Nanos) -> bool {
        let before = if self.windows > FAR_WINDOWS { 0 } else { self.far };
        self.far = before.saturating_add(1);
        (self.windows, self.window_start) = (0, now);
        self.far >= FAR_THROTTLES
    }

    /// Compares the units let through with those before the last shrink. Returns true once shrinks
    /// do not help.
    fn is_vain(&mut self, admitted: u64) -> bool {
        let before = self.before_shrink.replace(admitted).map(FineRate::units);
        let fewer = before.is_some_and(|before| FineRate::units(admitted).is_far_below(before));
        self.vain = if fewer { self.vain.saturating_add(1) } else { 0 };
        self.vain >= VAIN_SHRINKS
    }
}

impl AdaptiveLimit {
    /// Returns true if a lower rate would have avoided the throttle. A long window is lowered once in
    /// a window at most.
    pub(super) fn is_about_rate(&mut self, now: Nanos, counts: ThrottleCounts) -> bool {
        let recently = self.shrunk.is_some_and(|shrunk| now.since(shrunk) < self.window());
        if self.is_long() {
            return self.is_in_use(counts.used) && !recently;
        }
        if now < self.rate_evidence.doubted_until {
            return false;
        }
        let is_far = !self.is_in_use(counts.used);
        if is_far && !(self.is_countable(counts.admitted) && self.rate_evidence.is_repeated(now)) {
            return false;
        }
        let is_new = self
            .shrunk
            .is_none_or(|shrunk| now.since(shrunk) > self.window() * COMPARED);
        if is_new {
            (self.rate_evidence.before_shrink, self.rate_evidence.vain) = (None, 0);
        }
        if self.rate_evidence.is_vain(counts.admitted) {
            self.doubt(now);
            return false;
        }
        true
    }

    /// Returns true if at least half of the limit was used, and more than one call.
    fn is_in_use(&self, used: u64) -> bool {
        let two = FineRate::units(2);
        FineRate::units(used) >= self.level.halved(two).max(two)
    }

    /// Leaves throttles to health for a while, so that the limit grows back past its bound. Each doubt
    /// that follows closely lasts twice as long.
    fn doubt(&mut self, now: Nanos) {
        let rest = UpperBound::shortest_rest(self.configured.per());
        let RateEvidence {
            doubted_until,
            doubted_for,
            ..
        } = self.rate_evidence;
        let is_close = now.since(doubted_until) < rest;
        let twice = doubted_for.saturating_mul(2).min(UpperBound::LONGEST_REST);
        let span = if is_close { twice.max(rest) } else { rest };
        self.rate_evidence = RateEvidence {
            doubted_until: now.saturating_add(span),
            doubted_for: span,
            ..RateEvidence::NONE
        };
        (self.upper_bound, self.burst) = (None, None);
    }
}

/// One is chance, and two may be the same burst.
const FAR_THROTTLES: u32 = 3;
/// Windows with successes between two throttles that belong together: at the limit of the server no
/// more than one passes.
const FAR_WINDOWS: u32 = 3;
/// A token bucket that was full lets through twice its rate once; a second fall is no burst.
const VAIN_SHRINKS: u32 = 2;
/// Shrinks that are further apart, in windows, are not compared: the server may have a new limit.
const COMPARED: u32 = 5;
