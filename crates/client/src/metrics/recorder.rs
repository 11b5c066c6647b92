//! Counting of events.
//!
//! All series exist from the start, zeros included, so that an alert on a rate works from the first
//! scrape. Unregistered names count as `other`. Counting takes no lock and allocates only at the
//! first event of a group: an event finds its API in a map that is replaced and never changed, and
//! adds to an atomic.

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
/// use outflow::metrics::{ApiLabels, Metrics};
///
/// let metrics = Arc::new(Metrics::new([ApiLabels::new("github", ["search"])]));
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

/// API and its groups, by name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApiLabels {
    /// Name of the API.
    pub api: SmolStr,
    /// Groups in addition to `default`, which every API has.
    pub groups: Vec<SmolStr>,
}

impl ApiLabels {
    /// Returns an API with these groups.
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
    /// Builds the metrics of these APIs.
    pub fn new(apis: impl IntoIterator<Item = ApiLabels>) -> Self {
        let board = Arc::new(MetricsBoard::default());
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Arc::clone(&board)));
        let metrics = Self { board, registry };
        metrics.register(apis);
        metrics
    }

    /// Adds series for more APIs and groups; existing ones keep their counts.
    pub fn register(&self, apis: impl IntoIterator<Item = ApiLabels>) {
        let apis: Vec<_> = apis.into_iter().collect();
        self.board.apis.rcu(|known| with_apis(known, &apis));
    }

    /// Drops the series of all other APIs and groups; later events of these count as `other`.
    pub(crate) fn retain(&self, apis: impl IntoIterator<Item = ApiLabels>) {
        let mut known = BTreeMap::<SmolStr, Vec<SmolStr>>::new();
        for api in apis {
            known.entry(api.api).or_default().extend(api.groups);
        }
        self.board.apis.rcu(|all| only_known(all, &known));
    }

    /// Adds a source to read at each scrape.
    pub fn add_source(&self, source: Arc<dyn GaugeSource>) {
        self.board.sources.rcu(|known| {
            let mut all = Vec::clone(known);
            all.push(Arc::clone(&source));
            all
        });
    }

    /// Appends metrics to the page. Of two sources with one metric, the first counts.
    pub fn append(&self, families: Arc<dyn FamilySource>) {
        self.board.families.rcu(|known| {
            let mut all = Vec::clone(known);
            all.push(Arc::clone(&families));
            all
        });
    }

    /// Renders the page as `OpenMetrics` text; its type is [`CONTENT_TYPE`](super::CONTENT_TYPE).
    pub fn render(&self) -> String {
        let mut page = String::new();
        // Writing to a string fails only if one of our encoders does, and none does.
        let written = text::encode(&mut page, &self.registry);
        debug_assert!(written.is_ok(), "{written:?}");
        page
    }

    /// Returns a summary of every API, ordered by name.
    pub(crate) fn summaries(&self) -> Vec<ApiSummary> {
        let rows = self.board.rows();
        let summary = |(api, gauges): &(Arc<ApiCounters>, _)| ApiSummary::new(api, *gauges);
        rows.iter().map(summary).collect()
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
    for api in more.iter().chain([&other]) {
        let new = || Arc::new(ApiCounters::new(api.api.clone()));
        let counters = all.entry(api.api.clone()).or_insert_with(new);
        let default = SmolStr::new_static(DEFAULT_GROUP);
        // The default group has a batch of its own, which stays when the others go.
        *counters = Arc::new(counters.with_groups([&default]).with_groups(&api.groups));
    }
    all
}

fn only_known(all: &Apis, known: &BTreeMap<SmolStr, Vec<SmolStr>>) -> Apis {
    let known = all.iter().filter_map(|(name, counters)| {
        let groups = match known.get(name) {
            Some(groups) => groups.as_slice(),
            None if *name == OTHER => &[],
            None => return None,
        };
        let default = SmolStr::new_static(DEFAULT_GROUP);
        let counters = counters.only_groups(groups.iter().chain([&default]));
        Some((name.clone(), Arc::new(counters)))
    });
    known.collect()
}

