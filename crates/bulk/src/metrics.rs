//! What the engine counts, and the page that is made of it.
//!
//! Events are counted as they happen; how tenants stand is what the last look at the store found. A
//! scrape reads both and waits for nothing: a store that hangs must not take the page with it that would
//! tell so.

mod tenants;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use outflow::core::{Congestion, CongestionLevel};
use outflow::metrics::{FamilySource, MetricFamily, MetricSample, SampleValue, bulk, label};
use outflow_core::AlertChange;
use outflow_store::{JobCounts, JobStore, Name, SettleResult};

use crate::engine::EngineContext;
use crate::events::BulkEvent;
use crate::maintenance::tenant_sampler::{TenantSample, TenantSampler};
use crate::settings::EngineSettings;
use tenants::TenantMetrics;

/// Everything that is counted.
#[derive(Debug, Default)]
pub(crate) struct EngineCounters {
    done: AtomicU64,
    buried: AtomicU64,
    waits: AtomicU64,
    put_off: AtomicU64,
    cancelled: AtomicU64,
    fenced: AtomicU64,
    reaped: AtomicU64,
    store_errors: AtomicU64,
    drift: AtomicU64,
    tenants: TenantMetrics,
    look: ArcSwap<TenantSampler>,
}

impl EngineCounters {
    /// A claim ended so.
    pub(crate) fn settled(&self, how: SettleResult) {
        add(
            match how {
                SettleResult::Done => &self.done,
                SettleResult::Buried => &self.buried,
                SettleResult::Waits => &self.waits,
                SettleResult::PutOff { .. } => &self.put_off,
                SettleResult::Cancelled => &self.cancelled,
                SettleResult::Fenced => &self.fenced,
            },
            1,
        );
    }

    /// So many jobs of the dead were taken back.
    pub(crate) fn reaped(&self, jobs: u64) {
        add(&self.reaped, jobs);
    }

    /// The store could not do what it was asked.
    pub(crate) fn store_failed(&self) {
        add(&self.store_errors, 1);
    }

    /// Counts and jobs differ by so many.
    pub(crate) fn drifted(&self, jobs: u64) {
        self.drift.store(jobs, Ordering::Relaxed);
    }

    fn by_how(&self) -> [(&'static str, &AtomicU64); 5] {
        [
            ("done", &self.done),
            ("buried", &self.buried),
            ("waits", &self.waits),
            ("put_off", &self.put_off),
            ("cancelled", &self.cancelled),
        ]
    }
}

impl<S> EngineContext<S> {
    /// A job of a tenant was put off, or would have been.
    pub(crate) fn waited(&self, settings: &EngineSettings, tenant: &Name, met: &Congestion) {
        let rule = &settings.congestion;
        self.numbers
            .tenants
            .waited(self.clock.now(), tenant, met, rule);
    }

    /// Takes in how all stand, and tells what is worth calling somebody for.
    pub(crate) fn record_samples(&self, look: TenantSampler) {
        let told = self
            .numbers
            .tenants
            .record_samples(self.clock.now(), &look.groups);
        self.numbers.look.store(Arc::new(look));
        for (tenant, alert, change) in told {
            self.emit(BulkEvent::Alert {
                tenant,
                alert,
                raised: change == AlertChange::Raised,
            });
        }
    }
}

/// The engine's part of the page. It does not keep the engine alive.
pub(crate) struct MetricsPage<S>(Weak<EngineContext<S>>);

impl<S> MetricsPage<S> {
    pub(crate) fn new(hub: &Arc<EngineContext<S>>) -> Self {
        Self(Arc::downgrade(hub))
    }
}

impl<S: JobStore> FamilySource for MetricsPage<S> {
    fn families(&self) -> Vec<MetricFamily> {
        let Some(hub) = self.0.upgrade() else {
            return Vec::new();
        };
        let look = hub.numbers.look.load_full();
        let groups = || look.groups.iter().chain(&look.rest);
        let mut all = vec![
            levels(groups()),
            hub.numbers.tenants.backoffs(),
            hub.numbers.tenants.capped(),
            throttles(groups()),
            MetricFamily::by_word(
                bulk::NON_READY,
                groups().map(|group| (group.name.as_str(), level(group.non_ready))),
            ),
            MetricFamily::alone(bulk::SAVED_SPINS, SampleValue::Count(hub.spins.saved())),
        ];
        all.extend(hub.engine_families(&look.tally));
        all
    }
}

impl<S> EngineContext<S> {
    /// What is not of single tenants.
    fn engine_families(&self, tally: &JobCounts) -> [MetricFamily; 7] {
        let numbers = &self.numbers;
        let (all, busy) = (self.places.all(), self.places.busy());
        let idle = all.saturating_sub(busy);
        let places = |count: usize| level(u64::try_from(count).unwrap_or(u64::MAX));
        let how = numbers.by_how();
        [
            MetricFamily::by_word(bulk::JOBS, states(tally)),
            MetricFamily::by_word(
                bulk::SETTLED,
                how.map(|(word, count)| (word, counted(count))),
            ),
            MetricFamily::alone(bulk::REAPED, counted(&numbers.reaped)),
            MetricFamily::alone(bulk::FENCED, counted(&numbers.fenced)),
            MetricFamily::alone(bulk::STORE_ERRORS, counted(&numbers.store_errors)),
            MetricFamily::by_word(
                bulk::WORKERS,
                [("idle", places(idle)), ("busy", places(busy))],
            ),
            MetricFamily::alone(bulk::DRIFT, level(numbers.drift.load(Ordering::Relaxed))),
        ]
    }
}

fn states(tally: &JobCounts) -> [(&'static str, SampleValue); 4] {
    [
        ("queued", level(tally.queued)),
        ("delayed", level(tally.delayed)),
        ("non_ready", level(tally.non_ready)),
        ("in_flight", level(tally.in_flight)),
    ]
}

fn levels<'g>(groups: impl Iterator<Item = &'g TenantSample>) -> MetricFamily {
    let of_group = |group: &TenantSample| {
        CongestionLevel::ALL.map(|one| MetricSample {
            labels: vec![
                (label::GROUP_ID, group.name.clone()),
                (label::LEVEL, one.as_str().to_owned()),
            ],
            value: level(u64::from(one == group.level)),
        })
    };
    MetricFamily {
        metric: bulk::CONGESTION_LEVEL,
        samples: groups.flat_map(of_group).collect(),
    }
}

fn throttles<'g>(groups: impl Iterator<Item = &'g TenantSample>) -> MetricFamily {
    let finished = groups.filter(|group| group.throttles.jobs() > 0);
    MetricFamily::by_word(
        bulk::AVG_THROTTLE,
        finished.map(|group| {
            (
                group.name.as_str(),
                SampleValue::Level(group.throttles.per_job()),
            )
        }),
    )
}

fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
}

fn counted(count: &AtomicU64) -> SampleValue {
    SampleValue::Count(count.load(Ordering::Relaxed))
}

/// A count as a gauge; more than four billion are told as so many.
fn level(count: u64) -> SampleValue {
    SampleValue::Level(f64::from(u32::try_from(count).unwrap_or(u32::MAX)))
}
