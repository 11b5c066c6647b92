//! Which part of the calls that a limit counts pass this door.
//!
//! Where machines share a limit, each sees its own calls only. What the server let through before it refused
//! was more than one of them saw, and a machine that took its own count for all of it would slow everybody
//! down to its part. So the count is reckoned up to all machines. Who has the next start is chance, and one
//! window holds few of them: the most that can well have been is taken, and a limit that really is far lower
//! takes some refusals more to be found.

use std::time::Duration;

use outflow_core::Nanos;

/// So many of so many.
///
/// ```
/// use outflow::Part;
///
/// assert_eq!(Part::new(50, 50), Part::ALL);
/// assert_eq!(Part::new(7, 0), Part::ALL);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FleetShare {
    ours: u64,
    all: u64,
}

impl FleetShare {
    /// Nobody else uses these limits.
    pub const ALL: Self = Self { ours: 1, all: 1 };

    /// Of `all` calls `ours` passed this door. Without any call nothing is known of others.
    pub const fn new(ours: u64, all: u64) -> Self {
        if all == 0 || ours >= all {
            return Self::ALL;
        }
        // Whoever had none yet is about to have its first.
        let ours = if ours == 0 { 1 } else { ours };
        Self { ours, all }
    }

    /// The most that all doors together can well have seen if so much was seen at this one: two standard
    /// deviations more than that, which chance passes in two of a hundred.
    pub(super) fn at_most(self, units: u64) -> u64 {
        if self.ours == self.all {
            return units;
        }
        let likely = units.saturating_add(2 * units.isqrt()).saturating_add(1);
        let all = u128::from(likely) * u128::from(self.all) / u128::from(self.ours);
        u64::try_from(all).unwrap_or(u64::MAX)
    }
}

/// A part as it was told last. Machines come and go, so it is believed for a while only: after that, who calls
/// through this door is taken to be alone again.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShareEstimate {
    part: FleetShare,
    told: Nanos,
}

impl ShareEstimate {
    /// Nobody has told anything.
    pub(super) const NOTHING: Self = Self::new(FleetShare::ALL, Nanos::ZERO);

    pub(super) const fn new(part: FleetShare, now: Nanos) -> Self {
        Self { part, told: now }
    }

    /// What holds at this instant.
    pub(super) fn current(self, now: Nanos) -> FleetShare {
        if now.since(self.told) > BELIEVED {
            return FleetShare::ALL;
        }
        self.part
    }
}

/// Whoever tells does so with every claim, and reckons over ten seconds.
const BELIEVED: Duration = Duration::from_secs(10);

impl PartialEq for FleetShare {
    fn eq(&self, other: &Self) -> bool {
        u128::from(self.ours) * u128::from(other.all)
            == u128::from(other.ours) * u128::from(self.all)
    }
}

impl Eq for FleetShare {}

#[cfg(test)]
mod tests {
    use super::*;

    // Ten of thirty: seven or fourteen in one window are chance, and no reason to believe in 21.
    #[test]
    fn what_one_of_three_saw_is_reckoned_up_to_all() {
        let third = FleetShare::new(100, 300);
        assert_eq!(third.at_most(0), 3);
        assert!(third.at_most(7) >= 30, "{}", third.at_most(7));
        assert!(third.at_most(1) < 15, "{}", third.at_most(1));
        assert_eq!(third.at_most(u64::MAX), u64::MAX);
    }

    #[test]
    fn what_nobody_repeats_is_not_believed_for_long() {
        let seen = ShareEstimate::new(FleetShare::new(1, 3), Nanos::from_secs(5));
        assert_eq!(seen.current(Nanos::from_secs(15)), FleetShare::new(1, 3));
        assert_eq!(seen.current(Nanos::from_secs(16)), FleetShare::ALL);
    }

    #[test]
    fn who_is_alone_counts_what_it_saw() {
        for alone in [
            FleetShare::ALL,
            FleetShare::new(9, 9),
            FleetShare::new(0, 0),
        ] {
            assert_eq!(alone.at_most(7), 7);
        }
    }
}