/// All counters, and the sources of gauges.
#[derive(Default)]
pub(crate) struct MetricsBoard {
    apis: ArcSwap<Apis>,
    sources: ArcSwap<Vec<Arc<dyn GaugeSource>>>,
    pub(super) families: ArcSwap<Vec<Arc<dyn FamilySource>>>,
    pub(super) tasks: TaskCells,
    pub(super) reloads: ReloadCells,
}

impl MetricsBoard {
    /// Returns the APIs ordered by name, with their gauges if a source knows them.
    pub(super) fn rows(&self) -> Vec<(Arc<ApiCounters>, Option<GaugeSnapshot>)> {
        let apis = self.apis.load();
        let mut gauges_by_api = BTreeMap::new();
        for source in self.sources.load().iter() {
            source.read(&mut |api, gauges| {
                if let Some((name, _)) = apis.get_key_value(api) {
                    gauges_by_api.insert(name.clone(), gauges);
                }
            });
        }
        let rows =
            |(name, counters): (&SmolStr, &Arc<ApiCounters>)| (Arc::clone(counters), gauges_by_api.get(name).copied());
        apis.iter().map(rows).collect()
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
        f.debug_struct("MetricsBoard")
            .field("apis", &self.apis.load().len())
            .finish_non_exhaustive()
    }
}

/// Returns the group that an event counts for.
fn group_of<'a>(api: &'a ApiCounters, kind: &EventKind) -> Option<&'a GroupCounters> {
    let group = match kind {
        EventKind::Admitted { group, .. } | EventKind::Refused { group, .. } | EventKind::Refunded { group, .. } => {
            Some(group)
        }
        EventKind::Moved { group, .. }
        | EventKind::Drifting { group, .. }
        | EventKind::Usage { group, .. }
        | EventKind::Foreign { group, .. } => group.as_ref(),
        _ => return None,
    };
    Some(api.groups.get(group).count())
}

fn count_in_group(group: &GroupCounters, kind: &EventKind) {
    match kind {
        EventKind::Admitted { .. } => group.admitted.increase(1),
        EventKind::Refused { refusal, .. } => group.refused.count(refusal.reason.name()),
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

fn count_in_api(api: &ApiCounters, kind: &EventKind) {
    let counters = &api.api_wide;
    match kind {
        EventKind::Admitted { waited, .. } => counters.waits.observe(*waited),
        EventKind::Settled { .. } => count_attempt(api, kind),
        // The attempt was counted when it was settled, and not as a failure.
        EventKind::Broken { attempt, effect, .. } => count_failure(counters, attempt, *effect),
        EventKind::Moved { transition, vitals, .. } => {
            counters.transitions.count(transition.reason.name());
            if let Some(span) = vitals.sleep {
                counters.sleep.observe(span);
            }
        }
        EventKind::Cooling { wait, .. } => counters.sleep.observe(*wait),
        EventKind::Meter { event, .. } => counters.warnings.count(warning(event)),
        EventKind::Malformed { headers } => counters.malformed.increase(u64::from(*headers)),
        EventKind::Retrying { delay, reason, .. } => {
            counters.retries.count(reason.name());
            counters.sleep.observe(*delay);
        }
        EventKind::Unresolved { error } => counters.unresolved.count(error.name()),
        EventKind::Cache { lookup } => counters.lookups.count(lookup.name()),
        EventKind::Finished(call) => count_call(api, call),
        _ => {}
    }
}

fn count_attempt(api: &ApiCounters, kind: &EventKind) {
    let EventKind::Settled {
        attempt,
        effect,
        round_trip,
        ..
    } = kind
    else {
        return;
    };
    let counters = &api.api_wide;
    counters.codes.count(attempt.ended());
    count_failure(counters, attempt, *effect);
    if let Some(span) = round_trip {
        counters.latency.observe(*span);
    }
}

fn count_failure(counters: &GlobalCounters, attempt: &AttemptReport, effect: OutcomeClass) {
    if let Some(reason) = FailureLabel::new(attempt, effect) {
        counters.failures.count(reason.name());
    }
}

fn count_call(api: &ApiCounters, call: &CallFinished) {
    api.api_wide.calls.increase(1);
    if call.status == StatusLabel::Cancelled {
        api.api_wide.abandoned.increase(1);
    }
    let durations = StatusLabel::ALL.iter().zip(&api.api_wide.durations);
    for (_, duration) in durations.filter(|(status, _)| **status == call.status) {
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
