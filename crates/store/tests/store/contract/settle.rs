//! Laws of settlements.

use std::time::Duration;

use outflow_core::CongestionRule;
use outflow_store::{
    ActionStore, ClaimedJob, CooldownScope, DeadLetterFilter, DeadLetterStore, Defer, HeartbeatResult, JobEnd,
    JobQueue, NewJob, SettleResult, Settlement, StoreControl, StoredResult, TenantStore,
};

use super::{
    StoreWorld, batch, claim, claim_one, claim_request, done, ids, job, jobs, name, settle, settle_all, submit,
};

/// Makes a stored result with a body.
fn stored_result(status: u16) -> StoredResult {
    StoredResult {
        status,
        body: format!("body of {status}").into(),
        keep: Duration::from_hours(1),
    }
}

fn retry(after: Duration) -> JobEnd {
    JobEnd::Retry {
        after,
        message: "status 503".to_owned(),
        result: Some(stored_result(503)),
    }
}

pub(crate) async fn a_done_job_leaves_the_queue_and_is_counted(world: &impl StoreWorld) {
    let store = world.store();
    submit(store, jobs("a", 2)).await;
    let job = claim_one(store).await;
    assert_eq!(settle(store, &job, done()).await, SettleResult::Done);
    let counts = store.job_counts().await.expect("counted");
    assert_eq!((counts.done, counts.queued, counts.in_flight), (1, 1, 0));
    assert_eq!(counts.busy, Duration::from_millis(1));
    assert_eq!(ids(&claim(store, 9).await), ["a-1"]);
}

// 10 units: other jobs start meanwhile, and it is before those submitted after it.
pub(crate) async fn a_retry_waits_and_then_goes_before_later_jobs(world: &impl StoreWorld) {
    let store = world.store();
    let unit = world.unit();
    submit(store, jobs("a", 3)).await;
    let first = claim_one(store).await;
    assert_eq!(settle(store, &first, retry(unit * 10)).await, SettleResult::Waits);
    let counts = store.job_counts().await.expect("counted");
    assert_eq!((counts.queued, counts.delayed, counts.in_flight), (3, 1, 0));
    assert_eq!(claim_one(store).await.id, name("a-1"));
    world.advance(unit * 15).await;
    let again = claim_one(store).await;
    assert_eq!((again.id, again.attempt), (name("a-0"), 2));
    assert_eq!((again.retries, again.throttles), (1, 0));
    assert_eq!(again.payload, "a-0");
}

// It has one retry.
pub(crate) async fn a_job_out_of_retries_is_dead_lettered_with_its_history(world: &impl StoreWorld) {
    let store = world.store();
    let mut one = job("a", "x");
    one.max_retries = 1;
    submit(store, vec![one]).await;
    let first = claim_one(store).await;
    assert_eq!(settle(store, &first, retry(Duration::ZERO)).await, SettleResult::Waits);
    world.advance(world.unit()).await;
    let second = claim_one(store).await;
    let last = JobEnd::Retry {
        after: Duration::ZERO,
        message: "status 502".to_owned(),
        result: None,
    };
    assert_eq!(settle(store, &second, last).await, SettleResult::DeadLettered);
    let dead = store.dead_letters(0, 9).await.expect("read");
    assert_eq!((dead.len(), dead[0].attempts), (1, 2));
    let words: Vec<&str> = dead[0].history.iter().map(|of| of.message.as_str()).collect();
    assert_eq!(words, ["status 503", "status 502"]);
    let counts = store.job_counts().await.expect("counted");
    assert_eq!((counts.dead, counts.open()), (1, 0));
}

