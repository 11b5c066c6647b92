//! Throttles of a long window that stays full.
//!
//! A window of minutes that is full stays full for a while: after a first step of a few per cent,
//! calls are throttled and none passes. An outage looks the same at first. So the rate falls to the
//! counted units only after several throttles without a success, not below half, and once in a
//! window: a burst that a hidden shorter limit cuts must not drive it down.
//!
//! A window that is full lets calls pass as units leave it. If the API throttles while clearly fewer
//! units are in the window than at the first step, it was not full, and the limit is what it was.

use core::time::Duration;

use super::fine_rate::FineRate;
use super::upper_bound::UpperBound;
use super::{AdaptiveLimit, LimitChange};
use crate::Nanos;

/// Throttles since the window may be full.
#[derive(Clone, Copy, Debug)]
pub(super) struct FullWindow {
    suspected: Option<Suspicion>,
    /// Time of the last step that such throttles caused.
    lowered: Option<Nanos>,
    /// The first step, until a call passes.
    first_step: Option<FirstStep>,
}

#[derive(Clone, Copy, Debug)]
struct FirstStep {
    /// Units let through before it.
    admitted: u64,
    /// The rate before it.
    from: FineRate,
}

#[derive(Clone, Copy, Debug)]
struct Suspicion {
    /// Units let through before the first throttle.
    admitted: u64,
    throttles: u32,
    since: Nanos,
}

impl FullWindow {
    pub(super) const NONE: Self = Self {
        suspected: None,
        lowered: None,
        first_step: None,
    };

    /// Starts to count throttles.
    pub(super) const fn suspect(&mut self, now: Nanos, admitted: u64) {
        self.suspected = Some(Suspicion {
            admitted,
            throttles: 0,
            since: now,
        });
    }

    /// Stores the rate before the first step.
    pub(super) const fn begin(&mut self, admitted: u64, from: FineRate) {
        self.first_step = Some(FirstStep { admitted, from });
    }

    /// Forgets the throttles: a call has passed.
    pub(super) const fn clear(&mut self) {
        (self.suspected, self.first_step) = (None, None);
    }

    /// Returns the rate before the first step if a throttle shows that the window was not full.
    fn refute(&mut self, admitted: u64) -> Option<FineRate> {
        let admitted = FineRate::units(admitted);
        let step = self
            .first_step
            .take_if(|step| admitted.is_far_below(FineRate::units(step.admitted)))?;
        self.suspected = None;
        Some(step.from)
    }

    /// Counts a throttle. Returns the units let through before, once the window is surely full.
    fn count(&mut self, now: Nanos, window: Duration) -> Option<u64> {
        let suspicion = self.suspected.as_mut()?;
        suspicion.throttles = suspicion.throttles.saturating_add(1);
        let lasts = suspicion.throttles >= FEW_THROTTLES && now.since(suspicion.since) >= LASTING;
        let is_full = suspicion.throttles >= MANY_THROTTLES || lasts;
        let recently = self.lowered.is_some_and(|at| now.since(at) < window);
        if !is_full || recently {
            return None;
        }
        self.lowered = Some(now);
        self.suspected.take().map(|suspicion| suspicion.admitted)
    }
}

impl AdaptiveLimit {
    /// Applies a throttle that comes while nothing passes.
    pub(super) fn throttled_again(&mut self, now: Nanos, admitted: u64) -> LimitChange {
        if !self.is_long() {
            return LimitChange::Unmoved;
        }
        if let Some(before) = self.full_window.refute(admitted) {
            (self.burst, self.upper_bound) = (None, None);
            self.rise_to(before.min(self.top()).max(self.level));
            return LimitChange::Raised;
        }
        let Some(admitted) = self.full_window.count(now, self.window()) else {
            return LimitChange::Unmoved;
        };
        let (admitted, before) = (FineRate::units(admitted), self.level);
        let half = before.halved(self.floor());
        let to = admitted.max(half);
        if to >= before {
            return LimitChange::Unmoved;
        }
        let at = if admitted >= half { to.plus_unit() } else { before };
        (self.burst, self.clean_since) = (None, now);
        self.lower(now, to);
        self.upper_bound = Some(UpperBound::hit(now, at, None, self.configured.per()));
        LimitChange::FullWindow
    }
}

/// Throttles that show a full window at once.
const MANY_THROTTLES: u32 = 8;
/// Throttles that show it if they last.
const FEW_THROTTLES: u32 = 3;
const LASTING: Duration = Duration::from_secs(2);
