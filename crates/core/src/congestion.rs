//! Congestion of a tenant, and the wait of a job that found no quota.
//!
//! The wait is an estimate from a count: one base wait, and one second more for each second's worth
//! of waiting jobs. It reserves nothing: a job that returns on time may be deferred again. Callers
//! that can acquire a permit first should do so, and use this formula for levels, estimates and
//! alerts.

mod stats;

use core::time::Duration;

pub use stats::{CongestionSnapshot, CongestionStats, StatsWindow, StillWaiting, ThrottleCounts};

/// Bounds of the wait.
///
/// ```
/// use core::time::Duration;
/// use outflow_core::{CongestionLevel, CongestionRule};
///
/// let rule = CongestionRule::default();
/// let congestion = rule.reading(20, 10);
/// assert_eq!(congestion.backoff, Duration::from_secs(3));
/// assert_eq!(congestion.level, CongestionLevel::Moderate);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CongestionRule {
    base: Duration,
    max: Duration,
}

impl CongestionRule {
    /// Builds a rule with waits from `base` to `max`. Choose the window of the rate limit for the
    /// base: nothing returns sooner. The maximum is the longest acceptable delay; with a low one,
    /// all longer waits end at one instant.
    ///
    /// # Errors
    /// If the maximum is below the base.
    pub const fn new(base: Duration, max: Duration) -> Result<Self, InvalidCongestion> {
        if max.as_nanos() < base.as_nanos() {
            return Err(InvalidCongestion::MaxBelowBase);
        }
        Ok(Self { base, max })
    }

    /// Returns the congestion of a job that enters as the `non_ready`th of its tenant (itself
    /// included). The tenant is served `speed` jobs a second; a speed of 0 counts as 1.
    pub fn reading(&self, non_ready: u64, speed: u64) -> Congestion {
        let backoff = self.uncut(non_ready, speed).min(self.max);
        Congestion {
            backoff,
            non_ready,
            speed: speed.max(1),
            level: CongestionLevel::new(backoff, self.base),
        }
    }

    /// Returns the congestion of every job while congestion control is off: the base wait, with
    /// nothing counted.
    pub const fn off(&self) -> Congestion {
        Congestion {
            backoff: self.base,
            non_ready: 0,
            speed: 0,
            level: CongestionLevel::None,
        }
    }

    /// Returns true if the wait would be longer without the maximum. A rule with equal bounds waits
    /// as configured and cuts nothing off.
    pub fn cuts_off(&self, congestion: &Congestion) -> bool {
        self.base < self.max && self.uncut(congestion.non_ready, congestion.speed) > self.max
    }

    /// Returns the shortest wait.
    pub const fn base(&self) -> Duration {
        self.base
    }

    /// Returns the longest wait.
    pub const fn max(&self) -> Duration {
        self.max
    }

    fn uncut(&self, non_ready: u64, speed: u64) -> Duration {
        let queued = Duration::from_secs(non_ready / speed.max(1));
        self.base.saturating_add(queued)
    }
}

impl Default for CongestionRule {
    fn default() -> Self {
        Self {
            base: DEFAULT_BASE,
            max: DEFAULT_MAX,
        }
    }
}

/// Congestion that one job met.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Congestion {
    /// Recommended wait.
    pub backoff: Duration,
    /// Number of waiting jobs of its tenant, itself included.
    pub non_ready: u64,
    /// Speed used in the formula, in jobs per second.
    pub speed: u64,
    /// Severity of the wait.
    pub level: CongestionLevel,
}

named_enum! {
    /// Size of a wait as a multiple of the base.
    #[derive(PartialOrd, Ord, Default)]
    pub enum CongestionLevel {
        /// No longer than the base.
        #[default]
        None = "NONE",
        /// Below 3 times the base.
        Low = "LOW",
        /// Below 10 times.
        Moderate = "MODERATE",
        /// Below 30 times.
        High = "HIGH",
        /// 30 times and more.
        Critical = "CRITICAL",
    }
}

impl CongestionLevel {
    /// Returns the level of a wait of `backoff` where the shortest is `base`. Without a base there
    /// is no comparison, and no congestion.
    pub const fn new(backoff: Duration, base: Duration) -> Self {
        let (backoff, base) = (backoff.as_nanos(), base.as_nanos());
        if base == 0 || backoff <= base {
            Self::None
        } else if backoff < base * 3 {
            Self::Low
        } else if backoff < base * 10 {
            Self::Moderate
        } else if backoff < base * 30 {
            Self::High
        } else {
            Self::Critical
        }
    }
}

/// Returns the reported speed for each of `active` tenants at `global` jobs per second: an even
/// part, rounded down, at least 1. Scheduling does not use it, since the parts do not add up.
pub const fn rate_limit_speed(global: u64, active: u64) -> u64 {
    let tenants = if active == 0 { 1 } else { active };
    match global / tenants {
        0 => 1,
        speed => speed,
    }
}

