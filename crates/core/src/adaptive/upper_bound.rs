//! The rate at which a server throttled, and the time during which growth stays below it.
//!
//! A client that finds a limit by being throttled must try again, or it would never notice a raise.
//! Each try costs a throttle and, where the server asks for a wait, about one window without calls.
//! So growth stops below the last throttled rate and rests there; each further throttle at that
//! rate doubles the rest. Growing at a steady pace would be throttled every few windows for ever.

use core::time::Duration;

use super::fine_rate::FineRate;
use crate::Nanos;

/// Rate of a throttle.
#[derive(Clone, Copy, Debug)]
pub(super) struct UpperBound {
    pub(super) at: FineRate,
    /// Growth stays away from the bound before this instant.
    rests_until: Nanos,
    /// Number of earlier throttles at about this rate.
    found: u32,
}

impl UpperBound {
    /// Builds a bound from stored state, without a recent throttle.
    pub(super) const fn remembered(at: FineRate) -> Self {
        Self {
            at,
            rests_until: Nanos::ZERO,
            found: 0,
        }
    }

    /// Builds the bound of a throttle at this rate, after an earlier bound that is still known.
    pub(super) fn hit(now: Nanos, at: FineRate, before: Option<Self>, window: Duration) -> Self {
        let same = before.filter(|before| at.is_near(before.at));
        let found = same.map_or(0, |before| before.found.saturating_add(1));
        let windows = REST << found.min(DOUBLINGS);
        let rest = window.saturating_mul(windows).min(LONGEST_REST);
        Self {
            at,
            rests_until: now.saturating_add(rest),
            found,
        }
    }

    /// Returns true if the rate is too near to the bound to grow now.
    pub(super) fn holds(&self, now: Nanos, level: FineRate) -> bool {
        level.is_near(self.at) && now < self.rests_until
    }

    /// Returns true if growth is testing the bound, so that a throttle is expected.
    pub(super) fn is_tried_at(&self, now: Nanos, level: FineRate) -> bool {
        level.is_near(self.at) && now >= self.rests_until
    }
}

/// In windows. With the few careful steps after it, growth tests the bound once in 25 windows.
/// Where the server asks for a wait, a throttle costs one window and a quarter of recovery: a
/// twentieth of the time.
const REST: u32 = 20;
/// Up to 80 windows: with limits per second, the client notices a recovered server within two
/// minutes.
const DOUBLINGS: u32 = 2;
/// Ten windows of a minute; a window of an hour is a rest by itself.
const LONGEST_REST: Duration = Duration::from_mins(10);
