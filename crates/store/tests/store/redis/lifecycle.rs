//! Life of a job: submitted, claimed, settled.

use std::time::Duration;

use bytes::Bytes;
use outflow_core::WallTime;
use outflow_store::{
    ActionSpec, ActionStage, ActionStore, BatchPosition, ControlScope, CooldownScope, DeadLetterFilter,
    DeadLetterStore, FinishedQuery, HeartbeatResult, JobEnd, JobQueue, JobStatus, SettleResult, StoreControl,
    StoredResult, SubmitBatch, SubmitReceipt, TenantStore,
};

use super::*;

#[tokio::test]
async fn a_job_is_claimed_once_and_ends_once() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 3).await;
    let first = fixture.claim(2).await.jobs;
    assert_eq!(payloads(&first), ["a-0", "a-1"]);
    assert_eq!(payloads(&fixture.claim(9).await.jobs), ["a-2"]);
    assert!(fixture.claim(9).await.jobs.is_empty());
    fixture.finish(&first).await;
    let again = fixture.settle(first.iter().map(done).collect()).await;
    assert_eq!(again, [SettleResult::Fenced, SettleResult::Fenced]);
    let counts = fixture.store.job_counts().await.expect("counts");
    assert_eq!((counts.queued, counts.in_flight, counts.done), (0, 1, 2));
    assert_eq!(counts.busy, Duration::from_millis(6));
    fixture.assert_balanced().await;
}

// A thousand and one: more than a script passes to one command.
#[tokio::test]
async fn a_batch_of_any_size_is_one_step() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 2_500).await;
    let mut seen = 0;
    while seen < 2_500 {
        let jobs = fixture.claim(1_001).await.jobs;
        assert!(!jobs.is_empty());
        seen += jobs.len();
        fixture.finish(&jobs).await;
    }
    assert_eq!(fixture.store.job_counts().await.expect("counts").done, 2_500);
    fixture.assert_balanced().await;
}

#[tokio::test]
async fn a_remembered_name_is_accepted_once() {
    let fixture = RedisFixture::new().await;
    let mut one = job("a", 1);
    one.id = Some(name("order-1"));
    let batch = SubmitBatch {
        remember: Duration::from_millis(60),
        ..SubmitBatch::from_jobs(vec![one.clone(), one])
    };
    let first = fixture.store.submit(batch.clone()).await.expect("submitted");
    let duplicate = SubmitReceipt::Duplicate { id: name("order-1") };
    let accepted = SubmitReceipt::Accepted {
        id: name("order-1"),
        place: 1,
    };
    assert_eq!(first.receipts, [accepted.clone(), duplicate.clone()]);
    let again = fixture.store.submit(batch.clone()).await.expect("submitted");
    assert_eq!(again.receipts, [duplicate.clone(), duplicate.clone()]);
    let jobs = fixture.claim(5).await.jobs;
    assert_eq!(jobs.len(), 1);
    assert_eq!(jobs[0].id, name("order-1"));
    fixture.finish(&jobs).await;
    let at_once = fixture.store.submit(batch.clone()).await.expect("submitted");
    assert_eq!(at_once.receipts[0], duplicate);
    tokio::time::sleep(Duration::from_millis(80)).await;
    let later = fixture.store.submit(batch).await.expect("submitted");
    assert_eq!(later.receipts[0], accepted);
    fixture.assert_balanced().await;
}

#[tokio::test]
async fn no_job_is_accepted_beyond_the_bound() {
    let fixture = RedisFixture::new().await;
    let jobs = vec![job("a", 0), job("b", 1), job("a", 2), job("b", 3)];
    let batch = SubmitBatch {
        queue_max: 3,
        ..SubmitBatch::from_jobs(jobs)
    };
    let submitted = fixture.store.submit(batch).await.expect("submitted");
    assert!(matches!(
        submitted.receipts[2],
        SubmitReceipt::Accepted { place: 2, .. }
    ));
    assert_eq!(submitted.receipts[3], SubmitReceipt::Full);
    assert_eq!((submitted.queued, submitted.active), (3, 2));
    fixture.assert_balanced().await;
}

