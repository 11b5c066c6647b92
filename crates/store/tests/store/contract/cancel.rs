//! Laws of cancelling.

use std::cell::Cell;
use std::time::Duration;

use outflow_store::{
    ActionStage, ActionStore, ControlScope, CooldownScope, DeadLetterStore, Defer, FinishedQuery, JobEnd, JobQueue,
    JobStatus, SettleResult, StoreControl, StoredResult,
};

use super::{StoreWorld, batch, claim, claim_one, done, ids, job, jobs, name, settle, settle_all, submit};

fn tenant(text: &str) -> ControlScope {
    ControlScope::Tenant(name(text))
}

fn action(text: &str) -> ControlScope {
    ControlScope::Action(name(text))
}

fn failed() -> JobEnd {
    JobEnd::Failed {
        message: "no".to_owned(),
        result: None,
    }
}

// 200: most of them are not in any store's memory.
pub(crate) async fn cancelling_a_tenant_ends_its_waiting_jobs(world: &impl StoreWorld) {
    let store = world.store();
    store.submit(batch("act", jobs("a", 200))).await.expect("taken");
    submit(store, jobs("b", 1)).await;
    let mut later = job("a", "later");
    later.not_before = Some(world.wall_time().saturating_add(Duration::from_hours(1)));
    submit(store, vec![later]).await;
    let in_flight = claim_one(store).await;
    assert_eq!(in_flight.tenant, name("a"));
    assert_eq!(store.cancel(&tenant("a")).await.expect("cancelled"), 200);
    let counts = store.job_counts().await.expect("counted");
    assert_eq!((counts.queued, counts.in_flight, counts.cancelled), (1, 1, 200));
    let of_action = store.action(&name("act")).await.expect("read");
    assert_eq!(of_action.expect("known").counts.cancelled, 199);
    assert_eq!(settle(store, &in_flight, done()).await, SettleResult::Done);
    assert_eq!(ids(&claim(store, 9).await), ["b-0"]);
    submit(store, vec![job("a", "new")]).await;
    assert_eq!(ids(&claim(store, 9).await), ["new"], "it may come again");
    assert_eq!(store.audit().await.expect("counted"), 0);
}

// 1,500 jobs are claimed and fail repeatedly during the cancellation, so that they are queued, in
// flight and returning when their places are searched.
pub(crate) async fn no_job_of_a_cancelled_tenant_starts_again(world: &impl StoreWorld) {
    let store = world.store();
    let mut all = jobs("a", 1_500);
    for job in &mut all {
        job.max_retries = 9_999;
    }
    submit(store, all).await;
    let again = || JobEnd::Retry {
        after: Duration::ZERO,
        message: "again".to_owned(),
        result: None,
    };
    let over = Cell::new(false);
    let cancel = async {
        let cancelled = store.cancel(&tenant("a")).await;
        over.set(true);
        cancelled.expect("cancelled")
    };
    let work = async {
        let mut in_flight = Vec::new();
        while !over.get() {
            let next = claim(store, 9).await;
            settle_all(store, &in_flight, again()).await;
            in_flight = next;
            tokio::task::yield_now().await;
        }
        in_flight
    };
    let (_, in_flight) = tokio::join!(cancel, work);
    for settled in settle_all(store, &in_flight, again()).await {
        assert_eq!(settled, SettleResult::Cancelled);
    }
    assert!(claim(store, 9).await.is_empty());
    let counts = store.job_counts().await.expect("counted");
    assert_eq!((counts.open(), counts.cancelled), (0, 1_500));
    submit(store, vec![job("a", "new")]).await;
    let new = claim_one(store).await;
    assert_eq!(settle(store, &new, done()).await, SettleResult::Done);
    assert_eq!(store.audit().await.expect("counted"), 0);
}

// A claim meets the jobs of a paused action during the cancellation of their tenant, a little later
// each time, and holds them.
pub(crate) async fn held_jobs_of_a_cancelled_tenant_end(world: &impl StoreWorld) {
    let store = world.store();
    for number in 0..16 {
        let id = format!("act-{number}");
        let taken = store.submit(batch(&id, jobs(&id, 20))).await;
        taken.expect("taken");
        store.pause(&action(&id)).await.expect("paused");
        let scope = tenant(&id);
        let meet = async {
            for _ in 0..number {
                store.job_counts().await.expect("counted");
            }
            claim(store, 3).await
        };
        let (cancelled, claimed) = tokio::join!(store.cancel(&scope), meet);
        cancelled.expect("cancelled");
        assert!(claimed.is_empty(), "{id}");
        let counts = store.job_counts().await.expect("counted");
        assert_eq!(counts.open(), 0, "{id}");
    }
    assert_eq!(store.audit().await.expect("counted"), 0);
}

