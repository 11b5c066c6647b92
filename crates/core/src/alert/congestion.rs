//! The four alerts about bulk work.
//!
//! Each watches measurements, not configuration: a lasting level, repeated deferrals, a growing
//! backlog, waits that hit their cap. They evaluate whole minutes, as the shipped Prometheus rules
//! do, so both report equally. A share or a mean of fewer than twenty samples is chance and raises
//! nothing.

use alloc::collections::VecDeque;
use core::time::Duration;

use super::{Alert, AlertChange, Observation};
use crate::{Congestion, CongestionLevel, CongestionRule, CongestionStats, Nanos, Share, ThrottleCounts};

named_enum! {
    /// Problem with a tenant's bulk work.
    #[derive(PartialOrd, Ord)]
    pub enum CongestionAlert {
        /// The level has been critical for five minutes.
        Critical = "congestion_critical",
        /// Completed jobs, twenty or more, were deferred more than five times on average.
        Throttled = "congestion_throttled",
        /// More jobs wait than a minute before, five minutes in a row, and a fifth more in all.
        Growing = "congestion_growing",
        /// A fifth or more of the waits of ten minutes, twenty or more, were cut off at the maximum.
        Capped = "congestion_capped",
    }
}

impl CongestionAlert {
    /// Returns the severity.
    pub const fn severity(self) -> AlertSeverity {
        match self {
            Self::Critical => AlertSeverity::Critical,
            Self::Throttled | Self::Growing | Self::Capped => AlertSeverity::Warning,
        }
    }

    /// Returns the operator's next step.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::Critical => {
                "jobs wait 30 times the base backoff or longer: compare the global rate with what \
                 the API really grants, and see whether the workers are alive"
            }
            Self::Throttled => {
                "jobs are refused again and again before they pass: review the configured rate \
                 limits, or let the scheduler take permits first"
            }
            Self::Growing => {
                "work comes in faster than it is done: add workers, ask for a higher rate, or \
                 submit less"
            }
            Self::Capped => {
                "the longest backoff is too short for this backlog, so many jobs return at once: \
                 raise max_backoff, or remove what holds them up"
            }
        }
    }

    const fn hold(self) -> Duration {
        match self {
            Self::Critical => Duration::from_mins(5),
            // These evaluate several minutes by themselves.
            Self::Throttled | Self::Growing | Self::Capped => Duration::ZERO,
        }
    }
}

/// Severity of an alert.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AlertSeverity {
    /// Look at it today.
    Warning,
    /// Look at it now.
    Critical,
}

/// Watches one tenant for all four alerts.
#[derive(Clone, Debug)]
pub struct CongestionWatch {
    alerts: [Alert; 4],
    backlog: BacklogHistory,
    waits: WaitHistory,
}

impl CongestionWatch {
    /// Builds a watch without history.
    pub fn new() -> Self {
        Self {
            alerts: CongestionAlert::ALL.map(|alert| Alert::new(alert.hold())),
            backlog: BacklogHistory::default(),
            waits: WaitHistory::default(),
        }
    }

    /// Records the wait of a deferred job.
    pub fn waited(&mut self, now: Nanos, congestion: &Congestion, rule: &CongestionRule) {
        self.waits.count(minute(now), rule.cuts_off(congestion));
    }

    /// Records the tenant's state and returns the changes to report. Call it at least once a
    /// minute: a minute without observation ends a rise.
    pub fn observe(
        &mut self,
        now: Nanos,
        level: CongestionLevel,
        stats: &CongestionStats,
    ) -> impl Iterator<Item = (CongestionAlert, AlertChange)> + use<> {
        self.observe_counts(now, level, stats.non_ready(), stats.throttles())
    }

    /// Records counts that the caller stores elsewhere: the number of waiting jobs, and how often
    /// completed jobs had been deferred.
    pub fn observe_counts(
        &mut self,
        now: Nanos,
        level: CongestionLevel,
        non_ready: u64,
        throttles: ThrottleCounts,
    ) -> impl Iterator<Item = (CongestionAlert, AlertChange)> + use<> {
        self.backlog.sample(minute(now), non_ready);
        let observations = [
            observe_level(level),
            observe_throttles(throttles),
            self.backlog.observation(),
            self.waits.observation(minute(now)),
        ];
        let mut changes = [None; 4];
        let alerts = self.alerts.iter_mut().zip(CongestionAlert::ALL);
        for ((change, (alert, what)), observation) in changes.iter_mut().zip(alerts).zip(observations) {
            *change = alert.observe(now, observation).map(|changes| (what, changes));
        }
        changes.into_iter().flatten()
    }

