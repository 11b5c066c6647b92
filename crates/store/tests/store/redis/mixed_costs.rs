//! Shared limits with jobs of several costs and lanes, and with jobs that do not start.

use outflow_core::{Cost, CountBy, Rate, WallTime};
use outflow_store::{
    ActionSpec, ControlScope, DeadLetterFilter, DeadLetterStore, JobQueue, SharedLimit, StoreControl, TenantRule,
    TenantStore,
};

use super::*;

/// Makes a shared limit of some units per milliseconds, with a horizon.
fn plan((units, millis): (u64, u64), horizon: u64) -> SharedLimits {
    let rate = Rate::new(units, Duration::from_millis(millis));
    SharedLimits {
        limits: vec![SharedLimit {
            name: "A".to_owned(),
            rate: rate.expect("a rate"),
            measure: CountBy::Cost,
        }],
        guard: Duration::from_millis(5),
        horizon: Duration::from_millis(horizon),
    }
}

async fn submit(fixture: &RedisFixture, jobs: Vec<NewJob>) {
    fixture
        .store
        .submit(SubmitBatch::from_jobs(jobs))
        .await
        .expect("submitted");
}

/// Makes jobs of a lane and tenant, each of this cost.
fn jobs_with_cost(lane: &str, tenant: &str, count: usize, cost: u64) -> Vec<NewJob> {
    let job = |n| NewJob {
        lane: name(lane),
        cost: Cost::new(cost),
        ..job(tenant, n)
    };
    (0..count).map(job).collect()
}

// The first costly job comes after its deadline: it ends, and nothing else happens. A tenant with a
// limit of its own gets it in the claim in which others start.
#[tokio::test]
async fn an_expired_costly_job_uses_no_quota() {
    let fixture = RedisFixture::new().await;
    let rule = TenantRule {
        rate: Some("5/s".parse().expect("a rate")),
        ..TenantRule::default()
    };
    fixture.store.set_rule(&name("a"), rule).await.expect("ruled");
    let late = |mut job: NewJob| {
        job.deadline = Some(WallTime::from_unix_secs(1));
        job
    };
    submit(
        &fixture,
        jobs_with_cost("api", "a", 2, 3).into_iter().map(late).collect(),
    )
    .await;
    submit(&fixture, jobs_with_cost("api", "b", 3, 1)).await;
    let claims = claim(&fixture.store, "one", 10, Some(plan((10, 1_000), 900))).await;
    assert_eq!((claims.jobs.len(), claims.expired), (3, 2));
    fixture.assert_balanced().await;
    let counts = fixture.store.job_counts().await.expect("read");
    assert_eq!((counts.queued, counts.in_flight), (0, 3), "{counts:?}");
    let ends = claims.jobs.iter().map(done).collect();
    let settled = fixture.store.settle(&name("one"), ends).await.expect("settled");
    assert_eq!(settled, vec![SettleResult::Done; 3]);
}

// Now with jobs whose action is paused: they are held, and start after the resumption.
#[tokio::test]
async fn a_costly_job_of_a_paused_action_is_held() {
    let fixture = RedisFixture::new().await;
    let mut batch = SubmitBatch::from_jobs(jobs_with_cost("api", "a", 3, 2));
    batch.action = Some(ActionSpec::new(name("act")));
    fixture.store.submit(batch).await.expect("submitted");
    fixture
        .store
        .pause(&ControlScope::Action(name("act")))
        .await
        .expect("paused");
    let plan = plan((10, 1_000), 900);
    let claims = claim(&fixture.store, "one", 10, Some(plan.clone())).await;
    assert_eq!(claims.jobs.len(), 0);
    fixture.assert_balanced().await;
    fixture
        .store
        .resume(&ControlScope::Action(name("act")))
        .await
        .expect("resumed");
    assert_eq!(claim(&fixture.store, "one", 10, Some(plan)).await.jobs.len(), 3);
    fixture.assert_balanced().await;
}

