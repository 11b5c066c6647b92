//! Snapshot of the running program, as JSON.
//!
//! It is built from the reports of the upstreams only, so that it shows the state that decides. Times are whole
//! milliseconds from the instant of the report: `since_ms` into the past, `until_ms` into the future.

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

/// State of the whole program.
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
    /// Takes a snapshot of the program.
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
                .map(|upstream| ApiView::new(admin, upstream))
                .collect(),
            cache: cache.map(|cache| CacheView::from_report(cache.report())),
            permits_out: admin.permits.count(),
            tasks: tasks(admin),
        }
    }
}

/// State of one API.
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
    /// Reads the state of an API.
    pub(crate) fn new(admin: &Admin, upstream: &Upstream) -> Self {
        let report = upstream.report();
        let configured = admin.configured(upstream.name());
        Self {
            name: upstream.name().clone(),
            waiting: report.waiting,
            in_flight: in_flight(&report),
            memory_bytes: upstream.memory_bytes(),
            health: healths(&report),
            limits: shared_limits(&report, configured.as_deref()),
            groups: groups(&report, configured.as_deref()),
        }
    }
}

/// Summary of one API.
#[derive(Debug, Serialize)]
pub(crate) struct ApiLine {
    name: SmolStr,
    state: &'static str,
    circuit: &'static str,
    /// Sentence that names what binds calls now.
    why: Option<String>,
    waiting: usize,
    in_flight: u64,
}

impl ApiLine {
    /// Reads the summary of an API. If groups have their own health states, the worst of them counts.
    pub(crate) fn from_upstream(upstream: &Upstream) -> Self {
        let report = upstream.report();
        let healths = report.health.iter();
        let worst_health = healths.max_by_key(|health| health::severity(health.snapshot.state));
        let worst = worst_health.map(|health| health.snapshot.state);
        Self {
            name: upstream.name().clone(),
            state: worst.map_or("Normal", outflow::core::HealthState::name),
            circuit: worst.map_or("CLOSED", |state| state.circuit().name()),
            why: worst_health.and_then(|health| health.reason.clone()),
            waiting: report.waiting,
            in_flight: in_flight(&report),
        }
    }
}

/// Limits of one API.
#[derive(Debug, Serialize)]
pub(crate) struct LimitsView {
    api: SmolStr,
    limits: Vec<LimitView>,
    groups: Vec<GroupView>,
}

impl LimitsView {
    /// Reads the limits of an API.
    pub(crate) fn new(admin: &Admin, upstream: &Upstream) -> Self {
        let report = upstream.report();
        let configured = admin.configured(upstream.name());
        Self {
            api: upstream.name().clone(),
            limits: shared_limits(&report, configured.as_deref()),
            groups: groups(&report, configured.as_deref()),
        }
    }
}

/// Returns the health states of an API: one, or one per group.
pub(crate) fn healths(report: &UpstreamReport) -> Vec<HealthView> {
    let view = |health| HealthView::new(health, report.at);
    report.health.iter().map(view).collect()
}

fn in_flight(report: &UpstreamReport) -> u64 {
    report.health.iter().map(|health| u64::from(health.in_flight)).sum()
}

fn shared_limits(report: &UpstreamReport, configured: Option<&Api>) -> Vec<LimitView> {
    let limits = configured.map(|api| api.rules.limits.as_slice());
    LimitView::list(&report.limits, limits.unwrap_or_default(), report.at)
}

fn groups(report: &UpstreamReport, configured: Option<&Api>) -> Vec<GroupView> {
    let view = |group: &outflow::GroupReport| {
        let known = configured.map(|api| api.rules.groups.as_slice());
        let mut known = known.unwrap_or_default().iter();
        let configured = known.find(|known| known.name == group.name);
        GroupView::new(group, configured, report.at)
    };
    report.groups.iter().map(view).collect()
}

/// Contents of the cache.
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
            disk: labels::disk_state(report.state),
            dropped_files: report.dropped_files,
            failed_writes: report.failed_writes,
            skipped_writes: report.skipped_writes,
        }
    }
}

/// Background task.
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
            state: labels::task_state(task.state),
            restarts: task.restarts,
            since_ms: millis(now.since(task.since)),
        }
    }
}

/// Returns all background tasks: those of the client, then those of the program.
pub(crate) fn tasks(admin: &Admin) -> Vec<TaskView> {
    let now = admin.clock.now();
    let program = admin.program.tasks().report();
    let client = admin.program.client().tasks().map(outflow::Tasks::report);
    let client = client.unwrap_or_default().into_iter();
    let client = client.map(|task| TaskView::new("client", task, now));
    let program = program.into_iter().map(|task| TaskView::new("program", task, now));
    client.chain(program).collect()
}
