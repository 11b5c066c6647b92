//! Operations in pieces complete for any number of pieces.

use outflow_store::{
    ActionSpec, ActionStore, BatchPosition, ControlScope, FinishedQuery, JobQueue, StoreControl, TenantStore,
};
use tokio::time::timeout;

use super::*;

/// Longer than any of these takes, and shorter than a test may hang.
const LONG_LEASE: Duration = Duration::from_secs(30);

fn action_batch(action: &str, jobs: Vec<NewJob>) -> SubmitBatch {
    SubmitBatch {
        action: Some(ActionSpec::new(name(action))),
        rest: BatchPosition::Last,
        ..SubmitBatch::from_jobs(jobs)
    }
}

// Sets of more than two thousand come in pages, some of which are empty once most members are gone.
#[tokio::test]
async fn an_action_at_thousands_of_places_is_cancelled_and_frees_its_name() {
    let fixture = RedisFixture::new().await;
    let many = 3_000;
    let jobs = || (0..many).map(|n| job(&format!("t{n}"), n)).collect();
    for _ in 0..2 {
        let submitted = timeout(LONG_LEASE, fixture.store.submit(action_batch("act", jobs()))).await;
        submitted.expect("in time").expect("submitted");
        let cancelled = timeout(LONG_LEASE, fixture.store.cancel(&ControlScope::Action(name("act")))).await;
        let cancelled = cancelled.expect("in time").expect("cancelled");
        assert_eq!(cancelled, 3_000);
        let left = fixture.server.command(&["SCARD", "{outflow}:m:act"]);
        assert_eq!(left.expect("asked"), "0");
    }
    fixture.assert_balanced().await;
}

// Another machine ends the rest of a finished action, as every machine does: the canceller's count
// includes it.
#[tokio::test]
async fn a_cancellation_counts_jobs_that_other_machines_ended() {
    let fixture = RedisFixture::new().await;
    let other = connect(&fixture.server).await;
    let jobs = (0..3_000).map(|n| job(&format!("t{n}"), n)).collect();
    let submitted = fixture.store.submit(action_batch("act", jobs)).await;
    submitted.expect("submitted");
    let scope = ControlScope::Action(name("act"));
    let helped = async {
        for _ in 0..20 {
            let request = FinishedQuery {
                max: 9,
                lease: LONG_LEASE,
                notifying: &[],
            };
            other.take_finished(request).await.expect("looked");
        }
    };
    let (cancelled, ()) = tokio::join!(fixture.store.cancel(&scope), helped);
    assert_eq!(cancelled.expect("cancelled"), 3_000);
    fixture.assert_balanced().await;
}

/// Claims and finishes the action's one job.
async fn finish_job_of(fixture: &RedisFixture, action: &str) {
    let submitted = fixture.store.submit(action_batch(action, vec![job("a", 1)])).await;
    submitted.expect("submitted");
    let jobs = fixture.claim(1).await.jobs;
    fixture.finish(&jobs).await;
}

// The first holder of the end was slow; another has notified it, and the name was opened again and
// ended. That end must still be notified.
#[tokio::test]
async fn a_late_notification_does_not_end_a_reopened_action() {
    let fixture = RedisFixture::new().await;
    let (slow, quick) = (connect(&fixture.server).await, connect(&fixture.server).await);
    let ripe = async |store: &RedisStore, lease| {
        let request = FinishedQuery {
            max: 9,
            lease,
            notifying: &[],
        };
        store.take_finished(request).await.expect("looked").len()
    };
    finish_job_of(&fixture, "act").await;
    assert_eq!(ripe(&slow, Duration::ZERO).await, 1);
    assert_eq!(ripe(&quick, LONG_LEASE).await, 1);
    quick.mark_notified(&name("act")).await.expect("notified");
    finish_job_of(&fixture, "act").await;
    slow.mark_notified(&name("act")).await.expect("nothing to do");
    assert_eq!(ripe(&quick, LONG_LEASE).await, 1, "the second end");
    quick.mark_notified(&name("act")).await.expect("notified");
    assert_eq!(ripe(&quick, LONG_LEASE).await, 0);
}

