//! Work that a lane does before the last job of a tenant.
//!
//! Tenants with jobs in one lane take turns by weight, so a tenant with 100 jobs waits for at most 100 jobs of each
//! equal tenant, and for fewer of one that has fewer or a low limit of its own. A share of the lane's rate would
//! promise too late an end: the share grows when others are done.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use outflow_core::{CountBy, Nanos};
use outflow_store::{JobStore, LaneBacklog, Name, PageRequest, TenantReport, TenantRule};
use outflow_sync::Mutex;

use super::throughput::LaneActivity;
use super::workload::{WorkAmount, Workload};
use crate::congestion::BindingRate;
use crate::engine::EngineContext;
use crate::submit::lane::Lane;

/// Waiting jobs of all tenants at one instant, by lane.
#[derive(Clone, Debug, Default)]
pub(crate) struct TenantBacklogs {
    read: Nanos,
    lanes: BTreeMap<Name, Vec<TenantBacklog>>,
    /// Ended jobs of tenants with a limit of their own.
    limited: Vec<LaneActivity>,
}

/// Waiting jobs of a tenant in one lane.
#[derive(Clone, Debug)]
struct TenantBacklog {
    tenant: Name,
    jobs: u64,
    weight: u64,
    /// Rate by its own limit.
    own_rate: Option<BindingRate>,
}

/// Backlogs that were read last.
#[derive(Debug, Default)]
pub(crate) struct BacklogTable {
    last: Mutex<Arc<TenantBacklogs>>,
    is_expired: AtomicBool,
}

impl BacklogTable {
    /// Lets the next query read the backlogs again, since jobs were submitted.
    pub(crate) fn expire(&self) {
        self.is_expired.store(true, Ordering::Relaxed);
    }
}

impl TenantBacklogs {
    pub(crate) fn new(read: Nanos) -> Self {
        Self {
            read,
            ..Self::default()
        }
    }

    /// Adds a tenant; a paused one competes with no other.
    pub(crate) fn add(&mut self, report: &TenantReport, costs: impl Fn(&Name) -> WorkAmount) {
        if report.paused {
            return;
        }
        if report.rule.rate.is_some() {
            let counts = &report.counts;
            self.limited.push(LaneActivity {
                lane: report.name.clone(),
                ended_here: counts.done + counts.dead + counts.failed,
                has_work: !report.lanes.is_empty(),
                is_blocked: false,
            });
        }
        for LaneBacklog { lane, jobs } in &report.lanes {
            let rate = report.rule.rate;
            let backlog = TenantBacklog {
                tenant: report.name.clone(),
                jobs: *jobs,
                weight: turn_weight(&report.rule),
                own_rate: rate.and_then(|rate| BindingRate::of_limit(rate, CountBy::Cost, costs(lane), 1)),
            };
            self.lanes.entry(lane.clone()).or_default().push(backlog);
        }
    }

    /// Returns tenants with a limit of their own, as lanes.
    pub(super) fn limited_tenants(&self) -> &[LaneActivity] {
        &self.limited
    }

    /// Returns true if jobs of a tenant that is not paused wait in a lane.
    pub(super) fn has_work(&self, lane: &Name) -> bool {
        self.lanes.contains_key(lane)
    }

    /// Returns the number of jobs that wait in other lanes of a lane's API.
    pub(super) fn jobs_beside(&self, lane: &Name) -> u64 {
        let others = self.lanes.iter();
        let others = others.filter(|(other, _)| *other != lane && Lane::share_api(other, lane));
        others.flat_map(|(_, tenants)| tenants).map(|tenant| tenant.jobs).sum()
    }

    /// Returns the number of jobs that a lane of this rate ends before the last of a tenant's own.
    fn jobs_before(&self, lane: &Name, own: &OwnJobs<'_>, rate: Option<BindingRate>) -> u64 {
        let others = self.lanes.get(lane).into_iter().flatten();
        let others: Vec<_> = others.filter(|other| other.tenant != *own.tenant).collect();
        let turns = |other: &TenantBacklog| {
            let turns = u128::from(own.jobs) * u128::from(other.weight) / u128::from(own.weight.max(1));
            other.jobs.min(u64::try_from(turns).unwrap_or(u64::MAX))
        };
        let mut all = others
            .iter()
            .fold(own.jobs, |sum, other| sum.saturating_add(turns(other)));
        let Some(rate) = rate.filter(|_| others.iter().any(|other| other.own_rate.is_some())) else {
            return all;
        };
        // A tenant with its own limit starts fewer jobs than its turns in a given time, and that shortens the time.
        for _ in 0..ROUNDS {
            let time = rate.time_of(all);
            let within = |other: &TenantBacklog| {
                let most = other.own_rate.map_or(u64::MAX, |own| own.jobs_in(time));
                turns(other).min(most)
            };
            let fewer = others
                .iter()
                .fold(own.jobs, |sum, other| sum.saturating_add(within(other)));
            if fewer >= all {
                break;
            }
            all = fewer;
        }
        all
    }
}

/// Jobs of a tenant in one lane.
struct OwnJobs<'a> {
    tenant: &'a Name,
    jobs: u64,
    weight: u64,
}

/// Returns the weight of a tenant's turns.
fn turn_weight(rule: &TenantRule) -> u64 {
    u64::from(rule.weight.as_u32()) * rule.priority.factor()
}

