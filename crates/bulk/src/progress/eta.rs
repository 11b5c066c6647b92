//! The one estimate of remaining time, for actions and tenants alike.
//!
//! Measured throughput alone ignores limits: the quota of the first window starts at once, and at that speed the
//! rest would end in a moment. Limits alone ignore slow responses. So limits give the time of all jobs that the lanes
//! end before the last one, and the measured throughput of a lane lengthens it. Before a job has ended, the limits
//! alone give it.

use std::sync::Arc;
use std::time::Duration;

use outflow::core::HealthState;
use outflow_store::{ActionReport, JobCounts, JobStore, LaneBacklog, Name, RemainingWork, StoreResult, TenantReport};

use super::competing_work::TenantBacklogs;
use super::remaining_time::{LimitTime, has_own_limits};
use super::throughput::{EndedJobs, LaneActivity, LaneSpeeds, Throughput};
use super::workload::Workload;
use crate::congestion::lane_shares::LaneShares;
use crate::engine::EngineContext;
use crate::scheduler::start_permission::blocked_for;
use crate::submit::lane::Lane;

impl<S: JobStore> EngineContext<S> {
    /// Measures the throughput of all lanes with work, and returns the backlogs of all tenants.
    pub(crate) async fn measure_lanes(&self) -> StoreResult<Arc<TenantBacklogs>> {
        let backlogs = self.recent_backlogs().await;
        let shares = self.recent_shares().await;
        let counts = self.store.job_counts().await?;
        let lanes = shares.lanes().map(|lane| LaneActivity {
            lane: lane.clone(),
            ended_here: self.lanes.get(lane).ended(),
            has_work: backlogs.has_work(lane),
            is_blocked: self.is_blocked(lane),
        });
        let (now, lanes) = (self.clock.now(), lanes.collect::<Vec<_>>());
        let ended = EndedJobs {
            here: self.lanes.ended(|_| true),
            on_all_machines: counts.done + counts.dead + counts.failed,
        };
        self.speeds.record(now, ended, &lanes);
        // Lanes of one API share its limits: each is as fast as the others let it be.
        let apis = lanes.iter().map(|activity| LaneActivity {
            ended_here: self.lanes.ended(|lane| Lane::share_api(lane, &activity.lane)),
            ..activity.clone()
        });
        self.api_speeds.record(now, ended, &apis.collect::<Vec<_>>());
        // A tenant's own limit slows it alone, so its speed is measured apart.
        let mut limited = backlogs.limited_tenants().to_vec();
        let is_blocked = lanes.iter().any(|lane| lane.is_blocked);
        for tenant in &mut limited {
            tenant.is_blocked = is_blocked;
        }
        let ended = limited.iter().map(|tenant| tenant.ended_here).sum();
        let ended = EndedJobs {
            here: ended,
            on_all_machines: ended,
        };
        self.tenant_speeds.record(now, ended, &limited);
        Ok(backlogs)
    }
}

impl<S> EngineContext<S> {
    /// Returns true if the API of a lane accepts no calls now, or only probes.
    fn is_blocked(&self, lane: &Name) -> bool {
        let upstream = Lane::from_name(lane).upstream(&self.client);
        upstream.is_some_and(|upstream| {
            let state = upstream.0.state(upstream.1);
            !matches!(state, HealthState::Normal | HealthState::Throttle)
                || blocked_for(&upstream, Duration::ZERO).is_some()
        })
    }

    /// Estimates the time until all jobs of an action have ended; nothing while it is paused.
    pub(super) fn action_eta(
        &self,
        report: &ActionReport,
        remaining: &RemainingWork,
        backlogs: &TenantBacklogs,
    ) -> Option<Duration> {
        if report.is_stopped() {
            return None;
        }
        match report.counts.open() {
            0 => Some(Duration::ZERO),
            _ => self.eta(&Workload::from(remaining), &report.counts, backlogs),
        }
    }

    /// Estimates the time until all jobs of a tenant have ended; nothing while it is paused.
    pub(crate) fn tenant_eta(
        &self,
        report: &TenantReport,
        shares: &LaneShares,
        backlogs: &TenantBacklogs,
    ) -> Option<Duration> {
        if report.paused {
            return None;
        }
        let workload = self.tenant_workload(report, shares);
        match report.counts.open() {
            0 => Some(Duration::ZERO),
            // All its jobs belong to actions that are paused.
            _ if workload.jobs() == 0 && report.counts.in_flight == 0 => None,
            _ => self.eta(&workload, &report.counts, backlogs),
        }
    }

    /// Returns the waiting jobs of a tenant. Delayed ones, whose lane is unknown, count where the others wait.
    fn tenant_workload(&self, report: &TenantReport, shares: &LaneShares) -> Workload {
        let mut workload = Workload::until(report.latest);
        for LaneBacklog { lane, jobs } in &report.lanes {
            workload.add_amount(&report.name, lane, self.shares.cost(lane).times(*jobs));
        }
        let JobCounts {
            queued,
            delayed,
            non_ready,
            ..
        } = report.counts;
        let delayed = (delayed + non_ready).min(queued.saturating_sub(workload.jobs()));
        let lane = report.lanes.first().map(|backlog| &backlog.lane).or(shares.only_lane());
        if let Some(lane) = lane.filter(|_| delayed > 0) {
            workload.add_amount(&report.name, lane, self.shares.cost(lane).times(delayed));
        }
        workload
    }