// Programs of two releases work on one queue during an upgrade.
#[tokio::test]
async fn the_queues_layout_is_that_of_earlier_programs() {
    let fixture = RedisFixture::new().await;
    let batch = action_batch("act", vec![job("a", 0)]);
    fixture.store.submit(batch).await.expect("submitted");
    let jobs = fixture.claim(1).await.jobs;
    fixture.settle(jobs.iter().map(done).collect()).await;
    fixture.store.close(&name("act")).await.expect("closed");
    fixture.store.mark_notified(&name("act")).await.expect("notified");
    let layout = fixture.server.command(&["HGET", "{outflow}:epoch", "form"]);
    assert_eq!(layout.expect("a layout"), "3");
    let notified = fixture.server.command(&["HGET", "{outflow}:a:act", "told"]);
    assert_eq!(notified.expect("a field"), "1");
}

// Nine thousand fields are in a hash table in which a scan from the start finds nothing once a
// third is gone.
#[tokio::test]
async fn a_large_session_is_recovered_completely() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 9_000).await;
    for _ in 0..9 {
        assert_eq!(fixture.claim(1_000).await.jobs.len(), 1_000);
    }
    let over = ["ZADD", "{outflow}:sessions", "1", "worker"];
    fixture.server.command(&over).expect("its lease is over");
    let mut returned = 0;
    while returned < 9_000 {
        let piece = fixture.store.reap(200, 3).await.expect("reaped").returned;
        assert!(piece > 0, "none after {returned}");
        returned += piece;
    }
    assert_eq!(fixture.store.job_counts().await.expect("counts").queued, 9_000);
    fixture.assert_balanced().await;
}

// A job is in flight at the cancellation, and the action has no retention: it stays known until the
// job has ended.
#[tokio::test]
async fn an_action_is_not_removed_before_its_jobs_have_ended() {
    let fixture = RedisFixture::new().await;
    let mut batch = action_batch("act", vec![job("a", 0)]);
    if let Some(spec) = &mut batch.action {
        spec.keep = Duration::ZERO;
    }
    fixture.store.submit(batch).await.expect("submitted");
    let jobs = fixture.claim(1).await.jobs;
    let action = name("act");
    let cancelled = fixture.store.cancel(&ControlScope::Action(action.clone())).await;
    cancelled.expect("cancelled");
    let tidy = || fixture.store.collect_garbage(outflow_core::WallTime::from_unix_secs(0));
    tidy().await.expect("tidied");
    let known = fixture.store.action(&action).await.expect("asked");
    assert_eq!(known.expect("known").counts.in_flight, 1);
    fixture.finish(&jobs).await;
    let due = ["ZADD", "{outflow}:aend", "XX", "1", "act"];
    fixture.server.command(&due).expect("its time has come");
    tidy().await.expect("tidied");
    assert!(fixture.store.action(&action).await.expect("asked").is_none());
    fixture.assert_balanced().await;
}

// A foreign value blocks the held jobs, as if the resuming process had died there. The next caller
// that takes ends continues once the resumption counts as abandoned.
#[tokio::test]
async fn an_interrupted_resumption_is_completed() {
    let fixture = RedisFixture::new().await;
    let action = ControlScope::Action(name("act"));
    let batch = action_batch("act", vec![job("a", 0), job("a", 1)]);
    fixture.store.submit(batch).await.expect("submitted");
    fixture.store.pause(&action).await.expect("paused");
    assert!(fixture.claim(9).await.jobs.is_empty(), "both are held");
    let run = |command: &[&str]| fixture.server.command(command).expect("asked");
    run(&["RENAME", "{outflow}:h:a", "{outflow}:away"]);
    run(&["SET", "{outflow}:h:a", "mine"]);
    fixture.store.resume(&action).await.expect_err("in the way");
    run(&["RENAME", "{outflow}:away", "{outflow}:h:a"]);
    assert!(fixture.claim(9).await.jobs.is_empty(), "both are still held");
    run(&["ZADD", "{outflow}:resuming", "XX", "1", "act"]);
    let ripe = fixture.store.take_finished(outflow_store::FinishedQuery::peek(9)).await;
    assert_eq!(ripe.expect("asked"), []);
    assert_eq!(fixture.claim(9).await.jobs.len(), 2);
    assert_eq!(run(&["EXISTS", "{outflow}:resuming"]), "0");
    fixture.assert_balanced().await;
}

