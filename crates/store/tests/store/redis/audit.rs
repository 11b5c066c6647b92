//! Audit: it agrees with every stored counter, and detects each that is off by one.

use outflow_store::{
    ActionSpec, ActionStore, ControlScope, FinishedQuery, JobQueue, StoreControl, StoredResult,
    SubmitBatch,
};

use super::*;
use crate::support::job_ends::unlike_ends;

/// Makes jobs in every state: queued, returned, delayed, deferred, held, claimed, dead and done,
/// all of one action, and one tenant more.
async fn full_room() -> Room {
    let room = Room::new().await;
    let batch = |tenant: &str| SubmitBatch {
        action: Some(ActionSpec::new(name("mail"))),
        ..SubmitBatch::from_jobs((0..12).map(|n| job(tenant, n)).collect())
    };
    room.store.submit(batch("a")).await.expect("submitted");
    let jobs = room.claim(9).await.jobs;
    let hour = Duration::from_hours(1);
    let result = Some(StoredResult {
        status: 200,
        keep: hour,
        body: Bytes::from("fine"),
    });
    let ends = [JobEnd::Done { took: hour, result }]
        .into_iter()
        .chain(unlike_ends());
    let ends = jobs.iter().zip(ends).map(|(job, how)| end(job, how));
    room.settle(ends.collect()).await;
    let held = ControlScope::Action(name("mail"));
    room.store.pause(&held).await.expect("paused");
    assert!(room.claim(1).await.jobs.is_empty());
    room.submit("b", 3).await;
    room.balanced().await;
    room
}

/// Changes one counter by one.
fn change(room: &Room, what: &Count, by: &str) {
    let script = match what {
        Count::All(at) => packed("{outflow}:epoch", "g", "'>ddddddddddddddd'", *at, by),
        Count::Lane => packed("{outflow}:w:api", "", "'>dddddddxxxxxxxxxxxxxxxx'", 2, by),
        Count::Seat => packed("{outflow}:w:api", "b", "'>Bddd'", 4, by),
        Count::Head(at) => {
            let form = "'>Bddddd' .. string.rep('x', 24)";
            packed("{outflow}:t", "a", form, *at, by)
        }
        Count::Rest(at) => packed("{outflow}:rest", "a", "'>ddddddddddddddd'", *at, by),
        Count::Action(field) => {
            format!("return redis.call('HINCRBY', '{{outflow}}:a:mail', '{field}', {by})")
        }
    };
    let changed = room.server.command(&["EVAL", &script, "0"]);
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
enum Count {
    All(usize),
    Lane,
    Seat,
    Head(usize),
    Rest(usize),
    Action(&'static str),
}

// Of all jobs: waiting, delayed, deferred, claimed, dead, tenants with work. Of a tenant: in
// flight; dead, delayed, deferred, held. Of an action: all states, and the outcomes.
#[tokio::test]
async fn every_count_that_is_off_is_noticed() {
    let room = full_room().await;
    let all = [2, 3, 4, 5, 7, 15].map(Count::All);
    let rest = [5, 8, 9, 10].map(Count::Rest);
    let action = ["q", "nr", "dl", "fl", "dd", "dn", "ca"].map(Count::Action);
    let others = [Count::Lane, Count::Seat, Count::Head(4)];
    for count in all.into_iter().chain(rest).chain(action).chain(others) {
        change(&room, &count, "1");
        let off = room.store.audit().await.expect("counted");
        assert!(off > 0, "{count:?}");
        change(&room, &count, "-1");
        room.balanced().await;
    }
}

// Jobs that continue after a pause count until nothing is left.
#[tokio::test]
async fn counts_agree_until_all_is_over() {
    let room = full_room().await;
    let held = ControlScope::Action(name("mail"));
    room.store.resume(&held).await.expect("resumed");
    room.balanced().await;
    room.store.cancel(&held).await.expect("cancelled");
    room.balanced().await;
    let jobs = room.claim(9).await.jobs;
    room.finish(&jobs).await;
    room.balanced().await;
}

// A tenant is cancelled while its only job is in flight: the action has nothing left to wait for.
#[tokio::test]
async fn a_job_that_was_cancelled_with_its_tenant_leaves_its_action() {
    let room = Room::new().await;
    let batch = SubmitBatch {
        action: Some(ActionSpec::new(name("mail"))),
        rest: outflow_store::BatchPosition::Last,
        ..SubmitBatch::from_jobs(vec![job("a", 0)])
    };
    room.store.submit(batch).await.expect("submitted");
    let jobs = room.claim(1).await.jobs;
    let whole = ControlScope::Tenant(name("a"));
    room.store.cancel(&whole).await.expect("cancelled");
    let ends = jobs.iter().map(|job| end(job, JobEnd::Returned)).collect();
    assert_eq!(room.settle(ends).await, [SettleResult::Cancelled]);
    let report = room.store.action(&name("mail")).await.expect("read");
    let tally = report.expect("known").tally;
    assert_eq!((tally.in_flight, tally.cancelled), (0, 1));
    assert_eq!(
        room.store
            .take_finished(FinishedQuery::peek(9))
            .await
            .expect("ripe")
            .len(),
        1
    );
    room.balanced().await;
}
