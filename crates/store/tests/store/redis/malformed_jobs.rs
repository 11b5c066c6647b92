//! Malformed entries in a job's place: the store sets them aside, and all jobs behind them
//! continue.

use outflow_store::{
    ControlScope, DeadLetterFilter, DeadLetterStore, JobQueue, StoreControl, TenantStore,
};

use super::*;

fn put(room: &Room, command: &[&str]) {
    room.server.command(command).expect("put");
}

fn set_aside(room: &Room) -> String {
    let kept = "return table.concat(redis.call('ZRANGE', '{outflow}:broken', 0, -1), ' ')";
    room.server.command(&["EVAL", kept, "0"]).expect("kept")
}

// A foreign entry is also delayed, before a delayed job.
#[tokio::test]
async fn a_foreign_entry_does_not_keep_others_from_their_time() {
    let room = Room::new().await;
    room.submit("a", 2).await;
    let jobs = room.claim(1).await.jobs;
    let retry = JobEnd::Retry {
        after: Duration::ZERO,
        words: "again".to_owned(),
        result: None,
    };
    room.settle(vec![end(&jobs[0], retry)]).await;
    put(&room, &["ZADD", "{outflow}:d:api", "1", "mine"]);
    assert_eq!(payloads(&room.claim(9).await.jobs), ["a-0", "a-1"]);
    assert!(set_aside(&room).contains("mine"));
    room.balanced().await;
}

#[tokio::test]
async fn a_foreign_entry_does_not_keep_a_dead_sessions_jobs() {
    let room = Room::new().await;
    room.submit("a", 2).await;
    let ask = ClaimRequest {
        lane: name("api"),
        session: name("lost"),
        most: 2,
        lease: Duration::from_millis(1),
        recoveries: 2,
        plan: None,
    };
    room.store.claim(ask, &mut AllowAll).await.expect("claimed");
    put(&room, &["HSET", "{outflow}:s:lost", "7", "mine"]);
    tokio::time::sleep(Duration::from_millis(5)).await;
    let reaped = room.store.reap(100, 3).await.expect("reaped");
    assert_eq!((reaped.returned, reaped.buried), (2, 0));
    assert!(set_aside(&room).contains("mine"));
    room.balanced().await;
    assert_eq!(room.claim(9).await.jobs.len(), 2);
}

#[tokio::test]
async fn a_foreign_letter_does_not_keep_others_from_being_revived() {
    let room = Room::new().await;
    room.submit("a", 1).await;
    let jobs = room.claim(1).await.jobs;
    let failed = JobEnd::Failed {
        words: "no".to_owned(),
        result: None,
    };
    room.settle(vec![end(&jobs[0], failed)]).await;
    put(&room, &["ZADD", "{outflow}:dead", "1", "mine"]);
    assert_eq!(
        room.store.dead_letters(0, 10).await.expect("listed").len(),
        1
    );
    let revived = room.store.requeue(&DeadLetterFilter::All).await;
    assert_eq!(revived.expect("revived"), 1);
    room.balanced().await;
    assert_eq!(room.claim(9).await.jobs.len(), 1);
}

#[tokio::test]
async fn a_foreign_entry_does_not_keep_a_tenant_from_being_cancelled() {
    let room = Room::new().await;
    room.submit("a", 3).await;
    put(&room, &["LPUSH", "{outflow}:l:2:3:api:a", "mine"]);
    put(&room, &["ZADD", "{outflow}:d:api", "1", "mine too"]);
    room.submit("b", 1).await;
    let cancelled = room.store.cancel(&ControlScope::Tenant(name("a"))).await;
    cancelled.expect("cancelled");
    assert!(set_aside(&room).contains("mine"));
    assert_eq!(payloads(&room.claim(9).await.jobs), ["b-0"]);
}

// An operator deletes the list of one tenant; with a bound the general path handles it.
#[tokio::test]
async fn a_list_that_is_gone_is_told_once_and_others_go_on() {
    for bound in [None, Some(1_000)] {
        let room = Room::new().await;
        let rule = outflow_store::TenantRule {
            in_flight: bound,
            ..outflow_store::TenantRule::default()
        };
        room.store.set_rule(&name("b"), rule).await.expect("ruled");
        room.submit("a", 3).await;
        room.submit("b", 3).await;
        put(&room, &["DEL", "{outflow}:l:2:3:api:a"]);
        let ask = ClaimRequest {
            lane: name("api"),
            session: name("worker"),
            most: 9,
            lease: Duration::from_secs(30),
            recoveries: 2,
            plan: None,
        };
        let error = room.store.claim(ask, &mut AllowAll).await;
        let error = error.expect_err("a list is gone");
        assert!(error.to_string().contains("l:2:3:api:a"), "{error}");
        room.balanced().await;
        let jobs = room.claim(9).await.jobs;
        assert_eq!(payloads(&jobs), ["b-0", "b-1", "b-2"]);
        room.finish(&jobs).await;
        room.balanced().await;
    }
}

