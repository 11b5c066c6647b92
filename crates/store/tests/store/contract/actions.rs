//! Laws of actions.

use std::time::Duration;

use outflow_core::{Cost, Priority, WallTime};
use outflow_store::{
    ActionReport, ActionSpec, ActionStage, ActionStore, AllowAll, ControlScope, DeadLetterFilter, DeadLetterStore,
    FinishedQuery, JobEnd, JobQueue, JobStatus, JobStore, Name, PageRequest, StoreControl, StoredResult, SubmitReceipt,
    TenantStore,
};

use super::{
    StoreWorld, batch, claim, claim_one, claim_request_as, done, ids, job, jobs, last, name, settle, settle_all, submit,
};

async fn report(store: &impl JobStore, action: &str) -> ActionReport {
    let report = store.action(&name(action)).await.expect("read");
    report.expect("known")
}

async fn stage(store: &impl JobStore, action: &str) -> ActionStage {
    report(store, action).await.stage
}

async fn finished(store: &impl JobStore) -> Vec<String> {
    let finished = store.take_finished(FinishedQuery::peek(9)).await.expect("read");
    finished.iter().map(|of| of.spec.id.to_string()).collect()
}

pub(crate) async fn an_action_moves_through_its_stages(world: &impl StoreWorld) {
    let store = world.store();
    let act = name("act");
    store.open(ActionSpec::new(act.clone())).await.expect("open");
    assert_eq!(stage(store, "act").await, ActionStage::Created);
    store.submit(batch("act", jobs("a", 2))).await.expect("taken");
    assert_eq!(stage(store, "act").await, ActionStage::Created);
    store.close(&act).await.expect("closed");
    assert_eq!(stage(store, "act").await, ActionStage::Dispatched);
    let first = claim_one(store).await;
    let running = report(store, "act").await;
    assert_eq!(running.stage, ActionStage::Running);
    assert!(running.started.is_some() && running.ended.is_none());
    settle(store, &first, done()).await;
    assert_eq!(stage(store, "act").await, ActionStage::Running);
    let second = claim_one(store).await;
    settle(store, &second, done()).await;
    let over = report(store, "act").await;
    assert_eq!(over.stage, ActionStage::Aggregating);
    assert!(over.ended.is_some());
    store.mark_notified(&act).await.expect("notified");
    let over = report(store, "act").await;
    assert_eq!((over.stage, over.counts.done), (ActionStage::Completed, 2));
}

pub(crate) async fn an_action_ends_only_after_it_was_closed(world: &impl StoreWorld) {
    let store = world.store();
    store.submit(batch("act", jobs("a", 1))).await.expect("taken");
    let job = claim_one(store).await;
    settle(store, &job, done()).await;
    assert_eq!(stage(store, "act").await, ActionStage::Running);
    assert!(finished(store).await.is_empty());
    assert!(store.mark_notified(&name("act")).await.is_err());
    store.close(&name("act")).await.expect("closed");
    assert_eq!(finished(store).await, ["act"]);
}

pub(crate) async fn a_finished_action_is_returned_until_notified(world: &impl StoreWorld) {
    let store = world.store();
    let last = last("act", jobs("a", 1));
    store.submit(last).await.expect("taken");
    assert!(finished(store).await.is_empty(), "a job waits");
    let job = claim_one(store).await;
    assert!(finished(store).await.is_empty(), "a job is in flight");
    settle(store, &job, done()).await;
    assert_eq!(finished(store).await, ["act"]);
    assert_eq!(finished(store).await, ["act"], "it is not notified");
    for _ in 0..2 {
        store.mark_notified(&name("act")).await.expect("notified");
        assert!(finished(store).await.is_empty());
    }
}