#[tokio::test]
async fn returned_jobs_go_before_later_ones() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 6).await;
    let jobs = fixture.claim(4).await.jobs;
    let ends = vec![
        end(&jobs[3], JobEnd::Returned),
        end(
            &jobs[1],
            JobEnd::Throttled {
                after: Duration::ZERO,
                cooldown: CooldownScope::Tenant,
            },
        ),
        end(
            &jobs[0],
            JobEnd::Retry {
                after: Duration::from_millis(20),
                message: "503".to_owned(),
                result: None,
            },
        ),
        done(&jobs[2]),
    ];
    assert_eq!(
        fixture.settle(ends).await,
        [
            SettleResult::Waits,
            SettleResult::Waits,
            SettleResult::Waits,
            SettleResult::Done
        ]
    );
    let next = fixture.claim(1).await.jobs;
    assert_eq!(payloads(&next), ["a-1"]);
    assert_eq!((next[0].attempt, next[0].throttles, next[0].retries), (2, 1, 0));
    assert_eq!(next[0].token.job, jobs[1].token.job);
    assert_ne!(next[0].token.claim, jobs[1].token.claim);
    tokio::time::sleep(Duration::from_millis(30)).await;
    let rest = fixture.claim(9).await.jobs;
    assert_eq!(payloads(&rest), ["a-0", "a-3", "a-4", "a-5"]);
    assert_eq!((rest[0].attempt, rest[0].retries), (2, 1));
    assert_eq!(
        (rest[1].attempt, rest[1].throttles),
        (1, 0),
        "as if it had not been claimed"
    );
    fixture.assert_balanced().await;
}

#[tokio::test]
async fn a_job_that_fails_too_often_is_dead_lettered_with_its_history() {
    let fixture = RedisFixture::new().await;
    let mut once = job("a", 0);
    once.max_retries = 1;
    fixture
        .store
        .submit(SubmitBatch::from_jobs(vec![once]))
        .await
        .expect("submitted");
    for expected in [SettleResult::Waits, SettleResult::DeadLettered] {
        let jobs = fixture.claim(1).await.jobs;
        let failed = JobEnd::Retry {
            after: Duration::ZERO,
            message: "500".to_owned(),
            result: None,
        };
        assert_eq!(fixture.settle(vec![end(&jobs[0], failed)]).await, [expected]);
    }
    let letters = fixture.store.dead_letters(0, 10).await.expect("dead");
    assert_eq!(letters.len(), 1);
    assert_eq!((letters[0].attempts, letters[0].history.len()), (2, 2));
    assert_eq!(letters[0].history[1].message, "500");
    assert_eq!(fixture.store.job_counts().await.expect("counts").dead, 1);
    fixture.assert_balanced().await;

    assert_eq!(
        fixture
            .store
            .requeue(&DeadLetterFilter::Tenant(name("a")))
            .await
            .expect("revived"),
        1
    );
    let jobs = fixture.claim(1).await.jobs;
    assert_eq!((jobs[0].attempt, jobs[0].retries), (1, 0));
    let failed = JobEnd::Failed {
        message: "404".to_owned(),
        result: None,
    };
    assert_eq!(
        fixture.settle(vec![end(&jobs[0], failed)]).await,
        [SettleResult::DeadLettered]
    );
    assert_eq!(fixture.store.purge(&DeadLetterFilter::All).await.expect("purged"), 1);
    let counts = fixture.store.job_counts().await.expect("counts");
    assert_eq!((counts.dead, counts.failed, counts.submitted()), (0, 1, 1));
    fixture.assert_balanced().await;
}

