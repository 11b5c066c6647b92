//! Tenants, statistics, and operations on many jobs.

use std::time::Duration;

use outflow_core::{CongestionRule, WallTime};
use outflow_store::{
    ActionSpec, ActionStage, ActionStore, CongestionRecord, ControlScope, DeadLetterFilter, DeadLetterStore, Defer,
    FinishedQuery, JobEnd, JobQueue, PageRequest, SettleResult, StoreControl, SubmitBatch, TenantStore,
};

use super::*;

// The worked example of the congestion rule: at 2 a second for each of two tenants, the second of
// them waits one second more than the first.
#[tokio::test]
async fn a_job_without_quota_is_deferred_by_the_formula_and_released_early() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 3).await;
    fixture.submit("b", 1).await;
    let jobs: Vec<_> = fixture
        .claim(4)
        .await
        .jobs
        .into_iter()
        .filter(|job| job.tenant == name("a"))
        .collect();
    let formula = JobEnd::Deferred(Defer::Formula {
        rule: CongestionRule::default(),
        global: 4,
        most: u64::MAX,
    });
    let ends = jobs.iter().map(|job| end(job, formula.clone())).collect();
    let put_off = |secs, non_ready| SettleResult::Deferred {
        backoff: Duration::from_secs(secs),
        non_ready,
        speed: 2,
    };
    assert_eq!(
        fixture.settle(ends).await,
        [put_off(1, 1), put_off(2, 2), put_off(2, 3)]
    );
    let report = fixture.store.tenant(&name("a")).await.expect("asked").expect("known");
    assert_eq!((report.counts.non_ready, report.counts.queued, report.speed), (3, 3, 2));
    assert_eq!(report.last_backoff, Duration::from_secs(2));
    assert!(
        fixture
            .store
            .reset_congestion(&name("a"))
            .await
            .expect_err("deferred")
            .is_refused()
    );
    let sample = CongestionRecord {
        tenant: name("a"),
        non_ready: 3,
        speed: 2,
        backoff: Duration::from_secs(2),
    };
    let keep = Duration::from_mins(1);
    fixture
        .store
        .record_congestion(vec![sample], keep)
        .await
        .expect("snapshot");
    let history = fixture.store.congestion_history(&name("a"), 5).await.expect("history");
    assert_eq!((history.len(), history[0].non_ready, history[0].speed), (1, 3, 2));
    assert!(fixture.claim(4).await.jobs.is_empty());
    assert_eq!(
        fixture.store.release_deferred(&name("a"), 2).await.expect("released"),
        1
    );
    let again = fixture.claim(4).await.jobs;
    assert_eq!(payloads(&again), ["a-0", "a-1"]);
    assert_eq!((again[0].throttles, again[0].attempt), (1, 2));
    fixture.finish(&again).await;
    assert_eq!(fixture.store.job_counts().await.expect("counts").throttles, 3);
    assert_eq!(
        fixture.store.release_deferred(&name("a"), 9).await.expect("released"),
        0
    );
    fixture.store.reset_congestion(&name("a")).await.expect("reset");
    assert!(
        fixture
            .store
            .congestion_history(&name("a"), 5)
            .await
            .expect("history")
            .is_empty()
    );
    fixture.assert_balanced().await;
}

#[tokio::test]
async fn a_cancelled_tenant_loses_waiting_and_restarting_jobs() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 5).await;
    fixture.submit("b", 1).await;
    let jobs = fixture.claim(4).await.jobs;
    let retry = JobEnd::Retry {
        after: Duration::from_mins(1),
        message: "503".to_owned(),
        result: None,
    };
    let a: Vec<_> = jobs.iter().filter(|job| job.tenant == name("a")).collect();
    assert_eq!(a.len(), 3);
    fixture
        .settle(vec![end(a[0], retry), end(a[1], JobEnd::Returned)])
        .await;
    assert_eq!(
        fixture
            .store
            .cancel(&ControlScope::Tenant(name("a")))
            .await
            .expect("cancelled"),
        4
    );
    let returned = vec![end(a[2], JobEnd::Returned)];
    assert_eq!(fixture.settle(returned).await, [SettleResult::Cancelled]);
    fixture.submit("a", 1).await;
    assert_eq!(fixture.claim(4).await.jobs.len(), 1, "what comes later is not meant");
    assert_eq!(fixture.store.job_counts().await.expect("counts").cancelled, 5);
    fixture.assert_balanced().await;
}

