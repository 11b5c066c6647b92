//! The rate at which a server throttled, and the time during which growth stays below it.
//!
//! A client that finds a limit by being throttled must try again, or it would never notice a raise.
//! Each try costs a throttle. So growth stops below the last throttled rate and rests there for a
//! share of the time for which the bound has stood: a server that was in trouble for minutes is
//! noticed soon, and a wrong limit costs a few throttles an hour.

use core::time::Duration;

use super::SHORTEST_WINDOW;
use super::fine_rate::FineRate;
use crate::Nanos;

/// Rate of a throttle.
#[derive(Clone, Copy, Debug)]
pub(super) struct UpperBound {
    pub(super) at: FineRate,
    /// Growth stays away from the bound before this instant.
    rests_until: Nanos,
    /// First throttle at about this rate.
    since: Nanos,
}

impl UpperBound {
    /// Six throttles an hour at most.
    pub(super) const LONGEST_REST: Duration = Duration::from_mins(10);

    /// Builds a bound from stored state, without a recent throttle.
    pub(super) const fn remembered(at: FineRate, now: Nanos) -> Self {
        Self {
            at,
            rests_until: Nanos::ZERO,
            since: now,
        }
    }

    /// Builds the bound of a throttle at this rate, after an earlier bound that is still known.
    pub(super) fn hit(now: Nanos, at: FineRate, before: Option<Self>, window: Duration) -> Self {
        let same = before.filter(|before| at.is_near(before.at));
        let since = same.map_or(now, |before| before.since);
        let least = Self::shortest_rest(window);
        let rest = (now.since(since) / REST_SHARE).min(Self::LONGEST_REST).max(least);
        Self {
            at,
            rests_until: now.saturating_add(rest),
            since,
        }
    }

    /// Returns the rest below a new bound.
    pub(super) fn shortest_rest(window: Duration) -> Duration {
        let windows = if window > SHORTEST_WINDOW { LONG_REST } else { REST };
        window.max(SHORTEST_WINDOW).saturating_mul(windows)
    }

    /// Returns true if the rest is over.
    pub(super) fn is_rested(&self, now: Nanos) -> bool {
        now >= self.rests_until
    }

    /// Returns true if growth is testing the bound, so that a throttle is expected.
    pub(super) fn is_tried_at(&self, now: Nanos, level: FineRate) -> bool {
        level.is_near(self.at) && self.is_rested(now)
    }
}

/// Shortest rest in windows.
const REST: u32 = 20;
/// Shortest rest in windows longer than a second.
const LONG_REST: u32 = 2;
/// The rest is a tenth of the age of the bound.
const REST_SHARE: u32 = 10;