/// Estimates the time until the last of `non_ready` jobs is served at `speed` a second, in whole
/// seconds. A speed of 0 counts as 1.
pub const fn estimate_completion(non_ready: u64, speed: u64) -> Duration {
    let speed = if speed == 0 { 1 } else { speed };
    Duration::from_secs(non_ready.div_ceil(speed))
}

/// The window of the default rate limit.
const DEFAULT_BASE: Duration = Duration::from_secs(1);

/// The longest acceptable delay of a typical bulk job.
const DEFAULT_MAX: Duration = Duration::from_mins(2);

error_enum! {
    /// Reason that congestion cannot be computed.
    pub enum InvalidCongestion {
        /// The longest wait is shorter than the shortest.
        MaxBelowBase = "the longest backoff is below the base: raise max_backoff or lower base_backoff",
        /// The interval between snapshots is zero.
        NoInterval = "snapshots need an interval: use at least 1ns",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    // The worked examples of the design: count, speed, wait, and the reported speed.
    #[test]
    fn the_wait_grows_by_a_second_per_second_of_backlog() {
        let rule = CongestionRule::default();
        for (count, speed, wait, reported) in [
            (1, 10, 1_000, 10),
            (9, 10, 1_000, 10),
            (10, 10, 2_000, 10),
            (11, 10, 2_000, 10),
            (20, 10, 3_000, 10),
            (50, 100, 1_000, 100),
            (500, 100, 6_000, 100),
            (10_000, 100, 101_000, 100),
            (5, 0, 6_000, 1),
            (10_000, 1, 120_000, 1),
            (u64::MAX, 0, 120_000, 1),
            (0, u64::MAX, 1_000, u64::MAX),
        ] {
            let congestion = rule.reading(count, speed);
            let seen = (congestion.backoff, congestion.speed, congestion.non_ready);
            assert_eq!(seen, (ms(wait), reported, count), "{count}/{speed}");
        }
    }

    #[test]
    fn two_tenants_halve_the_speed() {
        let rule = CongestionRule::default();
        let sixth = rule.reading(6, rate_limit_speed(10, 2));
        assert_eq!((sixth.backoff, sixth.speed), (ms(2_000), 5));
    }

    #[test]
    fn levels_follow_the_multiple_of_the_base() {
        for (wait, level) in [
            (0, CongestionLevel::None),
            (1_000, CongestionLevel::None),
            (1_001, CongestionLevel::Low),
            (2_000, CongestionLevel::Low),
            (2_999, CongestionLevel::Low),
            (3_000, CongestionLevel::Moderate),
            (9_999, CongestionLevel::Moderate),
            (10_000, CongestionLevel::High),
            (29_999, CongestionLevel::High),
            (30_000, CongestionLevel::Critical),
            (120_000, CongestionLevel::Critical),
        ] {
            assert_eq!(CongestionLevel::new(ms(wait), ms(1_000)), level, "{wait} ms");
        }
        assert_eq!(CongestionLevel::new(ms(5_000), Duration::ZERO), CongestionLevel::None);
        assert_eq!(
            CongestionLevel::new(Duration::MAX, Duration::MAX),
            CongestionLevel::None
        );
    }

    #[test]
    fn the_first_job_meets_no_congestion() {
        let first = CongestionRule::default().reading(1, 10);
        assert_eq!(first.level, CongestionLevel::None);
    }

    #[test]
    fn completion_is_rounded_up_to_whole_seconds() {
        for (count, speed, millis) in [(100, 10, 10_000), (15, 10, 2_000), (5, 0, 5_000), (0, 9, 0)] {
            assert_eq!(estimate_completion(count, speed), ms(millis), "{count}/{speed}");
        }
        assert_eq!(estimate_completion(u64::MAX, 1).as_secs(), u64::MAX);
    }

    // 100 tenants that join 2 at 10,000/s leave 98 for each.
    #[test]
    fn the_reported_speed_is_an_even_part_and_never_zero() {
        for (global, active, speed) in [
            (10_000, 5, 2_000),
            (10_000, 102, 98),
            (10, 3, 3),
            (10, 11, 1),
            (0, 4, 1),
            (7, 0, 7),
        ] {
            assert_eq!(rate_limit_speed(global, active), speed, "{global}/{active}");
        }
    }

    #[test]
    fn with_congestion_control_off_every_job_waits_the_base() {
        let off = CongestionRule::default().off();
        assert_eq!(
            (off.backoff, off.non_ready, off.speed, off.level),
            (ms(1_000), 0, 0, CongestionLevel::None)
        );
    }

    #[test]
    fn a_maximum_below_the_base_cannot_be_built() {
        assert_eq!(
            CongestionRule::new(ms(1_000), ms(999)),
            Err(InvalidCongestion::MaxBelowBase)
        );
        assert!(CongestionRule::new(ms(1_000), ms(1_000)).is_ok());
    }

    #[test]
    fn the_longest_base_saturates() {
        let rule = CongestionRule::new(Duration::MAX, Duration::MAX).expect("valid");
        assert_eq!(rule.reading(u64::MAX, 1).backoff, Duration::MAX);
    }
}