// It has one retry: of two results the second is stored.
pub(crate) async fn the_result_of_the_last_attempt_is_stored(world: &impl StoreWorld) {
    let store = world.store();
    let mut one = job("a", "x");
    one.max_retries = 1;
    store.submit(batch("act", vec![one])).await.expect("taken");
    let first = claim_one(store).await;
    settle(store, &first, retry(Duration::ZERO)).await;
    let none = store.outcomes(&name("act"), 0, 9).await.expect("read");
    assert!(none.is_empty(), "it is not over");
    world.advance(world.unit()).await;
    let second = claim_one(store).await;
    let last = JobEnd::Retry {
        after: Duration::ZERO,
        message: "status 502".to_owned(),
        result: Some(stored_result(502)),
    };
    assert_eq!(settle(store, &second, last).await, SettleResult::DeadLettered);
    let outcomes = store.outcomes(&name("act"), 0, 9).await.expect("read");
    assert_eq!((outcomes.len(), outcomes[0].status), (1, Some(502)));
    assert_eq!(outcomes[0].body.as_deref(), Some(b"body of 502".as_slice()));
    let dead = store.dead_letters(0, 9).await.expect("read");
    let words: Vec<&str> = dead[0].history.iter().map(|of| of.message.as_str()).collect();
    assert_eq!(words, ["status 503", "status 502"]);
    assert_eq!(outcomes[0].error.as_deref(), Some("status 502"));
    store.purge(&DeadLetterFilter::All).await.expect("purged");
    let after = store.outcomes(&name("act"), 0, 9).await.expect("read");
    assert_eq!(after, outcomes, "what came of it is not its letter's to take away");
}

// Without a retry left it waits all the same, three times, and goes before later jobs. Its errors are kept.
pub(crate) async fn a_job_that_the_api_failed_keeps_its_place_and_its_retries(world: &impl StoreWorld) {
    let store = world.store();
    let unit = world.unit();
    let mut first = job("a", "a-0");
    first.max_retries = 0;
    store
        .submit(batch("act", vec![first, job("a", "a-1")]))
        .await
        .expect("taken");
    for attempt in 1..=3 {
        let claimed = claim_one(store).await;
        assert_eq!((claimed.id.as_str(), claimed.attempt), ("a-0", attempt));
        assert_eq!((claimed.retries, claimed.throttles), (0, 0));
        let end = JobEnd::ApiFailed {
            after: unit * 2,
            message: format!("status 50{attempt}"),
        };
        assert_eq!(settle(store, &claimed, end).await, SettleResult::Waits);
        let counts = store.job_counts().await.expect("counted");
        assert_eq!((counts.queued, counts.delayed, counts.throttles), (2, 1, 0));
        world.advance(unit * 3).await;
    }
    let last = claim_one(store).await;
    settle(store, &last, retry(Duration::ZERO)).await;
    let dead = store.dead_letters(0, 9).await.expect("read");
    let words: Vec<&str> = dead[0].history.iter().map(|of| of.message.as_str()).collect();
    assert_eq!(words, ["status 501", "status 502", "status 503", "status 503"]);
    assert_eq!((dead[0].attempts, dead.len()), (4, 1));
    assert_eq!(claim_one(store).await.id, name("a-1"));
}

// Its action timed out or was cancelled meanwhile: it does not wait again.
pub(crate) async fn a_job_that_the_api_failed_ends_with_its_cancelled_action(world: &impl StoreWorld) {
    let store = world.store();
    store.submit(batch("act", jobs("a", 1))).await.expect("taken");
    let claimed = claim_one(store).await;
    let scope = outflow_store::ControlScope::Action(name("act"));
    store.cancel(&scope).await.expect("cancelled");
    let end = JobEnd::ApiFailed {
        after: world.unit(),
        message: "status 503".to_owned(),
    };
    assert_eq!(settle(store, &claimed, end).await, SettleResult::Cancelled);
}

pub(crate) async fn a_final_failure_is_dead_lettered_at_once(world: &impl StoreWorld) {
    let store = world.store();
    submit(store, vec![job("a", "x")]).await;
    let job = claim_one(store).await;
    let end = JobEnd::Failed {
        message: "status 400".to_owned(),
        result: None,
    };
    assert_eq!(settle(store, &job, end).await, SettleResult::DeadLettered);
    let dead = store.dead_letters(0, 9).await.expect("read");
    let letter = &dead[0];
    assert_eq!((&letter.id, &letter.tenant), (&name("x"), &name("a")));
    assert_eq!((&letter.lane, letter.recoveries), (&name("mail"), 0));
    assert_eq!(letter.payload, "x");
    assert_eq!(letter.history[0].message, "status 400");
    assert!(store.dead_letters(letter.place, 9).await.expect("read").is_empty());
}

