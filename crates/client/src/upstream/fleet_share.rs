//! This process's share of the calls that count against a limit.
//!
//! Machines that share a limit see only their own calls. The API let more calls pass before it throttled
//! than one of them saw; a machine that took its own count for the total would slow all of them down.
//! The count is therefore scaled up to the fleet. Starts are spread by chance and a window holds few, so
//! the largest likely total is used. A limit that is far lower takes a few more throttle responses to be
//! found.

use std::time::Duration;

use outflow_core::Nanos;

/// Share of this process in all calls of a fleet.
#[derive(Clone, Copy, Debug)]
pub(super) struct FleetShare {
    ours: u64,
    all: u64,
}

impl FleetShare {
    /// No other process uses these limits.
    pub(super) const ALL: Self = Self { ours: 1, all: 1 };

    /// Creates the share of `ours` in `all` calls. Without any calls the share is [`ALL`](Self::ALL).
    pub(super) const fn new(ours: u64, all: u64) -> Self {
        if all == 0 || ours >= all {
            return Self::ALL;
        }
        // A process without calls is about to have its first.
        let ours = if ours == 0 { 1 } else { ours };
        Self { ours, all }
    }

    /// Returns the largest likely count of the fleet for a local count: two standard deviations more,
    /// which chance exceeds in two of a hundred windows.
    pub(super) fn scale_up(self, units: u64) -> u64 {
        if self.ours == self.all {
            return units;
        }
        let likely = units.saturating_add(2 * units.isqrt()).saturating_add(1);
        let all = u128::from(likely) * u128::from(self.all) / u128::from(self.ours);
        u64::try_from(all).unwrap_or(u64::MAX)
    }
}

/// The last share that the account showed. Machines come and go, so it expires, and the process counts as alone
/// again.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShareEstimate {
    share: FleetShare,
    reported_at: Nanos,
}

impl ShareEstimate {
    /// No report yet.
    pub(super) const NOTHING: Self = Self::new(FleetShare::ALL, Nanos::ZERO);

    pub(super) const fn new(share: FleetShare, now: Nanos) -> Self {
        Self {
            share,
            reported_at: now,
        }
    }

    /// Returns the share at this instant.
    pub(super) fn current(self, now: Nanos) -> FleetShare {
        if now.since(self.reported_at) > VALID_FOR {
            return FleetShare::ALL;
        }
        self.share
    }
}

/// A process with calls renews its lease several times in this time.
const VALID_FOR: Duration = Duration::from_secs(10);

impl PartialEq for FleetShare {
    fn eq(&self, other: &Self) -> bool {
        u128::from(self.ours) * u128::from(other.all) == u128::from(other.ours) * u128::from(self.all)
    }
}

impl Eq for FleetShare {}

#[cfg(test)]
mod tests {
    use super::*;

    // Ten of thirty: seven or fourteen in one window are chance, and no evidence of 21 in all.
    #[test]
    fn the_count_of_one_in_three_is_scaled_up_to_the_fleet() {
        let third = FleetShare::new(100, 300);
        assert_eq!(third.scale_up(0), 3);
        assert!(third.scale_up(7) >= 30, "{}", third.scale_up(7));
        assert!(third.scale_up(1) < 15, "{}", third.scale_up(1));
        assert_eq!(third.scale_up(u64::MAX), u64::MAX);
    }

    #[test]
    fn a_share_that_is_not_repeated_expires() {
        let seen = ShareEstimate::new(FleetShare::new(1, 3), Nanos::from_secs(5));
        assert_eq!(seen.current(Nanos::from_secs(15)), FleetShare::new(1, 3));
        assert_eq!(seen.current(Nanos::from_secs(16)), FleetShare::ALL);
    }

    #[test]
    fn a_process_alone_counts_its_own_calls() {
        for alone in [FleetShare::ALL, FleetShare::new(9, 9), FleetShare::new(0, 0)] {
            assert_eq!(alone.scale_up(7), 7);
        }
    }
}
