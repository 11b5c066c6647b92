//! Shared limits with jobs of several costs and lanes, and with jobs that do not start.

use outflow_core::{Cost, CountBy, Rate, WallTime};
use outflow_store::{
    ActionSpec, ControlScope, DeadLetterFilter, DeadLetterStore, JobQueue, SharedLimit,
    StoreControl, TenantRule, TenantStore,
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

async fn submit(room: &Room, jobs: Vec<NewJob>) {
    room.store
        .submit(SubmitBatch::from_jobs(jobs))
        .await
        .expect("submitted");
}

/// Makes jobs of a lane and tenant, each of this cost.
fn of(lane: &str, tenant: &str, (many, cost): (usize, u64)) -> Vec<NewJob> {
    let job = |n| NewJob {
        lane: name(lane),
        cost: Cost::new(cost),
        ..job(tenant, n)
    };
    (0..many).map(job).collect()
}

// The first costly job comes after its deadline: it ends, and nothing else happens. A tenant with a
// limit of its own gets it in the claim in which others start.
#[tokio::test]
async fn a_dear_job_that_does_not_go_leaves_no_trace() {
    let room = Room::new().await;
    let rule = TenantRule {
        rate: Some("5/s".parse().expect("a rate")),
        ..TenantRule::default()
    };
    room.store.set_rule(&name("a"), rule).await.expect("ruled");
    let late = |mut job: NewJob| {
        job.deadline = Some(WallTime::from_unix_secs(1));
        job
    };
    submit(
        &room,
        of("api", "a", (2, 3)).into_iter().map(late).collect(),
    )
    .await;
    submit(&room, of("api", "b", (3, 1))).await;
    let claims = claim(&room.store, "one", 10, Some(plan((10, 1_000), 900))).await;
    assert_eq!((claims.jobs.len(), claims.expired), (3, 2));
    room.balanced().await;
    let tally = room.store.job_counts().await.expect("told");
    assert_eq!((tally.queued, tally.in_flight), (0, 3), "{tally:?}");
    let ends = claims.jobs.iter().map(done).collect();
    let settled = room
        .store
        .settle(&name("one"), ends)
        .await
        .expect("settled");
    assert_eq!(settled, vec![SettleResult::Done; 3]);
}

// Now with jobs whose action is paused: they are held, and start after the resumption.
#[tokio::test]
async fn a_dear_job_of_a_paused_action_is_held_whole() {
    let room = Room::new().await;
    let mut batch = SubmitBatch::from_jobs(of("api", "a", (3, 2)));
    batch.action = Some(ActionSpec::new(name("act")));
    room.store.submit(batch).await.expect("submitted");
    room.store
        .pause(&ControlScope::Action(name("act")))
        .await
        .expect("paused");
    let plan = plan((10, 1_000), 900);
    let claims = claim(&room.store, "one", 10, Some(plan.clone())).await;
    assert_eq!(claims.jobs.len(), 0);
    room.balanced().await;
    room.store
        .resume(&ControlScope::Action(name("act")))
        .await
        .expect("resumed");
    assert_eq!(
        claim(&room.store, "one", 10, Some(plan)).await.jobs.len(),
        3
    );
    room.balanced().await;
}

// Two lanes with 20/s each and a thousand together, one of them with jobs that cost two: claims
// alternate for two seconds, and both use their limits fully.
#[tokio::test]
async fn dear_jobs_of_one_lane_go_beside_plain_ones_of_another() {
    let room = Room::new().await;
    submit(&room, of("x", "a", (100, 1))).await;
    submit(&room, of("y", "b", (100, 2))).await;
    let beside = |lane: &str| {
        let mut both = plan((1_000, 1_000), 250);
        both.limits.push(SharedLimit {
            name: format!("L0 {lane}"),
            ..plan((20, 1_000), 250).limits.remove(0)
        });
        (5, Some(both))
    };
    let (mut plain, mut dear) = (0, 0);
    for _ in 0..40 {
        plain += claim_of("x", &room.store, "one", beside("x"))
            .await
            .jobs
            .len();
        dear += claim_of("y", &room.store, "two", beside("y"))
            .await
            .jobs
            .len();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(plain >= 40 && dear >= 20, "{plain} plain, {dear} dear");
    room.balanced().await;
}

// Ten a second, all used for a second and a half ahead; then the limit becomes thirty in three
// seconds. Usage before the longer window was known counts as all.
#[tokio::test]
async fn a_window_that_becomes_longer_begins_closed() {
    let room = Room::new().await;
    submit(&room, of("api", "a", (60, 1))).await;
    let short = claim(&room.store, "one", 60, Some(plan((10, 1_000), 1_500))).await;
    let last = short.jobs.last().expect("some").starts_in;
    let long = claim(&room.store, "one", 60, Some(plan((30, 3_000), 8_000))).await;
    let asked = decided(&long).saturating_sub(decided(&short));
    let first = long.jobs[0].starts_in;
    let behind = (first + asked).saturating_sub(last);
    assert!(
        behind >= Duration::from_secs(3),
        "{behind:?} after the last"
    );
}

fn decided(claims: &ClaimBatch) -> Duration {
    claims.decided.expect("the server's time")
}

// A thousand in a tenth of a second, of which few are used, for two seconds: starts outside the
// window are forgotten.
#[tokio::test]
async fn what_left_its_window_is_forgotten_while_a_limit_is_in_use() {
    let room = Room::new().await;
    submit(&room, of("api", "a", (400, 2))).await;
    let plan = plan((1_000, 100), 0);
    let until = tokio::time::Instant::now() + Duration::from_secs(2);
    while tokio::time::Instant::now() < until {
        claim(&room.store, "one", 1, Some(plan.clone())).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let runs = room
        .server
        .command(&["LLEN", "{outflow}:u:A"])
        .expect("asked");
    let runs: usize = runs.parse().expect("a number");
    assert!((1..=30).contains(&runs), "{runs} runs");
}

// An action, its lane and its tenant share a name, so the keys of all three begin alike. A job
// fails, is requeued and done, the action is notified and removed, and the lane continues.
#[tokio::test]
async fn an_action_may_have_the_name_of_its_lane() {
    let room = Room::new().await;
    let mut batch = SubmitBatch::from_jobs(of("api", "api", (3, 1)));
    batch.action = Some(ActionSpec::new(name("api")));
    room.store.submit(batch).await.expect("submitted");
    let jobs = room.claim(1).await.jobs;
    let failed = JobEnd::Failed {
        words: "404".to_owned(),
        result: None,
    };
    room.settle(vec![end(&jobs[0], failed)]).await;
    room.balanced().await;
    let revived = room.store.requeue(&DeadLetterFilter::All).await;
    assert_eq!(revived.expect("revived"), 1);
    let jobs = room.claim(9).await.jobs;
    assert_eq!(jobs.len(), 3);
    room.finish(&jobs).await;
    room.balanced().await;
}