// 10 units: its tenant waits, the other does not.
pub(crate) async fn a_throttled_job_returns_to_the_head_and_uses_no_retry(world: &impl StoreWorld) {
    let store = world.store();
    let unit = world.unit();
    submit(store, jobs("a", 2)).await;
    let first = claim_one(store).await;
    submit(store, jobs("b", 1)).await;
    let end = JobEnd::Throttled {
        after: unit * 10,
        cooldown: CooldownScope::Tenant,
    };
    assert_eq!(settle(store, &first, end).await, SettleResult::Waits);
    let counts = store.job_counts().await.expect("counted");
    assert_eq!(counts.throttles, 1, "counted when it happens");
    let claims = store.claim(claim_request(9), &mut outflow_store::AllowAll).await;
    let claims = claims.expect("claimed");
    assert_eq!(ids(&claims.jobs), ["b-0"], "its tenant waits");
    assert!(claims.next.expect("it is known") <= unit * 10);
    world.advance(unit * 15).await;
    let again = claim_one(store).await;
    assert_eq!(again.id, name("a-0"));
    assert_eq!((again.retries, again.throttles), (0, 1));
    settle(store, &again, done()).await;
    let counts = store.job_counts().await.expect("counted");
    assert_eq!(counts.throttles, 1, "and not once more with the job");
}

pub(crate) async fn a_throttled_lane_stops_all_tenants(world: &impl StoreWorld) {
    let store = world.store();
    let unit = world.unit();
    submit(store, jobs("a", 1)).await;
    submit(store, jobs("b", 1)).await;
    let first = claim_one(store).await;
    let end = JobEnd::Throttled {
        after: unit * 10,
        cooldown: CooldownScope::Lane,
    };
    settle(store, &first, end).await;
    assert!(claim(store, 9).await.is_empty());
    world.advance(unit * 15).await;
    assert_eq!(claim(store, 9).await.len(), 2);
}

pub(crate) async fn a_returned_job_is_as_if_never_claimed(world: &impl StoreWorld) {
    let store = world.store();
    submit(store, jobs("a", 3)).await;
    let taken = claim(store, 2).await;
    let waits = settle_all(store, &taken, JobEnd::Returned).await;
    assert_eq!(waits, [SettleResult::Waits; 2]);
    let again = claim(store, 9).await;
    assert_eq!(ids(&again), ["a-0", "a-1", "a-2"]);
    let attempts: Vec<u32> = again.iter().map(|job| job.attempt).collect();
    assert_eq!(attempts, [1, 1, 1]);
}

/// The API may have seen the attempt: the next one has a higher number.
pub(crate) async fn an_interrupted_job_keeps_its_attempt(world: &impl StoreWorld) {
    let store = world.store();
    submit(store, jobs("a", 3)).await;
    let taken = claim(store, 2).await;
    let waits = settle_all(store, &taken, JobEnd::Interrupted).await;
    assert_eq!(waits, [SettleResult::Waits; 2]);
    let again = claim(store, 9).await;
    assert_eq!(ids(&again), ["a-0", "a-1", "a-2"]);
    let tries = |job: &ClaimedJob| (job.attempt, job.retries, job.throttles);
    let tries: Vec<_> = again.iter().map(tries).collect();
    assert_eq!(tries, [(2, 0, 0), (2, 0, 0), (1, 0, 0)]);
}

pub(crate) async fn a_fixed_deferral_waits_for_its_span(world: &impl StoreWorld) {
    let store = world.store();
    let unit = world.unit();
    submit(store, jobs("a", 1)).await;
    let job = claim_one(store).await;
    let end = JobEnd::Deferred(Defer::Fixed(unit * 10));
    let put_off = settle(store, &job, end).await;
    let SettleResult::Deferred { backoff, non_ready, .. } = put_off else {
        panic!("{put_off:?}");
    };
    assert_eq!((backoff, non_ready), (unit * 10, 1));
    let counts = store.job_counts().await.expect("counted");
    assert_eq!((counts.queued, counts.non_ready), (1, 1));
    world.advance(unit * 5).await;
    assert!(claim(store, 1).await.is_empty());
    world.advance(unit * 10).await;
    assert_eq!(store.job_counts().await.expect("counted").non_ready, 0);
    let again = claim_one(store).await;
    assert_eq!((again.throttles, again.retries), (1, 0));
}