#[tokio::test]
async fn an_action_past_its_timeout_fails_until_notified() {
    let fixture = RedisFixture::new().await;
    let spec = ActionSpec {
        timeout: Duration::from_millis(400),
        note: Some("https://example.test/hook".to_owned()),
        ..ActionSpec::new(name("mail"))
    };
    fixture.store.open(spec.clone()).await.expect("opened");
    let batch = SubmitBatch {
        action: Some(ActionSpec::new(name("mail"))),
        ..SubmitBatch::from_jobs(vec![job("a", 0), job("a", 1)])
    };
    fixture.store.submit(batch).await.expect("submitted");
    let jobs = fixture.claim(1).await.jobs;
    assert!(
        fixture
            .store
            .take_finished(FinishedQuery::peek(9))
            .await
            .expect("ripe")
            .is_empty()
    );
    tokio::time::sleep(Duration::from_millis(450)).await;
    let early = fixture.store.take_finished(FinishedQuery::peek(9)).await.expect("ripe");
    assert!(early.is_empty(), "one is in flight");
    assert_eq!(
        fixture.settle(vec![end(&jobs[0], JobEnd::Returned)]).await,
        [SettleResult::Cancelled]
    );
    for _ in 0..2 {
        let ripe = fixture.store.take_finished(FinishedQuery::peek(9)).await.expect("ripe");
        assert_eq!(
            (ripe.len(), ripe[0].stage, &ripe[0].spec),
            (1, ActionStage::Failed, &spec)
        );
        assert_eq!(ripe[0].counts.cancelled, 2);
    }
    fixture.store.mark_notified(&name("mail")).await.expect("notified");
    assert!(
        fixture
            .store
            .take_finished(FinishedQuery::peek(9))
            .await
            .expect("ripe")
            .is_empty()
    );
    assert!(fixture.claim(1).await.jobs.is_empty());
    assert!(
        fixture
            .store
            .close(&name("unknown"))
            .await
            .expect_err("unknown")
            .is_refused()
    );
    let known = fixture.store.actions(PageRequest::default()).await.expect("actions");
    assert_eq!(known.len(), 1);
    fixture.assert_balanced().await;
}

// Names with every character that keys use.
#[tokio::test]
async fn no_two_names_share_a_key() {
    let fixture = RedisFixture::new().await;
    for (lane, tenant) in [("a:b", "c"), ("a", "b:c"), ("{a}", "}"), ("a", "3:a:c")] {
        let job = NewJob::new(name(tenant), name(lane), Bytes::from(format!("{lane} {tenant}")));
        fixture
            .store
            .submit(SubmitBatch::from_jobs(vec![job]))
            .await
            .expect("submitted");
    }
    for (lane, many) in [("a:b", 1), ("a", 2), ("{a}", 1)] {
        let request = ClaimRequest {
            lane: name(lane),
            session: name("s:1"),
            max: 9,
            lease: Duration::from_secs(9),
            recoveries: 2,
            limits: None,
            cost: None,
        };
        let jobs = fixture.store.claim(request, &mut AllowAll).await.expect("claimed").jobs;
        assert_eq!(jobs.len(), many, "{lane}");
        for job in jobs {
            assert_eq!(job.payload, format!("{lane} {}", job.tenant));
        }
    }
    fixture.assert_balanced().await;
}

#[tokio::test]
async fn a_waiter_is_notified_of_a_submission_on_another_machine() {
    let fixture = RedisFixture::new().await;
    let other = connect(&fixture.server).await;
    // The first notice comes from the new subscription.
    fixture.store.changed().await;
    let waiting = fixture.store.changed();
    let submitted = other.submit(SubmitBatch::from_jobs(vec![job("a", 0)]));
    let both = async { tokio::join!(waiting, submitted) };
    let ((), submitted) = tokio::time::timeout(Duration::from_secs(4), both).await.expect("heard");
    submitted.expect("submitted");
    // Without a change there is no notice.
    let silence = tokio::time::timeout(Duration::from_millis(50), fixture.store.changed()).await;
    assert!(silence.is_err());
}