// A foreign value is in the places of one cancelled action: the end of another is still handed out,
// and the error of the first is returned when there is nothing else.
#[tokio::test]
async fn an_action_that_cannot_be_cleaned_does_not_block_the_end_of_others() {
    let fixture = RedisFixture::new().await;
    for action in ["bad", "good"] {
        let batch = action_batch(action, vec![job("a", 0)]);
        fixture.store.submit(batch).await.expect("submitted");
    }
    let run = |command: &[&str]| fixture.server.command(command).expect("asked");
    let jobs = fixture.claim(9).await.jobs;
    run(&["SET", "{outflow}:m:bad", "mine"]);
    let cancelled = fixture.store.cancel(&ControlScope::Action(name("bad"))).await;
    cancelled.expect_err("in the way");
    let good = jobs.iter().find(|job| job.action == Some(name("good")));
    fixture.settle(vec![done(good.expect("claimed"))]).await;
    let query = outflow_store::FinishedQuery {
        max: 9,
        lease: LONG_LEASE,
        notifying: &[],
    };
    let ripe = fixture.store.take_finished(query).await.expect("read");
    let names: Vec<_> = ripe.iter().map(|report| report.spec.id.as_str()).collect();
    assert_eq!(names, ["good"]);
    let error = fixture.store.take_finished(query).await.expect_err("in the way");
    assert!(error.to_string().contains("m:bad"), "{error}");
}

// Three thousand tenants have used their own limit for an hour: one claim checks some of them and
// asks to be repeated at once, and the next continues behind them until all are parked.
#[tokio::test]
async fn a_claim_checks_a_bounded_number_of_limited_tenants() {
    let fixture = RedisFixture::new().await;
    let rule = outflow_store::TenantRule {
        rate: Some(outflow_core::Rate::new(1, Duration::from_hours(1)).expect("a rate")),
        ..outflow_store::TenantRule::default()
    };
    fixture.store.set_default_rule(rule).await.expect("set");
    let tenants = 3_000;
    let jobs = (0..2 * tenants).map(|n| job(&format!("t{}", n % tenants), n));
    let submitted = fixture.store.submit(SubmitBatch::from_jobs(jobs.collect())).await;
    submitted.expect("submitted");
    let limits = Some(StoreLimits::default());
    let (mut went, mut claims) = (0, 0);
    while went < tenants {
        went += claim(&fixture.store, "worker", 1_000, limits).await.jobs.len();
        claims += 1;
        assert!(claims < 20, "{went} after {claims}");
    }
    let parked = || -> usize {
        let parked = fixture.server.command(&["ZCARD", "{outflow}:p:api"]);
        parked.expect("asked").parse().expect("a number")
    };
    let before = parked();
    let claims = claim(&fixture.store, "worker", 10, limits).await;
    assert!(claims.jobs.is_empty());
    assert_eq!(claims.next, Some(Duration::ZERO), "there is more to do");
    assert!(parked() <= before + 1_010, "{} at once", parked() - before);
    fixture.assert_balanced().await;
}

// A job of an extreme cost advances its tenant, and not beyond the exact range of places: the slots
// of all others stay as they are.
#[tokio::test]
async fn a_huge_cost_moves_only_its_own_tenant() {
    let fixture = RedisFixture::new().await;
    let costly = |n| NewJob {
        cost: outflow_core::Cost::new(1 << 40),
        ..job("a", n)
    };
    let jobs = (0..4).map(costly).chain((0..4).map(|n| job("b", n)));
    let submitted = fixture.store.submit(SubmitBatch::from_jobs(jobs.collect())).await;
    submitted.expect("submitted");
    for _ in 0..8 {
        assert_eq!(fixture.claim(1).await.jobs.len(), 1);
    }
    let scans = super::script_calls::calls(&fixture.server, "hscan");
    assert_eq!(scans, 0, "all slots were scanned");
    fixture.assert_balanced().await;
}

// A tenant that was cancelled without claims in flight is as plain as before.
#[tokio::test]
async fn a_cancelled_tenant_takes_the_fast_path_again() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 2).await;
    let cancelled = fixture.store.cancel(&ControlScope::Tenant(name("a"))).await;
    assert_eq!(cancelled.expect("cancelled"), 2);
    fixture.submit("a", 2).await;
    let bounded = "local head = redis.call('HGET', '{outflow}:t', 'a') return string.byte(head) % 2";
    let bounded = fixture.server.command(&["EVAL", bounded, "0"]);
    assert_eq!(bounded.expect("asked"), "0");
    fixture.assert_balanced().await;
}
