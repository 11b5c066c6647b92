//! What is known of one limit beside its meter: what was learned of it and how it is used.

use std::time::Duration;

use outflow_core::{
    AdaptiveLimit, ClockPair, Limit, LimitDrift, Nanos, Rate, Trend, UnitCost, UsageAlert,
    UsageLedger,
};

use super::super::report::{Alerted, UsageHistory};
use super::super::throughput::Throughput;
use super::reconfigure::{LimitTerms, NextLimits};

/// The moving parts of one limit.
#[derive(Debug)]
pub(super) struct LimitState {
    /// What a call comes to here.
    pub(super) toll: UnitCost,
    pub(super) learned: AdaptiveLimit,
    pub(super) ledger: UsageLedger,
    pub(super) passed: Throughput,
    pub(super) alert: UsageAlert,
    trend: Trend,
    /// The most used in the window that is being recorded, and when that began.
    recording: (u64, Nanos),
    /// The rate that was last told to differ from the configured one.
    told: Option<Rate>,
}

impl LimitState {
    pub(super) fn new(limit: &Limit, terms: LimitTerms, moment: ClockPair) -> Self {
        Self {
            toll: limit.measure().toll(),
            learned: AdaptiveLimit::new(terms.adaptive, limit.rate(), moment.now),
            ledger: UsageLedger::default(),
            passed: Throughput::over(limit.rate().per()),
            alert: terms.thresholds.alert(),
            trend: Trend::new(Trend::DEFAULT_WINDOWS),
            recording: (0, moment.now),
            told: None,
        }
    }

    /// The same, of a limit with other numbers. What was learned is a speed and stays one.
    pub(super) fn under(mut self, old: &Limit, limit: &Limit, next: NextLimits<'_>) -> Self {
        let (now, terms) = (next.moment.now, next.terms);
        if next.before.adaptive != terms.adaptive || old.rate() != limit.rate() {
            let known = self.learned.snapshot(now);
            self.learned = AdaptiveLimit::restore(terms.adaptive, limit.rate(), &known, now);
        }
        if terms.thresholds.usage != next.before.thresholds.usage {
            self.alert = terms.thresholds.alert();
        }
        self
    }

    /// What the server let through in the window before it refused. Where that is enough to go by, only
    /// what surely was in it; otherwise all that can have been, for a refusal in the middle of a burst
    /// finds little of it and need not be about the rate at all.
    pub(super) fn admitted(&mut self, now: Nanos) -> u64 {
        let sure = self.passed.surely_within(now);
        if sure >= AdaptiveLimit::MIN_COUNTED {
            return sure;
        }
        self.passed.within(now)
    }

    /// One entry for each window that has passed, with the most that was seen in it.
    pub(super) fn record(&mut self, now: Nanos, used: u64, window: Duration) {
        let (most, began) = self.recording;
        if now.since(began) < window {
            self.recording = (most.max(used), began);
            return;
        }
        self.trend.record(most.max(used));
        self.recording = (0, now);
    }

    /// Whether there is something new to tell of the drift: another rate, or that it is over.
    pub(super) fn is_news(&mut self, drift: Option<LimitDrift>) -> bool {
        let rate = drift.map(|drift| drift.evidence);
        std::mem::replace(&mut self.told, rate) != rate
    }

    pub(super) fn history(&self) -> UsageHistory {
        UsageHistory {
            peak: self.trend.peak(),
            prediction: self.trend.prediction(),
            pattern: self.trend.pattern(),
            alert: if self.alert.is_raised() {
                Alerted::Yes
            } else {
                Alerted::No
            },
        }
    }
}
