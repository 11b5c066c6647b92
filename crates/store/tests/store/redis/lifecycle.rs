//! Life of a job: submitted, claimed, settled.

use std::time::Duration;

use bytes::Bytes;
use outflow_core::WallTime;
use outflow_store::{
    ActionSpec, ActionStage, ActionStore, BatchPosition, ControlScope, CooldownScope,
    DeadLetterFilter, DeadLetterStore, FinishedQuery, HeartbeatResult, JobEnd, JobQueue, JobStatus,
    SettleResult, StoreControl, StoredResult, SubmitBatch, SubmitReceipt, TenantStore,
};

use super::*;

#[tokio::test]
async fn a_job_is_given_out_once_and_is_over_once() {
    let room = Room::new().await;
    room.submit("a", 3).await;
    let first = room.claim(2).await.jobs;
    assert_eq!(payloads(&first), ["a-0", "a-1"]);
    assert_eq!(payloads(&room.claim(9).await.jobs), ["a-2"]);
    assert!(room.claim(9).await.jobs.is_empty());
    room.finish(&first).await;
    let again = room.settle(first.iter().map(done).collect()).await;
    assert_eq!(again, [SettleResult::Fenced, SettleResult::Fenced]);
    let tally = room.store.job_counts().await.expect("tally");
    assert_eq!((tally.queued, tally.in_flight, tally.done), (0, 1, 2));
    assert_eq!(tally.busy, Duration::from_millis(6));
    room.balanced().await;
}

// A thousand and one: more than a script passes to one command.
#[tokio::test]
async fn a_batch_is_one_step_however_large() {
    let room = Room::new().await;
    room.submit("a", 2_500).await;
    let mut seen = 0;
    while seen < 2_500 {
        let jobs = room.claim(1_001).await.jobs;
        assert!(!jobs.is_empty());
        seen += jobs.len();
        room.finish(&jobs).await;
    }
    assert_eq!(room.store.job_counts().await.expect("tally").done, 2_500);
    room.balanced().await;
}

#[tokio::test]
async fn a_name_is_taken_once_while_it_is_remembered() {
    let room = Room::new().await;
    let mut one = job("a", 1);
    one.id = Some(name("order-1"));
    let batch = SubmitBatch {
        remember: Duration::from_millis(60),
        ..SubmitBatch::from_jobs(vec![one.clone(), one])
    };
    let first = room.store.submit(batch.clone()).await.expect("submitted");
    let duplicate = SubmitReceipt::Duplicate {
        id: name("order-1"),
    };
    let accepted = SubmitReceipt::Accepted {
        id: name("order-1"),
        place: 1,
    };
    assert_eq!(first.receipts, [accepted.clone(), duplicate.clone()]);
    let again = room.store.submit(batch.clone()).await.expect("submitted");
    assert_eq!(again.receipts, [duplicate.clone(), duplicate.clone()]);
    let jobs = room.claim(5).await.jobs;
    assert_eq!(jobs.len(), 1);
    assert_eq!(jobs[0].id, name("order-1"));
    room.finish(&jobs).await;
    let at_once = room.store.submit(batch.clone()).await.expect("submitted");
    assert_eq!(at_once.receipts[0], duplicate);
    tokio::time::sleep(Duration::from_millis(80)).await;
    let later = room.store.submit(batch).await.expect("submitted");
    assert_eq!(later.receipts[0], accepted);
    room.balanced().await;
}

#[tokio::test]
async fn no_job_is_taken_beyond_what_may_wait() {
    let room = Room::new().await;
    let jobs = vec![job("a", 0), job("b", 1), job("a", 2), job("b", 3)];
    let batch = SubmitBatch {
        queue_max: 3,
        ..SubmitBatch::from_jobs(jobs)
    };
    let submitted = room.store.submit(batch).await.expect("submitted");
    assert!(matches!(
        submitted.receipts[2],
        SubmitReceipt::Accepted { place: 2, .. }
    ));
    assert_eq!(submitted.receipts[3], SubmitReceipt::Full);
    assert_eq!((submitted.queued, submitted.active), (3, 2));
    room.balanced().await;
}