// Throttled for 20 units, first alone in the lane and then with a delayed job of another tenant.
pub(crate) async fn a_cooldown_outlives_the_cancelled_jobs_of_its_tenant(world: &impl StoreWorld) {
    let store = world.store();
    let unit = world.unit();
    for number in 0..2 {
        submit(store, vec![job("a", &format!("old-{number}"))]).await;
        let refused = JobEnd::Throttled {
            after: unit * 20,
            cooldown: CooldownScope::Tenant,
        };
        let old = claim_one(store).await;
        assert_eq!(settle(store, &old, refused).await, SettleResult::Waits);
        assert_eq!(store.cancel(&tenant("a")).await.expect("cancelled"), 1);
        submit(store, vec![job("a", &format!("new-{number}"))]).await;
        assert!(claim(store, 9).await.is_empty(), "it was ends to wait");
        world.advance(unit * 25).await;
        let new = claim_one(store).await;
        assert_eq!(settle(store, &new, done()).await, SettleResult::Done);
        let mut later = job("b", &format!("later-{number}"));
        later.not_before = Some(world.wall_time().saturating_add(Duration::from_hours(1)));
        submit(store, vec![later]).await;
    }
    assert_eq!(store.audit().await.expect("counted"), 0);
}

pub(crate) async fn cancelling_an_action_ends_only_its_own_jobs(world: &impl StoreWorld) {
    let store = world.store();
    store.submit(batch("act", jobs("a", 150))).await.expect("taken");
    submit(store, jobs("b", 1)).await;
    let own = (0..2).map(|number| job("a", &format!("own-{number}")));
    submit(store, own.collect()).await;
    assert_eq!(store.cancel(&action("act")).await.expect("cancelled"), 150);
    let mut left = ids(&claim(store, 9).await);
    left.sort();
    assert_eq!(left, ["b-0", "own-0", "own-1"]);
    let report = store.action(&name("act")).await.expect("read");
    let report = report.expect("known");
    assert_eq!((report.stage, report.counts.cancelled), (ActionStage::Cancelled, 150));
    let outcomes = store.outcomes(&name("act"), 0, 999).await.expect("read");
    assert_eq!(outcomes.len(), 150);
    assert!(outcomes.iter().all(|of| of.ended == JobStatus::Cancelled));
    assert_eq!(store.audit().await.expect("counted"), 0);
}

// One of each end that would start the job again. The first has retries left.
pub(crate) async fn a_cancelled_job_in_flight_does_not_start_again(world: &impl StoreWorld) {
    for (number, scope) in [action("act-0"), tenant("act-1")].iter().enumerate() {
        let store = world.store();
        let id = format!("act-{number}");
        let taken = store.submit(batch(&id, jobs(&id, 4))).await;
        taken.expect("taken");
        let jobs = claim(store, 4).await;
        assert_eq!(store.cancel(scope).await.expect("cancelled"), 0);
        let retry = JobEnd::Retry {
            after: Duration::ZERO,
            message: "again".to_owned(),
            result: None,
        };
        let refused = JobEnd::Throttled {
            after: Duration::ZERO,
            cooldown: CooldownScope::Tenant,
        };
        let put_off = JobEnd::Deferred(Defer::Fixed(Duration::ZERO));
        for (job, end) in jobs.iter().zip([retry, refused, put_off, JobEnd::Returned]) {
            assert_eq!(settle(store, job, end).await, SettleResult::Cancelled);
        }
        let report = store.action(&name(&id)).await.expect("read");
        let counts = report.expect("known").counts;
        assert_eq!((counts.cancelled, counts.open()), (4, 0), "{scope:?}");
        assert_eq!(store.audit().await.expect("counted"), 0);
    }
}

