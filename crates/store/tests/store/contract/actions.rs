//! Laws of actions.

use std::time::Duration;

use outflow_core::{Cost, WallTime};
use outflow_store::{
    ActionReport, ActionSpec, ActionStage, ActionStore, AllowAll, ControlScope, DeadLetterFilter,
    DeadLetterStore, FinishedQuery, JobEnd, JobQueue, JobStatus, JobStore, Name, PageRequest,
    StoreControl, StoredResult, TenantStore,
};

use super::{
    World, ask_as, batch, claim, claim_one, done, ids, jobs, last, name, settle, settle_all, submit,
};

async fn report(store: &impl JobStore, action: &str) -> ActionReport {
    let report = store.action(&name(action)).await.expect("read");
    report.expect("known")
}

async fn stage(store: &impl JobStore, action: &str) -> ActionStage {
    report(store, action).await.stage
}

async fn ripe(store: &impl JobStore) -> Vec<String> {
    let ripe = store
        .take_finished(FinishedQuery::peek(9))
        .await
        .expect("read");
    ripe.iter().map(|of| of.spec.id.to_string()).collect()
}

pub(crate) async fn an_action_moves_through_its_stages(world: &impl World) {
    let store = world.store();
    let act = name("act");
    store
        .open(ActionSpec::new(act.clone()))
        .await
        .expect("open");
    assert_eq!(stage(store, "act").await, ActionStage::Created);
    store
        .submit(batch("act", jobs("a", 2)))
        .await
        .expect("taken");
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
    store.mark_notified(&act).await.expect("told");
    let over = report(store, "act").await;
    assert_eq!((over.stage, over.tally.done), (ActionStage::Completed, 2));
}

pub(crate) async fn an_action_ends_only_after_it_was_closed(world: &impl World) {
    let store = world.store();
    store
        .submit(batch("act", jobs("a", 1)))
        .await
        .expect("taken");
    let job = claim_one(store).await;
    settle(store, &job, done()).await;
    assert_eq!(stage(store, "act").await, ActionStage::Running);
    assert!(ripe(store).await.is_empty());
    assert!(store.mark_notified(&name("act")).await.is_err());
    store.close(&name("act")).await.expect("closed");
    assert_eq!(ripe(store).await, ["act"]);
}

pub(crate) async fn an_end_is_ripe_until_it_was_told(world: &impl World) {
    let store = world.store();
    let last = last("act", jobs("a", 1));
    store.submit(last).await.expect("taken");
    assert!(ripe(store).await.is_empty(), "a job waits");
    let job = claim_one(store).await;
    assert!(ripe(store).await.is_empty(), "a job is under way");
    settle(store, &job, done()).await;
    assert_eq!(ripe(store).await, ["act"]);
    assert_eq!(ripe(store).await, ["act"], "nobody told it");
    for _ in 0..2 {
        store
            .mark_notified(&name("act"))
            .await
            .expect("told, once or twice");
        assert!(ripe(store).await.is_empty());
    }
}

// A lease of 10 units: renewed at 6, so at 12 no other caller gets the end, and at 20 any caller
// does.
pub(crate) async fn an_end_is_given_to_one_who_tells_it(world: &impl World) {
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
        let ask = FinishedQuery {
            most,
            lease,
            notifying,
        };
        let taken = store.take_finished(ask).await.expect("read");
        let names = taken.iter().map(|of| of.spec.id.clone());
        names.collect::<Vec<Name>>()
    };
    let first = take(1, &[]).await;
    let second = take(9, &[]).await;
    assert_eq!((first.len(), second.len()), (1, 1), "one for each");
    assert_ne!(first, second);
    assert!(take(9, &[]).await.is_empty(), "both are being told");
    world.pass(unit * 6).await;
    assert!(take(9, &first).await.is_empty(), "told for longer");
    world.pass(unit * 6).await;
    assert_eq!(take(9, &first).await, second, "its teller has died");
    store.mark_notified(&first[0]).await.expect("told");
    assert!(take(9, &first).await.is_empty());
    world.pass(unit * 12).await;
    assert_eq!(take(9, &first).await, second, "and died again");
}

