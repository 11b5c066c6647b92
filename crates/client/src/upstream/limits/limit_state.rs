//! State of one limit in addition to its meter: adaptation, foreign usage, throughput, alerts.

use std::time::Duration;

use outflow_core::{
    AdaptiveLimit, ClockPair, Limit, LimitDrift, Nanos, Rate, Trend, UnitCost, UsageAlert, UsageLedger,
};

use super::super::report::UsageHistory;
use super::super::throughput::Throughput;
use super::reconfigure::{LimitTerms, NextLimits};
use crate::event::DriftChange;

/// The changing state of one limit.
#[derive(Debug)]
pub(super) struct LimitState {
    /// The part of a call's cost that it counts.
    pub(super) unit_cost: UnitCost,
    pub(super) adaptive: AdaptiveLimit,
    pub(super) ledger: UsageLedger,
    pub(super) throughput: Throughput,
    pub(super) alert: UsageAlert,
    trend: Trend,
    /// The peak of the window that is being recorded.
    peak: u64,
    recorded_since: Nanos,
    /// The rate of the last drift event, if it differs from the configured one.
    reported: Option<Rate>,
}

impl LimitState {
    pub(super) fn new(limit: &Limit, terms: LimitTerms, moment: ClockPair) -> Self {
        Self {
            unit_cost: limit.measure().unit_cost(),
            adaptive: AdaptiveLimit::new(terms.adaptive, limit.rate(), moment.now),
            ledger: UsageLedger::default(),
            throughput: Throughput::new(limit.rate().per()),
            alert: terms.thresholds.alert(),
            trend: Trend::new(Trend::DEFAULT_WINDOWS),
            peak: 0,
            recorded_since: moment.now,
            reported: None,
        }
    }

    /// Continues for a limit with other numbers. The adapted speed is kept.
    pub(super) fn reconfigure(mut self, old: &Limit, limit: &Limit, next: NextLimits<'_>) -> Self {
        let (now, terms) = (next.moment.now, next.terms);
        if next.before.adaptive != terms.adaptive || old.rate() != limit.rate() {
            let known = self.adaptive.snapshot(now);
            self.adaptive = AdaptiveLimit::restore(terms.adaptive, limit.rate(), &known, now);
        }
        if terms.thresholds.usage != next.before.thresholds.usage {
            self.alert = terms.thresholds.alert();
        }
        self
    }

    /// Records the peak of each window. Every start counts in it, also between two calls.
    pub(super) fn record_peak(&mut self, now: Nanos, peak: u64, window: Duration) {
        self.peak = self.peak.max(peak);
        if now.since(self.recorded_since) >= window {
            self.trend.record(self.peak);
            (self.peak, self.recorded_since) = (0, now);
        }
    }

    /// Stores the drift for the next comparison. Returns the direction if its rate changed.
    pub(super) fn update_drift(&mut self, drift: Option<LimitDrift>) -> Option<DriftChange> {
        let rate = drift.map(|drift| drift.evidence);
        let before = std::mem::replace(&mut self.reported, rate);
        match (before, rate) {
            (before, rate) if before == rate => None,
            (_, None) => Some(DriftChange::Ended),
            (Some(before), Some(rate)) if rate.cmp_speed(before).is_gt() => Some(DriftChange::Raised),
            (_, Some(_)) => Some(DriftChange::Lowered),
        }
    }

    pub(super) fn history(&self) -> UsageHistory {
        UsageHistory {
            windows: self.trend.windows().collect(),
            peak: self.trend.peak(),
            prediction: self.trend.prediction(),
            pattern: self.trend.pattern(),
            alert: self.alert.is_raised(),
        }
    }
}
