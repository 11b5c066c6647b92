//! Health state, as JSON.

use outflow::HealthReport;
use outflow::core::{HealthOverride, HealthState, Nanos, OutcomeCounts, RampStage};
use serde::Serialize;
use smol_str::SmolStr;

use crate::labels;
use crate::millis::{millis, millis_up};

/// Health state of an API or a group.
#[derive(Debug, Serialize)]
pub(crate) struct HealthView {
    group: Option<SmolStr>,
    state: &'static str,
    circuit: &'static str,
    since_ms: u64,
    until_ms: Option<u64>,
    reason: Option<&'static str>,
    /// Sentence that names what binds calls now.
    why: Option<String>,
    held: Option<&'static str>,
    /// Author of the override.
    held_by: Option<SmolStr>,
    cooling_ms: Option<u64>,
    in_flight: u32,
    concurrency: u32,
    /// Limit in effect that `why` names, else the slowest for all calls.
    rate: Option<String>,
    /// Group whose limit it is.
    rate_group: Option<SmolStr>,
    /// The same limit as configured.
    configured_rate: Option<String>,
    /// Sentence that concurrency binds and not a limit.
    bound: Option<String>,
    error_ppm: u32,
    counts: CountsView,
    streak: u32,
    next_sleep_ms: u64,
    failed_recoveries: u32,
    ramp_step_ms: Option<u64>,
    probes_out: u32,
}

impl HealthView {
    pub(super) fn new(report: &HealthReport, now: Nanos) -> Self {
        let health = &report.snapshot;
        let ahead = |at: Nanos| millis_up(at.since(now));
        Self {
            group: report.group.clone(),
            state: health.state.name(),
            circuit: health.circuit.name(),
            since_ms: millis(now.since(health.since)),
            // Only an operator ends an override, so there is no time to wait for.
            until_ms: match health.hold {
                Some(HealthOverride::Sleep) => Some(0),
                _ => health.until.map(ahead),
            },
            reason: health.reason.map(outflow::core::TransitionReason::name),
            why: report.reason.clone(),
            held: health.hold.map(labels::health_override),
            held_by: report.forced_by.as_ref().and_then(|note| note.who.clone()),
            cooling_ms: health.cooling_until.map(ahead),
            in_flight: report.in_flight,
            concurrency: report.concurrency,
            rate: report.rate.as_ref().map(|rate| rate.effective.to_string()),
            rate_group: report.rate.as_ref().and_then(|rate| rate.group.clone()),
            configured_rate: report.rate.as_ref().map(|rate| rate.configured.to_string()),
            bound: report.bound.map(|bound| bound.to_string()),
            error_ppm: health.error_ppm(),
            counts: CountsView::from_counts(health.counts),
            streak: health.streak,
            next_sleep_ms: millis_up(health.cooldown),
            failed_recoveries: health.failed_recoveries,
            ramp_step_ms: match health.ramp {
                RampStage::None => None,
                RampStage::Ramping { next, .. } => Some(ahead(next)),
            },
            probes_out: health.probes_out,
        }
    }
}

/// Counts of outcomes in the error window.
#[derive(Debug, Serialize)]
struct CountsView {
    success: u32,
    throttled: u32,
    server: u32,
    network: u32,
    other: u32,
}

impl CountsView {
    const fn from_counts(counts: OutcomeCounts) -> Self {
        Self {
            success: counts.success,
            throttled: counts.throttled,
            server: counts.server,
            network: counts.network,
            other: counts.other,
        }
    }
}

/// Ranks a state by its restriction of calls, to find the worst of several.
pub(super) const fn severity(state: HealthState) -> u8 {
    match state {
        HealthState::Normal => 0,
        HealthState::Throttle => 1,
        HealthState::HalfOpen => 2,
        HealthState::Sleep => 3,
        HealthState::CacheOnly => 4,
    }
}