// A lease of 10 units: renewed at 6, so at 12 no other caller gets the end, and at 20 any caller
// does.
pub(crate) async fn a_finished_action_is_leased_to_one_caller(world: &impl StoreWorld) {
    let store = world.store();
    let unit = world.unit();
    for act in ["act", "other"] {
        let taken = store.submit(last(act, jobs(act, 1))).await;
        taken.expect("taken");
        let job = claim_one(store).await;
        settle(store, &job, done()).await;
    }
    let take = async |most, notifying: &[Name]| {
        let lease = unit * 10;
        let request = FinishedQuery {
            max: most,
            lease,
            notifying,
        };
        let taken = store.take_finished(request).await.expect("read");
        let names = taken.iter().map(|of| of.spec.id.clone());
        names.collect::<Vec<Name>>()
    };
    let first = take(1, &[]).await;
    let second = take(9, &[]).await;
    assert_eq!((first.len(), second.len()), (1, 1), "one for each");
    assert_ne!(first, second);
    assert!(take(9, &[]).await.is_empty(), "both are leased");
    world.advance(unit * 6).await;
    assert!(take(9, &first).await.is_empty(), "leased for longer");
    world.advance(unit * 6).await;
    assert_eq!(take(9, &first).await, second, "its holder has died");
    store.mark_notified(&first[0]).await.expect("notified");
    assert!(take(9, &first).await.is_empty());
    world.advance(unit * 12).await;
    assert_eq!(take(9, &first).await, second, "and died again");
}

/// Opens an action that fails after ten units without progress.
async fn open_for_ten_units(world: &impl StoreWorld, action: &str) {
    let spec = ActionSpec {
        timeout: world.unit() * 10,
        ..ActionSpec::new(name(action))
    };
    world.store().open(spec).await.expect("open");
}

// 10 units: by then one job is in flight and one has not started.
pub(crate) async fn an_action_past_its_timeout_fails_and_cancels_the_rest(world: &impl StoreWorld) {
    let store = world.store();
    let unit = world.unit();
    open_for_ten_units(world, "act").await;
    store.submit(batch("act", jobs("a", 2))).await.expect("taken");
    submit(store, jobs("b", 1)).await;
    let running = claim_one(store).await;
    world.advance(unit * 5).await;
    assert!(finished(store).await.is_empty());
    world.advance(unit * 10).await;
    assert!(finished(store).await.is_empty(), "a job is in flight");
    let failed = report(store, "act").await;
    assert_eq!(failed.stage, ActionStage::Failed);
    assert_eq!((failed.counts.cancelled, failed.counts.in_flight), (1, 1));
    assert!(!failed.is_over(), "a job is in flight");
    assert!(store.mark_notified(&name("act")).await.is_err(), "too early");
    assert_eq!(ids(&claim(store, 9).await), ["b-0"]);
    settle(store, &running, done()).await;
    assert_eq!(report(store, "act").await.counts.done, 1);
    assert!(report(store, "act").await.is_over());
    assert_eq!(finished(store).await, ["act"]);
    store.mark_notified(&name("act")).await.expect("notified");
    assert!(finished(store).await.is_empty());
    assert_eq!(stage(store, "act").await, ActionStage::Failed);
}

// 10 units: a job ends at 8, so that the action fails at 18 and not at 10. The last job says why it was cancelled.
pub(crate) async fn an_action_times_out_after_its_last_progress(world: &impl StoreWorld) {
    let store = world.store();
    let unit = world.unit();
    open_for_ten_units(world, "act").await;
    let opened = report(store, "act").await;
    assert_eq!(
        (opened.progressed, opened.times_out()),
        (opened.opened, None),
        "no job is open"
    );
    store.submit(batch("act", jobs("a", 2))).await.expect("taken");
    let first = claim_one(store).await;
    let second = claim_one(store).await;
    let failed = JobEnd::Retry {
        after: unit * 100,
        message: "503 Service Unavailable".to_owned(),
        result: None,
    };
    settle(store, &second, failed).await;
    world.advance(unit * 8).await;
    settle(store, &first, done()).await;
    assert!(finished(store).await.is_empty());
    let progress = report(store, "act").await;
    assert!(progress.progressed > progress.opened, "{progress:?}");
    assert_eq!(
        progress.times_out(),
        Some(progress.progressed.saturating_add(unit * 10))
    );
    world.advance(unit * 5).await;
    assert!(finished(store).await.is_empty());
    assert_eq!(stage(store, "act").await, ActionStage::Running, "it made progress at 8");
    world.advance(unit * 7).await;
    assert_eq!(finished(store).await, ["act"]);
    let failed = report(store, "act").await;
    assert_eq!((failed.stage, failed.counts.cancelled), (ActionStage::Failed, 1));
    assert_eq!(failed.times_out(), None);
    let outcomes = store.outcomes(&name("act"), 0, 9).await.expect("read");
    assert_eq!(
        (outcomes[1].ended, outcomes[0].error.as_ref()),
        (JobStatus::Cancelled, None)
    );
    let reason = outcomes[1].error.as_deref().expect("a reason");
    assert!(
        reason.contains("no progress for") && reason.contains("timeout"),
        "{reason}"
    );
    assert!(reason.ends_with("; last error: 503 Service Unavailable"), "{reason}");
}

