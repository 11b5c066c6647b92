//! Laws of operator commands.

use std::time::Duration;

use outflow_core::{Priority, Rate, Weight};
use outflow_store::{
    ActionStage, ActionStore, CongestionRecord, ControlScope, DeadLetterFilter, DeadLetterStore, Defer, FinishedQuery,
    JobEnd, JobQueue, JobStatus, NewJob, PageRequest, SettleResult, StoreControl, SubmitReceipt, TenantRule,
    TenantStore,
};

use super::{StoreWorld, batch, claim, claim_one, done, ids, job, jobs, last, name, settle, settle_all, submit};

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

pub(crate) async fn a_paused_tenant_waits_and_others_continue(world: &impl StoreWorld) {
    let store = world.store();
    submit(store, jobs("a", 2)).await;
    submit(store, jobs("b", 1)).await;
    let in_flight = claim_one(store).await;
    assert_eq!(in_flight.tenant, name("a"));
    store.pause(&tenant("a")).await.expect("paused");
    assert_eq!(ids(&claim(store, 9).await), ["b-0"]);
    assert_eq!(settle(store, &in_flight, done()).await, SettleResult::Done);
    let report = store.tenant(&name("a")).await.expect("read");
    assert!(report.expect("known").paused);
    let changed = store.changed();
    store.resume(&tenant("a")).await.expect("resumed");
    let rung = tokio::time::timeout(Duration::from_mins(1), changed).await;
    assert!(rung.is_ok(), "a resumption rings");
    assert_eq!(ids(&claim(store, 9).await), ["a-1"]);
}

// The action has jobs of three tenants. One tenant is paused, and holds the action up until its
// jobs are over; another paused tenant has no job of it.
pub(crate) async fn an_action_counts_the_paused_tenants_that_hold_it_up(world: &impl StoreWorld) {
    let store = world.store();
    let all = [jobs("a", 200), jobs("b", 1), jobs("c", 1)].concat();
    store.submit(batch("act", all)).await.expect("taken");
    submit(store, jobs("d", 1)).await;
    let held = async || {
        let report = store.action(&name("act")).await.expect("read");
        let report = report.expect("known");
        let page = store.actions(PageRequest::default()).await.expect("read");
        assert_eq!(page[0], report);
        (report.paused, report.held, report.is_stopped())
    };
    assert_eq!(held().await, (false, 0, false));
    store.pause(&tenant("d")).await.expect("paused");
    assert_eq!(held().await, (false, 0, false), "d has no job of it");
    store.pause(&tenant("a")).await.expect("paused");
    assert_eq!(held().await, (false, 1, true));
    store.pause(&tenant("b")).await.expect("paused");
    assert_eq!(held().await, (false, 2, true));
    store.cancel(&tenant("a")).await.expect("cancelled");
    store.resume(&tenant("b")).await.expect("resumed");
    assert_eq!(held().await, (false, 0, false), "nothing of a is left");
}

// 100 jobs of the paused action are before the other job: more than any store reads at once.
pub(crate) async fn a_paused_action_does_not_block_its_tenants_other_jobs(world: &impl StoreWorld) {
    let store = world.store();
    store.submit(batch("act", jobs("a", 100))).await.expect("taken");
    submit(store, vec![job("a", "free")]).await;
    store.pause(&action("act")).await.expect("paused");
    assert_eq!(ids(&claim(store, 9).await), ["free"]);
    let report = store.action(&name("act")).await.expect("read");
    let report = report.expect("known");
    assert!(report.paused);
    assert_eq!(report.counts.queued, 100);
    let waiting = async || {
        let tenant = store.tenant(&name("a")).await.expect("read").expect("known");
        tenant.lanes.iter().map(|lane| lane.jobs).sum::<u64>()
    };
    assert_eq!(waiting().await, 0, "held jobs wait in no lane");
    store.resume(&action("act")).await.expect("resumed");
    assert_eq!(waiting().await, 100);
    let expected: Vec<String> = (0..100).map(|number| format!("a-{number}")).collect();
    assert_eq!(ids(&claim(store, 200).await), expected);
}

// Three are deferred for an hour; two of them are released.
pub(crate) async fn released_jobs_are_queued_again(world: &impl StoreWorld) {
    let store = world.store();
    submit(store, jobs("a", 3)).await;
    let taken = claim(store, 3).await;
    for (job, minutes) in taken.iter().zip([90, 60, 75]) {
        let span = Duration::from_mins(minutes);
        settle(store, job, JobEnd::Deferred(Defer::Fixed(span))).await;
    }
    assert!(claim(store, 9).await.is_empty());
    let changed = store.changed();
    let left = store.release_deferred(&name("a"), 2).await.expect("released");
    assert_eq!(left, 1);
    let rung = tokio::time::timeout(Duration::from_mins(1), changed).await;
    assert!(rung.is_ok(), "a release rings");
    assert_eq!(ids(&claim(store, 9).await), ["a-1", "a-2"]);
    let counts = store.job_counts().await.expect("counted");
    assert_eq!((counts.queued, counts.non_ready), (1, 1));
}

