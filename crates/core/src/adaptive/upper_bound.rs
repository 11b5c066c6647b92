//! Where a server refused, and how long nothing is tried there.
//!
//! Whoever finds a limit by being refused has to try again, or would never see that it was raised. Each
//! try costs a refusal and, where the server asks for a wait, about a window in which nobody goes. So
//! growth ends below the place of the last refusal and rests there first, and each refusal at the same
//! place doubles the rest. Growing on as before would be refused every few windows for ever.

use core::time::Duration;

use super::fine_rate::FineRate;
use crate::Nanos;

/// The place of a refusal.
#[derive(Clone, Copy, Debug)]
pub(super) struct UpperBound {
    pub(super) at: FineRate,
    /// Nothing is tried near it before this instant.
    rests_until: Nanos,
    /// How often it was found at about the same place before.
    found: u32,
}

impl UpperBound {
    /// One that is only remembered: nobody was refused there just now.
    pub(super) const fn remembered(at: FineRate) -> Self {
        Self {
            at,
            rests_until: Nanos::ZERO,
            found: 0,
        }
    }

    /// A refusal at this level, after another that is still known.
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

    /// Whether this level is too near to it to be raised now.
    pub(super) fn holds(&self, now: Nanos, level: FineRate) -> bool {
        level.is_near(self.at) && now < self.rests_until
    }

    /// Whether it is being tried again, so that a refusal has to be expected.
    pub(super) fn is_tried_at(&self, now: Nanos, level: FineRate) -> bool {
        level.is_near(self.at) && now >= self.rests_until
    }
}

/// In windows. With the few careful steps after it one try in 25 windows: a refusal costs one of them
/// where the server asks for a wait, and a quarter more until everybody is let back, so a twentieth of
/// the time is spent on trying.
const REST: u32 = 20;
/// Up to 80 windows: a server that healed is noticed a good minute later where it counts by the second.
const DOUBLINGS: u32 = 2;
/// Ten windows of a minute; a window of an hour is a rest of its own.
const LONGEST_REST: Duration = Duration::from_mins(10);