/// Makes a job with a deadline in the next century.
fn with_deadline(tenant: &str, n: usize) -> NewJob {
    NewJob {
        deadline: Some(outflow_core::WallTime::from_unix_secs(4_000_000_000)),
        ..job(tenant, n)
    }
}

// Flags that promise more than there is, nothing at all, and a plain flag without a name; on the
// fast path, among jobs with deadlines, and where costs differ.
#[tokio::test]
async fn a_damaged_record_keeps_no_other_job_from_going() {
    let costly = |tenant: &str, n| NewJob {
        cost: outflow_core::Cost::new(2),
        ..job(tenant, n)
    };
    let kinds: [fn(&str, usize) -> NewJob; 3] = [job, with_deadline, costly];
    for (kind, damaged) in kinds
        .iter()
        .flat_map(|kind| ["\x07", "", "\0"].map(|it| (kind, it)))
    {
        let room = Room::new().await;
        let jobs = ["a", "b"]
            .into_iter()
            .flat_map(|tenant| (0..3).map(move |n| kind(tenant, n)));
        let submitted = room
            .store
            .submit(SubmitBatch::from_jobs(jobs.collect()))
            .await;
        submitted.expect("submitted");
        put(&room, &["LSET", "{outflow}:l:2:3:api:a", "1", damaged]);
        let mut went = Vec::new();
        loop {
            let jobs = room.claim(9).await.jobs;
            if jobs.is_empty() {
                break;
            }
            went.extend(payloads(&jobs));
            room.finish(&jobs).await;
        }
        went.sort_unstable();
        assert_eq!(went, ["a-0", "a-2", "b-0", "b-1", "b-2"], "{damaged:?}");
        room.store.reap(100, 3).await.expect("reaped");
        let over = ["ZADD", "{outflow}:sessions", "1", "worker"];
        put(&room, &over);
        room.store.reap(100, 3).await.expect("reaped");
        let tally = room.store.job_counts().await.expect("tally");
        assert_eq!((tally.queued, tally.in_flight), (0, 0), "{damaged:?}");
        room.balanced().await;
    }
}

// The returned jobs are gone: their count is corrected as well, or the lane would stop for ever.
#[tokio::test]
async fn a_set_that_is_gone_is_told_once_and_others_go_on() {
    let room = Room::new().await;
    room.submit("a", 3).await;
    let jobs = room.claim(2).await.jobs;
    let back = jobs.iter().map(|job| end(job, JobEnd::Returned)).collect();
    room.settle(back).await;
    room.submit("b", 2).await;
    put(&room, &["DEL", "{outflow}:b:2:3:api:a"]);
    let ask = ClaimRequest {
        lane: name("api"),
        session: name("worker"),
        most: 9,
        lease: Duration::from_secs(30),
        recoveries: 2,
        plan: None,
    };
    let error = room.store.claim(ask, &mut AllowAll).await;
    error.expect_err("two jobs are gone");
    room.balanced().await;
    let mut went = payloads(&room.claim(9).await.jobs);
    went.sort_unstable();
    assert_eq!(went, ["a-2", "b-0", "b-1"]);
    room.balanced().await;
}

// The outcomes of its action are a foreign value: the dead letter is requeued nevertheless.
#[tokio::test]
async fn a_letter_is_revived_though_its_outcome_is_somebody_elses() {
    let room = Room::new().await;
    let batch = SubmitBatch {
        action: Some(outflow_store::ActionSpec::new(name("act"))),
        rest: outflow_store::BatchPosition::More,
        ..SubmitBatch::from_jobs(vec![job("a", 0), job("a", 1)])
    };
    room.store.submit(batch).await.expect("submitted");
    let jobs = room.claim(1).await.jobs;
    let failed = JobEnd::Failed {
        words: "no".to_owned(),
        result: None,
    };
    room.settle(vec![end(&jobs[0], failed)]).await;
    put(&room, &["SET", "{outflow}:r:act", "mine"]);
    put(&room, &["DEL", "{outflow}:broken"]);
    let revived = room.store.requeue(&DeadLetterFilter::All).await;
    assert_eq!(revived.expect("revived"), 1);
    put(&room, &["DEL", "{outflow}:r:act"]);
    room.balanced().await;
    assert_eq!(room.claim(9).await.jobs.len(), 2);
}
