//! The bulk headline with an outage of ten minutes in its middle, and without one on a slow path.
//!
//! 15,000 jobs of three tenants at 30 a second take 500 s. An outage is no job's fault: none of them may use a retry
//! or end as a dead letter, and the run may take the outage and half a minute longer. All in virtual time, with an
//! address, a limit and no other setting.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use outflow::metrics::Metrics;
use outflow_bulk::{Engine, HttpCall, JobSpec, JobSubmission};
use outflow_core::Clock as _;
use outflow_mock::{Fault, MockResponse};
use outflow_store::{ActionReport, BatchPosition, EmbeddedStore, Name};
use outflow_testkit::recovery::{RecoveryBed, RecoveryPlan, RecoveryScenario, TroubleKind};
use outflow_testkit::{Background, VirtualTime};
use tokio::runtime::Builder;

use crate::figure::{Figure, Goal};

/// Plays the headline with each outage, and on the slow path.
pub(super) fn figures() -> Vec<Figure> {
    let mut figures = slow_path();
    for (name, kind) in outages() {
        let healed = BEGIN + OUTAGE;
        let scenario = RecoveryScenario::new(name, BEGIN, Some(healed), Duration::ZERO).with(BEGIN, healed, kind);
        figures.extend(outage(name, scenario));
    }
    figures
}

fn outages() -> [(&'static str, TroubleKind); 4] {
    let asking = MockResponse::status(503).header("retry-after", "30");
    [
        ("503 for 10 min", TroubleKind::Failing(MockResponse::status(503).into())),
        ("hang for 10 min", TroubleKind::Failing(Fault::Hang.into())),
        ("refused for 10 min", TroubleKind::Refusing),
        ("503, Retry-After 30, 10 min", TroubleKind::Failing(asking.into())),
    ]
}

/// The headline at 150 ms each way: what the limit needs, and 0.7 % more at most on a steady path. With jitter, the
/// uncertainty of each arrival costs a little of every window.
fn slow_path() -> Vec<Figure> {
    let paths = [
        ("150 ms each way", Duration::ZERO, Goal::Own(0.7)),
        ("150 ms and up to 5 ms each way", Duration::from_millis(5), Goal::Shown),
    ];
    let figures = paths.into_iter().map(|(path, jitter, goal)| {
        let healthy = RecoveryScenario::new("a slow path", BEGIN, None, Duration::ZERO);
        let name = format!("bulk_longer_percent: 15,000 jobs at 30/s, {path}");
        let Some(run) = played(healthy, jitter) else {
            return Figure::missing(&name, "", "missing: no runtime");
        };
        let longer = 100.0 * (run.took.as_secs_f64() / IDEAL.as_secs_f64() - 1.0);
        Figure::alone(&name, goal, &[longer])
    });
    figures.collect()
}

fn outage(name: &str, scenario: RecoveryScenario) -> Vec<Figure> {
    let Some(run) = played(scenario, Duration::from_millis(5)) else {
        return vec![Figure::missing(name, "", "missing: no runtime")];
    };
    let extra = run.took.as_secs_f64() - (IDEAL + OUTAGE).as_secs_f64();
    let counts = run.report.counts;
    let approx = |count: u64| u32::try_from(count).map_or(f64::MAX, f64::from);
    let figure = |part: &str, goal, value| Figure::alone(&format!("{part}: {name} in the headline"), goal, &[value]);
    vec![
        figure("bulk_extra_seconds", Goal::Own(30.0), extra),
        figure("bulk_dead_letters", Goal::Own(0.0), approx(counts.dead + counts.failed)),
        figure("bulk_lost", Goal::Own(0.0), approx(JOBS - counts.done)),
        figure("bulk_retries_used", Goal::Own(0.0), run.retries),
    ]
}

/// End of one run.
struct HeadlineRun {
    took: Duration,
    report: ActionReport,
    retries: f64,
}

fn played(scenario: RecoveryScenario, jitter: Duration) -> Option<HeadlineRun> {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build();
    let plan = RecoveryPlan {
        jitter,
        ..RecoveryPlan::new(&["30/s"], 2 * EACH_WAY, scenario)
    };
    runtime.ok()?.block_on(run(&plan))
}

async fn run(plan: &RecoveryPlan) -> Option<HeadlineRun> {
    let (time, bed) = (VirtualTime::new(), RecoveryBed::start(plan));
    let dir = tempfile::tempdir().ok()?;
    let (store, writer) = EmbeddedStore::open(dir.path(), Arc::new(time.clone())).ok()?;
    let _writer = Background::start(writer.run_here());
    let builder = Engine::builder(bed.client.clone(), Arc::new(store));
    let engine = builder.clock(Arc::new(time.clone())).start().await.ok()?;
    let metrics = Metrics::new([]);
    metrics.append(engine.metrics());
    let action: Name = "headline".parse().ok()?;
    let submission = JobSubmission {
        action: Some(engine.settings().action(action.clone())),
        rest: BatchPosition::Last,
        jobs: jobs()?,
    };
    let begun = time.now();
    engine.submit(submission).await.ok()?;
    let report = engine.wait_finished(&action).await.ok()??;
    let run = HeadlineRun {
        took: time.now().since(begun),
        report,
        retries: retries_used(&metrics.render())?,
    };
    engine.stop().await;
    Some(run)
}

fn jobs() -> Option<Vec<JobSpec>> {
    let mut jobs = Vec::new();
    for tenant in ["a", "b", "c"] {
        let tenant: Name = tenant.parse().ok()?;
        for number in 0..JOBS / 3 {
            let call = HttpCall::new("x", Method::GET, &format!("/{tenant}/{number}"));
            jobs.push(JobSpec::call(tenant.clone(), call));
        }
    }
    Some(jobs)
}

fn retries_used(page: &str) -> Option<f64> {
    let series = "outflow_bulk_failed_attempts_total{how=\"job\"} ";
    page.lines().find_map(|line| line.strip_prefix(series))?.parse().ok()
}

const JOBS: u64 = 15_000;

/// 15,000 jobs at 30 a second.
const IDEAL: Duration = Duration::from_secs(500);

/// The outage begins in the middle of the run.
const BEGIN: Duration = Duration::from_secs(200);

const OUTAGE: Duration = Duration::from_mins(10);

const EACH_WAY: Duration = Duration::from_millis(150);