// 10 units, and a pause of 25: the timeout counts from the resumption.
pub(crate) async fn a_paused_action_does_not_time_out(world: &impl StoreWorld) {
    let store = world.store();
    let unit = world.unit();
    open_for_ten_units(world, "act").await;
    store.submit(batch("act", jobs("a", 1))).await.expect("taken");
    let scope = ControlScope::Action(name("act"));
    store.pause(&scope).await.expect("paused");
    for _ in 0..5 {
        world.advance(unit * 5).await;
        assert!(finished(store).await.is_empty());
    }
    store.resume(&scope).await.expect("resumed");
    assert!(finished(store).await.is_empty());
    assert_eq!(report(store, "act").await.counts.queued, 1);
    world.advance(unit * 25).await;
    assert_eq!(finished(store).await, ["act"], "it fails without a pause");
}

// As with a pause of the action itself. The other tenant has no job of it, and its pause stops nothing.
pub(crate) async fn a_paused_tenant_stops_the_timeout(world: &impl StoreWorld) {
    let store = world.store();
    let unit = world.unit();
    open_for_ten_units(world, "act").await;
    store.submit(batch("act", jobs("a", 1))).await.expect("taken");
    submit(store, jobs("b", 1)).await;
    let [own, other] = ["a", "b"].map(|tenant| ControlScope::Tenant(name(tenant)));
    store.pause(&own).await.expect("paused");
    for _ in 0..5 {
        world.advance(unit * 5).await;
        assert!(finished(store).await.is_empty());
    }
    assert_eq!(stage(store, "act").await, ActionStage::Created, "its tenant is paused");
    store.resume(&own).await.expect("resumed");
    store.pause(&other).await.expect("paused");
    world.advance(unit * 25).await;
    assert_eq!(finished(store).await, ["act"], "it fails without a pause");
}

// Of three jobs one is done. A cancellation or a timeout of 10 units ends the others; the file is submitted again.
pub(crate) async fn a_cancelled_job_can_be_submitted_again(world: &impl StoreWorld) {
    let store = world.store();
    let unit = world.unit();
    for (tenant, action) in [("a", "cancelled"), ("b", "late")] {
        open_for_ten_units(world, action).await;
        store.submit(batch(action, jobs(tenant, 3))).await.expect("taken");
        let first = claim_one(store).await;
        settle(store, &first, done()).await;
        assert!(!finished(store).await.contains(&action.to_owned()), "{action}");
        if action == "cancelled" {
            let scope = ControlScope::Action(name(action));
            assert_eq!(store.cancel(&scope).await.expect("cancelled"), 2);
        } else {
            world.advance(unit * 15).await;
        }
        assert!(finished(store).await.contains(&action.to_owned()), "{action}");
        let taken = store.submit(batch("again", jobs(tenant, 3))).await.expect("taken");
        let receipts = taken.receipts;
        let accepted = receipts.iter().map(|of| matches!(of, SubmitReceipt::Accepted { .. }));
        assert_eq!(
            accepted.collect::<Vec<_>>(),
            [false, true, true],
            "{action}: {receipts:?}"
        );
        settle_all(store, &claim(store, 9).await, done()).await;
    }
}

// The worker dies: its claim is over when it is reaped, and not before.
pub(crate) async fn an_action_ends_after_the_claims_of_a_dead_worker(world: &impl StoreWorld) {
    let store = world.store();
    let unit = world.unit();
    open_for_ten_units(world, "act").await;
    store.submit(batch("act", jobs("a", 1))).await.expect("taken");
    let request = claim_request_as("dying", 1, unit * 20);
    let taken = store.claim(request, &mut AllowAll).await.expect("claimed");
    assert_eq!(taken.jobs.len(), 1);
    world.advance(unit * 15).await;
    assert!(finished(store).await.is_empty(), "it may still be in flight");
    assert_eq!(stage(store, "act").await, ActionStage::Failed);
    world.advance(unit * 10).await;
    store.reap(9, 3).await.expect("reaped");
    assert_eq!(finished(store).await, ["act"]);
    assert_eq!(report(store, "act").await.counts.cancelled, 1);
}

