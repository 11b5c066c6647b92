//! Laws of leases.

use std::time::Duration;

use outflow_store::{
    ActionStore, AllowAll, ClaimedJob, ControlScope, CooldownScope, DeadLetterStore, Defer,
    HeartbeatResult, JobEnd, JobQueue, NewJob, SettleResult, Settlement, StoreControl,
};

use super::{World, ask_as, batch, claim, claim_one, done, ids, jobs, name, settle, submit};

const BOUND: u32 = 3;

// A lease of 10 units, renewed after 6, is alive at 12.
pub(crate) async fn a_beat_keeps_a_session_alive(world: &impl World) {
    let store = world.store();
    let lease = world.unit() * 10;
    submit(store, jobs("a", 1)).await;
    let claims = store.claim(ask_as("w", 1, lease), &mut AllowAll).await;
    let job = claims.expect("claimed").jobs.remove(0);
    for _ in 0..3 {
        world.pass(world.unit() * 6).await;
        let beat = store.heartbeat(&name("w"), lease).await.expect("beaten");
        assert_eq!(beat, HeartbeatResult::Alive);
        assert_eq!(store.reap(9, BOUND).await.expect("reaped").returned, 0);
    }
    let end = Settlement {
        token: job.token,
        end: done(),
    };
    let settled = store.settle(&name("w"), vec![end]).await;
    assert_eq!(settled.expect("settled"), [SettleResult::Done]);
}

// Two of three jobs are claimed when the lease expires; they are before the third again.
pub(crate) async fn a_lost_session_is_fenced_and_its_jobs_return_first(world: &impl World) {
    let store = world.store();
    let lease = world.unit() * 10;
    submit(store, jobs("a", 3)).await;
    let claims = store.claim(ask_as("w", 2, lease), &mut AllowAll).await;
    let held = claims.expect("claimed").jobs;
    world.pass(world.unit() * 15).await;
    let beat = store.heartbeat(&name("w"), lease).await.expect("beaten");
    assert_eq!(beat, HeartbeatResult::Lost);
    let reaped = store.reap(9, BOUND).await.expect("reaped");
    assert_eq!((reaped.returned, reaped.buried), (2, 0));
    let end = Settlement {
        token: held[0].token,
        end: done(),
    };
    let settled = store.settle(&name("w"), vec![end]).await;
    assert_eq!(settled.expect("settled"), [SettleResult::Fenced]);
    let again = claim(store, 9).await;
    assert_eq!(ids(&again), ["a-0", "a-1", "a-2"]);
    assert_eq!(again[0].attempt, 2);
    assert_eq!(again[0].payload, "a-0");
}

// Recovered once, then dead-lettered; the other job is not delayed.
pub(crate) async fn a_job_that_kills_its_workers_is_buried(world: &impl World) {
    let store = world.store();
    let lease = world.unit() * 5;
    submit(store, jobs("a", 2)).await;
    for (worker, expected) in [("w1", (1, 0)), ("w2", (0, 1))] {
        let claims = store.claim(ask_as(worker, 1, lease), &mut AllowAll).await;
        assert_eq!(ids(&claims.expect("claimed").jobs), ["a-0"]);
        world.pass(lease * 2).await;
        let reaped = store.reap(9, 1).await.expect("reaped");
        assert_eq!((reaped.returned, reaped.buried), expected);
    }
    let dead = store.dead_letters(0, 9).await.expect("read");
    assert_eq!((&dead[0].id, dead[0].recoveries), (&name("a-0"), 2));
    assert_eq!(dead[0].history.len(), 2);
    assert_eq!(claim_one(store).await.id, name("a-1"));
}

// Lost with one worker; the next survives an attempt that fails or is throttled, and so might all
// after it.
pub(crate) async fn an_attempt_that_a_worker_lived_through_clears_its_job(world: &impl World) {
    let (store, lease) = (world.store(), world.unit() * 5);
    let fails = JobEnd::Retry {
        after: Duration::ZERO,
        words: "no".to_owned(),
        result: None,
    };
    let is_put_off = JobEnd::RetryPutOff {
        by: Defer::Fixed(Duration::ZERO),
        words: "no".to_owned(),
        result: None,
    };
    let is_refused = JobEnd::Throttled {
        after: Duration::ZERO,
        park: CooldownScope::Tenant,
    };
    let ends = [
        (fails, 0),
        (is_put_off, 0),
        (is_refused, 0),
        (JobEnd::Returned, 1),
    ];
    for (worker, (end, expected)) in ["w1", "w2", "w3", "w4"].into_iter().zip(ends) {
        submit(store, jobs(worker, 1)).await;
        let claims = store.claim(ask_as(worker, 1, lease), &mut AllowAll).await;
        assert_eq!(claims.expect("claimed").jobs.len(), 1);
        world.pass(lease * 2).await;
        assert_eq!(store.reap(9, BOUND).await.expect("reaped").returned, 1);
        let job = claim_one(store).await;
        assert_eq!(job.recoveries, 1);
        settle(store, &job, end.clone()).await;
        world.pass(world.unit()).await;
        let job = claim_one(store).await;
        assert_eq!(job.recoveries, expected, "{end:?}");
        settle(store, &job, done()).await;
    }
}

