//! Samples of all tenants, for metrics, alerts and the congestion history.
//!
//! They are taken in the background and page by page, because a scrape cannot wait for a store. Every tenant is
//! read; the tenants with the most work are kept by name, all others as one sum. The history is one for all machines
//! of a shared store, so one of them records it in each interval.

use std::cmp::Reverse;
use std::time::Duration;

use outflow::core::{CongestionLevel, ThrottleCounts};
use outflow_core::{AlertChange, Nanos};
use outflow_store::{CongestionRecord, JobCounts, JobStore, Name, PageRequest, StoreError, TenantReport};
use tokio::time::sleep;

use crate::congestion::count_throttles;
use crate::congestion::lane_shares::LaneShares;
use crate::engine::EngineContext;
use crate::events::BulkEvent;
use crate::progress::competing_work::TenantBacklogs;

/// State of all tenants at one instant.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct TenantSnapshot {
    pub(crate) taken: Nanos,
    /// Counts of all jobs.
    pub(crate) counts: JobCounts,
    /// Tenants with the most jobs, ordered by name.
    pub(crate) groups: Vec<TenantSample>,
    /// Sum of all others, with their worst level.
    pub(crate) rest: Option<TenantSample>,
}

/// State of one tenant.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct TenantSample {
    pub(crate) name: String,
    /// Number of its jobs that lack quota.
    pub(crate) non_ready: u64,
    pub(crate) level: CongestionLevel,
    /// Remaining time of its jobs; unknown for a sum of tenants.
    pub(crate) eta: Option<Duration>,
    /// Throttles of its ended jobs.
    pub(crate) throttles: ThrottleCounts,
}

/// Samples all tenants, records them and emits alerts.
pub(crate) async fn sample<S: JobStore>(context: &EngineContext<S>) -> Result<(), StoreError> {
    let shares = context.read_shares().await?;
    let ranking = rank(context, &shares).await?;
    let backlogs = context.measure_lanes().await?;
    let groups = ranking.first.iter().map(|report| {
        let eta = context.tenant_eta(report, &shares, &backlogs);
        TenantSample::new(context, &shares, report, eta)
    });
    let mut groups: Vec<_> = groups.collect();
    groups.sort_by(|one, other| one.name.cmp(&other.name));
    let now = context.clock.now();
    let snapshot = TenantSnapshot {
        taken: now,
        counts: context.store.job_counts().await?,
        groups,
        rest: TenantSample::sum(ranking.rest),
    };
    context.metrics.spins.count_open(snapshot.counts.open());
    for report in context.metrics.record_snapshot(now, snapshot) {
        context.events.emit(BulkEvent::Alert {
            tenant: report.tenant,
            alert: report.alert,
            raised: report.change == AlertChange::Raised,
        });
    }
    Ok(())
}

/// Ranks all tenants that have work, and keeps their backlogs.
async fn rank<S: JobStore>(context: &EngineContext<S>, shares: &LaneShares) -> Result<TenantRanking, StoreError> {
    let (mut ranking, mut pages) = (TenantRanking::default(), TenantPages::default());
    let mut backlogs = TenantBacklogs::new(context.clock.now());
    while let Some(reports) = pages.next(context).await? {
        for report in &reports {
            backlogs.add(report, |lane| context.shares.cost(lane));
        }
        ranking.first.extend(reports);
        ranking.cut(|report| TenantSample::new(context, shares, &report, None));
    }
    context.keep_backlogs(backlogs);
    Ok(ranking)
}

/// Records the congestion of all tenants with work, unless another machine records this interval.
pub(crate) async fn record_history<S: JobStore>(context: &EngineContext<S>) -> Result<(), StoreError> {
    let settings = context.settings.load_full();
    if !context.store.begin_sampling(settings.snapshot_every).await? {
        return Ok(());
    }
    let shares = context.read_shares().await?;
    let mut pages = TenantPages::default();
    while let Some(reports) = pages.next(context).await? {
        let samples = reports.into_iter().map(|report| {
            let state = context.tenant_congestion(&shares, &report, None);
            CongestionRecord {
                tenant: state.group,
                non_ready: state.non_ready,
                speed: state.speed,
                backoff: state.last_backoff,
            }
        });
        let keep = settings.retention.statistics;
        context.store.record_congestion(samples.collect(), keep).await?;
    }
    Ok(())
}

/// Pages of all tenants that have work.
#[derive(Default)]
struct TenantPages {
    after: Option<Name>,
    read: usize,
}

impl TenantPages {
    async fn next<S: JobStore>(&mut self, context: &EngineContext<S>) -> Result<Option<Vec<TenantReport>>, StoreError> {
        if self.read >= PAGES_AT_ONCE {
            sleep(PAGE_WAIT).await;
        }
        self.read += 1;
        let page = PageRequest {
            after: self.after.take(),
            max: PAGE_SIZE,
        };
        let mut reports = context.store.tenants(page).await?;
        self.after = reports.last().map(|last| last.name.clone());
        reports.retain(|report| report.counts.open() > 0);
        Ok(self.after.is_some().then_some(reports))
    }
}

/// Tenants by their number of open jobs: the first ones, and the sum of all others.
#[derive(Default)]
struct TenantRanking {
    first: Vec<TenantReport>,
    rest: Option<TenantSample>,
}

impl TenantRanking {
    /// Keeps the tenants with the most jobs, and sums up the others.
    fn cut(&mut self, sample: impl FnMut(TenantReport) -> TenantSample) {
        self.first.sort_by_key(|report| Reverse(report.counts.open()));
        let others = self.first.split_off(MAX_NAMED.min(self.first.len()));
        let others = others.into_iter().map(sample);
        let rest = self.rest.take().into_iter();
        self.rest = rest.chain(others).reduce(TenantSample::plus);
    }
}

impl TenantSample {
    fn new<S>(context: &EngineContext<S>, shares: &LaneShares, report: &TenantReport, eta: Option<Duration>) -> Self {
        let throttles = count_throttles(&report.counts).unwrap_or(ThrottleCounts::NONE);
        let state = context.tenant_congestion(shares, report, eta);
        Self {
            name: state.group.to_string(),
            non_ready: state.non_ready,
            level: state.level,
            eta: state.eta,
            throttles,
        }
    }

    /// Sums up tenants without a name of their own, with their worst level.
    pub(crate) fn sum(others: impl IntoIterator<Item = Self>) -> Option<Self> {
        let sum = others.into_iter().reduce(Self::plus)?;
        Some(Self {
            name: outflow::metrics::OTHER.to_owned(),
            ..sum
        })
    }

    fn plus(self, other: Self) -> Self {
        let (one, another) = (self.throttles, other.throttles);
        Self {
            name: self.name,
            non_ready: self.non_ready + other.non_ready,
            level: self.level.max(other.level),
            eta: None,
            throttles: ThrottleCounts::new(one.sum() + another.sum(), one.jobs() + another.jobs()),
        }
    }
}

/// Equals the number of labels of one metric.
const MAX_NAMED: usize = 100;

/// Larger responses would block the store for too long.
const PAGE_SIZE: usize = 500;

/// Ten thousand tenants are read without a wait.
const PAGES_AT_ONCE: usize = 20;

/// A page costs a store some milliseconds: with this wait a sample uses a tenth of its time at most, and reads a
/// hundred thousand tenants in ten seconds.
const PAGE_WAIT: Duration = Duration::from_millis(50);
