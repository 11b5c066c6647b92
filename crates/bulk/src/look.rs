//! A look at how all tenants stand, for the page of metrics and for alerts.
//!
//! It is taken in the background and a bounded number of tenants at a time, because whoever asks for the
//! page cannot wait for a store, and there may be more tenants than anybody can look through.

use std::cmp::Reverse;

use outflow::core::{CongestionLevel, Throttles};
use outflow_store::{JobStore, Page, StoreError, Tally, TenantReport};

use crate::congestion::state;
use crate::engine::Hub;
use crate::settings::Settings;

/// How all stood at one instant.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Look {
    /// All jobs.
    pub(crate) tally: Tally,
    /// The tenants with the most jobs, in the order of their names.
    pub(crate) groups: Vec<Group>,
    /// All others together, if there are any: the worst level among them.
    pub(crate) rest: Option<Group>,
}

/// How one tenant stood.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Group {
    /// Its name.
    pub(crate) name: String,
    /// How many of its jobs wait for room.
    pub(crate) non_ready: u64,
    /// How bad that is.
    pub(crate) level: CongestionLevel,
    /// How often those that are over were put back.
    pub(crate) throttles: Throttles,
}

/// Looks at the store and takes in what it finds.
pub(crate) async fn look<S: JobStore>(hub: &Hub<S>) -> Result<(), StoreError> {
    let settings = hub.settings.load_full();
    let (active, tally) = (hub.store.active().await?, hub.store.tally().await?);
    let mut reports = with_work(hub).await?;
    reports.sort_by_key(|report| Reverse(report.tally.open()));
    let group = |report: TenantReport| Group::of(&settings, active, report);
    let rest: Vec<_> = reports.split_off(MOST.min(reports.len()));
    let rest = rest.into_iter().map(group).reduce(Group::and);
    let mut groups: Vec<_> = reports.into_iter().map(group).collect();
    groups.sort_by(|one, other| one.name.cmp(&other.name));
    hub.looked(Look {
        tally,
        groups,
        rest: rest.map(|rest| Group {
            name: outflow::metrics::OTHER.to_owned(),
            ..rest
        }),
    });
    Ok(())
}

/// The tenants that have work, as far as a look goes.
async fn with_work<S: JobStore>(hub: &Hub<S>) -> Result<Vec<TenantReport>, StoreError> {
    let mut found = Vec::new();
    let mut after = None;
    for _ in 0..PAGES {
        let page = Page { after, most: PAGE };
        let reports = hub.store.tenants(page).await?;
        let Some(last) = reports.last() else {
            break;
        };
        after = Some(last.name.clone());
        found.extend(reports.into_iter().filter(|report| report.tally.open() > 0));
    }
    Ok(found)
}

impl Group {
    fn of(settings: &Settings, active: u64, report: TenantReport) -> Self {
        let tally = report.tally;
        let over = tally.done + tally.dead + tally.failed;
        let state = state(settings, active, report);
        Self {
            name: state.group.to_string(),
            non_ready: state.non_ready,
            level: state.level,
            throttles: Throttles::new(tally.throttles, over),
        }
    }

    /// Both together.
    fn and(self, other: Self) -> Self {
        let (one, another) = (self.throttles, other.throttles);
        Self {
            name: self.name,
            non_ready: self.non_ready + other.non_ready,
            level: self.level.max(other.level),
            throttles: Throttles::new(one.sum() + another.sum(), one.jobs() + another.jobs()),
        }
    }
}

/// As many as a page should have of one metric.
const MOST: usize = 100;

/// As many tenants as one answer of a store should hold.
const PAGE: usize = 500;

/// Ten thousand tenants are looked at: more take longer than a look may.
const PAGES: usize = 20;