#[tokio::test]
async fn whatever_comes_back_stands_before_what_came_later() {
    let room = Room::new().await;
    room.submit("a", 6).await;
    let jobs = room.claim(4).await.jobs;
    let ends = vec![
        end(&jobs[3], JobEnd::Returned),
        end(
            &jobs[1],
            JobEnd::Throttled {
                after: Duration::ZERO,
                park: CooldownScope::Tenant,
            },
        ),
        end(
            &jobs[0],
            JobEnd::Retry {
                after: Duration::from_millis(20),
                words: "503".to_owned(),
                result: None,
            },
        ),
        done(&jobs[2]),
    ];
    assert_eq!(
        room.settle(ends).await,
        [
            SettleResult::Waits,
            SettleResult::Waits,
            SettleResult::Waits,
            SettleResult::Done
        ]
    );
    let next = room.claim(1).await.jobs;
    assert_eq!(payloads(&next), ["a-1"]);
    assert_eq!(
        (next[0].attempt, next[0].throttles, next[0].retries),
        (2, 1, 0)
    );
    assert_eq!(next[0].token.job, jobs[1].token.job);
    assert_ne!(next[0].token.claim, jobs[1].token.claim);
    tokio::time::sleep(Duration::from_millis(30)).await;
    let rest = room.claim(9).await.jobs;
    assert_eq!(payloads(&rest), ["a-0", "a-3", "a-4", "a-5"]);
    assert_eq!((rest[0].attempt, rest[0].retries), (2, 1));
    assert_eq!(
        (rest[1].attempt, rest[1].throttles),
        (1, 0),
        "as if it had not been claimed"
    );
    room.balanced().await;
}

#[tokio::test]
async fn a_job_that_fails_too_often_is_buried_with_its_history() {
    let room = Room::new().await;
    let mut once = job("a", 0);
    once.max_retries = 1;
    room.store
        .submit(SubmitBatch::from_jobs(vec![once]))
        .await
        .expect("submitted");
    for expected in [SettleResult::Waits, SettleResult::Buried] {
        let jobs = room.claim(1).await.jobs;
        let failed = JobEnd::Retry {
            after: Duration::ZERO,
            words: "500".to_owned(),
            result: None,
        };
        assert_eq!(room.settle(vec![end(&jobs[0], failed)]).await, [expected]);
    }
    let letters = room.store.dead_letters(0, 10).await.expect("dead");
    assert_eq!(letters.len(), 1);
    assert_eq!((letters[0].attempts, letters[0].history.len()), (2, 2));
    assert_eq!(letters[0].history[1].words, "500");
    assert_eq!(room.store.job_counts().await.expect("tally").dead, 1);
    room.balanced().await;

    assert_eq!(
        room.store
            .requeue(&DeadLetterFilter::Tenant(name("a")))
            .await
            .expect("revived"),
        1
    );
    let jobs = room.claim(1).await.jobs;
    assert_eq!((jobs[0].attempt, jobs[0].retries), (1, 0));
    let failed = JobEnd::Failed {
        words: "404".to_owned(),
        result: None,
    };
    assert_eq!(
        room.settle(vec![end(&jobs[0], failed)]).await,
        [SettleResult::Buried]
    );
    assert_eq!(
        room.store
            .purge(&DeadLetterFilter::All)
            .await
            .expect("purged"),
        1
    );
    let tally = room.store.job_counts().await.expect("tally");
    assert_eq!((tally.dead, tally.failed, tally.submitted()), (0, 1, 1));
    room.balanced().await;
}

#[tokio::test]
async fn a_lost_session_is_fenced_and_its_jobs_return() {
    let room = Room::new().await;
    room.submit("a", 2).await;
    let ask = |session: &str, lease| ClaimRequest {
        lane: name("api"),
        session: name(session),
        most: 2,
        lease,
        recoveries: 2,
        plan: None,
    };
    let short = Duration::from_millis(30);
    let jobs = room
        .store
        .claim(ask("old", short), &mut AllowAll)
        .await
        .expect("claimed")
        .jobs;
    assert_eq!(
        room.store
            .heartbeat(&name("old"), short)
            .await
            .expect("beat"),
        HeartbeatResult::Alive
    );
    assert_eq!(room.store.reap(10, 3).await.expect("reaped").returned, 0);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(
        room.store
            .heartbeat(&name("old"), short)
            .await
            .expect("beat"),
        HeartbeatResult::Lost
    );
    let late = room
        .store
        .settle(&name("old"), vec![done(&jobs[0])])
        .await
        .expect("settled");
    assert_eq!(late, [SettleResult::Fenced]);
    // The session starts again under its name before any reap: its old claims are no longer its
    // own.
    room.store
        .claim(ask("old", Duration::from_secs(30)), &mut AllowAll)
        .await
        .expect("claimed");
    let late = room
        .store
        .settle(&name("old"), vec![done(&jobs[0])])
        .await
        .expect("settled");
    assert_eq!(late, [SettleResult::Fenced]);
    assert_eq!(room.store.reap(1, 3).await.expect("reaped").returned, 1);
    assert_eq!(room.store.reap(10, 3).await.expect("reaped").returned, 1);
    let again = room.claim(5).await.jobs;
    assert_eq!(payloads(&again), ["a-0", "a-1"]);
    assert_eq!(again[0].attempt, 2);
    room.balanced().await;
}

