//! Limits and their groups, as JSON.

use outflow::core::{Limit, LimitDrift, Nanos};
use outflow::{Group, GroupReport, LimitReport};
use serde::Serialize;
use smol_str::SmolStr;

use crate::labels;
use crate::millis::{millis, millis_up};

/// One limit: what was configured, what holds, and how it is used.
#[derive(Debug, Serialize)]
pub(crate) struct LimitView {
    configured: String,
    effective: String,
    kind: &'static str,
    accounting: &'static str,
    used: u64,
    capacity: u64,
    remaining: u64,
    used_ppm: u64,
    count: u64,
    peak: u64,
    oldest_ms: Option<u64>,
    newest_ms: Option<u64>,
    window_ms: u64,
    predicted_delay_ms: Option<u64>,
    waiting: u64,
    expired: u64,
    memory_bytes: u64,
    pattern: &'static str,
    prediction: Option<u64>,
    alert: bool,
    drift: Option<DriftView>,
}

impl LimitView {
    /// The limits of a group or an API, beside what was written of them.
    pub(super) fn all(reports: &[LimitReport], written: &[Limit], now: Nanos) -> Vec<Self> {
        let written = written.iter().map(Some).chain(std::iter::repeat(None));
        let both = reports.iter().zip(written);
        both.map(|(report, written)| Self::new(report, written, now))
            .collect()
    }

    fn new(report: &LimitReport, written: Option<&Limit>, now: Nanos) -> Self {
        let (limit, usage, history) = (&report.limit, &report.usage, &report.history);
        let configured = written.map(Limit::rate);
        let drifted = report.drift.map(|drift| drift.configured);
        Self {
            configured: configured.or(drifted).unwrap_or(limit.rate()).to_string(),
            effective: limit.rate().to_string(),
            kind: labels::kind(limit.kind()),
            accounting: labels::accounting(limit.accounting()),
            used: usage.weight,
            capacity: usage.limit,
            remaining: usage.remaining(),
            used_ppm: ppm(usage.weight, usage.limit),
            count: usage.count,
            peak: usage.peak.max(history.peak),
            oldest_ms: usage.oldest.map(|at| millis(now.since(at))),
            newest_ms: usage.newest.map(|at| millis(now.since(at))),
            window_ms: millis(limit.rate().per()),
            predicted_delay_ms: usage.predicted_delay.map(millis_up),
            waiting: usage.waiting,
            expired: usage.expired,
            memory_bytes: usage.memory_bytes,
            pattern: labels::pattern(history.pattern),
            prediction: history.prediction,
            alert: history.alert,
            drift: report.drift.map(DriftView::from_drift),
        }
    }
}

fn ppm(part: u64, whole: u64) -> u64 {
    let parts = u128::from(part) * 1_000_000;
    u64::try_from(parts / u128::from(whole.max(1))).unwrap_or(u64::MAX)
}

/// How far a limit in effect is from what was configured.
#[derive(Debug, Serialize)]
struct DriftView {
    configured: String,
    evidence: String,
    lasting_ms: u64,
}

impl DriftView {
    fn from_drift(drift: LimitDrift) -> Self {
        Self {
            configured: drift.configured.to_string(),
            evidence: drift.evidence.to_string(),
            lasting_ms: millis(drift.lasting),
        }
    }
}

/// One group.
#[derive(Debug, Serialize)]
pub(crate) struct GroupView {
    name: SmolStr,
    aliases: Vec<SmolStr>,
    waiting: u64,
    admitted: u64,
    refused: u64,
    limits: Vec<LimitView>,
}

impl GroupView {
    pub(super) fn new(report: &GroupReport, written: Option<&Group>, now: Nanos) -> Self {
        let limits = written.map(|group| &*group.limits);
        Self {
            name: report.name.clone(),
            aliases: written
                .map(|group| group.aliases.clone())
                .unwrap_or_default(),
            waiting: report.waiting,
            admitted: report.admitted,
            refused: report.refused,
            limits: LimitView::all(&report.limits, limits.unwrap_or_default(), now),
        }
    }
}
