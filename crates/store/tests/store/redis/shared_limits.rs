//! Shared limits that change, and refunds of unused starts.

use outflow_core::{Cost, CountBy, Rate};
use outflow_store::{
    DeadLetterFilter, DeadLetterStore, JobQueue, SharedLimit, StartDebit, StoreControl, TenantRule, TenantStore,
};

use super::*;

/// Makes a limit of some units per milliseconds, two seconds ahead.
fn plan(units: u64, millis: u64) -> SharedLimits {
    let rate = Rate::new(units, Duration::from_millis(millis));
    SharedLimits {
        limits: vec![SharedLimit {
            name: "P0 api".to_owned(),
            rate: rate.expect("a rate"),
            measure: CountBy::Cost,
        }],
        guard: Duration::from_millis(5),
        horizon: Duration::from_secs(2),
    }
}

async fn claimed(fixture: &RedisFixture, max: usize, plan: &SharedLimits) -> Vec<ClaimedJob> {
    claim(&fixture.store, "one", max, Some(plan.clone())).await.jobs
}

// Ten calls in ten seconds at any cost: twenty jobs that cost four and none.
#[tokio::test]
async fn a_limit_of_calls_ignores_costs() {
    let fixture = RedisFixture::new().await;
    let job = |n: usize| NewJob {
        cost: Cost::new(if n.is_multiple_of(2) { 4 } else { 0 }),
        ..job("a", n)
    };
    let jobs = fixture.store.submit(SubmitBatch::from_jobs((0..20).map(job).collect()));
    jobs.await.expect("submitted");
    let mut calls = plan(10, 10_000);
    calls.limits[0].measure = CountBy::Calls;
    assert_eq!(claimed(&fixture, 20, &calls).await.len(), 10);
}

// Twenty of twenty in ten seconds are used. A window of eleven seconds has no quota left, and a
// limit of twenty-five has five.
#[tokio::test]
async fn a_changed_limit_keeps_its_usage() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 60).await;
    assert_eq!(claimed(&fixture, 50, &plan(20, 10_000)).await.len(), 20);
    assert_eq!(claimed(&fixture, 50, &plan(20, 11_000)).await.len(), 0);
    assert_eq!(claimed(&fixture, 50, &plan(25, 10_000)).await.len(), 5);
}

// Five starts in the middle are refunded, one after the other: five others start, and then no more.
#[tokio::test]
async fn unused_starts_of_a_long_window_are_refunded() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 60).await;
    let rule = TenantRule {
        rate: Some("20/10s".parse().expect("a rate")),
        ..TenantRule::default()
    };
    fixture.store.set_default_rule(rule).await.expect("ruled");
    let plan = plan(20, 10_000);
    let claims = claim(&fixture.store, "one", 50, Some(plan.clone())).await;
    assert_eq!(claims.jobs.len(), 20);
    let decided = claims.decided.expect("the server's time");
    for job in &claims.jobs[8..13] {
        let start = StartDebit {
            tenant: job.tenant.clone(),
            cost: job.cost,
            plan: plan.clone(),
        };
        let refunded = fixture.store.refund(&start, decided + job.starts_in).await;
        refunded.expect("given back");
    }
    assert_eq!(claimed(&fixture, 50, &plan).await.len(), 5);
    assert_eq!(claimed(&fixture, 50, &plan).await.len(), 0);
    fixture.assert_balanced().await;
}

// Sixty in a second and a fifth, one in 16.7 ms. The first of them did not start, with 59 runs
// behind it: another may start instead, and the next after that when the second has left the
// window, not the first.
#[tokio::test]
async fn a_refund_removes_its_own_start_only() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 62).await;
    let plan = plan(60, 1_200);
    let claims = claim(&fixture.store, "one", 60, Some(plan.clone())).await;
    assert_eq!(claims.jobs.len(), 60);
    let first = claims.decided.expect("the server's time") + claims.jobs[0].starts_in;
    let start = StartDebit {
        tenant: name("a"),
        cost: Cost::ONE,
        plan: plan.clone(),
    };
    fixture.store.refund(&start, first).await.expect("given back");
    let more = claim(&fixture.store, "one", 62, Some(plan)).await;
    let decided = more.decided.expect("the server's time");
    let at = |job: &ClaimedJob| decided + job.starts_in;
    let at: Vec<_> = more.jobs.iter().map(at).collect();
    let after = |micros| first + Duration::from_micros(micros);
    assert!(at[0] < after(1_100_000), "{at:?}, the first {first:?}");
    assert!(at[1] >= after(1_221_600), "{at:?}, the first {first:?}");
}

