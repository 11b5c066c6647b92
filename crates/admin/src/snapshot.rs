//! Everything that can be told of the running program at one instant, as JSON.
//!
//! Made from the doors' own reports and nothing else, so that what is shown is what decides. Spans are
//! whole milliseconds from the instant of the report: `since_ms` backwards, `until_ms` forwards.

mod health;
mod limits;

use outflow::cache::CacheReport;
use outflow::{Api, TaskReport, Upstream, UpstreamReport};
use outflow_core::{Clock, Nanos};
use serde::Serialize;
use smol_str::SmolStr;

pub(crate) use health::HealthView;
pub(crate) use limits::{GroupView, LimitView};

use super::Admin;
use super::labels;
use super::millis::{millis, stamp};

/// The whole program.
#[derive(Debug, Serialize)]
pub(crate) struct ProgramSnapshot {
    at: u64,
    version: &'static str,
    uptime_ms: u64,
    apis: Vec<ApiView>,
    cache: Option<CacheView>,
    permits_out: usize,
    tasks: Vec<TaskView>,
}

impl ProgramSnapshot {
    /// The program as it is now.
    pub(crate) fn from_admin(admin: &Admin) -> Self {
        let now = admin.clock.now();
        let cache = admin.program.client().cache();
        Self {
            at: stamp(admin.clock.wall()),
            version: env!("CARGO_PKG_VERSION"),
            uptime_ms: millis(now.since(admin.started)),
            apis: admin
                .upstreams()
                .iter()
                .map(|door| ApiView::new(admin, door))
                .collect(),
            cache: cache.map(|cache| CacheView::from_report(cache.report())),
            permits_out: admin.permits.count(),
            tasks: tasks(admin),
        }
    }
}

/// One API.
#[derive(Debug, Serialize)]
pub(crate) struct ApiView {
    name: SmolStr,
    waiting: usize,
    in_flight: u64,
    memory_bytes: usize,
    health: Vec<HealthView>,
    limits: Vec<LimitView>,
    groups: Vec<GroupView>,
}

impl ApiView {
    /// The API behind a door.
    pub(crate) fn new(admin: &Admin, door: &Upstream) -> Self {
        let report = door.report();
        let configured = admin.configured(door.name());
        Self {
            name: door.name().clone(),
            waiting: report.waiting,
            in_flight: in_flight(&report),
            memory_bytes: door.memory_bytes(),
            health: healths(&report),
            limits: shared_limits(&report, configured.as_deref()),
            groups: groups(&report, configured.as_deref()),
        }
    }
}

/// One API in a line.
#[derive(Debug, Serialize)]
pub(crate) struct ApiLine {
    name: SmolStr,
    state: &'static str,
    circuit: &'static str,
    waiting: usize,
    in_flight: u64,
}

impl ApiLine {
    /// The API behind a door. Where each group has a state of its own, it is in the worst of them.
    pub(crate) fn from_upstream(door: &Upstream) -> Self {
        let report = door.report();
        let states = report.health.iter().map(|health| health.snapshot.state);
        let worst = states.max_by_key(|state| health::badness(*state));
        Self {
            name: door.name().clone(),
            state: worst.map_or("Normal", outflow::core::HealthState::name),
            circuit: worst.map_or("CLOSED", |state| state.circuit().name()),
            waiting: report.waiting,
            in_flight: in_flight(&report),
        }
    }
}

/// The limits of one API.
#[derive(Debug, Serialize)]
pub(crate) struct LimitsView {
    api: SmolStr,
    limits: Vec<LimitView>,
    groups: Vec<GroupView>,
}

impl LimitsView {
    /// The limits behind a door.
    pub(crate) fn new(admin: &Admin, door: &Upstream) -> Self {
        let report = door.report();
        let configured = admin.configured(door.name());
        Self {
            api: door.name().clone(),
            limits: shared_limits(&report, configured.as_deref()),
            groups: groups(&report, configured.as_deref()),
        }
    }
}

/// The states of an API: one, or one for each group.
pub(crate) fn healths(report: &UpstreamReport) -> Vec<HealthView> {
    let view = |health| HealthView::new(health, report.at);
    report.health.iter().map(view).collect()
}

fn in_flight(report: &UpstreamReport) -> u64 {
    report
        .health
        .iter()
        .map(|health| u64::from(health.in_flight))
        .sum()
}

fn shared_limits(report: &UpstreamReport, configured: Option<&Api>) -> Vec<LimitView> {
    let written = configured.map(|api| api.rules.limits.as_slice());
    LimitView::all(&report.limits, written.unwrap_or_default(), report.at)
}

fn groups(report: &UpstreamReport, configured: Option<&Api>) -> Vec<GroupView> {
    let view = |group: &outflow::GroupReport| {
        let known = configured.map(|api| api.rules.groups.as_slice());
        let mut known = known.unwrap_or_default().iter();
        let written = known.find(|known| known.name == group.name);
        GroupView::new(group, written, report.at)
    };
    report.groups.iter().map(view).collect()
}

/// What the cache holds.
#[derive(Debug, Serialize)]
struct CacheView {
    entries: usize,
    memory_bytes: u64,
    disk_bytes: u64,
    disk: &'static str,
    dropped_files: u64,
    failed_writes: u64,
    skipped_writes: u64,
}

impl CacheView {
    const fn from_report(report: CacheReport) -> Self {
        Self {
            entries: report.entries,
            memory_bytes: report.memory,
            disk_bytes: report.disk,
            disk: labels::disk(report.state),
            dropped_files: report.dropped_files,
            failed_writes: report.failed_writes,
            skipped_writes: report.skipped_writes,
        }
    }
}

/// A piece of background work.
#[derive(Debug, Serialize)]
pub(crate) struct TaskView {
    owner: &'static str,
    name: &'static str,
    state: &'static str,
    restarts: u32,
    since_ms: u64,
}

impl TaskView {
    fn new(owner: &'static str, task: TaskReport, now: Nanos) -> Self {
        Self {
            owner,
            name: task.name,
            state: labels::task(task.state),
            restarts: task.restarts,
            since_ms: millis(now.since(task.since)),
        }
    }
}

/// All background work: of the client, then of the program.
pub(crate) fn tasks(admin: &Admin) -> Vec<TaskView> {
    let now = admin.clock.now();
    let ours = admin.program.tasks().report();
    let theirs = admin.program.client().tasks().map(outflow::Tasks::report);
    let theirs = theirs.unwrap_or_default().into_iter();
    let theirs = theirs.map(|task| TaskView::new("client", task, now));
    let ours = ours
        .into_iter()
        .map(|task| TaskView::new("program", task, now));
    theirs.chain(ours).collect()
}