#[tokio::test]
async fn a_lost_session_is_fenced_and_its_jobs_return() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 2).await;
    let claim_request = |session: &str, lease| ClaimRequest {
        lane: name("api"),
        session: name(session),
        max: 2,
        lease,
        recoveries: 2,
        limits: None,
        cost: None,
    };
    let short = Duration::from_millis(30);
    let jobs = fixture
        .store
        .claim(claim_request("old", short), &mut AllowAll)
        .await
        .expect("claimed")
        .jobs;
    assert_eq!(
        fixture.store.heartbeat(&name("old"), short).await.expect("beat"),
        HeartbeatResult::Alive
    );
    assert_eq!(fixture.store.reap(10, 3).await.expect("reaped").returned, 0);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(
        fixture.store.heartbeat(&name("old"), short).await.expect("beat"),
        HeartbeatResult::Lost
    );
    let late = fixture
        .store
        .settle(&name("old"), vec![done(&jobs[0])])
        .await
        .expect("settled");
    assert_eq!(late, [SettleResult::Fenced]);
    // The session starts again under its name before any reap: its old claims are no longer its
    // own.
    fixture
        .store
        .claim(claim_request("old", Duration::from_secs(30)), &mut AllowAll)
        .await
        .expect("claimed");
    let late = fixture
        .store
        .settle(&name("old"), vec![done(&jobs[0])])
        .await
        .expect("settled");
    assert_eq!(late, [SettleResult::Fenced]);
    assert_eq!(fixture.store.reap(1, 3).await.expect("reaped").returned, 1);
    assert_eq!(fixture.store.reap(10, 3).await.expect("reaped").returned, 1);
    let again = fixture.claim(5).await.jobs;
    assert_eq!(payloads(&again), ["a-0", "a-1"]);
    assert_eq!(again[0].attempt, 2);
    fixture.assert_balanced().await;
}

#[tokio::test]
async fn a_job_whose_worker_dies_too_often_is_dead_lettered() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 1).await;
    for (round, dead_lettered) in [(1, 0), (2, 0), (3, 1)] {
        let request = ClaimRequest {
            lane: name("api"),
            session: name(&format!("s{round}")),
            max: 1,
            lease: Duration::from_millis(1),
            recoveries: 2,
            limits: None,
            cost: None,
        };
        assert_eq!(
            fixture
                .store
                .claim(request, &mut AllowAll)
                .await
                .expect("claimed")
                .jobs
                .len(),
            1
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert_eq!(
            fixture.store.reap(10, 2).await.expect("reaped").dead_lettered,
            dead_lettered,
            "{round}"
        );
    }
    assert_eq!(fixture.store.dead_letters(0, 9).await.expect("dead")[0].recoveries, 3);
    fixture.assert_balanced().await;
}

#[tokio::test]
async fn a_start_time_and_a_deadline_are_respected() {
    let fixture = RedisFixture::new().await;
    let now = server_time(&fixture.server);
    let at = |millis: i64| {
        let micros = now.saturating_add_signed(millis * 1_000);
        Some(WallTime::since_epoch(Duration::from_micros(micros)))
    };
    let mut early = job("a", 0);
    early.not_before = at(60);
    let mut late = job("a", 1);
    late.deadline = at(-1);
    let mut past = job("a", 2);
    past.not_before = at(-50);
    fixture
        .store
        .submit(SubmitBatch::from_jobs(vec![early, late, past, job("a", 3)]))
        .await
        .expect("submitted");
    let claims = fixture.claim(1).await;
    assert_eq!((payloads(&claims.jobs), claims.expired), (vec!["a-2".to_owned()], 1));
    let next = claims.next.expect("a job is due");
    assert!(
        next <= Duration::from_millis(60) && next > Duration::from_millis(10),
        "{next:?}"
    );
    tokio::time::sleep(next).await;
    assert_eq!(
        payloads(&fixture.claim(5).await.jobs),
        ["a-0", "a-3"],
        "in order of submission"
    );
    let counts = fixture.store.job_counts().await.expect("counts");
    assert_eq!((counts.cancelled, counts.delayed, counts.queued), (1, 0, 0));
    fixture.assert_balanced().await;
}

