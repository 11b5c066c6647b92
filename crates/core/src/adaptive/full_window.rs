//! Throttles of a long window that stays full.
//!
//! A window of minutes that is full stays full for a while: after a first step of a few per cent,
//! calls are throttled and none passes. An outage looks the same at first. So the rate falls to the
//! counted units only after several throttles without a success, not below half, and once in a
//! window: a burst that a hidden shorter limit cuts must not drive it down.
//!
//! A window that is full lets calls pass as units leave it, and only then. If the API throttles while
//! clearly fewer units are in the window than at the first throttle, or lets more pass, it was not full,
//! and the limit is what it was.

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
    /// The first throttle, until a call passes.
    first: Option<FirstThrottle>,
    /// Time of the last restored rate.
    restored: Option<Nanos>,
}

#[derive(Clone, Copy, Debug)]
struct FirstThrottle {
    /// Units let through before it.
    admitted: u64,
    /// The rate before it.
    rate: FineRate,
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
        first: None,
        restored: None,
    };

    /// Starts to count throttles.
    pub(super) const fn suspect(&mut self, now: Nanos, admitted: u64) {
        self.suspected = Some(Suspicion {
            admitted,
            throttles: 0,
            since: now,
        });
    }

    /// Stores the rate before the first throttle.
    pub(super) const fn begin(&mut self, admitted: u64, rate: FineRate) {
        self.first = Some(FirstThrottle { admitted, rate });
    }

    /// Forgets the throttles: a call has passed.
    pub(super) const fn clear(&mut self) {
        (self.suspected, self.first) = (None, None);
    }

    /// Returns the rate before the first throttle if a later one shows that the window was not full.
    fn refute(&mut self, admitted: u64) -> Option<FineRate> {
        let admitted = FineRate::units(admitted);
        let first = self
            .first
            .take_if(|first| admitted.is_far_below(FineRate::units(first.admitted)))?;
        self.suspected = None;
        Some(first.rate)
    }

    /// Returns the rate before the first throttle if a success shows that the window was not full. A
    /// server with fixed windows shows it at each reset, so that it counts seldom.
    fn refute_by_pass(&mut self, now: Nanos, passed: u64, window: Duration) -> Option<FineRate> {
        let is_recent = self
            .restored
            .is_some_and(|at| now.since(at) < window.saturating_mul(RESTORED_ONCE_IN));
        let first = self.first.filter(|first| passed > first.admitted && !is_recent)?;
        self.restored = Some(now);
        Some(first.rate)
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
            return self.return_to(before);
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

impl AdaptiveLimit {
    /// Applies a success of a call that was sent after the last shrink.
    pub(super) fn passed_again(&mut self, now: Nanos, passed: u64) {
        if self.is_long()
            && let Some(before) = self.full_window.refute_by_pass(now, passed, self.window())
        {
            self.return_to(before);
        }
        self.full_window.clear();
    }

    /// Returns to a rate whose throttle was not about the rate.
    pub(super) fn return_to(&mut self, before: FineRate) -> LimitChange {
        let before = before.min(self.top());
        if before <= self.level {
            return LimitChange::Unmoved;
        }
        (self.upper_bound, self.burst) = (None, None);
        self.rise_to(before);
        LimitChange::Raised
    }
}

/// In windows.
const RESTORED_ONCE_IN: u32 = 10;
/// Throttles that show a full window at once.
const MANY_THROTTLES: u32 = 8;
/// Throttles that show it if they last.
const FEW_THROTTLES: u32 = 3;
const LASTING: Duration = Duration::from_secs(2);
