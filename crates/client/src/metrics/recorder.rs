//! Counts events.
//!
//! All series exist from the beginning, zeros included, so that an alert on a rate works from the
//! first scrape; what is called by a name that nobody announced is counted as `other`. Counting takes
//! no lock, and allocates only where a group is counted for the first time: an event finds its API in a
//! map that is replaced and never changed, and then adds to an atomic.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use outflow_core::{AttemptReport, LimitDrift, MeterEvent, OutcomeClass};
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use smol_str::SmolStr;

use super::OTHER;
use super::counters::{ApiCounters, GlobalCounters, WARNINGS};
use super::family::FamilySource;
use super::gauges::{GaugeSnapshot, GaugeSource};
use super::groups::GroupCounters;
use super::reloads::ReloadCells;
use super::summary::ApiSummary;
use super::tasks::TaskCells;
use crate::api::Api;
use crate::event::{CallFinished, Event, EventKind, FailureLabel, Observer, StatusLabel};
use crate::rules::DEFAULT_GROUP;

/// Metrics of every API, in a registry of their own.
///
/// ```
/// use std::sync::Arc;
/// use outflow::Events;
/// use outflow::metrics::{Known, Metrics};
///
/// let metrics = Arc::new(Metrics::new([Known::new("github", ["search"])]));
/// let events = Events::new();
/// events.subscribe(metrics.clone());
///
/// let page = metrics.render();
/// assert!(page.contains("external_requests_total{api=\"github\"} 0\n"));
/// ```
pub struct Metrics {
    board: Arc<MetricsBoard>,
    registry: Registry,
}

/// An API and its groups, by name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApiLabels {
    /// The API.
    pub api: SmolStr,
    /// Its groups, beside `default`, which every API has.
    pub groups: Vec<SmolStr>,
}

impl ApiLabels {
    /// An API with these groups.
    pub fn new<'a>(api: &str, groups: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            api: SmolStr::new(api),
            groups: groups.into_iter().map(SmolStr::new).collect(),
        }
    }
}

impl From<&Api> for ApiLabels {
    fn from(api: &Api) -> Self {
        let groups = api.rules.groups.iter().map(|group| group.name.as_str());
        Self::new(&api.name, groups)
    }
}

impl Metrics {
    /// Metrics of these APIs.
    pub fn new(apis: impl IntoIterator<Item = ApiLabels>) -> Self {
        let board = Arc::new(MetricsBoard::default());
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Arc::clone(&board)));
        let metrics = Self { board, registry };
        metrics.register(apis);
        metrics
    }

    /// Makes series for more APIs and groups; those that are known keep their counts.
    pub fn register(&self, apis: impl IntoIterator<Item = ApiLabels>) {
        let apis: Vec<_> = apis.into_iter().collect();
        self.board.apis.rcu(|known| with_apis(known, &apis));
    }

    /// Asks this source too at each scrape.
    pub fn add_source(&self, source: Arc<dyn GaugeSource>) {
        self.board.sources.rcu(|known| {
            let mut all = Vec::clone(known);
            all.push(Arc::clone(&source));
            all
        });
    }

    /// Puts these metrics on the page too, after all others. Of two that tell the same metric the first
    /// is heard.
    pub fn append(&self, families: Arc<dyn FamilySource>) {
        self.board.families.rcu(|known| {
            let mut all = Vec::clone(known);
            all.push(Arc::clone(&families));
            all
        });
    }

    /// Everything as `OpenMetrics` text; its type is [`CONTENT_TYPE`](super::CONTENT_TYPE).
    pub fn render(&self) -> String {
        let mut page = String::new();
        // Writing to a string fails only if an encoder of ours does, and none does.
        let written = text::encode(&mut page, &self.registry);
        debug_assert!(written.is_ok(), "{written:?}");
        page
    }

    /// Every API in the order of their names, summed up.
    pub(crate) fn summaries(&self) -> Vec<ApiSummary> {
        let standing = self.board.standing();
        let summary = |(api, reading): &(Arc<ApiCounters>, _)| ApiSummary::new(api, *reading);
        standing.iter().map(summary).collect()
    }
}

impl Observer for Metrics {
    fn observe(&self, event: &Event) {
        self.board.count(event);
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics")
            .field("board", &self.board)
            .finish_non_exhaustive()
    }
}

type Apis = BTreeMap<SmolStr, Arc<ApiCounters>>;

fn with_apis(known: &Apis, more: &[ApiLabels]) -> Apis {
    let mut all = known.clone();
    let other = ApiLabels::new(OTHER, []);
    for one in more.iter().chain([&other]) {
        let fresh = || Arc::new(ApiCounters::new(one.api.clone()));
        let cells = all.entry(one.api.clone()).or_insert_with(fresh);
        let usual = SmolStr::new_static(DEFAULT_GROUP);
        *cells = Arc::new(cells.with_groups(one.groups.iter().chain([&usual])));
    }
    all
}

/// All cells, and whom to ask for the rest.
#[derive(Default)]
pub(crate) struct MetricsBoard {
    apis: ArcSwap<Apis>,
    sources: ArcSwap<Vec<Arc<dyn GaugeSource>>>,
    pub(super) families: ArcSwap<Vec<Arc<dyn FamilySource>>>,
    pub(super) tasks: TaskCells,
    pub(super) reloads: ReloadCells,
}

