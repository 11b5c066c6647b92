//! Metrics of the engine.
//!
//! Events are counted as they happen; the state of tenants is the last sample of the store. A scrape reads both and
//! waits for nothing: a store that hangs must not block the page that shows it.

mod tenants;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use outflow::core::{Congestion, CongestionLevel};
use outflow::metrics::{FamilySource, MetricFamily, MetricSample, SampleValue, bulk, label};
use outflow_core::Nanos;
use outflow_store::{JobCounts, JobEnd, JobStore, Name, SettleResult};

use crate::congestion::spin_savings::SpinSavings;
use crate::engine::EngineContext;
use crate::maintenance::tenant_sampler::{TenantSample, TenantSnapshot};
use crate::settings::EngineSettings;
use tenants::{AlertReport, TenantMetrics};

/// Metrics of one engine.
#[derive(Debug, Default)]
pub(crate) struct EngineMetrics {
    pub(crate) counters: EngineCounters,
    pub(crate) spins: SpinSavings,
    tenants: TenantMetrics,
    snapshot: ArcSwap<TenantSnapshot>,
}

/// Counters of events.
#[derive(Debug, Default)]
pub(crate) struct EngineCounters {
    done: AtomicU64,
    dead_lettered: AtomicU64,
    waits: AtomicU64,
    deferred: AtomicU64,
    cancelled: AtomicU64,
    attempts: AtomicU64,
    failed_by_job: AtomicU64,
    failed_by_api: AtomicU64,
    fenced: AtomicU64,
    reaped: AtomicU64,
    store_errors: AtomicU64,
    drift: AtomicU64,
}

impl EngineCounters {
    /// Counts the end of a claim.
    pub(crate) fn settled(&self, result: SettleResult) {
        add(
            match result {
                SettleResult::Done => &self.done,
                SettleResult::DeadLettered => &self.dead_lettered,
                SettleResult::Waits => &self.waits,
                SettleResult::Deferred { .. } => &self.deferred,
                SettleResult::Cancelled => &self.cancelled,
                SettleResult::Fenced => &self.fenced,
            },
            1,
        );
    }

    /// Counts the start of an attempt.
    pub(crate) fn attempt_began(&self) {
        add(&self.attempts, 1);
    }

    /// Returns the number of attempts that began.
    pub(crate) fn attempts(&self) -> u64 {
        self.attempts.load(Ordering::Relaxed)
    }

    /// Counts a failed attempt, if the end of the claim is one.
    pub(crate) fn attempted(&self, end: &JobEnd) {
        match end {
            JobEnd::Retry { .. } | JobEnd::RetryDeferred { .. } | JobEnd::Failed { .. } => add(&self.failed_by_job, 1),
            JobEnd::ApiFailed { .. } => add(&self.failed_by_api, 1),
            _ => {}
        }
    }

    /// Counts jobs that were recovered from dead workers.
    pub(crate) fn reaped(&self, jobs: u64) {
        add(&self.reaped, jobs);
    }

    /// Counts an error of the store.
    pub(crate) fn store_failed(&self) {
        add(&self.store_errors, 1);
    }

    /// Sets the difference between the store's counts and its jobs.
    pub(crate) fn set_drift(&self, jobs: u64) {
        self.drift.store(jobs, Ordering::Relaxed);
    }
}

impl EngineMetrics {
    /// Records the congestion that a deferred job of a tenant met.
    pub(crate) fn record_deferral(&self, now: Nanos, settings: &EngineSettings, tenant: &Name, met: &Congestion) {
        self.tenants.deferred(now, tenant, met, &settings.congestion);
    }

    /// Records the congestion for which a job of a tenant would have been deferred.
    pub(crate) fn record_spared_deferral(&self, tenant: &Name, met: &Congestion) {
        self.tenants.spared(tenant, met);
    }

    /// Records a sample of all tenants, and returns the alerts that began or ended.
    pub(crate) fn record_snapshot(&self, now: Nanos, snapshot: TenantSnapshot) -> Vec<AlertReport> {
        let alerts = self.tenants.record_samples(now, &snapshot.groups);
        self.snapshot.store(Arc::new(self.tenants.sum_unlabelled(snapshot)));
        alerts
    }
}

/// The engine's part of the metrics page. It does not keep the engine alive.
pub(crate) struct MetricsPage<S>(Weak<EngineContext<S>>);

impl<S> MetricsPage<S> {
    pub(crate) fn new(context: &Arc<EngineContext<S>>) -> Self {
        Self(Arc::downgrade(context))
    }
}