// Of three jobs one is in flight: it is done before the end is notified.
pub(crate) async fn a_cancelled_action_finishes_without_open_jobs(world: &impl StoreWorld) {
    let store = world.store();
    let act = name("act");
    store.submit(batch("act", jobs("a", 3))).await.expect("taken");
    let running = claim_one(store).await;
    let scope = ControlScope::Action(act.clone());
    assert_eq!(store.cancel(&scope).await.expect("cancelled"), 2);
    assert!(finished(store).await.is_empty(), "a job is in flight");
    assert!(store.mark_notified(&act).await.is_err(), "too early");
    settle(store, &running, done()).await;
    assert_eq!(finished(store).await, ["act"]);
    let over = report(store, "act").await;
    assert_eq!((over.stage, over.is_over()), (ActionStage::Cancelled, true));
    assert_eq!((over.counts.done, over.counts.cancelled), (1, 2));
    store.mark_notified(&act).await.expect("notified");
    assert!(finished(store).await.is_empty());
    assert_eq!(stage(store, "act").await, ActionStage::Cancelled);
}

// Failed jobs leave dead letters that change the counts of a notified action.
pub(crate) async fn a_notified_action_stays_notified_after_requeues_and_purges(world: &impl StoreWorld) {
    let store = world.store();
    let act = name("act");
    store.submit(batch("act", jobs("a", 3))).await.expect("taken");
    let two = claim(store, 2).await;
    let failed = JobEnd::Failed {
        message: "no".to_owned(),
        result: None,
    };
    settle_all(store, &two, failed).await;
    let scope = ControlScope::Action(act.clone());
    assert_eq!(store.cancel(&scope).await.expect("cancelled"), 1);
    assert_eq!(finished(store).await, ["act"]);
    store.mark_notified(&act).await.expect("notified");
    let one = DeadLetterFilter::Jobs(vec![two[0].id.clone()]);
    assert_eq!(store.purge(&one).await.expect("purged"), 1);
    assert_eq!(store.requeue(&DeadLetterFilter::All).await.expect("revived"), 1);
    assert!(finished(store).await.is_empty());
    assert_eq!(store.cancel(&scope).await.expect("nothing left"), 0);
    assert!(finished(store).await.is_empty());
}

// Its one job is done, and the end is not notified yet.
pub(crate) async fn a_cancellation_does_not_change_a_finished_action(world: &impl StoreWorld) {
    let store = world.store();
    let act = name("act");
    store.submit(last("act", jobs("a", 1))).await.expect("taken");
    let job = claim_one(store).await;
    settle(store, &job, done()).await;
    let before = report(store, "act").await;
    assert_eq!(before.stage, ActionStage::Aggregating);
    let scope = ControlScope::Action(act.clone());
    assert_eq!(store.cancel(&scope).await.expect("nothing left"), 0);
    assert_eq!(report(store, "act").await, before);
    assert_eq!(finished(store).await, ["act"]);
    store.mark_notified(&act).await.expect("notified");
    assert_eq!(store.cancel(&scope).await.expect("nothing left"), 0);
    assert_eq!(stage(store, "act").await, ActionStage::Completed);
}

pub(crate) async fn a_finished_action_can_be_opened_again(world: &impl StoreWorld) {
    let store = world.store();
    let act = name("act");
    let last = |tenant| last("act", jobs(tenant, 1));
    store.submit(last("a")).await.expect("taken");
    let job = claim_one(store).await;
    settle(store, &job, done()).await;
    store.mark_notified(&act).await.expect("notified");
    store.open(ActionSpec::new(act.clone())).await.expect("open");
    let reopened = report(store, "act").await;
    assert_eq!((reopened.stage, reopened.counts.submitted()), (ActionStage::Created, 0));
    assert!(store.outcomes(&act, 0, 9).await.expect("read").is_empty());
    store.submit(last("b")).await.expect("taken");
    assert_eq!(report(store, "act").await.counts.queued, 1);
}