    /// Estimates the time until the last job of this work has ended, and those of the same owner that are in flight.
    /// Returns nothing while an operator holds an API, and without limits before a job ended.
    fn eta(&self, own: &Workload, counts: &JobCounts, backlogs: &TenantBacklogs) -> Option<Duration> {
        let latency = counts.mean();
        if own.jobs() == 0 {
            return latency;
        }
        let latency = latency.unwrap_or_default();
        let work = self.with_competition(own, backlogs);
        let all = self.remaining_time(&work, latency)?;
        let by_lane = work.amounts().filter_map(|(lane, amount)| {
            let limits = self.remaining_time(&work.in_lane(lane), latency)?;
            let span = limits.measured_span();
            let estimate = |jobs, speeds: &LaneSpeeds| estimate(jobs, speeds.throughput(lane, span), limits, latency);
            let alone = estimate(amount.jobs, &self.speeds)?;
            if has_own_limits(&self.client, lane) {
                return Some(alone);
            }
            // When the jobs of other lanes of its API are over, this one gets their part.
            let all = amount.jobs.saturating_add(backlogs.jobs_beside(lane));
            let together = estimate(all, &self.api_speeds);
            Some(together.map_or(alone, |together| together.min(alone)))
        });
        let by_tenant = own.tenants().filter_map(|(name, own)| {
            let limits = self.remaining_time(&work.of_tenant(name), latency)?;
            let measured = self.tenant_speeds.throughput(name, limits.measured_span());
            estimate(own.all.jobs, measured, limits, latency)
        });
        let by_limits = Some(all.span).filter(|least| !least.is_zero());
        by_lane.chain(by_tenant).chain(by_limits).max()
    }
}

/// Estimates the time of the remaining jobs by the measured throughput, and never less than the limits need.
///
/// Idle time since the last end counts as part of the remaining time, since jobs that wait for the next window
/// come closer to it. Without a lower bound, idle time means that the API became slow.
fn estimate(remaining: u64, measured: Option<Throughput>, limits: LimitTime, latency: Duration) -> Option<Duration> {
    let least = limits.span;
    let Some(measured) = measured.filter(|measured| limits.trusts(measured)) else {
        return Some(least).filter(|least| !least.is_zero());
    };
    if limits.explains(&measured, remaining) {
        return Some(least);
    }
    // Calls in flight end within the time of one call.
    let left = |span| measured.scale(span, remaining).saturating_add(latency);
    let active = measured.span.saturating_sub(measured.idle);
    Some(match left(active).checked_sub(measured.idle) {
        Some(left) => left.max(least),
        None if least.is_zero() => left(measured.span),
        None => least,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    const BOUND: LimitTime = LimitTime {
        span: Duration::from_secs(29),
        window: Duration::from_millis(500),
    };

    fn measured(ended: u64, span: u64, idle: u64) -> Throughput {
        Throughput {
            ended,
            span: Duration::from_secs(span),
            idle: Duration::from_secs(idle),
        }
    }

    // 25 of 100 in fifty seconds: 150 more, and one for the calls in flight. In ten seconds: thirty, without limits.
    #[test]
    fn the_rest_takes_as_long_as_the_throughput_says_and_no_less_than_limits_need() {
        assert_eq!(
            estimate(75, Some(measured(25, 50, 0)), BOUND, SECOND),
            Some(Duration::from_secs(151))
        );
        let longer = LimitTime {
            span: Duration::from_secs(160),
            ..BOUND
        };
        assert_eq!(
            estimate(75, Some(measured(25, 50, 0)), longer, SECOND),
            Some(longer.span),
            "no faster than limits allow"
        );
        let unlimited = estimate(75, Some(measured(25, 10, 0)), LimitTime::default(), Duration::ZERO);
        assert_eq!(unlimited, Some(Duration::from_secs(30)));
    }

    // By throughput 60 s, and by limits 29 with a window of a minute: the last window ends early.
    #[test]
    fn throughput_that_is_less_than_a_window_behind_is_the_rhythm_of_the_limit() {
        let minute = LimitTime {
            window: Duration::from_mins(1),
            ..BOUND
        };
        assert_eq!(
            estimate(30, Some(measured(25, 50, 0)), minute, SECOND),
            Some(BOUND.span)
        );
    }

    #[test]
    fn limits_give_the_estimate_before_an_end() {
        assert_eq!(estimate(5, None, BOUND, SECOND), Some(BOUND.span));
        assert_eq!(estimate(5, Some(measured(1, 10, 0)), BOUND, SECOND), Some(BOUND.span));
        assert_eq!(estimate(5, None, LimitTime::default(), SECOND), None, "no limit");
    }

    // 5/min: five ended in the first second. Ten more need two windows, and 50 s of idle time are a part of that.
    // Without a limit they say that the API became slow: ten as slow as five in 51 s.
    #[test]
    fn a_wait_for_the_next_window_is_no_slowness() {
        let bound = LimitTime {
            span: Duration::from_secs(69),
            ..BOUND
        };
        assert_eq!(
            estimate(10, Some(measured(5, 51, 50)), bound, Duration::ZERO),
            Some(bound.span)
        );
        let slow = estimate(10, Some(measured(5, 51, 50)), LimitTime::default(), Duration::ZERO);
        assert_eq!(slow, Some(Duration::from_secs(102)));
    }
}
