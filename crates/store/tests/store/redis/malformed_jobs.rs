//! Malformed entries in a job's place: the store sets them aside, and all jobs behind them
//! continue.

use outflow_store::{ControlScope, DeadLetterFilter, DeadLetterStore, JobQueue, StoreControl, TenantStore};

use super::*;

fn put(fixture: &RedisFixture, command: &[&str]) {
    fixture.server.command(command).expect("put");
}

fn set_aside(fixture: &RedisFixture) -> String {
    let kept = "return table.concat(redis.call('ZRANGE', '{outflow}:broken', 0, -1), ' ')";
    fixture.server.command(&["EVAL", kept, "0"]).expect("kept")
}

// A foreign entry is also delayed, before a delayed job.
#[tokio::test]
async fn a_foreign_entry_does_not_block_delayed_jobs() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 2).await;
    let jobs = fixture.claim(1).await.jobs;
    let retry = JobEnd::Retry {
        after: Duration::ZERO,
        message: "again".to_owned(),
        result: None,
    };
    fixture.settle(vec![end(&jobs[0], retry)]).await;
    put(&fixture, &["ZADD", "{outflow}:d:api", "1", "mine"]);
    assert_eq!(payloads(&fixture.claim(9).await.jobs), ["a-0", "a-1"]);
    assert!(set_aside(&fixture).contains("mine"));
    fixture.assert_balanced().await;
}

#[tokio::test]
async fn a_foreign_entry_does_not_block_the_jobs_of_a_dead_session() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 2).await;
    let request = ClaimRequest {
        lane: name("api"),
        session: name("lost"),
        max: 2,
        lease: Duration::from_millis(1),
        recoveries: 2,
        limits: None,
        cost: None,
    };
    fixture.store.claim(request, &mut AllowAll).await.expect("claimed");
    put(&fixture, &["HSET", "{outflow}:s:lost", "7", "mine"]);
    tokio::time::sleep(Duration::from_millis(5)).await;
    let reaped = fixture.store.reap(100, 3).await.expect("reaped");
    assert_eq!((reaped.returned, reaped.dead_lettered), (2, 0));
    assert!(set_aside(&fixture).contains("mine"));
    fixture.assert_balanced().await;
    assert_eq!(fixture.claim(9).await.jobs.len(), 2);
}

#[tokio::test]
async fn a_foreign_dead_letter_does_not_block_the_requeue_of_others() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 1).await;
    let jobs = fixture.claim(1).await.jobs;
    let failed = JobEnd::Failed {
        message: "no".to_owned(),
        result: None,
    };
    fixture.settle(vec![end(&jobs[0], failed)]).await;
    put(&fixture, &["ZADD", "{outflow}:dead", "1", "mine"]);
    assert_eq!(fixture.store.dead_letters(0, 10).await.expect("listed").len(), 1);
    let revived = fixture.store.requeue(&DeadLetterFilter::All).await;
    assert_eq!(revived.expect("revived"), 1);
    fixture.assert_balanced().await;
    assert_eq!(fixture.claim(9).await.jobs.len(), 1);
}

#[tokio::test]
async fn a_foreign_entry_does_not_block_a_cancellation() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 3).await;
    put(&fixture, &["LPUSH", "{outflow}:l:2:3:api:a", "mine"]);
    put(&fixture, &["ZADD", "{outflow}:d:api", "1", "mine too"]);
    fixture.submit("b", 1).await;
    let cancelled = fixture.store.cancel(&ControlScope::Tenant(name("a"))).await;
    cancelled.expect("cancelled");
    assert!(set_aside(&fixture).contains("mine"));
    assert_eq!(payloads(&fixture.claim(9).await.jobs), ["b-0"]);
}