pub(crate) async fn outcomes_come_in_order_with_their_results(world: &impl StoreWorld) {
    let store = world.store();
    store.submit(batch("act", jobs("a", 3))).await.expect("taken");
    submit(store, jobs("b", 1)).await;
    let jobs = claim(store, 9).await;
    let kept = JobEnd::Done {
        took: Duration::ZERO,
        result: Some(StoredResult {
            status: 201,
            body: "made".into(),
            keep: Duration::from_hours(1),
        }),
    };
    for job in &jobs {
        let end = match job.id.as_str() {
            "a-1" => kept.clone(),
            "a-2" => JobEnd::Failed {
                message: "no".to_owned(),
                result: None,
            },
            _ => done(),
        };
        settle(store, job, end).await;
    }
    let read = |after, most| store.outcomes(&ACT, after, most);
    let first = read(0, 2).await.expect("read");
    assert_eq!(first.len(), 2);
    let mut all = first.clone();
    all.extend(read(first[1].place, 9).await.expect("read"));
    let settled: Vec<&str> = jobs
        .iter()
        .map(|job| job.id.as_str())
        .filter(|id| id.starts_with('a'))
        .collect();
    let ids: Vec<&str> = all.iter().map(|outcome| outcome.id.as_str()).collect();
    assert_eq!(ids, settled);
    let of = |id: &str| all.iter().find(|outcome| outcome.id == name(id));
    let made = of("a-1").expect("read");
    assert_eq!((made.ended, made.status), (JobStatus::Done, Some(201)));
    assert_eq!(made.body.as_deref(), Some(b"made".as_slice()));
    assert_eq!((made.attempts, &made.tenant), (1, &name("a")));
    assert_eq!(made.error, None);
    let lost = of("a-2").expect("read");
    assert_eq!((lost.ended, lost.error.as_deref()), (JobStatus::Failed, Some("no")));
}

static ACT: std::sync::LazyLock<Name> = std::sync::LazyLock::new(|| name("act"));

pub(crate) async fn an_action_counts_its_own_jobs_only(world: &impl StoreWorld) {
    let store = world.store();
    store.submit(batch("one", jobs("a", 3))).await.expect("taken");
    store.submit(batch("two", jobs("b", 2))).await.expect("taken");
    submit(store, jobs("c", 1)).await;
    let jobs = claim(store, 9).await;
    settle_all(store, &jobs[..3], done()).await;
    settle_all(store, &jobs[3..], JobEnd::Returned).await;
    let one = report(store, "one").await.counts;
    let two = report(store, "two").await.counts;
    assert_eq!((one.submitted(), two.submitted()), (3, 2));
    let all = store.job_counts().await.expect("counted");
    assert_eq!((all.done, all.queued), (3, 3));
    let third = store.tenant(&name("c")).await.expect("read").expect("known");
    assert_eq!(one.done + two.done + third.counts.done, 3);
}

pub(crate) async fn closing_an_unknown_action_is_refused(world: &impl StoreWorld) {
    let error = world.store().close(&name("none")).await;
    assert!(error.expect_err("it is unknown").is_refused());
    let none = world.store().action(&name("none")).await;
    assert_eq!(none.expect("read"), None);
}

pub(crate) async fn actions_are_listed_by_name(world: &impl StoreWorld) {
    let store = world.store();
    for text in ["c", "a", "b"] {
        store.open(ActionSpec::new(name(text))).await.expect("open");
    }
    let page = |after: Option<&str>, most| PageRequest {
        after: after.map(name),
        max: most,
    };
    let list = async |page| {
        let actions = store.actions(page).await.expect("read");
        let names = actions.iter().map(|of| of.spec.id.to_string());
        names.collect::<Vec<String>>()
    };
    assert_eq!(list(page(None, 2)).await, ["a", "b"]);
    assert_eq!(list(page(Some("b"), 0)).await, ["c"]);
}