// The worker reported no result, so the outcome says so.
pub(crate) async fn a_job_buried_with_its_worker_tells_why(world: &impl World) {
    let store = world.store();
    let lease = world.unit() * 5;
    let taken = store.submit(batch("act", jobs("a", 1))).await;
    taken.expect("taken");
    let claims = store.claim(ask_as("w", 1, lease), &mut AllowAll).await;
    assert_eq!(claims.expect("claimed").jobs.len(), 1);
    world.pass(lease * 2).await;
    assert_eq!(store.reap(9, 0).await.expect("reaped").buried, 1);
    let told = store.outcomes(&name("act"), 0, 9).await.expect("read");
    let words = "its worker was lost before it said what came of it";
    assert_eq!(told[0].error.as_deref(), Some(words));
}

pub(crate) async fn reaping_takes_no_more_than_it_is_told(world: &impl World) {
    let store = world.store();
    let lease = world.unit() * 5;
    submit(store, jobs("a", 3)).await;
    let claims = store.claim(ask_as("w", 3, lease), &mut AllowAll).await;
    assert_eq!(claims.expect("claimed").jobs.len(), 3);
    let early = store.reap(9, BOUND).await.expect("reaped");
    assert_eq!(early.returned, 0);
    assert!(early.next.expect("a lease runs") <= lease);
    world.pass(lease * 2).await;
    for expected in [2, 1, 0] {
        let reaped = store.reap(2, BOUND).await.expect("reaped");
        assert_eq!(reaped.returned, expected);
    }
}

// Of four jobs one is known. The bound is 0: any counted recovery would dead-letter its job.
pub(crate) async fn what_a_session_never_heard_of_goes_back_as_it_was(world: &impl World) {
    let store = world.store();
    let lease = world.unit() * 10;
    submit(store, jobs("a", 5)).await;
    let claims = store.claim(ask_as("w", 4, lease), &mut AllowAll).await;
    let held = claims.expect("claimed").jobs;
    let known = [held[1].token];
    let given = store.release_unknown(&name("w"), &known).await;
    assert_eq!(given.expect("given back"), 3);
    let again = store.release_unknown(&name("w"), &known).await;
    assert_eq!(again.expect("nothing left"), 0);
    assert_eq!(store.reap(9, 0).await.expect("reaped").buried, 0);
    assert_eq!(store.audit().await.expect("counted"), 0);
    let end = |job: &ClaimedJob| Settlement {
        token: job.token,
        end: done(),
    };
    let ends = held.iter().map(end).collect();
    let settled = store.settle(&name("w"), ends).await.expect("settled");
    let fenced = SettleResult::Fenced;
    assert_eq!(settled, [fenced, SettleResult::Done, fenced, fenced]);
    let next = claim(store, 9).await;
    assert_eq!(ids(&next), ["a-0", "a-2", "a-3", "a-4"]);
    assert!(next.iter().all(|job| job.attempt == 1), "{next:?}");
    let none = store.release_unknown(&name("nobody"), &[]).await;
    assert_eq!(none.expect("nobody has nothing"), 0);
}

pub(crate) async fn a_session_that_never_claimed_is_lost(world: &impl World) {
    let nobody = name("nobody");
    let beat = world
        .store()
        .heartbeat(&nobody, Duration::from_secs(9))
        .await;
    assert_eq!(beat.expect("beaten"), HeartbeatResult::Lost);
}

pub(crate) async fn one_session_cannot_settle_for_another(world: &impl World) {
    let store = world.store();
    submit(store, jobs("a", 1)).await;
    let job = claim_one(store).await;
    let end = Settlement {
        token: job.token,
        end: done(),
    };
    let settled = store.settle(&name("thief"), vec![end]).await;
    assert_eq!(settled.expect("settled"), [SettleResult::Fenced]);
    assert_eq!(store.job_counts().await.expect("counted").in_flight, 1);
}

// Two tenants have two jobs each with a deadline in 5 units, and one without. The lane is throttled
// for long with one of them in flight, and the other tenant is paused.
pub(crate) async fn a_job_that_is_too_late_ends_though_its_line_stands_still(world: &impl World) {
    let store = world.store();
    let unit = world.unit();
    let deadline = world.wall().saturating_add(unit * 5);
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
        park: CooldownScope::Lane,
    };
    let job = claim_one(store).await;
    settle(store, &job, refused).await;
    let reaped = store.reap(9, BOUND).await.expect("reaped");
    assert_eq!(reaped.expired, 0, "they are in time");
    world.pass(unit * 10).await;
    let mut expired = 0;
    for _ in 0..3 {
        expired += store.reap(9, BOUND).await.expect("reaped").expired;
    }
    assert_eq!(expired, 4);
    let tally = store.job_counts().await.expect("counted");
    assert_eq!((tally.queued, tally.cancelled), (2, 4), "{tally:?}");
    assert_eq!(store.audit().await.expect("counted"), 0);
}
