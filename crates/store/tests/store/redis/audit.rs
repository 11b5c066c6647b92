//! Audit: it agrees with every stored counter, and detects each that is off by one.

use outflow_store::{
    ActionSpec, ActionStore, ControlScope, FinishedQuery, JobQueue, StoreControl, StoredResult, SubmitBatch,
};

use super::*;
use crate::support::job_ends::different_ends;

/// Makes jobs in every state: queued, returned, delayed, deferred, held, claimed, dead and done,
/// all of one action, and one tenant more.
async fn full_room() -> RedisFixture {
    let fixture = RedisFixture::new().await;
    let batch = |tenant: &str| SubmitBatch {
        action: Some(ActionSpec::new(name("mail"))),
        ..SubmitBatch::from_jobs((0..12).map(|n| job(tenant, n)).collect())
    };
    fixture.store.submit(batch("a")).await.expect("submitted");
    let jobs = fixture.claim(9).await.jobs;
    let hour = Duration::from_hours(1);
    let result = Some(StoredResult {
        status: 200,
        keep: hour,
        body: Bytes::from("fine"),
    });
    let ends = [JobEnd::Done { took: hour, result }]
        .into_iter()
        .chain(different_ends());
    let ends = jobs.iter().zip(ends).map(|(job, how)| end(job, how));
    fixture.settle(ends.collect()).await;
    let held = ControlScope::Action(name("mail"));
    fixture.store.pause(&held).await.expect("paused");
    assert!(fixture.claim(1).await.jobs.is_empty());
    fixture.submit("b", 3).await;
    fixture.assert_balanced().await;
    fixture
}

/// Changes one counter by one.
fn change(fixture: &RedisFixture, what: &StoredCounter, by: &str) {
    let script = match what {
        StoredCounter::All(at) => packed("{outflow}:epoch", "g", "'>ddddddddddddddd'", *at, by),
        StoredCounter::Lane => packed("{outflow}:w:api", "", "'>dddddddxxxxxxxxxxxxxxxx'", 2, by),
        StoredCounter::Slot => packed("{outflow}:w:api", "b", "'>Bddd'", 4, by),
        StoredCounter::Head(at) => {
            let form = "'>Bddddd' .. string.rep('x', 24)";
            packed("{outflow}:t", "a", form, *at, by)
        }
        StoredCounter::Rest(at) => packed("{outflow}:rest", "a", "'>ddddddddddddddd'", *at, by),
        StoredCounter::Action(field) => {
            format!("return redis.call('HINCRBY', '{{outflow}}:a:mail', '{field}', {by})")
        }
    };
    let changed = fixture.server.command(&["EVAL", &script, "0"]);
    changed.expect("changed");
}

fn packed(key: &str, field: &str, form: &str, at: usize, by: &str) -> String {
    format!(
        "local form = {form} local all = {{struct.unpack(form, redis.call('HGET', '{key}', '{field}'))}}
         all[{at}] = all[{at}] + {by}
         redis.call('HSET', '{key}', '{field}', struct.pack(form, unpack(all, 1, #all - 1))) return 1"
    )
}

/// Stored counter.
#[derive(Debug)]
enum StoredCounter {
    All(usize),
    Lane,
    Slot,
    Head(usize),
    Rest(usize),
    Action(&'static str),
}

// Of all jobs: waiting, delayed, deferred, claimed, dead, tenants with work. Of a tenant: in
// flight; dead, delayed, deferred, held. Of an action: all states, and the outcomes.
#[tokio::test]
async fn the_audit_detects_every_wrong_counter() {
    let fixture = full_room().await;
    let all = [2, 3, 4, 5, 7, 15].map(StoredCounter::All);
    let rest = [5, 8, 9, 10].map(StoredCounter::Rest);
    let action = ["q", "nr", "dl", "fl", "dd", "dn", "ca"].map(StoredCounter::Action);
    let others = [StoredCounter::Lane, StoredCounter::Slot, StoredCounter::Head(4)];
    for count in all.into_iter().chain(rest).chain(action).chain(others) {
        change(&fixture, &count, "1");
        let off = fixture.store.audit().await.expect("counted");
        assert!(off > 0, "{count:?}");
        change(&fixture, &count, "-1");
        fixture.assert_balanced().await;
    }
}

// Jobs that continue after a pause count until nothing is left.
#[tokio::test]
async fn counters_agree_until_all_jobs_are_over() {
    let fixture = full_room().await;
    let held = ControlScope::Action(name("mail"));
    fixture.store.resume(&held).await.expect("resumed");
    fixture.assert_balanced().await;
    fixture.store.cancel(&held).await.expect("cancelled");
    fixture.assert_balanced().await;
    let jobs = fixture.claim(9).await.jobs;
    fixture.finish(&jobs).await;
    fixture.assert_balanced().await;
}

// A tenant is cancelled while its only job is in flight: the action has nothing left to wait for.
#[tokio::test]
async fn a_job_cancelled_with_its_tenant_leaves_its_action() {
    let fixture = RedisFixture::new().await;
    let batch = SubmitBatch {
        action: Some(ActionSpec::new(name("mail"))),
        rest: outflow_store::BatchPosition::Last,
        ..SubmitBatch::from_jobs(vec![job("a", 0)])
    };
    fixture.store.submit(batch).await.expect("submitted");
    let jobs = fixture.claim(1).await.jobs;
    let whole = ControlScope::Tenant(name("a"));
    fixture.store.cancel(&whole).await.expect("cancelled");
    let ends = jobs.iter().map(|job| end(job, JobEnd::Returned)).collect();
    assert_eq!(fixture.settle(ends).await, [SettleResult::Cancelled]);
    let report = fixture.store.action(&name("mail")).await.expect("read");
    let counts = report.expect("known").counts;
    assert_eq!((counts.in_flight, counts.cancelled), (0, 1));
    assert_eq!(
        fixture
            .store
            .take_finished(FinishedQuery::peek(9))
            .await
            .expect("ripe")
            .len(),
        1
    );
    fixture.assert_balanced().await;
}