impl MetricsBoard {
    /// The APIs in the order of their names, each with how it stands if a source knows.
    pub(super) fn standing(&self) -> Vec<(Arc<ApiCounters>, Option<GaugeSnapshot>)> {
        let apis = self.apis.load();
        let mut readings = BTreeMap::new();
        for source in self.sources.load().iter() {
            source.read(&mut |api, reading| {
                if let Some((name, _)) = apis.get_key_value(api) {
                    readings.insert(name.clone(), reading);
                }
            });
        }
        let standing = |(name, cells): (&SmolStr, &Arc<ApiCounters>)| {
            (Arc::clone(cells), readings.get(name).copied())
        };
        apis.iter().map(standing).collect()
    }

    pub(super) fn lines_dropped(&self) -> u64 {
        let sources = self.sources.load();
        sources.iter().map(|source| source.lines_dropped()).sum()
    }

    fn count(&self, event: &Event) {
        if let EventKind::Task { name, state } = &event.what {
            return self.tasks.count(name, *state);
        }
        if let EventKind::Reloaded(reload) = &event.what {
            return self.reloads.count(*reload);
        }
        let apis = self.apis.load();
        let Some(api) = apis.get(&event.api).or_else(|| apis.get(OTHER)) else {
            return;
        };
        if let Some(group) = group_of(api, &event.what) {
            count_in_group(group, &event.what);
        }
        count_in_api(api, &event.what);
    }
}

impl fmt::Debug for MetricsBoard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Board")
            .field("apis", &self.apis.load().len())
            .finish_non_exhaustive()
    }
}

/// The group that an event is counted in, if it is counted in one.
fn group_of<'a>(api: &'a ApiCounters, what: &EventKind) -> Option<&'a GroupCounters> {
    let group = match what {
        EventKind::Admitted { group, .. }
        | EventKind::Refused { group, .. }
        | EventKind::Refunded { group, .. } => Some(group),
        EventKind::Moved { group, .. }
        | EventKind::Drifting { group, .. }
        | EventKind::Usage { group, .. }
        | EventKind::Foreign { group, .. } => group.as_ref(),
        _ => return None,
    };
    Some(api.groups.get(group).count())
}

fn count_in_group(group: &GroupCounters, what: &EventKind) {
    match what {
        EventKind::Admitted { .. } => group.admitted.increase(1),
        EventKind::Refused { refusal, .. } => group.refused.count(refusal.cause.name()),
        EventKind::Refunded { .. } => group.refunded.increase(1),
        EventKind::Moved { transition, .. } => group.set_state(transition.to),
        EventKind::Drifting { drift, .. } => group.set_drift(drift.as_ref().map_or(1.0, ratio)),
        EventKind::Usage { raised, .. } => group.set_alert(u8::from(*raised)),
        EventKind::Foreign { units, .. } => group.foreign.increase(*units),
        _ => {}
    }
}

fn ratio(drift: &LimitDrift) -> f64 {
    drift.evidence.as_per_second() / drift.configured.as_per_second()
}

fn count_in_api(api: &ApiCounters, what: &EventKind) {
    let cells = &api.whole;
    match what {
        EventKind::Admitted { waited, .. } => cells.waits.observe(*waited),
        EventKind::Settled { .. } => count_attempt(api, what),
        // Its attempt was counted when it was settled, and not as a failure.
        EventKind::Broken {
            attempt, effect, ..
        } => count_failure(cells, attempt, *effect),
        EventKind::Moved {
            transition, vitals, ..
        } => {
            cells.transitions.count(transition.reason.name());
            if let Some(span) = vitals.sleep {
                cells.sleep.observe(span);
            }
        }
        EventKind::Cooling { wait, .. } => cells.sleep.observe(*wait),
        EventKind::Meter { event, .. } => cells.warnings.count(warning(event)),
        EventKind::Malformed { headers } => cells.malformed.increase(u64::from(*headers)),
        EventKind::Retrying { delay, reason, .. } => {
            cells.retries.count(reason.name());
            cells.sleep.observe(*delay);
        }
        EventKind::Unresolved { why } => cells.unresolved.count(why.name()),
        EventKind::Cache { lookup } => cells.lookups.count(lookup.name()),
        EventKind::Finished(call) => count_call(api, call),
        _ => {}
    }
}

fn count_attempt(api: &ApiCounters, what: &EventKind) {
    let EventKind::Settled {
        attempt,
        effect,
        round_trip,
        ..
    } = what
    else {
        return;
    };
    let cells = &api.whole;
    cells.codes.count(attempt.ended());
    count_failure(cells, attempt, *effect);
    if let Some(span) = round_trip {
        cells.latency.observe(*span);
    }
}

fn count_failure(cells: &GlobalCounters, attempt: &AttemptReport, effect: OutcomeClass) {
    if let Some(reason) = FailureLabel::new(attempt, effect) {
        cells.failures.count(reason.name());
    }
}

fn count_call(api: &ApiCounters, call: &CallFinished) {
    api.whole.calls.increase(1);
    if call.status == StatusLabel::Cancelled {
        api.whole.abandoned.increase(1);
    }
    let places = StatusLabel::ALL.iter().zip(&api.whole.durations);
    for (_, duration) in places.filter(|(status, _)| **status == call.status) {
        duration.observe(call.latency);
    }
}

const fn warning(event: &MeterEvent) -> &'static str {
    let [low, capped] = WARNINGS;
    match event {
        MeterEvent::Low { .. } => low,
        MeterEvent::PacingCapped { .. } => capped,
    }
}