// An operator deletes the list of one tenant; with a bound the general path handles it.
#[tokio::test]
async fn a_deleted_list_is_reported_once_and_others_continue() {
    for bound in [None, Some(1_000)] {
        let fixture = RedisFixture::new().await;
        let rule = outflow_store::TenantRule {
            in_flight: bound,
            ..outflow_store::TenantRule::default()
        };
        fixture.store.set_rule(&name("b"), rule).await.expect("ruled");
        fixture.submit("a", 3).await;
        fixture.submit("b", 3).await;
        put(&fixture, &["DEL", "{outflow}:l:2:3:api:a"]);
        let request = ClaimRequest {
            lane: name("api"),
            session: name("worker"),
            max: 9,
            lease: Duration::from_secs(30),
            recoveries: 2,
            limits: None,
            cost: None,
        };
        let error = fixture.store.claim(request, &mut AllowAll).await;
        let error = error.expect_err("a list is gone");
        assert!(error.to_string().contains("l:2:3:api:a"), "{error}");
        fixture.assert_balanced().await;
        let jobs = fixture.claim(9).await.jobs;
        assert_eq!(payloads(&jobs), ["b-0", "b-1", "b-2"]);
        fixture.finish(&jobs).await;
        fixture.assert_balanced().await;
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
async fn a_damaged_record_blocks_no_other_job() {
    let costly = |tenant: &str, n| NewJob {
        cost: outflow_core::Cost::new(2),
        ..job(tenant, n)
    };
    let kinds: [fn(&str, usize) -> NewJob; 3] = [job, with_deadline, costly];
    for (kind, damaged) in kinds.iter().flat_map(|kind| ["\x07", "", "\0"].map(|it| (kind, it))) {
        let fixture = RedisFixture::new().await;
        let jobs = ["a", "b"]
            .into_iter()
            .flat_map(|tenant| (0..3).map(move |n| kind(tenant, n)));
        let submitted = fixture.store.submit(SubmitBatch::from_jobs(jobs.collect())).await;
        submitted.expect("submitted");
        put(&fixture, &["LSET", "{outflow}:l:2:3:api:a", "1", damaged]);
        let mut went = Vec::new();
        loop {
            let jobs = fixture.claim(9).await.jobs;
            if jobs.is_empty() {
                break;
            }
            went.extend(payloads(&jobs));
            fixture.finish(&jobs).await;
        }
        went.sort_unstable();
        assert_eq!(went, ["a-0", "a-2", "b-0", "b-1", "b-2"], "{damaged:?}");
        fixture.store.reap(100, 3).await.expect("reaped");
        let over = ["ZADD", "{outflow}:sessions", "1", "worker"];
        put(&fixture, &over);
        fixture.store.reap(100, 3).await.expect("reaped");
        let counts = fixture.store.job_counts().await.expect("counts");
        assert_eq!((counts.queued, counts.in_flight), (0, 0), "{damaged:?}");
        fixture.assert_balanced().await;
    }
}

// The returned jobs are gone: their count is corrected as well, or the lane would stop for ever.
#[tokio::test]
async fn a_deleted_set_is_reported_once_and_others_continue() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 3).await;
    let jobs = fixture.claim(2).await.jobs;
    let back = jobs.iter().map(|job| end(job, JobEnd::Returned)).collect();
    fixture.settle(back).await;
    fixture.submit("b", 2).await;
    put(&fixture, &["DEL", "{outflow}:b:2:3:api:a"]);
    let request = ClaimRequest {
        lane: name("api"),
        session: name("worker"),
        max: 9,
        lease: Duration::from_secs(30),
        recoveries: 2,
        limits: None,
        cost: None,
    };
    let error = fixture.store.claim(request, &mut AllowAll).await;
    error.expect_err("two jobs are gone");
    fixture.assert_balanced().await;
    let mut went = payloads(&fixture.claim(9).await.jobs);
    went.sort_unstable();
    assert_eq!(went, ["a-2", "b-0", "b-1"]);
    fixture.assert_balanced().await;
}

// The outcomes of its action are a foreign value: the dead letter is requeued nevertheless.
#[tokio::test]
async fn a_dead_letter_is_requeued_despite_a_foreign_outcome_list() {
    let fixture = RedisFixture::new().await;
    let batch = SubmitBatch {
        action: Some(outflow_store::ActionSpec::new(name("act"))),
        rest: outflow_store::BatchPosition::More,
        ..SubmitBatch::from_jobs(vec![job("a", 0), job("a", 1)])
    };
    fixture.store.submit(batch).await.expect("submitted");
    let jobs = fixture.claim(1).await.jobs;
    let failed = JobEnd::Failed {
        message: "no".to_owned(),
        result: None,
    };
    fixture.settle(vec![end(&jobs[0], failed)]).await;
    put(&fixture, &["SET", "{outflow}:r:act", "mine"]);
    put(&fixture, &["DEL", "{outflow}:broken"]);
    let revived = fixture.store.requeue(&DeadLetterFilter::All).await;
    assert_eq!(revived.expect("revived"), 1);
    put(&fixture, &["DEL", "{outflow}:r:act"]);
    fixture.assert_balanced().await;
    assert_eq!(fixture.claim(9).await.jobs.len(), 2);
}
