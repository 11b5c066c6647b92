//! Limits of the store with costly jobs, and with jobs that do not start.

use outflow_core::{Cost, WallTime};
use outflow_store::{
    ActionSpec, ControlScope, DeadLetterFilter, DeadLetterStore, JobQueue, StoreControl, StoreLimits, TenantRule,
    TenantStore,
};

use super::*;

const LIMITS: Option<StoreLimits> = Some(StoreLimits { global: Some(10) });

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
    let claims = claim(&fixture.store, "one", 10, LIMITS).await;
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
    let claims = claim(&fixture.store, "one", 10, LIMITS).await;
    assert_eq!(claims.jobs.len(), 0);
    fixture.assert_balanced().await;
    fixture
        .store
        .resume(&ControlScope::Action(name("act")))
        .await
        .expect("resumed");
    assert_eq!(claim(&fixture.store, "one", 10, LIMITS).await.jobs.len(), 3);
    fixture.assert_balanced().await;
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
