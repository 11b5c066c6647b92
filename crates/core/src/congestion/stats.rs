//! Past and present congestion of one tenant.
//!
//! Averages are kept as a sum and a count and divided on read: a rounded mean freezes after some
//! thousand jobs. All numbers are reset together, and never while jobs wait, so that no number
//! outlives the jobs it counts.

use alloc::collections::VecDeque;
use core::fmt;
use core::time::Duration;

use super::{Congestion, InvalidCongestion};
use crate::Nanos;

/// Congestion numbers of one tenant.
#[derive(Clone, Debug)]
pub struct CongestionStats {
    window: StatsWindow,
    non_ready: u64,
    speed: u64,
    last_backoff: Duration,
    last_update: Option<Nanos>,
    throttles: ThrottleCounts,
    history: VecDeque<CongestionSnapshot>,
}

impl CongestionStats {
    /// Builds empty statistics.
    pub const fn new(window: StatsWindow) -> Self {
        Self {
            window,
            non_ready: 0,
            speed: 0,
            last_backoff: Duration::ZERO,
            last_update: None,
            throttles: ThrottleCounts::NONE,
            history: VecDeque::new(),
        }
    }

    /// Records a deferred job with its congestion, whose count becomes the tenant's.
    pub const fn entered(&mut self, now: Nanos, congestion: &Congestion) {
        self.non_ready = congestion.non_ready;
        self.speed = congestion.speed;
        self.last_backoff = congestion.backoff;
        self.last_update = Some(now);
    }

    /// Records jobs that wait no longer. Returns the number that still waits, never below zero.
    pub const fn released(&mut self, now: Nanos, jobs: u64) -> u64 {
        self.non_ready = self.non_ready.saturating_sub(jobs);
        self.last_update = Some(now);
        self.non_ready
    }

    /// Records a completed job with its number of deferrals.
    pub const fn completed(&mut self, throttles: u64) {
        self.throttles.record(throttles);
    }

    /// Adds the present to the history, unless the last snapshot is younger than the interval.
    pub fn snapshot(&mut self, now: Nanos) {
        if let Some(last) = self.history.back()
            && now.since(last.at) < self.window.interval
        {
            return;
        }
        if self.history.len() >= self.window.entries {
            self.history.pop_front();
        }
        self.history.push_back(CongestionSnapshot {
            at: now,
            non_ready: self.non_ready,
            speed: self.speed,
            backoff: self.last_backoff,
        });
    }

    /// Returns the last `limit` snapshots, oldest first.
    pub fn history(&self, limit: usize) -> impl ExactSizeIterator<Item = &CongestionSnapshot> {
        let skipped = self.history.len().saturating_sub(limit);
        self.history.range(skipped..)
    }

    /// Resets all numbers.
    ///
    /// # Errors
    /// If jobs still wait: they would return to a tenant without any record of them.
    pub fn reset(&mut self) -> Result<(), StillWaiting> {
        if self.non_ready > 0 {
            return Err(StillWaiting(self.non_ready));
        }
        *self = Self::new(self.window);
        Ok(())
    }

    /// Returns the number of waiting jobs.
    pub const fn non_ready(&self) -> u64 {
        self.non_ready
    }

    /// Returns the last speed used in the formula.
    pub const fn speed(&self) -> u64 {
        self.speed
    }

    /// Returns the last recommended wait.
    pub const fn last_backoff(&self) -> Duration {
        self.last_backoff
    }

    /// Returns the last time at which a job entered or left.
    pub const fn last_update(&self) -> Option<Nanos> {
        self.last_update
    }

    /// Returns the deferrals of completed jobs.
    pub const fn throttles(&self) -> ThrottleCounts {
        self.throttles
    }
}

/// Retention and interval of snapshots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatsWindow {
    interval: Duration,
    entries: usize,
}

impl StatsWindow {
    /// Builds a window with a snapshot every `interval`, kept for `retention`; at least one is
    /// kept.
    ///
    /// # Errors
    /// If the interval is zero.
    pub fn new(retention: Duration, interval: Duration) -> Result<Self, InvalidCongestion> {
        let entries = retention
            .as_nanos()
            .checked_div(interval.as_nanos())
            .ok_or(InvalidCongestion::NoInterval)?;
        Ok(Self {
            interval,
            entries: usize::try_from(entries).unwrap_or(usize::MAX).max(1),
        })
    }

    /// Returns the maximum number of kept snapshots.
    pub const fn entries(&self) -> usize {
        self.entries
    }
}

impl Default for StatsWindow {
    /// One hour, second by second.
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(1),
            entries: 3_600,
        }
    }
}

/// Numbers of a tenant at one instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CongestionSnapshot {
    /// The instant.
    pub at: Nanos,
    /// Number of waiting jobs.
    pub non_ready: u64,
    /// Speed used in the formula.
    pub speed: u64,
    /// Last recommended wait.
    pub backoff: Duration,
}

/// Deferrals of completed jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ThrottleCounts {
    sum: u64,
    jobs: u64,
}

impl ThrottleCounts {
    /// No completed jobs.
    pub const NONE: Self = Self { sum: 0, jobs: 0 };

