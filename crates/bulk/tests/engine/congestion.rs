//! The congestion service: waits of deferred jobs, and the controls of operators.

use std::time::Duration;

use bytes::Bytes;
use outflow::core::{CongestionLevel, CongestionRule};
use outflow_bulk::SchedulerKind;
use outflow_core::estimate_completion;
use outflow_store::{AllowAll, ClaimRequest, ClaimedJob, JobQueue, NewJob, PageRequest, SubmitBatch};

use super::support::{Plan, World, gets, name};

/// A lane of an unknown API, so that the engine leaves its jobs to the test.
const ELSEWHERE: &str = "elsewhere";

async fn submit_elsewhere(world: &World, tenants: impl Iterator<Item = String>) {
    let job = |tenant: String| NewJob::new(name(&tenant), name(ELSEWHERE), Bytes::new());
    let batch = SubmitBatch::from_jobs(tenants.map(job).collect());
    world.store().submit(batch).await.expect("accepted");
}

async fn claim(world: &World, most: usize) -> Vec<ClaimedJob> {
    let request = ClaimRequest {
        lane: name(ELSEWHERE),
        session: name("test"),
        max: most,
        lease: Duration::from_hours(1),
        recoveries: 2,
        limits: None,
        cost: None,
    };
    let claims = world.store().claim(request, &mut AllowAll).await;
    claims.expect("claimed").jobs
}

fn backoff_plan(global: u64) -> Plan {
    Plan::limited("10/s").with(|settings| {
        settings.scheduler = SchedulerKind::Backoff;
        settings.global_rate = global;
    })
}

async fn advance(world: &World, span: Duration) {
    let then = world.now().saturating_add(span);
    world.time.reaches(then).await;
}

// Ten thousand a second are 5,000 each for 2 tenants and 98 each for 102. Two jobs were deferred by a second
// each. A hundred tenants join half a second later, which changes neither their times nor any count.
#[tokio::test(start_paused = true)]
async fn deferred_jobs_keep_their_time_when_a_hundred_tenants_join() {
    let world = backoff_plan(10_000).start().await;
    let session = name("test");
    submit_elsewhere(&world, (0..2).map(|n| format!("old-{n}"))).await;
    for job in claim(&world, 2).await {
        let state = world.engine.add_to_non_ready(&session, job.token).await;
        let state = state.expect("deferred");
        assert_eq!((state.speed, state.backoff), (5_000, Duration::from_secs(1)));
        assert_eq!((state.non_ready, state.level), (1, CongestionLevel::None));
    }
    advance(&world, Duration::from_millis(500)).await;
    submit_elsewhere(&world, (0..100).map(|n| format!("new-{n}"))).await;
    let joined = claim(&world, 200).await;
    assert_eq!(joined.len(), 100, "the two still wait");
    let state = world.engine.add_to_non_ready(&session, joined[0].token).await;
    assert_eq!(state.expect("deferred").speed, 98);
    advance(&world, Duration::from_millis(499)).await;
    assert_eq!(claim(&world, 200).await.len(), 0);
    advance(&world, Duration::from_millis(1)).await;
    assert_eq!(claim(&world, 200).await.len(), 2, "a second after they came");
    world.assert_counts_match().await;
}

// At a hundred a second two tenants have fifty each. A hundred join, and each of them has started a job within
// the next 102 starts and the jobs already in flight.
#[tokio::test(start_paused = true)]
async fn shares_change_with_the_next_start_when_a_hundred_tenants_join() {
    let world = Plan::limited("100/s").start().await;
    let old = ["a", "b"].iter().flat_map(|tenant| gets(tenant, 2_000));
    world.submit("old", old.collect()).await;
    advance(&world, Duration::from_secs(5)).await;
    let before = world.mock.audit().count();
    let new = (0..100).flat_map(|n| gets(&format!("new-{n}"), 3));
    world.submit("new", new.collect()).await;
    advance(&world, Duration::from_millis(1_200)).await;
    let audit = world.mock.audit();
    let next = audit.arrivals().iter().skip(before).take(102 + 3);
    let mut served: Vec<_> = next.map(|one| one.path.split('/').nth(1)).collect();
    served.sort_unstable();
    served.dedup();
    assert_eq!(served.len(), 102, "{served:?}");
    assert_eq!(audit.refused(), 0);
    world.assert_counts_match().await;
}

