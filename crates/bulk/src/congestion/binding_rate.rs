//! The rate at which a tenant's jobs start while it waits.
//!
//! The least of its own limit, its share of the API's limits and its share of the global rate. A rate that no limit
//! of the tenant reaches would promise seconds where minutes follow. Shares are equal parts: the store does not know
//! who else leaves a part unused, and weights are relative to the tenants that wait.

use std::time::Duration;

use outflow::core::{Congestion, CongestionRule, rate_limit_speed};
use outflow_core::{CountBy, Rate};

use crate::WorkAmount;

/// Rate of a tenant's jobs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct BindingRate {
    /// Millionths of a job per second, at least one.
    millionths: u128,
}

impl BindingRate {
    /// Returns the share of the global rate: whole jobs per second, at least one.
    pub(crate) fn of_global(rate: u64, active: u64) -> Self {
        Self::new(u128::from(rate_limit_speed(rate, active)) * MILLION)
    }

    /// Returns the equal part of a limit for each of these tenants; none if such jobs use no unit of it. The amount
    /// gives the mean cost of a job.
    pub(crate) fn of_limit(rate: Rate, measure: CountBy, amount: WorkAmount, tenants: u64) -> Option<Self> {
        let units = measure.unit_cost().total_units(amount.jobs, amount.units);
        let jobs = u128::from(rate.quantity())
            .saturating_mul(MILLION * NANOS)
            .saturating_mul(u128::from(amount.jobs))
            .checked_div(u128::from(units))?;
        let part = jobs / rate.per().as_nanos().max(1) / u128::from(tenants.max(1));
        Some(Self::new(part))
    }

    fn new(millionths: u128) -> Self {
        Self {
            millionths: millionths.max(1),
        }
    }

    /// Returns the sum of two rates.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self::new(self.millionths.saturating_add(other.millionths))
    }

    /// Returns the reported speed: whole jobs per second, at least one.
    pub(crate) fn speed(self) -> u64 {
        u64::try_from(self.millionths / MILLION).unwrap_or(u64::MAX).max(1)
    }

    /// Returns the time of this many jobs.
    pub(crate) fn time_of(self, jobs: u64) -> Duration {
        let nanos = (u128::from(jobs) * MILLION).saturating_mul(NANOS) / self.millionths;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Returns the number of jobs in this time.
    pub(crate) fn jobs_in(self, time: Duration) -> u64 {
        let jobs = self.millionths.saturating_mul(time.as_nanos()) / (MILLION * NANOS);
        u64::try_from(jobs).unwrap_or(u64::MAX)
    }

    /// Returns the congestion of this many waiting jobs. At less than one job per second, as many seconds pass for
    /// each job as it takes.
    pub(crate) fn congestion(self, rule: &CongestionRule, jobs: u64) -> Congestion {
        if self.millionths >= MILLION {
            return rule.reading(jobs, self.speed());
        }
        let seconds = u128::from(jobs) * MILLION / self.millionths;
        Congestion {
            non_ready: jobs,
            ..rule.reading(u64::try_from(seconds).unwrap_or(u64::MAX), 1)
        }
    }

    /// Returns the number of refusals that a fixed wait would give a job at this place of the queue.
    pub(crate) fn refusals(self, rule: &CongestionRule, place: u64) -> u64 {
        let uncut = CongestionRule::new(rule.base(), Duration::MAX).unwrap_or_default();
        let wait = self.congestion(&uncut, place).backoff.saturating_sub(rule.base());
        wait.as_secs()
    }
}

const MILLION: u128 = 1_000_000;

/// Nanoseconds of a second.
const NANOS: u128 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use outflow::core::CongestionLevel;

    use super::*;

    const ONE: WorkAmount = WorkAmount { jobs: 1, units: 1 };

    fn part(rate: &str, amount: WorkAmount, tenants: u64) -> BindingRate {
        let rate = rate.parse().expect("a rate");
        BindingRate::of_limit(rate, CountBy::Cost, amount, tenants).expect("it counts")
    }

    // The row of a user: 4,897 jobs at ten a second are 490 seconds and critical, whatever the global rate is.
    #[test]
    fn the_least_rate_decides_speed_and_level() {
        let rate = BindingRate::of_global(10_000, 1).min(part("10/s", ONE, 1));
        assert_eq!((rate.speed(), rate.time_of(4_897).as_millis()), (10, 489_700));
        assert_eq!(rate.jobs_in(Duration::from_secs(490)), 4_900);
        let met = rate.congestion(&CongestionRule::default(), 4_897);
        assert_eq!(met.level, CongestionLevel::Critical);
    }

    // Three tenants share ten a second: 3.33 each, reported as 3. At five a minute 15 jobs take three minutes, and
    // 30,000 tokens a minute are 15 jobs of 2,000.
    #[test]
    fn a_share_is_exact_in_time_and_whole_in_the_formula() {
        let third = part("10/s", ONE, 3);
        assert_eq!((third.speed(), third.time_of(100).as_secs()), (3, 30));
        let slow = part("5/min", ONE, 1);
        assert_eq!((slow.speed(), slow.time_of(15).as_secs()), (1, 180));
        let met = slow.congestion(&CongestionRule::default(), 15);
        assert_eq!((met.backoff.as_secs(), met.non_ready, met.speed), (120, 15, 1));
        let tokens = WorkAmount { jobs: 2, units: 4_000 };
        assert_eq!(part("30000/min", tokens, 1), part("15/min", ONE, 1));
    }

    // Each place of a thousand at a hundred a second: 4,510 in all, the last alone ten.
    #[test]
    fn a_fixed_wait_refuses_a_job_once_per_second_ahead_of_it() {
        let (rate, rule) = (part("100/s", ONE, 1), CongestionRule::default());
        let all: u64 = (1..=1_000).map(|place| rate.refusals(&rule, place)).sum();
        assert_eq!((all, rate.refusals(&rule, 1_000)), (4_510, 10));
        assert_eq!(rate.refusals(&rule, 1_000_000), 10_000, "no maximum cuts it");
    }
}
