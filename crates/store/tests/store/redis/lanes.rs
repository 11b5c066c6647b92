//! More lanes than a script passes to one command.

use std::time::Duration;

use outflow_store::{
    ActionSpec, ActionStore, AllowAll, ClaimRequest, ControlScope, JobQueue, NewJob, StoreControl, SubmitBatch,
    TenantStore,
};

use super::*;

fn lane(number: usize) -> Name {
    name(&format!("lane-{number:04}"))
}

/// Makes one job of a tenant in each of these lanes, as one action.
fn spread(tenant: &str, action: &str, lanes: std::ops::Range<usize>) -> SubmitBatch {
    let job = |number| NewJob::new(name(tenant), lane(number), Bytes::from("x"));
    SubmitBatch {
        action: Some(ActionSpec::new(name(action))),
        ..SubmitBatch::from_jobs(lanes.map(job).collect())
    }
}

async fn claimed(store: &RedisStore, number: usize) -> Vec<ClaimedJob> {
    let request = ClaimRequest {
        lane: lane(number),
        session: name("worker"),
        max: 9,
        lease: Duration::from_mins(5),
        recoveries: 2,
        limits: None,
        cost: None,
    };
    let claims = store.claim(request, &mut AllowAll).await;
    claims.expect("claimed").jobs
}

// 1,100 lanes are a piece of a thousand and some of the next. The action has a job only in the last
// lane.
#[tokio::test]
async fn a_tenant_resumes_in_every_lane() {
    let fixture = RedisFixture::new().await;
    let tenant = ControlScope::Tenant(name("a"));
    fixture
        .store
        .submit(spread("a", "most", 0..1_099))
        .await
        .expect("taken");
    fixture
        .store
        .submit(spread("a", "last", 1_099..1_100))
        .await
        .expect("taken");
    fixture.store.pause(&tenant).await.expect("paused");
    // A claim takes the tenant out of the order; only the resumption puts it back.
    for number in 0..1_100 {
        assert!(claimed(&fixture.store, number).await.is_empty(), "{number}");
    }
    let report = fixture.store.tenant(&name("a")).await.expect("asked");
    assert_eq!(report.expect("known").counts.queued, 1_100);
    for action in ["most", "last"] {
        let report = fixture.store.action(&name(action)).await.expect("asked");
        assert_eq!(report.expect("known").held, 1, "{action}");
    }
    fixture.store.resume(&tenant).await.expect("resumed");
    for number in 0..1_100 {
        let jobs = claimed(&fixture.store, number).await;
        assert_eq!(jobs.len(), 1, "lane {number}");
        fixture.finish(&jobs).await;
    }
    fixture.assert_balanced().await;
}

// One job at once, in any lane: each that ends lets the next start, up to the last.
#[tokio::test]
async fn a_freed_bound_wakes_the_last_lane_too() {
    let fixture = RedisFixture::new().await;
    let rule = outflow_store::TenantRule {
        in_flight: Some(1),
        ..outflow_store::TenantRule::default()
    };
    fixture.store.set_rule(&name("b"), rule).await.expect("set");
    fixture.store.submit(spread("a", "all", 0..1_100)).await.expect("taken");
    fixture
        .store
        .submit(spread("b", "two", 1_098..1_100))
        .await
        .expect("taken");
    let of_b = |jobs: Vec<ClaimedJob>| {
        jobs.into_iter()
            .filter(|job| job.tenant == name("b"))
            .collect::<Vec<_>>()
    };
    let first = of_b(claimed(&fixture.store, 1_098).await);
    assert_eq!(first.len(), 1);
    assert!(of_b(claimed(&fixture.store, 1_099).await).is_empty());
    fixture.finish(&first).await;
    assert_eq!(of_b(claimed(&fixture.store, 1_099).await).len(), 1);
}