// A deferred failure uses a retry and is no throttle; after the last one the job is dead-lettered.
pub(crate) async fn a_deferred_failure_uses_a_retry(world: &impl StoreWorld) {
    let store = world.store();
    let unit = world.unit();
    let job = NewJob {
        max_retries: 1,
        ..jobs("a", 1).remove(0)
    };
    submit(store, vec![job]).await;
    let end = || JobEnd::RetryDeferred {
        by: Defer::Fixed(unit * 10),
        message: "503".to_owned(),
        result: None,
    };
    let first = claim_one(store).await;
    let put_off = settle(store, &first, end()).await;
    let SettleResult::Deferred { backoff, non_ready, .. } = put_off else {
        panic!("{put_off:?}");
    };
    assert_eq!((backoff, non_ready), (unit * 10, 1));
    let counts = store.job_counts().await.expect("counted");
    assert_eq!((counts.queued, counts.non_ready, counts.throttles), (1, 1, 0));
    let left = store.release_deferred(&name("a"), 1).await.expect("released");
    assert_eq!(left, 0);
    let again = claim_one(store).await;
    let counts = (again.attempt, again.retries, again.throttles);
    assert_eq!(counts, (2, 1, 0));
    assert_eq!(settle(store, &again, end()).await, SettleResult::DeadLettered);
    let dead = store.dead_letters(0, 9).await;
    let history = &dead.expect("listed")[0].history;
    assert_eq!(history.len(), 2, "{history:?}");
}

// 10 a second between two tenants is 5 each: the fifth deferred job waits one base and one second.
pub(crate) async fn the_formula_defers_by_the_number_of_deferred_jobs(world: &impl StoreWorld) {
    let store = world.store();
    submit(store, jobs("a", 5)).await;
    submit(store, jobs("b", 1)).await;
    let mut last = None;
    for job in claim(store, 6).await {
        if job.tenant == name("b") {
            continue;
        }
        let put_off = Defer::Formula {
            rule: CongestionRule::default(),
            global: 10,
            most: u64::MAX,
        };
        last = Some(settle(store, &job, JobEnd::Deferred(put_off)).await);
    }
    let expected = SettleResult::Deferred {
        backoff: Duration::from_secs(2),
        non_ready: 5,
        speed: 5,
    };
    assert_eq!(last, Some(expected));
    let report = store.tenant(&name("a")).await.expect("read");
    let report = report.expect("known");
    assert_eq!((report.last_backoff, report.speed), (Duration::from_secs(2), 5));
    assert_eq!(report.counts.non_ready, 5);
    assert!(report.last_update.is_some());
}

// 10 a second for one tenant, whose own limit allows 2: the fifth deferred job waits one base and two seconds.
pub(crate) async fn the_formula_uses_the_lower_speed(world: &impl StoreWorld) {
    let store = world.store();
    submit(store, jobs("a", 5)).await;
    let put_off = JobEnd::Deferred(Defer::Formula {
        rule: CongestionRule::default(),
        global: 10,
        most: 2,
    });
    let settled = settle_all(store, &claim(store, 5).await, put_off).await;
    let expected = SettleResult::Deferred {
        backoff: Duration::from_secs(3),
        non_ready: 5,
        speed: 2,
    };
    assert_eq!(settled.last(), Some(&expected));
}

pub(crate) async fn a_claim_settles_once(world: &impl StoreWorld) {
    let store = world.store();
    submit(store, jobs("a", 1)).await;
    let job = claim_one(store).await;
    assert_eq!(settle(store, &job, done()).await, SettleResult::Done);
    for end in [done(), JobEnd::Returned, retry(Duration::ZERO)] {
        assert_eq!(settle(store, &job, end).await, SettleResult::Fenced);
    }
    let counts = store.job_counts().await.expect("counted");
    assert_eq!((counts.done, counts.submitted()), (1, 1));
}

pub(crate) async fn settlements_of_one_call_are_answered_in_order(world: &impl StoreWorld) {
    let store = world.store();
    submit(store, jobs("a", 3)).await;
    let jobs = claim(store, 3).await;
    let failed = JobEnd::Failed {
        message: "no".to_owned(),
        result: None,
    };
    let ends = [JobEnd::Returned, failed, done()];
    let ends = jobs.iter().zip(ends).map(|(job, end)| Settlement {
        token: job.token,
        end,
        arrived: None,
    });
    let settled = store.settle(&name("worker"), ends.collect()).await;
    let expected = [SettleResult::Waits, SettleResult::DeadLettered, SettleResult::Done];
    assert_eq!(settled.expect("settled"), expected);
    let lease = Duration::from_mins(1);
    let beat = store.heartbeat(&name("worker"), lease).await;
    assert_eq!(beat.expect("beaten"), HeartbeatResult::Alive);
}
