//! Alerts that fire once after a condition has lasted, and again only after recovery.
//!
//! A threshold alone fires at every crossing, and a value that oscillates around it fires all
//! night. So a condition must hold for a while before it is reported. It ends only when the value
//! is clearly below the threshold. This module sends nothing: it reports changes.

mod congestion;

use core::fmt;
use core::time::Duration;

use crate::{Nanos, Share, Usage};
pub use congestion::{AlertSeverity, CongestionAlert, CongestionWatch};

/// Delays a condition until it has lasted, and remembers that it was reported.
///
/// ```
/// use core::time::Duration;
/// use outflow_core::{Alert, AlertChange, Nanos, Observation};
///
/// let mut alert = Alert::new(Duration::from_secs(10));
/// assert_eq!(alert.observe(Nanos::from_secs(0), Observation::Over), None);
/// assert_eq!(alert.observe(Nanos::from_secs(10), Observation::Over), Some(AlertChange::Raised));
/// assert_eq!(alert.observe(Nanos::from_secs(11), Observation::Between), None);
/// assert_eq!(alert.observe(Nanos::from_secs(12), Observation::Under), Some(AlertChange::Cleared));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Alert {
    hold: Duration,
    over_since: Option<Nanos>,
    raised: bool,
}

impl Alert {
    /// Builds an alert for conditions that last `hold`; zero reports at once.
    pub const fn new(hold: Duration) -> Self {
        Self {
            hold,
            over_since: None,
            raised: false,
        }
    }

    /// Records an observation and returns the change to report, if any.
    pub fn observe(&mut self, now: Nanos, observation: Observation) -> Option<AlertChange> {
        self.over_since = match observation {
            Observation::Over => Some(self.over_since.unwrap_or(now)),
            Observation::Between | Observation::Under => None,
        };
        if self.raised && observation == Observation::Under {
            self.raised = false;
            return Some(AlertChange::Cleared);
        }
        let held = self.over_since.is_some_and(|since| now.since(since) >= self.hold);
        if held && !self.raised {
            self.raised = true;
            return Some(AlertChange::Raised);
        }
        None
    }

    /// Returns true from the moment the alert is raised until it is cleared.
    pub const fn is_raised(&self) -> bool {
        self.raised
    }
}

/// Position of a value relative to a threshold and the lower recovery point.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Observation {
    /// At the threshold or beyond.
    Over,
    /// Below the threshold, not yet recovered.
    Between,
    /// Recovered.
    Under,
}

/// Change of an alert.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AlertChange {
    /// The condition has lasted.
    Raised,
    /// The condition has ended.
    Cleared,
}

/// Watches the used share of a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UsageAlert {
    threshold: Share,
    recovery: Share,
    alert: Alert,
}

impl UsageAlert {
    /// Builds an alert that is raised after the used share was at `threshold` for `hold`. It can be
    /// raised again only after the share was below `recovery`. Choose the two a few times further
    /// apart than the share oscillates.
    ///
    /// # Errors
    /// If recovery is not below the threshold: the alert would never settle or never end.
    pub fn new(threshold: Share, recovery: Share, hold: Duration) -> Result<Self, InvalidAlert> {
        if recovery >= threshold {
            return Err(InvalidAlert);
        }
        Ok(Self {
            threshold,
            recovery,
            alert: Alert::new(hold),
        })
    }

    /// Records a meter's usage and returns the change to report, if any.
    pub fn observe(&mut self, now: Nanos, usage: &Usage) -> Option<AlertChange> {
        let observation = if usage.reaches(self.threshold) {
            Observation::Over
        } else if usage.reaches(self.recovery) {
            Observation::Between
        } else {
            Observation::Under
        };
        self.alert.observe(now, observation)
    }

    /// Returns true from the moment the alert is raised until it is cleared.
    pub const fn is_raised(&self) -> bool {
        self.alert.is_raised()
    }
}

impl Default for UsageAlert {
    /// At 80 % for 10 s; cleared below 70 %.
    fn default() -> Self {
        Self {
            threshold: Share::percent(80),
            recovery: Share::percent(70),
            alert: Alert::new(Duration::from_secs(10)),
        }
    }
}

/// Recovery is not below the threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidAlert;

impl fmt::Display for InvalidAlert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an alert must end below where it begins: lower recovery or raise threshold")
    }
}

impl core::error::Error for InvalidAlert {}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(weight: u64) -> Usage {
        Usage {
            weight,
            limit: 100,
            ..Usage::default()
        }
    }

    fn changes(series: &[(u64, u64)]) -> alloc::vec::Vec<(u64, AlertChange)> {
        let mut alert = UsageAlert::default();
        series
            .iter()
            .filter_map(|(second, weight)| {
                let change = alert.observe(Nanos::from_secs(*second), &used(*weight))?;
                Some((*second, change))
            })
            .collect()
    }

    #[test]
    fn raises_once_after_ten_seconds_at_80_percent() {
        let series = [(0, 80), (5, 95), (9, 80), (10, 80), (11, 99), (60, 80)];
        assert_eq!(changes(&series), [(10, AlertChange::Raised)]);
    }

    #[test]
    fn a_dip_before_the_hold_ends_prevents_the_alert() {
        assert_eq!(changes(&[(0, 90), (9, 79), (10, 90), (19, 90)]), []);
    }

    // 70 % is neither over nor recovered; 69 % is recovered.
    #[test]
    fn raises_again_only_after_recovery() {
        let trembling = [(0, 90), (10, 90), (11, 70), (12, 90), (30, 90), (31, 70)];
        assert_eq!(changes(&trembling), [(10, AlertChange::Raised)]);
        let recovered = [(0, 90), (10, 90), (11, 69), (12, 90), (21, 90), (22, 90)];
        assert_eq!(
            changes(&recovered),
            [
                (10, AlertChange::Raised),
                (11, AlertChange::Cleared),
                (22, AlertChange::Raised)
            ]
        );
    }

    #[test]
    fn a_recovery_at_the_threshold_cannot_be_built() {
        let share = Share::percent(80);
        let alert = UsageAlert::new(share, share, Duration::ZERO);
        assert_eq!(alert, Err(InvalidAlert));
    }

    #[test]
    fn a_clock_that_steps_back_does_not_shorten_the_hold() {
        let mut alert = Alert::new(Duration::from_secs(10));
        for (second, change) in [(100, None), (50, None), (109, None), (110, Some(()))] {
            let changes = alert.observe(Nanos::from_secs(second), Observation::Over);
            assert_eq!(changes.map(|_| ()), change, "at {second} s");
        }
    }
}