// 10 units: by then one job is in flight and one has not started.
pub(crate) async fn an_action_that_takes_too_long_fails_and_cancels_the_rest(world: &impl World) {
    let store = world.store();
    let unit = world.unit();
    let spec = ActionSpec {
        timeout: unit * 10,
        ..ActionSpec::new(name("act"))
    };
    store.open(spec).await.expect("open");
    store
        .submit(batch("act", jobs("a", 2)))
        .await
        .expect("taken");
    submit(store, jobs("b", 1)).await;
    let running = claim_one(store).await;
    world.pass(unit * 5).await;
    assert!(ripe(store).await.is_empty());
    world.pass(unit * 10).await;
    assert!(ripe(store).await.is_empty(), "a job is under way");
    let failed = report(store, "act").await;
    assert_eq!(failed.stage, ActionStage::Failed);
    assert_eq!((failed.tally.cancelled, failed.tally.in_flight), (1, 1));
    assert!(!failed.is_over(), "a job is under way");
    assert!(
        store.mark_notified(&name("act")).await.is_err(),
        "too early"
    );
    assert_eq!(ids(&claim(store, 9).await), ["b-0"]);
    settle(store, &running, done()).await;
    assert_eq!(report(store, "act").await.tally.done, 1);
    assert!(report(store, "act").await.is_over());
    assert_eq!(ripe(store).await, ["act"]);
    store.mark_notified(&name("act")).await.expect("told");
    assert!(ripe(store).await.is_empty());
    assert_eq!(stage(store, "act").await, ActionStage::Failed);
}

// The worker dies: its claim is over when it is reaped, and not before.
pub(crate) async fn an_end_waits_for_what_a_dead_worker_had(world: &impl World) {
    let store = world.store();
    let unit = world.unit();
    let spec = ActionSpec {
        timeout: unit * 10,
        ..ActionSpec::new(name("act"))
    };
    store.open(spec).await.expect("open");
    store
        .submit(batch("act", jobs("a", 1)))
        .await
        .expect("taken");
    let ask = ask_as("dying", 1, unit * 20);
    let taken = store.claim(ask, &mut AllowAll).await.expect("claimed");
    assert_eq!(taken.jobs.len(), 1);
    world.pass(unit * 15).await;
    assert!(ripe(store).await.is_empty(), "it may still be under way");
    assert_eq!(stage(store, "act").await, ActionStage::Failed);
    world.pass(unit * 10).await;
    store.reap(9, 3).await.expect("reaped");
    assert_eq!(ripe(store).await, ["act"]);
    assert_eq!(report(store, "act").await.tally.cancelled, 1);
}

// Of three jobs one is in flight: it is done before the end is notified.
pub(crate) async fn a_cancelled_action_is_ripe_when_nothing_of_it_is_open(world: &impl World) {
    let store = world.store();
    let act = name("act");
    store
        .submit(batch("act", jobs("a", 3)))
        .await
        .expect("taken");
    let running = claim_one(store).await;
    let scope = ControlScope::Action(act.clone());
    assert_eq!(store.cancel(&scope).await.expect("cancelled"), 2);
    assert!(ripe(store).await.is_empty(), "a job is under way");
    assert!(store.mark_notified(&act).await.is_err(), "too early");
    settle(store, &running, done()).await;
    assert_eq!(ripe(store).await, ["act"]);
    let over = report(store, "act").await;
    assert_eq!((over.stage, over.is_over()), (ActionStage::Cancelled, true));
    assert_eq!((over.tally.done, over.tally.cancelled), (1, 2));
    store.mark_notified(&act).await.expect("told");
    assert!(ripe(store).await.is_empty());
    assert_eq!(stage(store, "act").await, ActionStage::Cancelled);
}

// Failed jobs leave dead letters that change the counts of a notified action.
pub(crate) async fn an_end_that_was_told_is_told_once_whatever_its_letters_do(world: &impl World) {
    let store = world.store();
    let act = name("act");
    store
        .submit(batch("act", jobs("a", 3)))
        .await
        .expect("taken");
    let two = claim(store, 2).await;
    let failed = JobEnd::Failed {
        words: "no".to_owned(),
        result: None,
    };
    settle_all(store, &two, failed).await;
    let scope = ControlScope::Action(act.clone());
    assert_eq!(store.cancel(&scope).await.expect("cancelled"), 1);
    assert_eq!(ripe(store).await, ["act"]);
    store.mark_notified(&act).await.expect("told");
    let one = DeadLetterFilter::Jobs(vec![two[0].id.clone()]);
    assert_eq!(store.purge(&one).await.expect("purged"), 1);
    assert_eq!(
        store
            .requeue(&DeadLetterFilter::All)
            .await
            .expect("revived"),
        1
    );
    assert!(ripe(store).await.is_empty());
    assert_eq!(store.cancel(&scope).await.expect("nothing left"), 0);
    assert!(ripe(store).await.is_empty());
}

