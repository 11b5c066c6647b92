//! Limits and their groups, as JSON.

use outflow::core::{Limit, LimitDrift, Nanos};
use outflow::{Group, GroupReport, LimitReport, SharedUsage};
use serde::Serialize;
use smol_str::SmolStr;

use crate::labels;
use crate::millis::{millis, millis_up};

/// Limit: configured and effective rate, and usage.
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
    /// Usage by all processes that share it.
    shared: Option<SharedUsageView>,
    count: u64,
    peak: u64,
    oldest_ms: Option<u64>,
    newest_ms: Option<u64>,
    window_ms: u64,
    predicted_delay_ms: Option<u64>,
    waiting: u64,
    expired: u64,
    memory_bytes: u64,
    /// Highest usage of the last windows, oldest first.
    windows: Vec<u64>,
    pattern: &'static str,
    prediction: Option<u64>,
    alert: bool,
    drift: Option<DriftView>,
    /// Sentence with the cause of a lowered rate and the way back.
    lowered: Option<String>,
}

impl LimitView {
    /// Combines the reports of limits with their configuration, in order.
    pub(super) fn list(reports: &[LimitReport], configured: &[Limit], now: Nanos) -> Vec<Self> {
        let configured = configured.iter().map(Some).chain(std::iter::repeat(None));
        let both = reports.iter().zip(configured);
        both.map(|(report, configured)| Self::new(report, configured, now))
            .collect()
    }

    fn new(report: &LimitReport, configured: Option<&Limit>, now: Nanos) -> Self {
        let (limit, usage, history) = (&report.limit, &report.usage, &report.history);
        let configured = configured.map(Limit::rate);
        let drifted = report.drift.map(|drift| drift.configured);
        Self {
            configured: configured.or(drifted).unwrap_or(limit.rate()).to_string(),
            effective: limit.rate().to_string(),
            kind: labels::limit_kind(limit.kind()),
            accounting: labels::accounting(limit.accounting()),
            used: usage.weight,
            capacity: usage.limit,
            remaining: usage.remaining(),
            used_ppm: ppm(usage.weight, usage.limit),
            shared: report.shared.map(SharedUsageView::from_usage),
            count: usage.count,
            peak: usage.peak.max(history.peak),
            oldest_ms: usage.oldest.map(|at| millis(now.since(at))),
            newest_ms: usage.newest.map(|at| millis(now.since(at))),
            window_ms: millis(limit.rate().per()),
            predicted_delay_ms: usage.predicted_delay.map(millis_up),
            waiting: usage.waiting,
            expired: usage.expired,
            memory_bytes: usage.memory_bytes,
            windows: history.windows.clone(),
            pattern: labels::trend_shape(history.pattern),
            prediction: history.prediction,
            alert: history.alert,
            drift: report.drift.map(DriftView::from_drift),
            lowered: report.lowered.map(|lowered| lowered.to_string()),
        }
    }
}

fn ppm(part: u64, total: u64) -> u64 {
    let parts = u128::from(part) * 1_000_000;
    u64::try_from(parts / u128::from(total.max(1))).unwrap_or(u64::MAX)
}

/// Usage of a limit by all processes.
#[derive(Debug, Serialize)]
struct SharedUsageView {
    arrived: u64,
    held: u64,
    held_here: u64,
    processes: usize,
}

impl SharedUsageView {
    const fn from_usage(usage: SharedUsage) -> Self {
        Self {
            arrived: usage.arrived,
            held: usage.held,
            held_here: usage.held_here,
            processes: usage.processes,
        }
    }
}

/// Difference between the configured rate and the evidence.
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

/// Group with its own limits.
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
    pub(super) fn new(report: &GroupReport, configured: Option<&Group>, now: Nanos) -> Self {
        let limits = configured.map(|group| &*group.limits);
        Self {
            name: report.name.clone(),
            aliases: configured.map(|group| group.aliases.clone()).unwrap_or_default(),
            waiting: report.waiting,
            admitted: report.admitted,
            refused: report.refused,
            limits: LimitView::list(&report.limits, limits.unwrap_or_default(), now),
        }
    }
}