#[tokio::test]
async fn a_job_whose_worker_dies_too_often_is_buried() {
    let room = Room::new().await;
    room.submit("a", 1).await;
    for (round, buried) in [(1, 0), (2, 0), (3, 1)] {
        let ask = ClaimRequest {
            lane: name("api"),
            session: name(&format!("s{round}")),
            most: 1,
            lease: Duration::from_millis(1),
            recoveries: 2,
            plan: None,
        };
        assert_eq!(
            room.store
                .claim(ask, &mut AllowAll)
                .await
                .expect("claimed")
                .jobs
                .len(),
            1
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert_eq!(
            room.store.reap(10, 2).await.expect("reaped").buried,
            buried,
            "{round}"
        );
    }
    assert_eq!(
        room.store.dead_letters(0, 9).await.expect("dead")[0].recoveries,
        3
    );
    room.balanced().await;
}

#[tokio::test]
async fn a_start_time_and_a_deadline_are_kept() {
    let room = Room::new().await;
    let now = server_time(&room.server);
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
    room.store
        .submit(SubmitBatch::from_jobs(vec![early, late, past, job("a", 3)]))
        .await
        .expect("submitted");
    let claims = room.claim(1).await;
    assert_eq!(
        (payloads(&claims.jobs), claims.expired),
        (vec!["a-2".to_owned()], 1)
    );
    let next = claims.next.expect("a job is due");
    assert!(
        next <= Duration::from_millis(60) && next > Duration::from_millis(10),
        "{next:?}"
    );
    tokio::time::sleep(next).await;
    assert_eq!(
        payloads(&room.claim(5).await.jobs),
        ["a-0", "a-3"],
        "in order of submission"
    );
    let tally = room.store.job_counts().await.expect("tally");
    assert_eq!((tally.cancelled, tally.delayed, tally.queued), (1, 0, 0));
    room.balanced().await;
}

#[tokio::test]
async fn an_action_ends_when_it_is_closed_and_its_jobs_are_over() {
    let room = Room::new().await;
    let batch = SubmitBatch {
        action: Some(ActionSpec::new(name("mail"))),
        rest: BatchPosition::Last,
        ..SubmitBatch::from_jobs(vec![job("a", 0), job("b", 1)])
    };
    room.store.submit(batch.clone()).await.expect("submitted");
    let stage = async || {
        room.store
            .action(&name("mail"))
            .await
            .expect("asked")
            .expect("known")
            .stage
    };
    assert_eq!(stage().await, ActionStage::Dispatched);
    let closed = room.store.submit(batch.clone()).await.expect("submitted");
    assert_eq!(
        closed.receipts,
        [SubmitReceipt::Closed, SubmitReceipt::Closed]
    );
    let jobs = room.claim(5).await.jobs;
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
                words: "404".to_owned(),
                result: Some(StoredResult {
                    status: 404,
                    ..kept
                }),
            },
        ),
    ];
    assert!(
        room.store
            .take_finished(FinishedQuery::peek(9))
            .await
            .expect("ripe")
            .is_empty()
    );
    room.settle(ends).await;
    assert_eq!(stage().await, ActionStage::Aggregating);
    let ripe = room
        .store
        .take_finished(FinishedQuery::peek(9))
        .await
        .expect("ripe");
    assert_eq!(
        (ripe.len(), ripe[0].tally.done, ripe[0].tally.dead),
        (1, 1, 1)
    );
    let outcomes = room
        .store
        .outcomes(&name("mail"), 0, 10)
        .await
        .expect("outcomes");
    assert_eq!(
        outcomes
            .iter()
            .map(|outcome| outcome.ended)
            .collect::<Vec<_>>(),
        [JobStatus::Done, JobStatus::Failed]
    );
    assert_eq!(
        (outcomes[1].status, outcomes[1].place, outcomes[0].attempts),
        (Some(404), 2, 1)
    );
    room.store.mark_notified(&name("mail")).await.expect("told");
    assert_eq!(stage().await, ActionStage::Completed);
    assert!(
        room.store
            .take_finished(FinishedQuery::peek(9))
            .await
            .expect("ripe")
            .is_empty()
    );
    let spec = ActionSpec::new(name("mail"));
    room.store.open(spec).await.expect("opened again");
    assert_eq!(stage().await, ActionStage::Created);
    let anew = room.store.submit(batch).await.expect("submitted");
    assert!(matches!(anew.receipts[0], SubmitReceipt::Accepted { .. }));
    assert_eq!(stage().await, ActionStage::Dispatched);
    room.balanced().await;
}