#[tokio::test]
async fn a_closed_action_ends_with_its_jobs() {
    let fixture = RedisFixture::new().await;
    let batch = SubmitBatch {
        action: Some(ActionSpec::new(name("mail"))),
        rest: BatchPosition::Last,
        ..SubmitBatch::from_jobs(vec![job("a", 0), job("b", 1)])
    };
    fixture.store.submit(batch.clone()).await.expect("submitted");
    let stage = async || {
        fixture
            .store
            .action(&name("mail"))
            .await
            .expect("asked")
            .expect("known")
            .stage
    };
    assert_eq!(stage().await, ActionStage::Dispatched);
    let closed = fixture.store.submit(batch.clone()).await.expect("submitted");
    assert_eq!(closed.receipts, [SubmitReceipt::Closed, SubmitReceipt::Closed]);
    let jobs = fixture.claim(5).await.jobs;
    assert_eq!(jobs[0].action, Some(name("mail")));
    assert_eq!(stage().await, ActionStage::Running);
    let kept = StoredResult {
        status: 200,
        body: Bytes::from("ok"),
        keep: Duration::from_mins(1),
    };
    let ends = vec![
        end(
            &jobs[0],
            JobEnd::Done {
                took: Duration::from_millis(5),
                result: Some(kept.clone()),
            },
        ),
        end(
            &jobs[1],
            JobEnd::Failed {
                message: "404".to_owned(),
                result: Some(StoredResult { status: 404, ..kept }),
            },
        ),
    ];
    assert!(
        fixture
            .store
            .take_finished(FinishedQuery::peek(9))
            .await
            .expect("ripe")
            .is_empty()
    );
    fixture.settle(ends).await;
    assert_eq!(stage().await, ActionStage::Aggregating);
    let ripe = fixture.store.take_finished(FinishedQuery::peek(9)).await.expect("ripe");
    assert_eq!((ripe.len(), ripe[0].counts.done, ripe[0].counts.dead), (1, 1, 1));
    let outcomes = fixture.store.outcomes(&name("mail"), 0, 10).await.expect("outcomes");
    assert_eq!(
        outcomes.iter().map(|outcome| outcome.ended).collect::<Vec<_>>(),
        [JobStatus::Done, JobStatus::Failed]
    );
    assert_eq!(
        (outcomes[1].status, outcomes[1].place, outcomes[0].attempts),
        (Some(404), 2, 1)
    );
    fixture.store.mark_notified(&name("mail")).await.expect("notified");
    assert_eq!(stage().await, ActionStage::Completed);
    assert!(
        fixture
            .store
            .take_finished(FinishedQuery::peek(9))
            .await
            .expect("ripe")
            .is_empty()
    );
    let spec = ActionSpec::new(name("mail"));
    fixture.store.open(spec).await.expect("opened again");
    assert_eq!(stage().await, ActionStage::Created);
    let reopened = fixture.store.submit(batch).await.expect("submitted");
    assert!(matches!(reopened.receipts[0], SubmitReceipt::Accepted { .. }));
    assert_eq!(stage().await, ActionStage::Dispatched);
    fixture.assert_balanced().await;
}