pub(crate) async fn a_rule_is_stored_and_reported(world: &impl StoreWorld) {
    let store = world.store();
    let rule = TenantRule {
        weight: Weight::new(3).expect("a weight"),
        priority: Priority::Low,
        rate: Some(Rate::per_second(5).expect("a rate")),
        in_flight: Some(7),
    };
    store.set_rule(&name("a"), rule).await.expect("set");
    let report = store.tenant(&name("a")).await.expect("read");
    assert_eq!(report.expect("known").rule, rule);
    assert_eq!(store.tenant(&name("b")).await.expect("read"), None);
}

pub(crate) async fn dead_letters_are_listed_and_requeued_as_new(world: &impl StoreWorld) {
    let store = world.store();
    submit(store, jobs("a", 2)).await;
    submit(store, jobs("b", 1)).await;
    let taken = claim(store, 9).await;
    settle_all(store, &taken, failed()).await;
    assert_eq!(store.dead_letters(0, 9).await.expect("read").len(), 3);
    let picks = [
        (DeadLetterFilter::Jobs(vec![name("a-1"), name("none")]), 1),
        (DeadLetterFilter::Tenant(name("b")), 1),
        (DeadLetterFilter::Tenant(name("none")), 0),
        (DeadLetterFilter::All, 1),
    ];
    for (pick, count) in picks {
        assert_eq!(store.requeue(&pick).await.expect("revived"), count, "{pick:?}");
    }
    assert!(store.dead_letters(0, 9).await.expect("read").is_empty());
    let counts = store.job_counts().await.expect("counted");
    assert_eq!((counts.queued, counts.dead), (3, 0));
    assert_eq!(store.audit().await.expect("counted"), 0);
    let again = claim(store, 9).await;
    assert!(again.iter().all(|job| job.attempt == 1 && job.retries == 0));
    assert_eq!(again[0].payload, again[0].id.to_string());
    settle_all(store, &again, done()).await;
    assert_eq!(store.audit().await.expect("counted"), 0);
}

pub(crate) async fn purged_letters_stay_counted_as_failed(world: &impl StoreWorld) {
    let store = world.store();
    store.submit(batch("act", jobs("a", 2))).await.expect("taken");
    let taken = claim(store, 9).await;
    settle_all(store, &taken, failed()).await;
    let pick = DeadLetterFilter::Action(name("act"));
    assert_eq!(store.purge(&pick).await.expect("purged"), 2);
    assert!(store.dead_letters(0, 9).await.expect("read").is_empty());
    let counts = store.job_counts().await.expect("counted");
    assert_eq!((counts.dead, counts.failed, counts.submitted()), (0, 2, 2));
    let report = store.action(&name("act")).await.expect("read");
    assert_eq!(report.expect("known").counts.failed, 2);
    assert_eq!(store.audit().await.expect("counted"), 0);
}

// Its action was completed and notified: it stays so, and counts the job as done in the end.
pub(crate) async fn a_requeued_job_counts_in_its_completed_action(world: &impl StoreWorld) {
    let store = world.store();
    store.submit(last("act", jobs("a", 1))).await.expect("taken");
    let job = claim_one(store).await;
    settle(store, &job, failed()).await;
    store.mark_notified(&name("act")).await.expect("notified");
    let revived = store.requeue(&DeadLetterFilter::All).await.expect("revived");
    assert_eq!(revived, 1);
    let report = store.action(&name("act")).await.expect("read").expect("known");
    assert_eq!((report.stage, report.is_over()), (ActionStage::Completed, false));
    assert_eq!(
        (report.counts.dead, report.counts.failed, report.counts.queued),
        (0, 0, 1)
    );
    // Meanwhile the name is not free.
    let taken = store.submit(batch("act", jobs("b", 1))).await.expect("answered");
    assert_eq!(taken.receipts, [SubmitReceipt::Closed]);
    let job = claim_one(store).await;
    assert_eq!(settle(store, &job, done()).await, SettleResult::Done);
    let report = store.action(&name("act")).await.expect("read").expect("known");
    assert_eq!((report.stage, report.is_over()), (ActionStage::Completed, true));
    assert_eq!((report.counts.done, report.counts.failed), (1, 0));
    let outcomes = store.outcomes(&name("act"), 0, 9).await.expect("read");
    let ends: Vec<_> = outcomes.iter().map(|one| one.ended).collect();
    assert_eq!(ends, [JobStatus::Done]);
    assert!(
        store
            .take_finished(FinishedQuery::peek(9))
            .await
            .expect("read")
            .is_empty()
    );
    assert_eq!(store.audit().await.expect("counted"), 0);
    store
        .submit(batch("act", jobs("b", 1)))
        .await
        .expect("the name is free again");
    assert_eq!(
        store
            .action(&name("act"))
            .await
            .expect("read")
            .expect("known")
            .counts
            .done,
        0
    );
}

