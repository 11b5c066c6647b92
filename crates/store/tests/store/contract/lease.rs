//! Laws of leases.

use std::time::Duration;

use outflow_store::{
    ActionStore, AllowAll, ClaimedJob, ControlScope, CooldownScope, DeadLetterStore, Defer, HeartbeatResult, JobEnd,
    JobQueue, NewJob, SettleResult, Settlement, StoreControl,
};

use super::{StoreWorld, batch, claim, claim_one, claim_request_as, done, ids, jobs, name, settle, submit};

const BOUND: u32 = 3;

// A lease of 10 units, renewed after 6, is alive at 12.
pub(crate) async fn a_heartbeat_keeps_a_session_alive(world: &impl StoreWorld) {
    let store = world.store();
    let lease = world.unit() * 10;
    submit(store, jobs("a", 1)).await;
    let claims = store.claim(claim_request_as("w", 1, lease), &mut AllowAll).await;
    let job = claims.expect("claimed").jobs.remove(0);
    for _ in 0..3 {
        world.advance(world.unit() * 6).await;
        let beat = store.heartbeat(&name("w"), lease).await.expect("beaten");
        assert_eq!(beat, HeartbeatResult::Alive);
        assert_eq!(store.reap(9, BOUND).await.expect("reaped").returned, 0);
    }
    let end = Settlement {
        token: job.token,
        end: done(),
        arrived: None,
    };
    let settled = store.settle(&name("w"), vec![end]).await;
    assert_eq!(settled.expect("settled"), [SettleResult::Done]);
}

// Two of three jobs are claimed when the lease expires; they are before the third again.
pub(crate) async fn a_lost_session_is_fenced_and_its_jobs_return_first(world: &impl StoreWorld) {
    let store = world.store();
    let lease = world.unit() * 10;
    submit(store, jobs("a", 3)).await;
    let claims = store.claim(claim_request_as("w", 2, lease), &mut AllowAll).await;
    let held = claims.expect("claimed").jobs;
    world.advance(world.unit() * 15).await;
    let beat = store.heartbeat(&name("w"), lease).await.expect("beaten");
    assert_eq!(beat, HeartbeatResult::Lost);
    let reaped = store.reap(9, BOUND).await.expect("reaped");
    assert_eq!((reaped.returned, reaped.dead_lettered), (2, 0));
    let end = Settlement {
        token: held[0].token,
        end: done(),
        arrived: None,
    };
    let settled = store.settle(&name("w"), vec![end]).await;
    assert_eq!(settled.expect("settled"), [SettleResult::Fenced]);
    let again = claim(store, 9).await;
    assert_eq!(ids(&again), ["a-0", "a-1", "a-2"]);
    assert_eq!(again[0].attempt, 2);
    assert_eq!(again[0].payload, "a-0");
}

// Recovered once, then dead-lettered; the other job is not delayed.
pub(crate) async fn a_job_that_kills_its_workers_is_dead_lettered(world: &impl StoreWorld) {
    let store = world.store();
    let lease = world.unit() * 5;
    submit(store, jobs("a", 2)).await;
    for (worker, expected) in [("w1", (1, 0)), ("w2", (0, 1))] {
        let claims = store.claim(claim_request_as(worker, 1, lease), &mut AllowAll).await;
        assert_eq!(ids(&claims.expect("claimed").jobs), ["a-0"]);
        world.advance(lease * 2).await;
        let reaped = store.reap(9, 1).await.expect("reaped");
        assert_eq!((reaped.returned, reaped.dead_lettered), expected);
    }
    let dead = store.dead_letters(0, 9).await.expect("read");
    assert_eq!((&dead[0].id, dead[0].recoveries), (&name("a-0"), 2));
    assert_eq!(dead[0].history.len(), 2);
    assert_eq!(claim_one(store).await.id, name("a-1"));
}

// Lost with one worker; the next survives an attempt that fails or is throttled, and so might all
// after it.
pub(crate) async fn a_survived_attempt_clears_its_job(world: &impl StoreWorld) {
    let (store, lease) = (world.store(), world.unit() * 5);
    let fails = JobEnd::Retry {
        after: Duration::ZERO,
        message: "no".to_owned(),
        result: None,
    };
    let is_put_off = JobEnd::RetryDeferred {
        by: Defer::Fixed(Duration::ZERO),
        message: "no".to_owned(),
        result: None,
    };
    let is_refused = JobEnd::Throttled {
        after: Duration::ZERO,
        cooldown: CooldownScope::Tenant,
    };
    let ends = [(fails, 0), (is_put_off, 0), (is_refused, 0), (JobEnd::Returned, 1)];
    for (worker, (end, expected)) in ["w1", "w2", "w3", "w4"].into_iter().zip(ends) {
        submit(store, jobs(worker, 1)).await;
        let claims = store.claim(claim_request_as(worker, 1, lease), &mut AllowAll).await;
        assert_eq!(claims.expect("claimed").jobs.len(), 1);
        world.advance(lease * 2).await;
        assert_eq!(store.reap(9, BOUND).await.expect("reaped").returned, 1);
        let job = claim_one(store).await;
        assert_eq!(job.recoveries, 1);
        settle(store, &job, end.clone()).await;
        world.advance(world.unit()).await;
        let job = claim_one(store).await;
        assert_eq!(job.recoveries, expected, "{end:?}");
        settle(store, &job, done()).await;
    }
}