// Seven jobs of cost 3 for one tenant, four of cost 1 for another; a third tenant's are another
// action's. One of the seven is in flight and one of the four may start in 2096.
pub(crate) async fn remaining_work_is_listed_by_lane_and_tenant(world: &impl StoreWorld) {
    let store = world.store();
    let far = WallTime::from_unix_secs(4_000_000_000);
    let mut dear = jobs("a", 7);
    for job in &mut dear {
        job.cost = Cost::new(3);
    }
    let mut cheap = jobs("b", 4);
    cheap[3].not_before = Some(far);
    let mine = batch("act", [dear, cheap].concat());
    let lane = mine.jobs[0].lane.clone();
    store.submit(mine).await.expect("taken");
    assert_eq!(claim_one(store).await.tenant, name("a"));
    let other = batch("other", jobs("c", 50));
    store.submit(other).await.expect("taken");
    let left = store.remaining(&name("act")).await.expect("read");
    assert_eq!(left.latest, Some(far));
    let at = |tenant: &str| {
        let mut its = left.places.iter().filter(|at| at.tenant == name(tenant));
        its.next().map(|at| (at.lane.clone(), at.jobs, at.units))
    };
    // A store that does not know the action of the last job rounds up.
    let (at_a, at_b) = (at("a").expect("read"), at("b").expect("read"));
    assert!((6..=7).contains(&at_a.1) && at_a.2 >= 18, "{left:?}");
    assert!((4..=5).contains(&at_b.1) && at_b.2 >= 4, "{left:?}");
    assert_eq!((&at_a.0, &at_b.0), (&lane, &lane));
    assert_eq!(at("c"), None, "another action's");
    let nothing = store.remaining(&name("unknown")).await.expect("read");
    assert_eq!(nothing, outflow_store::RemainingWork::default());
}

// Three actions of one tenant, whose jobs go in the order of their submission.
pub(crate) async fn remaining_work_counts_the_jobs_before_the_last_one(world: &impl StoreWorld) {
    let store = world.store();
    for (action, count) in [("first", 300), ("second", 500), ("third", 200)] {
        let its = (0..count).map(|number| job("a", &format!("{action}-{number}")));
        store.submit(batch(action, its.collect())).await.expect("taken");
    }
    for (action, until) in [("first", 300), ("second", 800), ("third", 1_000)] {
        let left = store.remaining(&name(action)).await.expect("read");
        let found: Vec<_> = left.places.iter().map(|place| place.until_last).collect();
        assert_eq!(found, [until], "{action}: {left:?}");
    }
}

// A small action before and between large ones, and one that is urgent: of 5 jobs 4 are urgent while both wait.
pub(crate) async fn remaining_work_knows_small_and_urgent_actions(world: &impl StoreWorld) {
    let store = world.store();
    let normal = [("small", 30), ("big", 3_000), ("between", 40), ("last", 3_000)];
    for (action, count) in normal.into_iter().chain([("urgent", 800)]) {
        let its = (0..count).map(|number| job("a", &format!("{action}-{number}")));
        let mut its: Vec<_> = its.collect();
        if action == "urgent" {
            for job in &mut its {
                job.priority = Priority::High;
            }
        }
        store.submit(batch(action, its)).await.expect("taken");
    }
    for (action, until) in [
        ("small", 150),
        ("big", 3_830),
        ("between", 3_870),
        ("last", 6_870),
        ("urgent", 1_000),
    ] {
        let left = store.remaining(&name(action)).await.expect("read");
        let found: Vec<_> = left.places.iter().map(|place| place.until_last).collect();
        assert_eq!(found, [until], "{action}: {left:?}");
    }
}

// The last job of an action waits for its retry.
pub(crate) async fn remaining_work_knows_the_end_of_a_retry(world: &impl StoreWorld) {
    let (store, delay) = (world.store(), Duration::from_mins(10));
    store.submit(batch("act", jobs("a", 1))).await.expect("taken");
    let claimed = claim_one(store).await;
    let failed = JobEnd::Retry {
        after: delay,
        message: "503 Service Unavailable".to_owned(),
        result: None,
    };
    let earliest = world.wall_time().saturating_add(delay);
    settle(store, &claimed, failed).await;
    let latest = world.wall_time().saturating_add(delay);
    let left = store.remaining(&name("act")).await.expect("read");
    let end = left.latest.expect("known");
    // A store may keep whole milliseconds.
    let error = Duration::from_millis(2);
    assert!(
        end.saturating_add(error) >= earliest && end <= latest.saturating_add(error),
        "{end:?}"
    );
    assert_eq!(left.places.iter().map(|place| place.jobs).sum::<u64>(), 1);
}
