//! Gauges of the upstreams for the metrics page.
//!
//! Read at each scrape and stored nowhere: a gauge that only changes with events is wrong while
//! none occur. An API with a health state per group shows the worst of them, because that one needs
//! attention.

use std::sync::Arc;

use outflow_core::{OutcomeCounts, Rate};

use super::super::api_table::ApiTable;
use crate::metrics::{GaugeSnapshot, GaugeSource};
use crate::upstream::UpstreamReport;

/// Gauges of all upstreams.
pub(super) struct UpstreamGauges(pub(super) Arc<ApiTable>);

impl GaugeSource for UpstreamGauges {
    fn read(&self, visit: &mut dyn FnMut(&str, GaugeSnapshot)) {
        for upstream in self.0.upstreams() {
            visit(upstream.name(), snapshot(&upstream.report()));
        }
    }
}

fn snapshot(report: &UpstreamReport) -> GaugeSnapshot {
    let healths = || report.health.iter();
    let counts = healths().map(|health| health.snapshot.counts);
    let counts = counts.fold(OutcomeCounts::default(), add_counts);
    let groups = report.groups.iter().flat_map(|group| &group.limits);
    let rates = report.limits.iter().chain(groups).map(|limit| limit.limit.rate());
    let slowest = rates.min_by(|one, other| one.cmp_speed(*other));
    let states = healths().map(|health| health.snapshot.state);
    GaugeSnapshot {
        state: states.max().unwrap_or_default(),
        counts,
        error_ppm: counts.failure_ppm(),
        rate: slowest.map_or(0.0, Rate::as_per_second),
        concurrency: healths().fold(0, |total, health| health.concurrency.saturating_add(total)),
        waiting: u64::try_from(report.waiting).unwrap_or(u64::MAX),
        in_flight: healths().map(|health| u64::from(health.in_flight)).sum(),
    }
}

const fn add_counts(one: OutcomeCounts, other: OutcomeCounts) -> OutcomeCounts {
    OutcomeCounts {
        success: one.success.saturating_add(other.success),
        throttled: one.throttled.saturating_add(other.throttled),
        server: one.server.saturating_add(other.server),
        network: one.network.saturating_add(other.network),
        other: one.other.saturating_add(other.other),
    }
}