#[tokio::test]
async fn a_cancelled_action_ends_waiting_jobs_and_counts_jobs_in_flight() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 2).await;
    let batch = SubmitBatch {
        action: Some(ActionSpec::new(name("mail"))),
        ..SubmitBatch::from_jobs((0..3_000).map(|n| job("a", 10 + n)).collect())
    };
    fixture.store.submit(batch).await.expect("submitted");
    fixture.submit("a", 1).await;
    let jobs = fixture.claim(4).await.jobs;
    let cancelled = fixture
        .store
        .cancel(&ControlScope::Action(name("mail")))
        .await
        .expect("cancelled");
    assert_eq!(cancelled, 2_998);
    let mut ends: Vec<_> = jobs.iter().map(done).collect();
    ends[3].end = JobEnd::Returned;
    assert_eq!(
        fixture.settle(ends).await,
        [
            SettleResult::Done,
            SettleResult::Done,
            SettleResult::Done,
            SettleResult::Cancelled
        ]
    );
    let report = fixture
        .store
        .action(&name("mail"))
        .await
        .expect("asked")
        .expect("known");
    assert_eq!(
        (report.stage, report.counts.cancelled, report.counts.open()),
        (ActionStage::Cancelled, 2_999, 0)
    );
    let outcomes = fixture
        .store
        .outcomes(&name("mail"), 2_990, 100)
        .await
        .expect("outcomes");
    assert_eq!((outcomes.len(), outcomes[9].ended), (10, JobStatus::Cancelled));
    assert_eq!(
        payloads(&fixture.claim(9).await.jobs),
        ["a-0"],
        "what others wait for stays"
    );
    fixture.assert_balanced().await;
}

// A process died while it ended the jobs of an action: one of its places is left, which is checked
// first.
#[tokio::test]
async fn an_action_name_is_cleaned_before_its_reuse() {
    let fixture = RedisFixture::new().await;
    let batch = || SubmitBatch {
        action: Some(ActionSpec::new(name("mail"))),
        rest: BatchPosition::Last,
        ..SubmitBatch::from_jobs(vec![job("a", 0)])
    };
    fixture.store.submit(batch()).await.expect("submitted");
    fixture.finish(&fixture.claim(1).await.jobs).await;
    fixture.store.mark_notified(&name("mail")).await.expect("notified");
    let key = "{outflow}:m:mail";
    fixture.server.command(&["SADD", key, "api a"]).expect("put");
    let reopened = fixture.store.submit(batch()).await.expect("submitted");
    assert!(matches!(reopened.receipts[0], SubmitReceipt::Accepted { .. }));
    let report = fixture.store.action(&name("mail")).await.expect("asked");
    assert_eq!(report.expect("known").counts.submitted(), 1);
    fixture.assert_balanced().await;
}

#[tokio::test]
async fn a_paused_action_or_tenant_is_skipped_until_resumed() {
    let fixture = RedisFixture::new().await;
    let batch = SubmitBatch {
        action: Some(ActionSpec::new(name("mail"))),
        ..SubmitBatch::from_jobs(vec![job("a", 0), job("a", 1)])
    };
    fixture.store.submit(batch).await.expect("submitted");
    fixture.submit("a", 4).await;
    fixture
        .store
        .pause(&ControlScope::Action(name("mail")))
        .await
        .expect("paused");
    assert_eq!(payloads(&fixture.claim(2).await.jobs), ["a-0", "a-1"]);
    let report = fixture
        .store
        .action(&name("mail"))
        .await
        .expect("asked")
        .expect("known");
    assert!(report.paused && report.counts.queued == 2);
    fixture.assert_balanced().await;
    fixture
        .store
        .resume(&ControlScope::Action(name("mail")))
        .await
        .expect("resumed");
    let jobs = fixture.claim(3).await.jobs;
    assert_eq!(payloads(&jobs), ["a-0", "a-1", "a-2"]);
    assert_eq!(jobs[0].action, Some(name("mail")));
    fixture
        .store
        .pause(&ControlScope::Tenant(name("a")))
        .await
        .expect("paused");
    assert!(fixture.claim(3).await.jobs.is_empty());
    assert!(
        fixture
            .store
            .tenant(&name("a"))
            .await
            .expect("asked")
            .expect("known")
            .paused
    );
    fixture
        .store
        .resume(&ControlScope::Tenant(name("a")))
        .await
        .expect("resumed");
    assert_eq!(payloads(&fixture.claim(3).await.jobs), ["a-3"]);
    fixture.assert_balanced().await;
}