    /// Builds counts from a number of throttles and of completed jobs.
    pub const fn new(sum: u64, jobs: u64) -> Self {
        Self { sum, jobs }
    }

    /// Records one completed job with its throttles.
    pub const fn record(&mut self, throttles: u64) {
        self.sum = self.sum.saturating_add(throttles);
        self.jobs = self.jobs.saturating_add(1);
    }

    /// Returns the throttles of all completed jobs.
    pub const fn sum(self) -> u64 {
        self.sum
    }

    /// Returns the number of completed jobs.
    pub const fn jobs(self) -> u64 {
        self.jobs
    }

    /// Returns the throttles per completed job, for display; zero before the first.
    #[expect(
        clippy::as_conversions,
        clippy::cast_precision_loss,
        reason = "shown, never compared: 52 bits are plenty"
    )]
    pub fn per_job(self) -> f64 {
        self.sum as f64 / self.jobs.max(1) as f64
    }

    /// Returns true if completed jobs were deferred more than `max` times on average.
    pub fn is_above(self, max: u64) -> bool {
        u128::from(self.sum) > u128::from(self.jobs) * u128::from(max)
    }
}

/// The statistics cannot be reset: this many jobs wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StillWaiting(pub u64);

impl fmt::Display for StillWaiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} jobs still wait: release them first", self.0)
    }
}

impl core::error::Error for StillWaiting {}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::CongestionRule;

    fn stats(retention: u64, interval: u64) -> CongestionStats {
        let window = StatsWindow::new(Duration::from_secs(retention), Duration::from_secs(interval));
        CongestionStats::new(window.expect("valid"))
    }

    // 5,000 jobs at 0 and 10,000 at 4: a mean kept to two digits would stay 0.
    #[test]
    fn the_mean_does_not_freeze() {
        let mut stats = stats(3_600, 1);
        for job in 0..15_000 {
            stats.completed(if job < 5_000 { 0 } else { 4 });
        }
        let mean = stats.throttles().per_job();
        assert!((mean - 40_000.0 / 15_000.0).abs() < 1e-9, "{mean}");
        assert!(stats.throttles().is_above(2));
        assert!(!stats.throttles().is_above(3));
    }

    #[test]
    fn an_empty_mean_is_zero_and_the_sum_saturates() {
        let mut throttles = ThrottleCounts::NONE;
        assert!(throttles.per_job().abs() < f64::EPSILON && !throttles.is_above(0));
        throttles.record(u64::MAX);
        throttles.record(u64::MAX);
        assert_eq!((throttles.sum(), throttles.jobs()), (u64::MAX, 2));
    }

    // Ten seconds, one snapshot every two: five are kept, and none is taken in between.
    #[test]
    fn history_is_bounded_and_oldest_first() {
        let mut stats = stats(10, 2);
        for second in 0..=20 {
            stats.entered(Nanos::from_secs(second), &CongestionRule::default().reading(second, 1));
            stats.snapshot(Nanos::from_secs(second));
        }
        let seconds = |limit| {
            let snapshots = stats.history(limit);
            snapshots.map(|s| s.non_ready).collect::<Vec<_>>()
        };
        assert_eq!(seconds(100), [12, 14, 16, 18, 20]);
        assert_eq!(seconds(2), [18, 20]);
        assert_eq!(seconds(0), []);
    }

    #[test]
    fn at_least_one_snapshot_is_kept() {
        let window = StatsWindow::new(Duration::ZERO, Duration::from_secs(1)).expect("valid");
        assert_eq!(window.entries(), 1);
        assert_eq!(StatsWindow::default().entries(), 3_600);
        assert_eq!(
            StatsWindow::new(Duration::ZERO, Duration::ZERO),
            Err(InvalidCongestion::NoInterval)
        );
    }

    #[test]
    fn the_last_update_is_the_last_entry_or_release() {
        let mut stats = stats(3_600, 1);
        assert_eq!(stats.last_update(), None);
        let [came, went] = [7, 9].map(Nanos::from_secs);
        stats.entered(came, &CongestionRule::default().reading(5, 1));
        assert_eq!(stats.last_update(), Some(came));
        stats.released(went, 1);
        stats.snapshot(Nanos::from_secs(11));
        assert_eq!(stats.last_update(), Some(went));
    }

    #[test]
    fn releases_never_go_below_zero_and_block_a_reset() {
        let mut stats = stats(3_600, 1);
        let now = Nanos::from_secs(7);
        stats.entered(now, &CongestionRule::default().reading(5, 1));
        stats.completed(3);
        stats.snapshot(now);
        assert_eq!(stats.reset(), Err(StillWaiting(5)));
        assert_eq!((stats.released(now, 2), stats.released(now, 9)), (3, 0));
        assert_eq!(stats.reset(), Ok(()));
        assert_eq!(stats.history(9).len(), 0);
        assert_eq!(
            (stats.last_update(), stats.throttles(), stats.last_backoff()),
            (None, ThrottleCounts::NONE, Duration::ZERO)
        );
    }
}