// The call was made and answered, and a cancellation does not undo it. The third has no retry left.
pub(crate) async fn the_result_of_a_cancelled_job_in_flight_is_stored(world: &impl StoreWorld) {
    let store = world.store();
    let kept = |status| {
        Some(StoredResult {
            status,
            body: "made".into(),
            keep: Duration::from_hours(1),
        })
    };
    for (number, scope) in [action("act-0"), tenant("act-1")].iter().enumerate() {
        let id = format!("act-{number}");
        let mut three = jobs(&id, 3);
        three[2].max_retries = 0;
        store.submit(batch(&id, three)).await.expect("taken");
        let jobs = claim(store, 3).await;
        assert_eq!(store.cancel(scope).await.expect("cancelled"), 0);
        let done = JobEnd::Done {
            took: Duration::from_millis(1),
            result: kept(200),
        };
        let failed = JobEnd::Failed {
            message: "no".to_owned(),
            result: kept(404),
        };
        let last = JobEnd::Retry {
            after: Duration::ZERO,
            message: "no".to_owned(),
            result: kept(500),
        };
        let expected = [
            SettleResult::Done,
            SettleResult::DeadLettered,
            SettleResult::DeadLettered,
        ];
        for ((job, end), expected) in jobs.iter().zip([done, failed, last]).zip(expected) {
            assert_eq!(settle(store, job, end).await, expected, "{scope:?}");
        }
        let report = store.action(&name(&id)).await.expect("read");
        let counts = report.expect("known").counts;
        assert_eq!((counts.done, counts.dead, counts.cancelled), (1, 2, 0));
        let outcomes = store.outcomes(&name(&id), 0, 9).await.expect("read");
        let ends: Vec<_> = outcomes.iter().map(|of| (of.ended, of.status)).collect();
        let expected = [
            (JobStatus::Done, Some(200)),
            (JobStatus::Failed, Some(404)),
            (JobStatus::Failed, Some(500)),
        ];
        assert_eq!(ends, expected, "{scope:?}");
        assert!(outcomes.iter().all(|of| of.body.as_deref() == Some(b"made")));
    }
    assert_eq!(store.dead_letters(0, 9).await.expect("read").len(), 4);
    assert_eq!(store.audit().await.expect("counted"), 0);
}

// The name belongs to another action when the last job ends: that action does not count it.
pub(crate) async fn a_late_end_does_not_count_for_a_new_action_of_the_name(world: &impl StoreWorld) {
    let store = world.store();
    store.submit(batch("act", jobs("a", 2))).await.expect("taken");
    let in_flight = claim(store, 2).await;
    store.cancel(&action("act")).await.expect("cancelled");
    store.submit(batch("act", jobs("b", 1))).await.expect("taken");
    assert_eq!(settle(store, &in_flight[0], done()).await, SettleResult::Done);
    assert_eq!(settle(store, &in_flight[1], failed()).await, SettleResult::DeadLettered);
    let report = store.action(&name("act")).await.expect("read");
    let counts = report.expect("known").counts;
    assert_eq!((counts.submitted(), counts.queued), (1, 1));
    let outcomes = store.outcomes(&name("act"), 0, 9).await.expect("read");
    assert!(outcomes.is_empty(), "{outcomes:?}");
    assert_eq!(store.dead_letters(0, 9).await.expect("read")[0].action, None);
    let all = store.job_counts().await.expect("counted");
    assert_eq!((all.done, all.dead, all.in_flight), (1, 1, 0));
    assert_eq!(store.audit().await.expect("counted"), 0);
}

// A job that one caller ended and the other still finds must not end twice; twenty actions, because
// the two have to meet.
pub(crate) async fn two_concurrent_cancellations_count_each_job_once(world: &impl StoreWorld) {
    let store = world.store();
    for number in 0..20 {
        let id = format!("act-{number}");
        let taken = store.submit(batch(&id, jobs(&id, 6))).await;
        taken.expect("taken");
        let in_flight = claim_one(store).await;
        let scope = action(&id);
        let (one, other, settled, ripe) = tokio::join!(
            store.cancel(&scope),
            store.cancel(&scope),
            settle(store, &in_flight, done()),
            store.take_finished(FinishedQuery::peek(9)),
        );
        one.and(other).expect("cancelled");
        ripe.expect("looked");
        assert!(matches!(settled, SettleResult::Cancelled | SettleResult::Done));
    }
    let counts = store.job_counts().await.expect("counted");
    assert_eq!((counts.open(), counts.over()), (0, 120));
    assert_eq!(store.audit().await.expect("counted"), 0);
}