// Two lanes with 20/s each and a thousand together, one of them with jobs that cost two: claims
// alternate for two seconds, and both use their limits fully.
#[tokio::test]
async fn costly_jobs_of_one_lane_run_next_to_plain_ones_of_another() {
    let fixture = RedisFixture::new().await;
    submit(&fixture, jobs_with_cost("x", "a", 100, 1)).await;
    submit(&fixture, jobs_with_cost("y", "b", 100, 2)).await;
    let limits = |lane: &str| {
        let mut both = plan((1_000, 1_000), 250);
        both.limits.push(SharedLimit {
            name: format!("L0 {lane}"),
            ..plan((20, 1_000), 250).limits.remove(0)
        });
        (5, Some(both))
    };
    let (mut plain, mut costly) = (0, 0);
    for _ in 0..40 {
        plain += claim_of("x", &fixture.store, "one", limits("x")).await.jobs.len();
        costly += claim_of("y", &fixture.store, "two", limits("y")).await.jobs.len();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(plain >= 40 && costly >= 20, "{plain} plain, {costly} costly");
    fixture.assert_balanced().await;
}

// Ten a second, all used for a second and a half ahead; then the limit becomes thirty in three
// seconds. Usage before the longer window was known counts as all.
#[tokio::test]
async fn a_longer_window_begins_closed() {
    let fixture = RedisFixture::new().await;
    submit(&fixture, jobs_with_cost("api", "a", 60, 1)).await;
    let short = claim(&fixture.store, "one", 60, Some(plan((10, 1_000), 1_500))).await;
    let last = short.jobs.last().expect("some").starts_in;
    let long = claim(&fixture.store, "one", 60, Some(plan((30, 3_000), 8_000))).await;
    let asked = decided(&long).saturating_sub(decided(&short));
    let first = long.jobs[0].starts_in;
    let behind = (first + asked).saturating_sub(last);
    assert!(behind >= Duration::from_secs(3), "{behind:?} after the last");
}

fn decided(claims: &ClaimBatch) -> Duration {
    claims.decided.expect("the server's time")
}

// A thousand in a tenth of a second, of which few are used, for two seconds: starts outside the
// window are forgotten.
#[tokio::test]
async fn starts_outside_the_window_are_forgotten_while_a_limit_is_in_use() {
    let fixture = RedisFixture::new().await;
    submit(&fixture, jobs_with_cost("api", "a", 400, 2)).await;
    let plan = plan((1_000, 100), 0);
    let until = tokio::time::Instant::now() + Duration::from_secs(2);
    while tokio::time::Instant::now() < until {
        claim(&fixture.store, "one", 1, Some(plan.clone())).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let runs = fixture.server.command(&["LLEN", "{outflow}:u:A"]).expect("asked");
    let runs: usize = runs.parse().expect("a number");
    assert!((1..=30).contains(&runs), "{runs} runs");
}

// An action, its lane and its tenant share a name, so the keys of all three begin alike. A job
// fails, is requeued and done, the action is notified and removed, and the lane continues.
#[tokio::test]
async fn an_action_may_have_the_name_of_its_lane() {
    let fixture = RedisFixture::new().await;
    let mut batch = SubmitBatch::from_jobs(jobs_with_cost("api", "api", 3, 1));
    batch.action = Some(ActionSpec::new(name("api")));
    fixture.store.submit(batch).await.expect("submitted");
    let jobs = fixture.claim(1).await.jobs;
    let failed = JobEnd::Failed {
        message: "404".to_owned(),
        result: None,
    };
    fixture.settle(vec![end(&jobs[0], failed)]).await;
    fixture.assert_balanced().await;
    let revived = fixture.store.requeue(&DeadLetterFilter::All).await;
    assert_eq!(revived.expect("revived"), 1);
    let jobs = fixture.claim(9).await.jobs;
    assert_eq!(jobs.len(), 3);
    fixture.finish(&jobs).await;
    fixture.assert_balanced().await;
}
