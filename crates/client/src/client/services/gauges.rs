//! How the doors stand, as a page of metrics shows it.
//!
//! Asked at each scrape and kept nowhere: a gauge that is only written when something happens is wrong
//! for as long as nothing does. An API whose groups are each in a state of their own shows the worst of
//! them, for that is what somebody must look at.

use std::sync::Arc;

use outflow_core::{HealthState, OutcomeCounts, Rate};

use super::super::api_table::ApiTable;
use crate::metrics::{GaugeSnapshot, GaugeSource};
use crate::upstream::UpstreamReport;

/// How the doors stand, for whoever looks at the metrics.
pub(super) struct UpstreamGauges(pub(super) Arc<ApiTable>);

impl GaugeSource for UpstreamGauges {
    fn read(&self, tell: &mut dyn FnMut(&str, GaugeSnapshot)) {
        for door in self.0.upstreams() {
            tell(door.name(), reading(&door.report()));
        }
    }
}

fn reading(report: &UpstreamReport) -> GaugeSnapshot {
    let healths = || report.health.iter();
    let counts = healths().map(|health| health.snapshot.counts);
    let counts = counts.fold(OutcomeCounts::default(), sum);
    let groups = report.groups.iter().flat_map(|group| &group.limits);
    let rates = report
        .limits
        .iter()
        .chain(groups)
        .map(|limit| limit.limit.rate());
    let slowest = rates.min_by(|one, other| one.cmp_speed(*other));
    let states = healths().map(|health| health.snapshot.state);
    GaugeSnapshot {
        state: states
            .max_by_key(|state| gravity(*state))
            .unwrap_or(HealthState::Normal),
        counts,
        error_ppm: counts.failure_ppm(),
        rate: slowest.map_or(0.0, Rate::as_per_second),
        concurrency: healths().fold(0, |sum, health| health.concurrency.saturating_add(sum)),
        waiting: u64::try_from(report.waiting).unwrap_or(u64::MAX),
        in_flight: healths().map(|health| u64::from(health.in_flight)).sum(),
    }
}

const fn sum(one: OutcomeCounts, other: OutcomeCounts) -> OutcomeCounts {
    OutcomeCounts {
        success: one.success.saturating_add(other.success),
        throttled: one.throttled.saturating_add(other.throttled),
        server: one.server.saturating_add(other.server),
        network: one.network.saturating_add(other.network),
        other: one.other.saturating_add(other.other),
    }
}

/// How ill a state is: of several, the worst is told.
const fn gravity(state: HealthState) -> u8 {
    match state {
        HealthState::Normal => 0,
        HealthState::Throttle => 1,
        HealthState::HalfOpen => 2,
        HealthState::Sleep => 3,
        HealthState::CacheOnly => 4,
    }
}