// A hundred jobs at ten a second, most of which the formula defers. When it is switched off, they wait out
// their time. When released, they start at once, but through the limiter: never more than ten in a second, and
// none is throttled.
#[tokio::test(start_paused = true)]
async fn deferred_jobs_are_released_through_the_limiter() {
    let world = backoff_plan(10).start().await;
    world.submit("all", gets("t", 100)).await;
    advance(&world, Duration::from_millis(500)).await;
    let state = world.engine.congestion(&name("t")).await.expect("asked");
    let state = state.expect("known");
    assert!(state.non_ready > 80, "{state:?}");
    assert_eq!((state.speed, state.level), (10, CongestionLevel::High));

    let mut off = (*world.engine.settings()).clone();
    off.scheduler = SchedulerKind::Fixed;
    world.engine.reconfigure(off).await.expect("reconfigured");
    assert_eq!(world.counts().await.non_ready, state.non_ready, "they wait");

    let left = world.engine.release(&name("t"), 5).await.expect("released");
    assert_eq!(left, state.non_ready - 5);
    let left = world.engine.release(&name("t"), u64::MAX).await;
    assert_eq!(left.expect("released"), 0, "and never below");
    let report = world.finished("all").await;
    assert_eq!(report.counts.done, 100);
    let audit = world.mock.audit();
    assert_eq!(audit.refused(), 0);
    assert!(audit.most_in_any_window(Duration::from_secs(1)) <= 10);
    world.assert_counts_match().await;
}

// At ten a second the first of thirty is deferred by a second. Then waits start with three seconds and end with
// five: positions 2 to 9 wait three, to 19 four, to 29 five, and the 30th not six. The first keeps its second.
#[tokio::test(start_paused = true)]
async fn a_changed_formula_applies_to_the_next_deferral() {
    let world = backoff_plan(10).start().await;
    let session = name("test");
    submit_elsewhere(&world, (0..30).map(|_| "t".to_owned())).await;
    let mut jobs = claim(&world, 30).await.into_iter();
    let defer = async |job: &ClaimedJob| {
        let state = world.engine.add_to_non_ready(&session, job.token).await;
        state.expect("deferred")
    };
    let state = defer(&jobs.next().expect("thirty")).await;
    assert_eq!((state.backoff, state.speed), (Duration::from_secs(1), 10));
    let mut other = (*world.engine.settings()).clone();
    let rule = CongestionRule::new(Duration::from_secs(3), Duration::from_secs(5));
    other.congestion = rule.expect("valid");
    world.engine.reconfigure(other).await.expect("reconfigured");
    let mut waits = Vec::new();
    for job in jobs {
        let state = defer(&job).await;
        assert_eq!(state.level, CongestionLevel::new(state.backoff, Duration::from_secs(3)));
        waits.push(state.backoff.as_secs());
    }
    let expected = [[3; 8].as_slice(), &[4; 10], &[5; 11]].concat();
    assert_eq!(waits, expected);
    let mut due = Vec::new();
    for _ in 0..5 {
        advance(&world, Duration::from_millis(999)).await;
        assert_eq!(claim(&world, 30).await.len(), 0, "after {due:?}");
        advance(&world, Duration::from_millis(1)).await;
        due.push(claim(&world, 30).await.len());
    }
    assert_eq!(due, [1, 0, 8, 10, 11]);
    world.assert_counts_match().await;
}

// The summary is read page by page and counts all deferred jobs. A tenant's statistics cannot be reset while
// some of its jobs are deferred.
#[tokio::test(start_paused = true)]
async fn the_summary_counts_all_deferred_jobs_and_they_block_a_reset() {
    let world = backoff_plan(4).start().await;
    submit_elsewhere(&world, ["a", "a", "a", "b"].into_iter().map(str::to_owned)).await;
    for job in claim(&world, 4).await {
        let put = world.engine.add_to_non_ready(&name("test"), job.token).await;
        put.expect("deferred");
    }
    let page = |after: Option<&str>| PageRequest {
        after: after.map(name),
        max: 1,
    };
    let first = world.engine.congestion_summary(page(None)).await;
    let first = first.expect("reported");
    assert_eq!((first.active, first.non_ready), (2, 4));
    let a = &first.groups[0];
    assert_eq!((a.group.as_str(), a.non_ready, a.speed), ("a", 3, 2));
    // 3 at 2 a second: two seconds by the formula, rounded up.
    assert_eq!(estimate_completion(a.non_ready, a.speed), Duration::from_secs(2));
    let second = world.engine.congestion_summary(page(Some("a"))).await;
    assert_eq!(second.expect("reported").groups[0].group.as_str(), "b");
    let reset = world.engine.congestion_reset(&name("a")).await;
    reset.expect_err("jobs of it are deferred");
    world.engine.release(&name("a"), 9).await.expect("released");
    let reset = world.engine.congestion_reset(&name("a")).await;
    reset.expect("no job is deferred");
}

// One second each, however many jobs wait: no wait is computed, and none is reported as computed.
#[tokio::test(start_paused = true)]
async fn without_congestion_control_every_job_waits_the_same() {
    let plan = Plan::limited("10/s").with(|settings| settings.scheduler = SchedulerKind::Fixed);
    let world = plan.start().await;
    submit_elsewhere(&world, (0..3).map(|_| "a".to_owned())).await;
    for job in claim(&world, 3).await {
        let session = name("test");
        let state = world.engine.add_to_non_ready(&session, job.token).await;
        let state = state.expect("deferred");
        assert_eq!((state.backoff, state.non_ready), (Duration::from_secs(1), 0));
        assert_eq!((state.speed, state.level), (0, CongestionLevel::None));
    }
    advance(&world, Duration::from_secs(1)).await;
    assert_eq!(claim(&world, 3).await.len(), 3);
}