impl<S: JobStore> EngineContext<S> {
    /// Returns backlogs that are at most a second old, if one page has all tenants. Of more tenants it returns those
    /// of the last sample.
    pub(crate) async fn recent_backlogs(&self) -> Arc<TenantBacklogs> {
        let last = Arc::clone(&self.backlogs.last.lock());
        let now = self.clock.now();
        let is_expired = self.backlogs.is_expired.swap(false, Ordering::Relaxed);
        if !is_expired && last.read > Nanos::ZERO && now.since(last.read) < MAX_AGE {
            return last;
        }
        let page = PageRequest {
            after: None,
            max: PAGE_SIZE,
        };
        match self.store.tenants(page).await {
            Ok(reports) if reports.len() < PAGE_SIZE => {
                let mut backlogs = TenantBacklogs::new(now);
                for report in &reports {
                    backlogs.add(report, |lane| self.shares.cost(lane));
                }
                self.keep_backlogs(backlogs)
            }
            _ => last,
        }
    }
}

impl<S> EngineContext<S> {
    /// Replaces the backlogs that were read last.
    pub(crate) fn keep_backlogs(&self, backlogs: TenantBacklogs) -> Arc<TenantBacklogs> {
        let backlogs = Arc::new(backlogs);
        *self.backlogs.last.lock() = Arc::clone(&backlogs);
        backlogs
    }

    /// Returns a workload with all jobs that its lanes end before its last one.
    pub(super) fn with_competition(&self, workload: &Workload, backlogs: &TenantBacklogs) -> Workload {
        let settings = self.settings.load();
        let mut lanes: BTreeMap<Name, WorkAmount> = BTreeMap::new();
        for (tenant, work) in workload.tenants() {
            let weight = turn_weight(settings.rule(tenant));
            for (lane, amount) in &work.lanes {
                let jobs = amount.jobs;
                let own = OwnJobs { tenant, jobs, weight };
                let before = backlogs.jobs_before(lane, &own, self.lane_rate_alone(lane));
                let others = self.shares.cost(lane).times(before - jobs);
                let all = amount.plus(others);
                let longest = lanes.entry(lane.clone()).or_insert(all);
                *longest = if all.jobs > longest.jobs { all } else { *longest };
            }
        }
        let in_lane = |lane: &Name, amount: WorkAmount| {
            let longest = lanes.get(lane).copied().unwrap_or_default();
            if longest.jobs > amount.jobs { longest } else { amount }
        };
        workload.with_lane_amounts(in_lane)
    }
}

/// Enough for a result within a hundredth: each round corrects the rest of the one before.
const ROUNDS: usize = 12;

/// Estimates are read once a second by a user who watches.
const MAX_AGE: Duration = Duration::from_secs(1);

/// One response of the store, some milliseconds.
const PAGE_SIZE: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().expect("a name")
    }

    /// Tenants with their jobs, weight and own rate in one lane.
    fn backlogs(tenants: &[(&str, u64, u64, Option<&str>)]) -> TenantBacklogs {
        let mut backlogs = TenantBacklogs::default();
        let backlog = |(tenant, jobs, weight, rate): &(&str, u64, u64, Option<&str>)| TenantBacklog {
            tenant: name(tenant),
            jobs: *jobs,
            weight: *weight,
            own_rate: rate.map(per_second),
        };
        backlogs
            .lanes
            .insert(name("shop"), tenants.iter().map(backlog).collect());
        backlogs
    }

    fn per_second(rate: &str) -> BindingRate {
        let one = WorkAmount { jobs: 1, units: 1 };
        BindingRate::of_limit(rate.parse().expect("a rate"), CountBy::Cost, one, 1).expect("it counts")
    }

    fn before(backlogs: &TenantBacklogs, tenant: &str, jobs: u64, weight: u64) -> u64 {
        let tenant = name(tenant);
        let own = OwnJobs {
            tenant: &tenant,
            jobs,
            weight,
        };
        backlogs.jobs_before(&name("shop"), &own, Some(per_second("30/s")))
    }

    // 10,000, 1,000 and 100 jobs at 30/s end after 370, 70 and 10 s.
    #[test]
    fn a_tenant_waits_for_as_many_jobs_of_others_as_it_has() {
        let all = backlogs(&[("a", 10_000, 1, None), ("b", 1_000, 1, None), ("c", 100, 1, None)]);
        assert_eq!(before(&all, "a", 10_000, 1), 11_100);
        assert_eq!(before(&all, "b", 1_000, 1), 2_100);
        assert_eq!(before(&all, "c", 100, 1), 300);
        assert_eq!(before(&all, "new", 10, 1), 40, "not in the last sample");
    }

    // 3 : 2 : 1. The first ends its 300 jobs beside 200 and 100 of the others.
    #[test]
    fn weights_divide_the_turns() {
        let all = backlogs(&[("a", 300, 3, None), ("b", 900, 2, None), ("c", 900, 1, None)]);
        assert_eq!(before(&all, "a", 300, 3), 600);
        assert_eq!(before(&all, "c", 900, 1), 2_100);
    }

    // 2,000 jobs each at 30/s, one tenant at 4/s of its own: the others end after 2,000 / 13 = 154 s.
    #[test]
    fn a_tenant_with_a_low_limit_takes_fewer_turns() {
        let all = backlogs(&[
            ("a", 2_000, 1, Some("4/s")),
            ("b", 2_000, 1, None),
            ("c", 2_000, 1, None),
        ]);
        let jobs = before(&all, "b", 2_000, 1);
        assert!((4_615..4_625).contains(&jobs), "{jobs}");
    }
}