    /// Returns the alerts that were raised and have not been cleared.
    pub fn raised(&self) -> impl Iterator<Item = CongestionAlert> {
        let alerts = self.alerts.iter().zip(CongestionAlert::ALL);
        alerts.filter(|(alert, _)| alert.is_raised()).map(|(_, what)| what)
    }
}

impl Default for CongestionWatch {
    fn default() -> Self {
        Self::new()
    }
}

fn observe_level(level: CongestionLevel) -> Observation {
    match level {
        CongestionLevel::Critical => Observation::Over,
        CongestionLevel::High => Observation::Between,
        CongestionLevel::None | CongestionLevel::Low | CongestionLevel::Moderate => Observation::Under,
    }
}

fn observe_throttles(throttles: ThrottleCounts) -> Observation {
    if throttles.jobs() >= FEWEST && throttles.is_above(MAX_THROTTLES) {
        Observation::Over
    } else if throttles.is_above(MAX_THROTTLES - 1) {
        Observation::Between
    } else {
        Observation::Under
    }
}

/// Number of waiting jobs at the start of each recent minute.
#[derive(Clone, Debug, Default)]
struct BacklogHistory {
    samples: VecDeque<u64>,
    minute: u64,
}

impl BacklogHistory {
    fn sample(&mut self, minute: u64, non_ready: u64) {
        if !self.samples.is_empty() && minute <= self.minute {
            return;
        }
        if minute != self.minute.saturating_add(1) {
            self.samples.clear();
        }
        if self.samples.len() > RISING_MINUTES {
            self.samples.pop_front();
        }
        self.samples.push_back(non_ready);
        self.minute = minute;
    }

    fn observation(&self) -> Observation {
        let steps = self.samples.iter().zip(self.samples.iter().skip(1));
        let rising = steps.rev().take_while(|(before, after)| after > before);
        match rising.count() {
            0 => Observation::Under,
            RISING_MINUTES if self.has_grown() => Observation::Over,
            _ => Observation::Between,
        }
    }

    fn has_grown(&self) -> bool {
        let (Some(first), Some(last)) = (self.samples.front(), self.samples.back()) else {
            return false;
        };
        u128::from(*last) * 100 >= u128::from(*first) * (100 + GROWTH_PERCENT)
    }
}

/// Number of waits in each recent minute, and how many were cut off.
#[derive(Clone, Debug, Default)]
struct WaitHistory {
    minutes: VecDeque<WaitMinute>,
}

#[derive(Clone, Copy, Debug)]
struct WaitMinute {
    minute: u64,
    all: u64,
    capped: u64,
}

impl WaitHistory {
    fn count(&mut self, minute: u64, is_capped: bool) {
        self.forget(minute);
        if self.minutes.back().is_none_or(|last| last.minute < minute) {
            self.minutes.push_back(WaitMinute {
                minute,
                all: 0,
                capped: 0,
            });
        }
        if let Some(last) = self.minutes.back_mut() {
            last.all = last.all.saturating_add(1);
            last.capped = last.capped.saturating_add(u64::from(is_capped));
        }
    }

    fn forget(&mut self, minute: u64) {
        while let Some(oldest) = self.minutes.front()
            && oldest.minute.saturating_add(CAPPED_MINUTES) <= minute
        {
            self.minutes.pop_front();
        }
    }

    fn observation(&mut self, minute: u64) -> Observation {
        self.forget(minute);
        let sum = |of: fn(&WaitMinute) -> u64| {
            let each = self.minutes.iter().map(of);
            each.fold(0, u64::saturating_add)
        };
        let (capped, all) = (sum(|m| m.capped), sum(|m| m.all));
        if CAPPED_RECOVERY.is_above(capped, all) {
            Observation::Under
        } else if all < FEWEST || CAPPED.is_above(capped, all) {
            Observation::Between
        } else {
            Observation::Over
        }
    }
}

const fn minute(now: Nanos) -> u64 {
    now.as_nanos() / 60_000_000_000
}

/// With fewer than twenty, a fifth is three or less, which can be one burst.
const FEWEST: u64 = 20;

/// More than five deferrals per job cost more than the job.
const MAX_THROTTLES: u64 = 5;

/// One minute of growth is a burst; five in a row are a trend.
const RISING_MINUTES: usize = 5;