/// Gives each tenant a job of an action, fails some of them, and collects all garbage once its time
/// is over. Returns the remaining keys.
async fn keys_after(fixture: &RedisFixture, round: usize, tenants: usize) -> String {
    let store = &fixture.store;
    let action = ActionSpec {
        keep: Duration::from_millis(1),
        ..ActionSpec::new(name("mail"))
    };
    store.open(action).await.expect("opened");
    for first in (0..tenants).step_by(500) {
        let some = first..tenants.min(first + 500);
        let jobs = some.map(|n| NewJob {
            id: Some(name(&format!("{round}-{n}"))),
            ..job(&format!("t{n}"), n)
        });
        let batch = SubmitBatch {
            action: Some(ActionSpec::new(name("mail"))),
            remember: Duration::from_millis(1),
            ..SubmitBatch::from_jobs(jobs.collect())
        };
        store.submit(batch).await.expect("submitted");
    }
    store.close(&name("mail")).await.expect("closed");
    let sample = |n| CongestionRecord {
        tenant: name(&format!("t{n}")),
        non_ready: 1,
        speed: 1,
        backoff: Duration::from_secs(1),
    };
    let samples = (0..tenants).map(sample).collect();
    store
        .record_congestion(samples, Duration::from_millis(1))
        .await
        .expect("seen");
    loop {
        let jobs = fixture.claim(500).await.jobs;
        if jobs.is_empty() {
            break;
        }
        let failed = JobEnd::Failed {
            message: "x".to_owned(),
            result: None,
        };
        let (some, others) = jobs.split_at(jobs.len() / 5);
        fixture
            .settle(some.iter().map(|job| end(job, failed.clone())).collect())
            .await;
        fixture.finish(others).await;
    }
    let purged = store.purge(&DeadLetterFilter::Action(name("mail"))).await;
    assert!(purged.expect("purged") >= 1);
    store.mark_notified(&name("mail")).await.expect("notified");
    // Idle tenants are kept for an hour: this ends it for them.
    let age = "for _, name in ipairs(redis.call('ZRANGE', '{outflow}:idle', 0, -1)) do
          redis.call('ZINCRBY', '{outflow}:idle', -3600000000, name)
        end return redis.call('ZCARD', '{outflow}:idle')";
    let idle = fixture.server.command(&["EVAL", age, "0"]).expect("aged");
    assert_eq!(idle, tenants.to_string(), "all of them have nothing to do");
    // Longer than any data of the action is kept.
    tokio::time::sleep(Duration::from_millis(5)).await;
    let mut went = 0;
    loop {
        match store.collect_garbage(WallTime::EPOCH).await.expect("tidied") {
            0 => break,
            some => went += some,
        }
    }
    assert!(went >= u64::try_from(2 * tenants).expect("few"), "{went}");
    let script = "local all = redis.call('KEYS', '*') table.sort(all) return table.concat(all, ' ')";
    fixture.server.command(&["EVAL", script, "0"]).expect("keys")
}

// Only keys of the queue itself and the lease of a live session remain: nothing of fifty tenants,
// of their actions, their names or their history. Three rounds, since leftovers of one may show in
// the next.
#[tokio::test]
async fn finished_work_leaves_no_keys_behind() {
    let fixture = RedisFixture::new().await;
    for round in 0..3 {
        let keys = keys_after(&fixture, round, 50).await;
        assert_eq!(keys, "{outflow}:epoch {outflow}:sessions", "{round}");
        fixture.assert_balanced().await;
    }
}

#[tokio::test]
#[ignore = "a hundred thousand tenants"]
async fn stress_finished_work_of_many_tenants_leaves_no_keys_behind() {
    let fixture = RedisFixture::new().await;
    let keys = keys_after(&fixture, 0, 100_000).await;
    assert_eq!(keys, "{outflow}:epoch {outflow}:sessions");
    fixture.assert_balanced().await;
}

// Two machines work at once: every job is done once.
#[tokio::test]
async fn two_machines_share_the_work_and_nothing_is_done_twice() {
    let server = RedisServer::start(ServerOptions::default()).expect("a server");
    let store = connect(&server).await;
    for tenant in ["a", "b"] {
        let jobs = (0..1_000).map(|n| job(tenant, n)).collect();
        store.submit(SubmitBatch::from_jobs(jobs)).await.expect("submitted");
    }
    let work = |session: &'static str, store: RedisStore| async move {
        let mut finished = Vec::new();
        loop {
            let jobs = claim(&store, session, 37, None).await.jobs;
            if jobs.is_empty() {
                return finished;
            }
            let ends = jobs.iter().map(done).collect();
            for settled in store.settle(&name(session), ends).await.expect("settled") {
                assert_eq!(settled, SettleResult::Done);
            }
            finished.extend(payloads(&jobs));
        }
    };
    let (one, two) = (connect(&server).await, connect(&server).await);
    let (one, two) = tokio::join!(work("one", one), work("two", two));
    let mut all = [one, two].concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 2_000);
    assert_eq!(store.audit().await.expect("counted"), 0);
}