// Closed, and its one job over: its end is notified after the requeued job.
pub(crate) async fn a_requeued_job_delays_the_end_of_its_action(world: &impl StoreWorld) {
    let store = world.store();
    store.submit(last("act", jobs("a", 1))).await.expect("taken");
    let job = claim_one(store).await;
    settle(store, &job, failed()).await;
    let finished = async || store.take_finished(FinishedQuery::peek(9)).await.expect("read");
    assert_eq!(finished().await.len(), 1);
    assert_eq!(store.requeue(&DeadLetterFilter::All).await.expect("revived"), 1);
    assert!(finished().await.is_empty(), "a job waits");
    let job = claim_one(store).await;
    settle(store, &job, done()).await;
    let ripe = finished().await;
    assert_eq!(ripe.len(), 1, "its end is still to be notified");
    assert_eq!((ripe[0].counts.done, ripe[0].counts.failed), (1, 0));
    store.mark_notified(&name("act")).await.expect("notified");
    assert_eq!(store.audit().await.expect("counted"), 0);
}

// Of two jobs one failed and the other waits: the action is open, and the requeued job is part of
// it.
pub(crate) async fn a_requeued_job_counts_in_an_open_action(world: &impl StoreWorld) {
    let store = world.store();
    let last = last("act", jobs("a", 2));
    store.submit(last).await.expect("taken");
    let job = claim_one(store).await;
    settle(store, &job, failed()).await;
    assert_eq!(store.requeue(&DeadLetterFilter::All).await.expect("revived"), 1);
    let again = claim(store, 9).await;
    assert_eq!(again.len(), 2);
    settle_all(store, &again, done()).await;
    let report = store.action(&name("act")).await.expect("read");
    let counts = report.expect("known").counts;
    assert_eq!((counts.done, counts.dead, counts.failed), (2, 0, 0));
    assert_eq!(
        store.take_finished(FinishedQuery::peek(9)).await.expect("read").len(),
        1
    );
    assert_eq!(store.audit().await.expect("counted"), 0);
}

// Five fail and three of them are requeued, one in vain: pages of one, so that some would hold only
// forgotten outcomes.
pub(crate) async fn a_requeued_job_has_one_outcome_in_an_open_action(world: &impl StoreWorld) {
    let store = world.store();
    store.submit(batch("act", jobs("a", 5))).await.expect("taken");
    let taken = claim(store, 9).await;
    settle_all(store, &taken, failed()).await;
    let again = ["a-0", "a-1", "a-3"].map(name);
    let pick = DeadLetterFilter::Jobs(again.to_vec());
    assert_eq!(store.requeue(&pick).await.expect("revived"), 3);
    let outcomes = async || {
        let (mut all, mut after) = (Vec::new(), 0);
        while let Some(one) = store.outcomes(&name("act"), after, 1).await.expect("read").pop() {
            assert!(one.place > after, "{one:?}");
            after = one.place;
            all.push((one.id.to_string(), one.ended));
        }
        all
    };
    let of = |id: &str, ended| (id.to_owned(), ended);
    let left = [of("a-2", JobStatus::Failed), of("a-4", JobStatus::Failed)];
    assert_eq!(outcomes().await, left);
    let taken = claim(store, 9).await;
    settle_all(store, &taken[..2], done()).await;
    settle(store, &taken[2], failed()).await;
    let later = [
        of("a-0", JobStatus::Done),
        of("a-1", JobStatus::Done),
        of("a-3", JobStatus::Failed),
    ];
    assert_eq!(outcomes().await, [&left[..], &later].concat());
    // After all jobs are over, too.
    store.close(&name("act")).await.expect("closed");
    assert_eq!(store.requeue(&DeadLetterFilter::All).await.expect("revived"), 3);
    assert_eq!(outcomes().await, later[..2]);
}

pub(crate) async fn statistics_are_reset_only_without_deferred_jobs(world: &impl StoreWorld) {
    let store = world.store();
    submit(store, jobs("a", 2)).await;
    let taken = claim(store, 2).await;
    settle(store, &taken[0], done()).await;
    let hour = JobEnd::Deferred(Defer::Fixed(Duration::from_hours(1)));
    settle(store, &taken[1], hour).await;
    let refused = store.reset_congestion(&name("a")).await.expect_err("one is deferred");
    assert!(refused.is_refused());
    store.release_deferred(&name("a"), 9).await.expect("released");
    store.reset_congestion(&name("a")).await.expect("reset");
    let report = store.tenant(&name("a")).await.expect("read");
    let report = report.expect("known");
    assert_eq!((report.counts.done, report.counts.queued), (0, 1));
    assert_eq!((report.last_backoff, report.last_update), (Duration::ZERO, None));
    assert_eq!(store.job_counts().await.expect("counted").done, 1, "all of all");
}