/// Growth that is not noise.
const GROWTH_PERCENT: u128 = 20;

/// Long enough to see waits at the default cap of two minutes several times.
const CAPPED_MINUTES: u64 = 10;

/// One capped wait in five synchronises the retries of a tenant.
const CAPPED: Share = Share::percent(20);

/// Half of that is over.
const CAPPED_RECOVERY: Share = Share::percent(10);

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::StatsWindow;

    /// Watches a tenant whose state each second is set by `at`.
    fn changes(
        seconds: u64,
        mut at: impl FnMut(u64, &mut CongestionStats, &mut CongestionWatch) -> CongestionLevel,
    ) -> Vec<(u64, CongestionAlert, AlertChange)> {
        let mut watch = CongestionWatch::new();
        let mut stats = CongestionStats::new(StatsWindow::default());
        let mut changes = Vec::new();
        for second in 0..=seconds {
            let level = at(second, &mut stats, &mut watch);
            let now = Nanos::from_secs(second);
            let observed = watch.observe(now, level, &stats);
            changes.extend(observed.map(|(alert, change)| (second, alert, change)));
        }
        changes
    }

    fn waiting(stats: &mut CongestionStats, second: u64, jobs: u64) {
        let congestion = CongestionRule::default().reading(jobs, u64::MAX);
        stats.entered(Nanos::from_secs(second), &congestion);
    }

    #[test]
    fn critical_for_five_minutes_fires() {
        let changes = changes(400, |_, _, _| CongestionLevel::Critical);
        assert_eq!(changes, [(300, CongestionAlert::Critical, AlertChange::Raised)]);
    }

    // One second of less than critical in each five minutes.
    #[test]
    fn critical_with_a_break_is_silent() {
        let changes = changes(1_200, |second, _, _| match second % 300 {
            299 => CongestionLevel::High,
            _ => CongestionLevel::Critical,
        });
        assert_eq!(changes, []);
    }

    #[test]
    fn more_than_five_throttles_per_job_fire_and_end_at_four() {
        let changes = changes(60, |second, stats, _| {
            stats.completed(if second < 30 { 6 } else { 0 });
            CongestionLevel::None
        });
        // The 20th is enough to count; 180 throttles are 4 per job at the 45th.
        assert_eq!(
            changes,
            [
                (19, CongestionAlert::Throttled, AlertChange::Raised),
                (44, CongestionAlert::Throttled, AlertChange::Cleared)
            ]
        );
    }

    #[test]
    fn five_throttles_per_job_are_silent() {
        let changes = changes(30, |_, stats, _| {
            stats.completed(5);
            CongestionLevel::None
        });
        assert_eq!(changes, []);
    }

    // Nineteen jobs, each deferred a thousand times; nineteen waits, all of them cut off.
    #[test]
    fn fewer_than_twenty_samples_are_silent() {
        let rule = CongestionRule::default();
        let changes = changes(700, |second, stats, watch| {
            if second < 19 {
                stats.completed(1_000);
                watch.waited(Nanos::from_secs(second), &rule.reading(1_000, 1), &rule);
            }
            CongestionLevel::None
        });
        assert_eq!(changes, []);
    }

    // From 100 by 4 a minute: 120 after five minutes, a fifth more.
    #[test]
    fn a_backlog_that_grows_for_five_minutes_fires() {
        let changes = changes(400, |second, stats, _| {
            waiting(stats, second, 100 + second / 60 * 4);
            CongestionLevel::None
        });
        assert_eq!(changes, [(300, CongestionAlert::Growing, AlertChange::Raised)]);
    }

    // Slower than a fifth in five minutes; and fast, but with one minute that stands still.
    #[test]
    fn a_slow_or_interrupted_rise_is_silent() {
        let slow = changes(1_200, |second, stats, _| {
            waiting(stats, second, 1_000 + second / 60);
            CongestionLevel::None
        });
        let halting = changes(1_200, |second, stats, _| {
            waiting(stats, second, 100 + (second / 60 - second / 300) * 50);
            CongestionLevel::None
        });
        assert_eq!((slow, halting), (Vec::new(), Vec::new()));
    }

    // Slowly from 1,000 for ten minutes, then by 100 a minute: from 1,007 to 1,210 in the five up to
    // the twelfth.
    #[test]
    fn only_the_last_five_minutes_of_a_rise_count() {
        let changes = changes(900, |second, stats, _| {
            let minute = second / 60;
            let jobs = 1_000 + minute.min(10) + minute.saturating_sub(10) * 100;
            waiting(stats, second, jobs);
            CongestionLevel::None
        });
        assert_eq!(changes, [(720, CongestionAlert::Growing, AlertChange::Raised)]);
    }

    #[test]
    fn a_minute_without_observation_ends_a_rise() {
        let mut watch = CongestionWatch::new();
        let mut stats = CongestionStats::new(StatsWindow::default());
        for minute in [0, 1, 2, 4, 5, 6, 7, 8] {
            let second = minute * 60;
            waiting(&mut stats, second, 100 + minute * 50);
            let now = Nanos::from_secs(second);
            let changes = watch.observe(now, CongestionLevel::None, &stats).count();
            assert_eq!(changes, 0, "in minute {minute}");
        }
    }

    // One wait a second; every fifth at the cap.
    #[test]
    fn a_fifth_of_waits_at_the_cap_fires() {
        let rule = CongestionRule::default();
        let changes = changes(1_300, |second, _, watch| {
            let jobs = if second % 5 == 0 && second < 600 { 1_000 } else { 0 };
            watch.waited(Nanos::from_secs(second), &rule.reading(jobs, 1), &rule);
            CongestionLevel::None
        });
        // The 20th wait is enough to count, and the 4th at the cap. From 10:00 on none is; at 15:00
        // four of the ten minutes had 12 each: 48 of 541.
        assert_eq!(
            changes,
            [
                (19, CongestionAlert::Capped, AlertChange::Raised),
                (900, CongestionAlert::Capped, AlertChange::Cleared)
            ]
        );
    }

    #[test]
    fn waits_at_the_cap_are_forgotten_after_ten_minutes() {
        let rule = CongestionRule::default();
        let changes = changes(700, |second, _, watch| {
            if second < 20 {
                watch.waited(Nanos::from_secs(second), &rule.reading(1_000, 1), &rule);
            }
            CongestionLevel::None
        });
        assert_eq!(
            changes,
            [
                (19, CongestionAlert::Capped, AlertChange::Raised),
                (600, CongestionAlert::Capped, AlertChange::Cleared)
            ]
        );
    }

    // At 119 jobs and one a second the wait is exactly the maximum. A rule with equal bounds, and
    // one that is switched off, cut nothing off.
    #[test]
    fn a_wait_that_only_reaches_the_cap_is_silent() {
        let (default, second) = (CongestionRule::default(), Duration::from_secs(1));
        let fixed = CongestionRule::new(second, second).expect("in order");
        for (rule, wait) in [
            (default, default.reading(119, 1)),
            (default, default.off()),
            (fixed, fixed.reading(1_000, 1)),
            (fixed, fixed.off()),
        ] {
            let changes = changes(60, |second, _, watch| {
                watch.waited(Nanos::from_secs(second), &wait, &rule);
                CongestionLevel::None
            });
            assert_eq!(changes, [], "{wait:?}");
        }
        assert!(default.cuts_off(&default.reading(120, 1)));
    }

    #[test]
    fn fewer_waits_at_the_cap_are_silent() {
        let rule = CongestionRule::default();
        let changes = changes(1_300, |second, _, watch| {
            let jobs = if second % 6 == 5 { 1_000 } else { 0 };
            watch.waited(Nanos::from_secs(second), &rule.reading(jobs, 1), &rule);
            CongestionLevel::None
        });
        assert_eq!(changes, []);
    }

    #[test]
    fn raised_alerts_are_listed_until_cleared() {
        let mut watch = CongestionWatch::default();
        let mut stats = CongestionStats::new(StatsWindow::default());
        (0..20).for_each(|_| stats.completed(9));
        assert_eq!(watch.observe(Nanos::MAX, CongestionLevel::None, &stats).count(), 1);
        assert!(watch.raised().eq([CongestionAlert::Throttled]));
    }

    #[test]
    fn each_alert_has_a_name_a_severity_and_advice() {
        let names: alloc::collections::BTreeSet<_> = CongestionAlert::ALL.iter().map(|alert| alert.name()).collect();
        assert_eq!(names.len(), 4);
        for alert in CongestionAlert::ALL {
            let critical = alert == CongestionAlert::Critical;
            assert_eq!(alert.severity() == AlertSeverity::Critical, critical);
            assert!(alert.advice().contains(':'), "says what, then what to do");
        }
    }
}