#[tokio::test]
async fn a_cancelled_action_ends_what_waits_and_counts_what_is_under_way() {
    let room = Room::new().await;
    room.submit("a", 2).await;
    let batch = SubmitBatch {
        action: Some(ActionSpec::new(name("mail"))),
        ..SubmitBatch::from_jobs((0..3_000).map(|n| job("a", 10 + n)).collect())
    };
    room.store.submit(batch).await.expect("submitted");
    room.submit("a", 1).await;
    let jobs = room.claim(4).await.jobs;
    let cancelled = room
        .store
        .cancel(&ControlScope::Action(name("mail")))
        .await
        .expect("cancelled");
    assert_eq!(cancelled, 2_998);
    let mut ends: Vec<_> = jobs.iter().map(done).collect();
    ends[3].end = JobEnd::Returned;
    assert_eq!(
        room.settle(ends).await,
        [
            SettleResult::Done,
            SettleResult::Done,
            SettleResult::Done,
            SettleResult::Cancelled
        ]
    );
    let report = room
        .store
        .action(&name("mail"))
        .await
        .expect("asked")
        .expect("known");
    assert_eq!(
        (report.stage, report.tally.cancelled, report.tally.open()),
        (ActionStage::Cancelled, 2_999, 0)
    );
    let outcomes = room
        .store
        .outcomes(&name("mail"), 2_990, 100)
        .await
        .expect("outcomes");
    assert_eq!(
        (outcomes.len(), outcomes[9].ended),
        (10, JobStatus::Cancelled)
    );
    assert_eq!(
        payloads(&room.claim(9).await.jobs),
        ["a-0"],
        "what others wait for stays"
    );
    room.balanced().await;
}

// A process died while it ended the jobs of an action: one of its places is left, which is checked
// first.
#[tokio::test]
async fn a_name_is_cleaned_before_a_batch_uses_it_again() {
    let room = Room::new().await;
    let batch = || SubmitBatch {
        action: Some(ActionSpec::new(name("mail"))),
        rest: BatchPosition::Last,
        ..SubmitBatch::from_jobs(vec![job("a", 0)])
    };
    room.store.submit(batch()).await.expect("submitted");
    room.finish(&room.claim(1).await.jobs).await;
    room.store.mark_notified(&name("mail")).await.expect("told");
    let key = "{outflow}:m:mail";
    room.server.command(&["SADD", key, "api a"]).expect("put");
    let anew = room.store.submit(batch()).await.expect("submitted");
    assert!(matches!(anew.receipts[0], SubmitReceipt::Accepted { .. }));
    let report = room.store.action(&name("mail")).await.expect("asked");
    assert_eq!(report.expect("known").tally.submitted(), 1);
    room.balanced().await;
}

#[tokio::test]
async fn a_paused_action_or_tenant_is_passed_over_until_it_goes_on() {
    let room = Room::new().await;
    let batch = SubmitBatch {
        action: Some(ActionSpec::new(name("mail"))),
        ..SubmitBatch::from_jobs(vec![job("a", 0), job("a", 1)])
    };
    room.store.submit(batch).await.expect("submitted");
    room.submit("a", 4).await;
    room.store
        .pause(&ControlScope::Action(name("mail")))
        .await
        .expect("paused");
    assert_eq!(payloads(&room.claim(2).await.jobs), ["a-0", "a-1"]);
    let report = room
        .store
        .action(&name("mail"))
        .await
        .expect("asked")
        .expect("known");
    assert!(report.paused && report.tally.queued == 2);
    room.balanced().await;
    room.store
        .resume(&ControlScope::Action(name("mail")))
        .await
        .expect("resumed");
    let jobs = room.claim(3).await.jobs;
    assert_eq!(payloads(&jobs), ["a-0", "a-1", "a-2"]);
    assert_eq!(jobs[0].action, Some(name("mail")));
    room.store
        .pause(&ControlScope::Tenant(name("a")))
        .await
        .expect("paused");
    assert!(room.claim(3).await.jobs.is_empty());
    assert!(
        room.store
            .tenant(&name("a"))
            .await
            .expect("asked")
            .expect("known")
            .paused
    );
    room.store
        .resume(&ControlScope::Tenant(name("a")))
        .await
        .expect("resumed");
    assert_eq!(payloads(&room.claim(3).await.jobs), ["a-3"]);
    room.balanced().await;
}
