//! Limits that machines share, when something about them changes or is not used.

use outflow_core::{Cost, Measure, Rate};
use outflow_store::{SharedLimit, Start, TenantRule};

use super::*;

/// So many in so many milliseconds, two seconds ahead.
fn plan(units: u64, millis: u64) -> SharedPlan {
    let rate = Rate::new(units, Duration::from_millis(millis));
    SharedPlan {
        limits: vec![SharedLimit {
            name: "P0 api".to_owned(),
            rate: rate.expect("a rate"),
            measure: Measure::Cost,
        }],
        guard: Duration::from_millis(5),
        horizon: Duration::from_secs(2),
    }
}

async fn claimed(room: &Room, most: usize, plan: &SharedPlan) -> Vec<Claimed> {
    claim(&room.store, "one", most, Some(plan.clone()))
        .await
        .jobs
}

// Ten calls in ten seconds, whatever they cost: twenty jobs that cost four and none.
#[tokio::test]
async fn a_limit_of_calls_does_not_care_for_costs() {
    let room = Room::new().await;
    let job = |n: usize| NewJob {
        cost: Cost::new(if n.is_multiple_of(2) { 4 } else { 0 }),
        ..job("a", n)
    };
    let jobs = room.store.submit(Batch::of((0..20).map(job).collect()));
    jobs.await.expect("submitted");
    let mut calls = plan(10, 10_000);
    calls.limits[0].measure = Measure::Calls;
    assert_eq!(claimed(&room, 20, &calls).await.len(), 10);
}

// Twenty of twenty in ten seconds are used. In eleven seconds there is room for none, and for five of
// twenty-five.
#[tokio::test]
async fn a_limit_that_changes_keeps_what_was_used() {
    let room = Room::new().await;
    room.submit("a", 60).await;
    assert_eq!(claimed(&room, 50, &plan(20, 10_000)).await.len(), 20);
    assert_eq!(claimed(&room, 50, &plan(20, 11_000)).await.len(), 0);
    assert_eq!(claimed(&room, 50, &plan(25, 10_000)).await.len(), 5);
}

// Five of the middle are given back, one after the other: five others go, and then no more.
#[tokio::test]
async fn what_was_not_used_of_a_long_window_is_given_back() {
    let room = Room::new().await;
    room.submit("a", 60).await;
    let rule = TenantRule {
        rate: Some("20/10s".parse().expect("a rate")),
        ..TenantRule::default()
    };
    room.store.set_usual(rule).await.expect("ruled");
    let plan = plan(20, 10_000);
    let claims = claim(&room.store, "one", 50, Some(plan.clone())).await;
    assert_eq!(claims.jobs.len(), 20);
    let decided = claims.decided.expect("the server's time");
    for job in &claims.jobs[8..13] {
        let start = Start {
            tenant: job.tenant.clone(),
            cost: job.cost,
            plan: plan.clone(),
        };
        let refunded = room.store.refund(&start, decided + job.starts_in).await;
        refunded.expect("given back");
    }
    assert_eq!(claimed(&room, 50, &plan).await.len(), 5);
    assert_eq!(claimed(&room, 50, &plan).await.len(), 0);
    room.balanced().await;
}

// Two in a second and a fifth, at once: who tries outside of a claim meets no instant but now. The third waits for
// the window, and so does a claim.
#[tokio::test]
async fn a_start_outside_of_a_claim_is_debited_like_any_other() {
    let room = Room::new().await;
    let start = Start {
        tenant: name("a"),
        cost: Cost::ONE,
        plan: SharedPlan {
            horizon: Duration::ZERO,
            ..plan(2, 1_200)
        },
    };
    let debit = async || room.store.debit(&start).await.expect("asked");
    assert_eq!(debit().await, None);
    assert_eq!(debit().await, None);
    let wait = debit().await.expect("full");
    assert!(wait > Duration::from_secs(1), "{wait:?}");
    room.submit("a", 1).await;
    assert!(
        claimed(&room, 1, &start.plan).await.is_empty(),
        "claims see it, too"
    );
    tokio::time::sleep(wait).await;
    assert_eq!((debit().await, debit().await), (None, None));
    assert!(debit().await.is_some());
}

// A tenant has five in three seconds of its own, the lane a hundred in a fifth: after the loss nobody knows what
// the tenant used, while others have nothing to wait for but the lane.
#[tokio::test]
async fn a_tenants_own_window_is_waited_out_after_a_loss() {
    let room = Room::new().await;
    room.server.ask(&["FLUSHALL"]).expect("flushed");
    room.store.tally().await.expect_err("lost");
    room.store.begin_anew().await.expect("anew");
    let rule = TenantRule {
        rate: Some("5/3s".parse().expect("a rate")),
        ..TenantRule::default()
    };
    room.store.set_rule(&name("a"), rule).await.expect("ruled");
    room.submit("a", 3).await;
    room.submit("b", 3).await;
    let plan = SharedPlan {
        horizon: Duration::from_millis(50),
        ..plan(100, 200)
    };
    tokio::time::sleep(Duration::from_millis(220)).await;
    let jobs = claimed(&room, 10, &plan).await;
    assert!(jobs.iter().all(|job| job.tenant == name("b")), "{jobs:?}");
    assert_eq!(jobs.len(), 3);
    tokio::time::sleep(Duration::from_millis(2_850)).await;
    assert!(!claimed(&room, 10, &plan).await.is_empty(), "a may again");
}