// Samples are kept for 10 units: of three, at 0, 6 and 12, the last two remain.
pub(crate) async fn samples_record_the_congestion_of_a_tenant(world: &impl StoreWorld) {
    let store = world.store();
    let unit = world.unit();
    submit(store, jobs("a", 2)).await;
    let sample = |tenant| CongestionRecord {
        tenant: name(tenant),
        non_ready: 7,
        speed: 10,
        backoff: Duration::from_hours(1),
    };
    for _ in 0..3 {
        let samples = vec![sample("a"), sample("b")];
        store.record_congestion(samples, unit * 10).await.expect("remembered");
        world.advance(unit * 6).await;
    }
    let history = store.congestion_history(&name("a"), 9).await.expect("read");
    assert_eq!(history.len(), 2);
    assert!(history[0].at < history[1].at, "the oldest first");
    let seen = (history[0].non_ready, history[0].speed, history[0].backoff);
    assert_eq!(seen, (7, 10, Duration::from_hours(1)));
    let last = store.congestion_history(&name("a"), 1).await.expect("read");
    assert_eq!(last, history[1..]);
    assert!(store.congestion_history(&name("b"), 9).await.expect("read").is_empty());
}

// Of two callers in each of four intervals, one takes the samples.
pub(crate) async fn one_caller_takes_the_samples_of_an_interval(world: &impl StoreWorld) {
    let store = world.store();
    let every = world.unit() * 10;
    let mut taken = 0;
    for _ in 0..4 {
        for _ in 0..2 {
            taken += u32::from(store.begin_sampling(every).await.expect("asked"));
        }
        world.advance(every).await;
    }
    assert_eq!(taken, 4);
}

// Two tenants wait in one lane, and one of them in another too.
pub(crate) async fn a_tenant_reports_its_lanes_and_a_lane_its_tenants(world: &impl StoreWorld) {
    let store = world.store();
    let post = NewJob {
        lane: name("post"),
        ..job("a", "post")
    };
    submit(store, [jobs("a", 2), jobs("b", 1), vec![post]].concat()).await;
    let lanes = async |tenant| {
        let report = store.tenant(&name(tenant)).await.expect("read");
        let backlogs = report.expect("known").lanes.into_iter();
        let mut lanes: Vec<_> = backlogs.map(|backlog| (backlog.lane, backlog.jobs)).collect();
        lanes.sort();
        lanes
    };
    assert_eq!(lanes("a").await, [(name("mail"), 2), (name("post"), 1)]);
    assert_eq!(lanes("b").await, [(name("mail"), 1)]);
    let mut loads = store.lane_loads().await.expect("read");
    loads.sort_by(|one, other| one.lane.cmp(&other.lane));
    let loads: Vec<_> = loads.iter().map(|load| (load.lane.as_str(), load.tenants)).collect();
    assert_eq!(loads, [("mail", 2), ("post", 1)]);
}

// The action is kept for 5 units after its end.
pub(crate) async fn garbage_collection_removes_old_data(world: &impl StoreWorld) {
    let store = world.store();
    let unit = world.unit();
    let mut spec = outflow_store::ActionSpec::new(name("act"));
    spec.keep = unit * 5;
    store.open(spec).await.expect("open");
    let last = last("act", jobs("a", 2));
    store.submit(last).await.expect("taken");
    let taken = claim(store, 9).await;
    let before = world.wall_time();
    settle(store, &taken[0], done()).await;
    settle(store, &taken[1], failed()).await;
    store.mark_notified(&name("act")).await.expect("notified");
    store.collect_garbage(before).await.expect("tidied");
    assert!(store.action(&name("act")).await.expect("read").is_some());
    assert_eq!(store.dead_letters(0, 9).await.expect("read").len(), 1);
    world.advance(unit * 10).await;
    let mut gone = 0;
    for _ in 0..5 {
        gone += store.collect_garbage(world.wall_time()).await.expect("tidied");
    }
    assert!(gone >= 4, "{gone}: an action, two outcomes, a dead letter");
    assert_eq!(store.action(&name("act")).await.expect("read"), None);
    assert!(store.dead_letters(0, 9).await.expect("read").is_empty());
    assert_eq!(store.job_counts().await.expect("counted").failed, 1);
    assert_eq!(store.audit().await.expect("counted"), 0);
}