impl<S: JobStore> FamilySource for MetricsPage<S> {
    fn families(&self) -> Vec<MetricFamily> {
        let Some(context) = self.0.upgrade() else {
            return Vec::new();
        };
        let metrics = &context.metrics;
        let snapshot = metrics.snapshot.load_full();
        let groups = || snapshot.groups.iter().chain(&snapshot.rest);
        // Elsewhere the estimate is that of now.
        let age = context.clock.now().since(snapshot.taken);
        let estimate = |group: &TenantSample| Some(gauge(group.eta?.saturating_sub(age).as_secs()));
        let [settled, failed_attempts, reaped, fenced, store_errors, drift] = metrics.counters.families();
        vec![
            levels(groups()),
            metrics.tenants.backoffs(),
            metrics.tenants.capped(),
            throttles(groups()),
            MetricFamily::by_word(
                bulk::NON_READY,
                groups().map(|group| (group.name.as_str(), gauge(group.non_ready))),
            ),
            MetricFamily::by_word(
                bulk::ESTIMATE,
                groups().filter_map(|group| Some((group.name.as_str(), estimate(group)?))),
            ),
            MetricFamily::alone(bulk::SAVED_SPINS, SampleValue::Count(metrics.spins.saved())),
            MetricFamily::by_word(bulk::JOBS, job_states(&snapshot.counts)),
            settled,
            failed_attempts,
            reaped,
            fenced,
            store_errors,
            workers(&context),
            drift,
        ]
    }
}

impl EngineCounters {
    fn families(&self) -> [MetricFamily; 6] {
        let results = [
            ("done", counter(&self.done)),
            ("dead_lettered", counter(&self.dead_lettered)),
            ("waits", counter(&self.waits)),
            ("put_off", counter(&self.deferred)),
            ("cancelled", counter(&self.cancelled)),
        ];
        let failures = [
            ("job", counter(&self.failed_by_job)),
            ("api", counter(&self.failed_by_api)),
        ];
        [
            MetricFamily::by_word(bulk::SETTLED, results),
            MetricFamily::by_word(bulk::FAILED_ATTEMPTS, failures),
            MetricFamily::alone(bulk::REAPED, counter(&self.reaped)),
            MetricFamily::alone(bulk::FENCED, counter(&self.fenced)),
            MetricFamily::alone(bulk::STORE_ERRORS, counter(&self.store_errors)),
            MetricFamily::alone(bulk::DRIFT, gauge(self.drift.load(Ordering::Relaxed))),
        ]
    }
}

fn workers<S>(context: &EngineContext<S>) -> MetricFamily {
    let (size, busy) = (context.pool.size(), context.pool.busy());
    let slots = |count: usize| gauge(u64::try_from(count).unwrap_or(u64::MAX));
    let idle = slots(size.saturating_sub(busy));
    MetricFamily::by_word(bulk::WORKERS, [("idle", idle), ("busy", slots(busy))])
}

fn job_states(counts: &JobCounts) -> [(&'static str, SampleValue); 4] {
    [
        ("queued", gauge(counts.queued)),
        ("delayed", gauge(counts.delayed)),
        ("non_ready", gauge(counts.non_ready)),
        ("in_flight", gauge(counts.in_flight)),
    ]
}

fn levels<'g>(groups: impl Iterator<Item = &'g TenantSample>) -> MetricFamily {
    let samples = |group: &TenantSample| {
        CongestionLevel::ALL.map(|one| MetricSample {
            labels: vec![
                (label::GROUP_ID, group.name.clone()),
                (label::LEVEL, one.name().to_owned()),
            ],
            value: gauge(u64::from(one == group.level)),
        })
    };
    MetricFamily {
        metric: bulk::CONGESTION_LEVEL,
        samples: groups.flat_map(samples).collect(),
    }
}

fn throttles<'g>(groups: impl Iterator<Item = &'g TenantSample>) -> MetricFamily {
    let finished = groups.filter(|group| group.throttles.jobs() > 0);
    MetricFamily::by_word(
        bulk::AVG_THROTTLE,
        finished.map(|group| (group.name.as_str(), SampleValue::Level(group.throttles.per_job()))),
    )
}

fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
}

fn counter(count: &AtomicU64) -> SampleValue {
    SampleValue::Count(count.load(Ordering::Relaxed))
}

/// Returns a count as a gauge, four billion at most.
fn gauge(count: u64) -> SampleValue {
    SampleValue::Level(f64::from(u32::try_from(count).unwrap_or(u32::MAX)))
}
