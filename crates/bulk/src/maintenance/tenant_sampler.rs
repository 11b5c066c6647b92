//! A look at how all tenants stand, for the page of metrics and for alerts.
//!
//! It is taken in the background and a bounded number of tenants at a time, because whoever asks for the
//! page cannot wait for a store. All tenants are seen, however many there are; those with the most work are
//! remembered by name, and of the rest only the sum.

use std::cmp::Reverse;
use std::time::Duration;

use outflow::core::{CongestionLevel, ThrottleCounts};
use outflow_store::{JobCounts, JobStore, PageRequest, StoreError, TenantReport};
use tokio::time::sleep;

use crate::congestion::{state, throttles};
use crate::engine::EngineContext;
use crate::settings::EngineSettings;

/// How all stood at one instant.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct TenantSampler {
    /// All jobs.
    pub(crate) tally: JobCounts,
    /// The tenants with the most jobs, in the order of their names.
    pub(crate) groups: Vec<TenantSample>,
    /// All others together, if there are any: the worst level among them.
    pub(crate) rest: Option<TenantSample>,
}

/// How one tenant stood.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct TenantSample {
    /// Its name.
    pub(crate) name: String,
    /// How many of its jobs wait for room.
    pub(crate) non_ready: u64,
    /// How bad that is.
    pub(crate) level: CongestionLevel,
    /// How often those that are over were put back.
    pub(crate) throttles: ThrottleCounts,
}

/// Looks at the store and takes in what it finds.
pub(crate) async fn sample<S: JobStore>(hub: &EngineContext<S>) -> Result<(), StoreError> {
    let ranking = rank(hub).await?;
    let mut groups: Vec<_> = ranking.first.into_iter().map(|(_, group)| group).collect();
    groups.sort_by(|one, other| one.name.cmp(&other.name));
    hub.record_samples(TenantSampler {
        tally: hub.store.job_counts().await?,
        groups,
        rest: ranking.rest.map(|rest| TenantSample {
            name: outflow::metrics::OTHER.to_owned(),
            ..rest
        }),
    });
    Ok(())
}

/// Goes through all tenants that have work.
async fn rank<S: JobStore>(hub: &EngineContext<S>) -> Result<TenantRanking, StoreError> {
    let settings = hub.settings.load_full();
    let active = hub.store.active_tenants().await?;
    let (mut ranking, mut after) = (TenantRanking::default(), None);
    for number in 0_usize.. {
        if number >= AT_ONCE {
            sleep(BREATH).await;
        }
        let page = PageRequest { after, most: PAGE };
        let reports = hub.store.tenants(page).await?;
        let Some(last) = reports.last() else {
            break;
        };
        after = Some(last.name.clone());
        for report in reports {
            let open = report.tally.open();
            if open > 0 {
                let group = TenantSample::new(&settings, active, report);
                ranking.first.push((open, group));
            }
        }
        ranking.cut();
    }
    Ok(ranking)
}

/// Tenants by how many jobs of them are open: the first, and all others together.
#[derive(Default)]
struct TenantRanking {
    first: Vec<(u64, TenantSample)>,
    rest: Option<TenantSample>,
}

impl TenantRanking {
    /// Keeps those with the most, and adds up the rest.
    fn cut(&mut self) {
        self.first.sort_by_key(|(open, _)| Reverse(*open));
        let others = self.first.split_off(MOST.min(self.first.len()));
        let others = others.into_iter().map(|(_, group)| group);
        self.rest = self
            .rest
            .take()
            .into_iter()
            .chain(others)
            .reduce(TenantSample::and);
    }
}

impl TenantSample {
    fn new(settings: &EngineSettings, active: u64, report: TenantReport) -> Self {
        let tally = report.tally;
        let state = state(settings, active, report);
        Self {
            name: state.group.to_string(),
            non_ready: state.non_ready,
            level: state.level,
            throttles: throttles(&tally).unwrap_or(ThrottleCounts::NONE),
        }
    }

    /// Both together.
    fn and(self, other: Self) -> Self {
        let (one, another) = (self.throttles, other.throttles);
        Self {
            name: self.name,
            non_ready: self.non_ready + other.non_ready,
            level: self.level.max(other.level),
            throttles: ThrottleCounts::new(one.sum() + another.sum(), one.jobs() + another.jobs()),
        }
    }
}

/// As many as a page should have of one metric.
const MOST: usize = 100;

/// As many tenants as one answer of a store should hold.
const PAGE: usize = 500;

/// Ten thousand tenants are looked at without a rest.
const AT_ONCE: usize = 20;

/// A page costs a store some milliseconds: with this between two of them a look takes no more than a tenth of its
/// time, and a hundred thousand tenants are seen in ten seconds.
const BREATH: Duration = Duration::from_millis(50);
