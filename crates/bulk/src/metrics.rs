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
use outflow::metrics::{Families, Family, Sample, Value, bulk, label};
use outflow_core::AlertChange;
use outflow_store::{JobStore, Name, Settled, Tally};

use crate::engine::Hub;
use crate::look::{Group, Look};
use crate::news::News;
use crate::settings::Settings;
use tenants::Tenants;

/// Everything that is counted.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    done: AtomicU64,
    buried: AtomicU64,
    waits: AtomicU64,
    put_off: AtomicU64,
    cancelled: AtomicU64,
    fenced: AtomicU64,
    reaped: AtomicU64,
    store_errors: AtomicU64,
    drift: AtomicU64,
    tenants: Tenants,
    look: ArcSwap<Look>,
}

impl Numbers {
    /// A claim ended so.
    pub(crate) fn settled(&self, how: Settled) {
        add(
            match how {
                Settled::Done => &self.done,
                Settled::Buried => &self.buried,
                Settled::Waits => &self.waits,
                Settled::PutOff { .. } => &self.put_off,
                Settled::Cancelled => &self.cancelled,
                Settled::Fenced => &self.fenced,
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

impl<S> Hub<S> {
    /// A job of a tenant was put off, or would have been.
    pub(crate) fn waited(&self, settings: &Settings, tenant: &Name, met: &Congestion) {
        let rule = &settings.congestion;
        self.numbers
            .tenants
            .waited(self.clock.now(), tenant, met, rule);
    }

    /// Takes in how all stand, and tells what is worth calling somebody for.
    pub(crate) fn looked(&self, look: Look) {
        let told = self.numbers.tenants.looked(self.clock.now(), &look.groups);
        self.numbers.look.store(Arc::new(look));
        for (tenant, alert, change) in told {
            self.tell(News::Alert {
                tenant,
                alert,
                raised: change == AlertChange::Raised,
            });
        }
    }
}

/// The engine's part of the page. It does not keep the engine alive.
pub(crate) struct Page<S>(Weak<Hub<S>>);

impl<S> Page<S> {
    pub(crate) fn of(hub: &Arc<Hub<S>>) -> Self {
        Self(Arc::downgrade(hub))
    }
}

impl<S: JobStore> Families for Page<S> {
    fn families(&self) -> Vec<Family> {
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
            Family::by_word(
                bulk::NON_READY,
                groups().map(|group| (group.name.as_str(), level(group.non_ready))),
            ),
            Family::alone(bulk::SAVED_SPINS, Value::Count(hub.spins.saved())),
        ];
        all.extend(hub.engine_families(&look.tally));
        all
    }
}

impl<S> Hub<S> {
    /// What is not of single tenants.
    fn engine_families(&self, tally: &Tally) -> [Family; 7] {
        let numbers = &self.numbers;
        let (all, busy) = (self.places.all(), self.places.busy());
        let idle = all.saturating_sub(busy);
        let places = |count: usize| level(u64::try_from(count).unwrap_or(u64::MAX));
        let how = numbers.by_how();
        [
            Family::by_word(bulk::JOBS, states(tally)),
            Family::by_word(
                bulk::SETTLED,
                how.map(|(word, count)| (word, counted(count))),
            ),
            Family::alone(bulk::REAPED, counted(&numbers.reaped)),
            Family::alone(bulk::FENCED, counted(&numbers.fenced)),
            Family::alone(bulk::STORE_ERRORS, counted(&numbers.store_errors)),
            Family::by_word(
                bulk::WORKERS,
                [("idle", places(idle)), ("busy", places(busy))],
            ),
            Family::alone(bulk::DRIFT, level(numbers.drift.load(Ordering::Relaxed))),
        ]
    }
}

fn states(tally: &Tally) -> [(&'static str, Value); 4] {
    [
        ("queued", level(tally.queued)),
        ("delayed", level(tally.delayed)),
        ("non_ready", level(tally.non_ready)),
        ("in_flight", level(tally.in_flight)),
    ]
}

fn levels<'g>(groups: impl Iterator<Item = &'g Group>) -> Family {
    let of_group = |group: &Group| {
        CongestionLevel::ALL.map(|one| Sample {
            labels: vec![
                (label::GROUP_ID, group.name.clone()),
                (label::LEVEL, one.as_str().to_owned()),
            ],
            value: level(u64::from(one == group.level)),
        })
    };
    Family {
        metric: bulk::CONGESTION_LEVEL,
        samples: groups.flat_map(of_group).collect(),
    }
}

fn throttles<'g>(groups: impl Iterator<Item = &'g Group>) -> Family {
    let finished = groups.filter(|group| group.throttles.jobs() > 0);
    Family::by_word(
        bulk::AVG_THROTTLE,
        finished.map(|group| (group.name.as_str(), Value::Level(group.throttles.per_job()))),
    )
}

fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
}

fn counted(count: &AtomicU64) -> Value {
    Value::Count(count.load(Ordering::Relaxed))
}

/// A count as a gauge; more than four billion are told as so many.
fn level(count: u64) -> Value {
    Value::Level(f64::from(u32::try_from(count).unwrap_or(u32::MAX)))
}