// Its one job is done, and the end is not notified yet.
pub(crate) async fn a_cancellation_changes_no_end_that_is_to_be_told(world: &impl World) {
    let store = world.store();
    let act = name("act");
    store
        .submit(last("act", jobs("a", 1)))
        .await
        .expect("taken");
    let job = claim_one(store).await;
    settle(store, &job, done()).await;
    let before = report(store, "act").await;
    assert_eq!(before.stage, ActionStage::Aggregating);
    let scope = ControlScope::Action(act.clone());
    assert_eq!(store.cancel(&scope).await.expect("nothing left"), 0);
    assert_eq!(report(store, "act").await, before);
    assert_eq!(ripe(store).await, ["act"]);
    store.mark_notified(&act).await.expect("told");
    assert_eq!(store.cancel(&scope).await.expect("nothing left"), 0);
    assert_eq!(stage(store, "act").await, ActionStage::Completed);
}

pub(crate) async fn the_name_of_an_action_that_is_over_can_be_opened_again(world: &impl World) {
    let store = world.store();
    let act = name("act");
    let last = |tenant| last("act", jobs(tenant, 1));
    store.submit(last("a")).await.expect("taken");
    let job = claim_one(store).await;
    settle(store, &job, done()).await;
    store.mark_notified(&act).await.expect("told");
    store
        .open(ActionSpec::new(act.clone()))
        .await
        .expect("open");
    let anew = report(store, "act").await;
    assert_eq!(
        (anew.stage, anew.tally.submitted()),
        (ActionStage::Created, 0)
    );
    assert!(store.outcomes(&act, 0, 9).await.expect("read").is_empty());
    store.submit(last("b")).await.expect("taken");
    assert_eq!(report(store, "act").await.tally.queued, 1);
}

pub(crate) async fn outcomes_come_in_order_with_what_was_kept(world: &impl World) {
    let store = world.store();
    store
        .submit(batch("act", jobs("a", 3)))
        .await
        .expect("taken");
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
                words: "no".to_owned(),
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
    let told: Vec<&str> = all.iter().map(|outcome| outcome.id.as_str()).collect();
    assert_eq!(told, settled);
    let of = |id: &str| all.iter().find(|outcome| outcome.id == name(id));
    let made = of("a-1").expect("told");
    assert_eq!((made.ended, made.status), (JobStatus::Done, Some(201)));
    assert_eq!(made.body.as_deref(), Some(b"made".as_slice()));
    assert_eq!((made.attempts, &made.tenant), (1, &name("a")));
    assert_eq!(made.error, None);
    let lost = of("a-2").expect("told");
    assert_eq!(
        (lost.ended, lost.error.as_deref()),
        (JobStatus::Failed, Some("no"))
    );
}

static ACT: std::sync::LazyLock<Name> = std::sync::LazyLock::new(|| name("act"));

pub(crate) async fn an_action_counts_its_own_jobs_only(world: &impl World) {
    let store = world.store();
    store
        .submit(batch("one", jobs("a", 3)))
        .await
        .expect("taken");
    store
        .submit(batch("two", jobs("b", 2)))
        .await
        .expect("taken");
    submit(store, jobs("c", 1)).await;
    let jobs = claim(store, 9).await;
    settle_all(store, &jobs[..3], done()).await;
    settle_all(store, &jobs[3..], JobEnd::Returned).await;
    let one = report(store, "one").await.tally;
    let two = report(store, "two").await.tally;
    assert_eq!((one.submitted(), two.submitted()), (3, 2));
    let all = store.job_counts().await.expect("counted");
    assert_eq!((all.done, all.queued), (3, 3));
    let third = store
        .tenant(&name("c"))
        .await
        .expect("read")
        .expect("known");
    assert_eq!(one.done + two.done + third.tally.done, 3);
}

pub(crate) async fn closing_what_nobody_opened_is_refused(world: &impl World) {
    let error = world.store().close(&name("none")).await;
    assert!(error.expect_err("nobody opened it").is_refused());
    let none = world.store().action(&name("none")).await;
    assert_eq!(none.expect("read"), None);
}

pub(crate) async fn actions_are_listed_by_name(world: &impl World) {
    let store = world.store();
    for text in ["c", "a", "b"] {
        store.open(ActionSpec::new(name(text))).await.expect("open");
    }
    let page = |after: Option<&str>, most| PageRequest {
        after: after.map(name),
        most,
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
pub(crate) async fn what_an_action_has_left_is_told_by_place(world: &impl World) {
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
    let (at_a, at_b) = (at("a").expect("told"), at("b").expect("told"));
    assert!((6..=7).contains(&at_a.1) && at_a.2 >= 18, "{left:?}");
    assert!((4..=5).contains(&at_b.1) && at_b.2 >= 4, "{left:?}");
    assert_eq!((&at_a.0, &at_b.0), (&lane, &lane));
    assert_eq!(at("c"), None, "another action's");
    let nothing = store.remaining(&name("nobody")).await.expect("read");
    assert_eq!(nothing, outflow_store::RemainingWork::default());
}