// Two in a second and a fifth, at once: a debit outside of a claim has no instant but now. The
// third waits for the window, and so does a claim.
#[tokio::test]
async fn a_start_outside_of_a_claim_is_debited_like_any_other() {
    let fixture = RedisFixture::new().await;
    let start = StartDebit {
        tenant: name("a"),
        cost: Cost::ONE,
        plan: SharedLimits {
            horizon: Duration::ZERO,
            ..plan(2, 1_200)
        },
    };
    let debit = async || fixture.store.debit(&start).await.expect("asked");
    assert_eq!(debit().await, None);
    assert_eq!(debit().await, None);
    let wait = debit().await.expect("full");
    assert!(wait > Duration::from_secs(1), "{wait:?}");
    fixture.submit("a", 1).await;
    assert!(claimed(&fixture, 1, &start.plan).await.is_empty(), "claims see it, too");
    tokio::time::sleep(wait).await;
    assert_eq!((debit().await, debit().await), (None, None));
    assert!(debit().await.is_some());
}

// Five in half a second, handed out ahead: the first leaves the window after 505 ms, and one may
// start then; the last after 910. Then five without an instant, of which a claim knows: its first
// start is behind their window.
#[tokio::test]
async fn debits_and_claims_see_each_others_usage() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 6).await;
    let plan = plan(5, 500);
    assert_eq!(claimed(&fixture, 5, &plan).await.len(), 5);
    let ahead = server_time(&fixture.server) + 910_000;
    let start = StartDebit {
        tenant: name("a"),
        cost: Cost::ONE,
        plan: plan.clone(),
    };
    let debit = async || fixture.store.debit(&start).await.expect("asked");
    let wait = debit().await.expect("full");
    assert!(wait <= Duration::from_millis(505), "{wait:?}");
    while server_time(&fixture.server) < ahead {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for _ in 0..5 {
        assert_eq!(debit().await, None);
    }
    assert!(debit().await.is_some());
    let jobs = claimed(&fixture, 1, &plan).await;
    assert!(
        jobs[0].starts_in > Duration::from_millis(300),
        "{:?}",
        jobs[0].starts_in
    );
}

// Four jobs of 10, which fail and are retried when their lane is otherwise empty: 10 in half a
// second allow one.
#[tokio::test]
async fn costs_are_known_for_jobs_returned_to_an_empty_lane() {
    let fixture = RedisFixture::new().await;
    let dear = |n: usize| NewJob {
        cost: Cost::new(10),
        ..job("a", n)
    };
    let jobs = SubmitBatch::from_jobs((0..4).map(dear).collect());
    fixture.store.submit(jobs).await.expect("submitted");
    let jobs = claim(&fixture.store, "worker", 4, None).await.jobs;
    let failed = JobEnd::Failed {
        message: "404".to_owned(),
        result: None,
    };
    let ends = jobs.iter().map(|job| end(job, failed.clone()));
    fixture.settle(ends.collect()).await;
    fixture.store.requeue(&DeadLetterFilter::All).await.expect("revived");
    let plan = SharedLimits {
        horizon: Duration::from_millis(100),
        ..plan(10, 500)
    };
    assert_eq!(claimed(&fixture, 4, &plan).await.len(), 1);
    fixture.assert_balanced().await;
}

// A tenant has five in three seconds of its own, the lane a hundred in a fifth: after the loss the
// tenant's usage is unknown, while others only wait for the lane.
#[tokio::test]
async fn a_tenants_own_window_is_waited_out_after_a_loss() {
    let fixture = RedisFixture::new().await;
    fixture.server.command(&["FLUSHALL"]).expect("flushed");
    fixture.store.job_counts().await.expect_err("lost");
    fixture.store.reinitialize().await.expect("reinitialized");
    let rule = TenantRule {
        rate: Some("5/3s".parse().expect("a rate")),
        ..TenantRule::default()
    };
    fixture.store.set_rule(&name("a"), rule).await.expect("ruled");
    fixture.submit("a", 3).await;
    fixture.submit("b", 3).await;
    let plan = SharedLimits {
        horizon: Duration::from_millis(50),
        ..plan(100, 200)
    };
    tokio::time::sleep(Duration::from_millis(220)).await;
    let jobs = claimed(&fixture, 10, &plan).await;
    assert!(jobs.iter().all(|job| job.tenant == name("b")), "{jobs:?}");
    assert_eq!(jobs.len(), 3);
    tokio::time::sleep(Duration::from_millis(2_850)).await;
    assert!(!claimed(&fixture, 10, &plan).await.is_empty(), "a may again");
}