// The worker reported no result, so the outcome says so.
pub(crate) async fn a_job_lost_with_its_worker_has_an_error(world: &impl StoreWorld) {
    let store = world.store();
    let lease = world.unit() * 5;
    let taken = store.submit(batch("act", jobs("a", 1))).await;
    taken.expect("taken");
    let claims = store.claim(claim_request_as("w", 1, lease), &mut AllowAll).await;
    assert_eq!(claims.expect("claimed").jobs.len(), 1);
    world.advance(lease * 2).await;
    assert_eq!(store.reap(9, 0).await.expect("reaped").dead_lettered, 1);
    let outcomes = store.outcomes(&name("act"), 0, 9).await.expect("read");
    let words = "its worker was lost before it said what came of it";
    assert_eq!(outcomes[0].error.as_deref(), Some(words));
}

pub(crate) async fn reaping_respects_its_limit(world: &impl StoreWorld) {
    let store = world.store();
    let lease = world.unit() * 5;
    submit(store, jobs("a", 3)).await;
    let claims = store.claim(claim_request_as("w", 3, lease), &mut AllowAll).await;
    assert_eq!(claims.expect("claimed").jobs.len(), 3);
    let early = store.reap(9, BOUND).await.expect("reaped");
    assert_eq!(early.returned, 0);
    assert!(early.next.expect("a lease runs") <= lease);
    world.advance(lease * 2).await;
    for expected in [2, 1, 0] {
        let reaped = store.reap(2, BOUND).await.expect("reaped");
        assert_eq!(reaped.returned, expected);
    }
}

// Of four jobs one is known. The bound is 0: any counted recovery would dead-letter its job.
pub(crate) async fn claims_a_session_never_received_return_unchanged(world: &impl StoreWorld) {
    let store = world.store();
    let lease = world.unit() * 10;
    submit(store, jobs("a", 5)).await;
    let claims = store.claim(claim_request_as("w", 4, lease), &mut AllowAll).await;
    let held = claims.expect("claimed").jobs;
    let known = [held[1].token];
    let given = store.release_unknown(&name("w"), &known).await;
    assert_eq!(given.expect("given back"), 3);
    let again = store.release_unknown(&name("w"), &known).await;
    assert_eq!(again.expect("nothing left"), 0);
    assert_eq!(store.reap(9, 0).await.expect("reaped").dead_lettered, 0);
    assert_eq!(store.audit().await.expect("counted"), 0);
    let end = |job: &ClaimedJob| Settlement {
        token: job.token,
        end: done(),
        arrived: None,
    };
    let ends = held.iter().map(end).collect();
    let settled = store.settle(&name("w"), ends).await.expect("settled");
    let fenced = SettleResult::Fenced;
    assert_eq!(settled, [fenced, SettleResult::Done, fenced, fenced]);
    let next = claim(store, 9).await;
    assert_eq!(ids(&next), ["a-0", "a-2", "a-3", "a-4"]);
    assert!(next.iter().all(|job| job.attempt == 1), "{next:?}");
    let none = store.release_unknown(&name("unknown"), &[]).await;
    assert_eq!(none.expect("an unknown session has nothing"), 0);
}

pub(crate) async fn a_session_that_never_claimed_is_lost(world: &impl StoreWorld) {
    let unknown = name("unknown");
    let beat = world.store().heartbeat(&unknown, Duration::from_secs(9)).await;
    assert_eq!(beat.expect("beaten"), HeartbeatResult::Lost);
}

pub(crate) async fn one_session_cannot_settle_for_another(world: &impl StoreWorld) {
    let store = world.store();
    submit(store, jobs("a", 1)).await;
    let job = claim_one(store).await;
    let end = Settlement {
        token: job.token,
        end: done(),
        arrived: None,
    };
    let settled = store.settle(&name("thief"), vec![end]).await;
    assert_eq!(settled.expect("settled"), [SettleResult::Fenced]);
    assert_eq!(store.job_counts().await.expect("counted").in_flight, 1);
}

// Two tenants have two jobs each with a deadline in 5 units, and one without. The lane is throttled
// for long with one of them in flight, and the other tenant is paused.
pub(crate) async fn an_expired_job_ends_in_a_blocked_queue(world: &impl StoreWorld) {
    let store = world.store();
    let unit = world.unit();
    let deadline = world.wall_time().saturating_add(unit * 5);
    for tenant in ["a", "b"] {
        let hurried = |job: NewJob| NewJob {
            deadline: Some(deadline),
            ..job
        };
        submit(store, jobs(tenant, 2).into_iter().map(hurried).collect()).await;
        submit(
            store,
            vec![NewJob {
                id: None,
                ..jobs(tenant, 1).remove(0)
            }],
        )
        .await;
    }
    let paused = store.pause(&ControlScope::Tenant(name("b"))).await;
    paused.expect("paused");
    let refused = JobEnd::Throttled {
        after: unit * 1_000,
        cooldown: CooldownScope::Lane,
    };
    let job = claim_one(store).await;
    settle(store, &job, refused).await;
    let reaped = store.reap(9, BOUND).await.expect("reaped");
    assert_eq!(reaped.expired, 0, "they are in time");
    world.advance(unit * 10).await;
    let mut expired = 0;
    for _ in 0..3 {
        expired += store.reap(9, BOUND).await.expect("reaped").expired;
    }
    assert_eq!(expired, 4);
    let counts = store.job_counts().await.expect("counted");
    assert_eq!((counts.queued, counts.cancelled), (2, 4), "{counts:?}");
    assert_eq!(store.audit().await.expect("counted"), 0);
}
