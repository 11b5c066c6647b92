//! Laws of submission.

use std::time::Duration;

use outflow_store::{
    ActionReport, ActionSpec, ActionStage, ActionStore, BatchPosition, ControlScope, DeadLetterFilter, DeadLetterStore,
    JobEnd, JobOutcome, JobQueue, JobStore, Name, StoreControl, StoredResult, SubmitBatch, SubmitReceipt,
};

use super::{StoreWorld, batch, claim, claim_one, done, ids, job, jobs, last, name, settle_all, submit};

// Two tenants, so that places are counted for each.
pub(crate) async fn a_batch_keeps_its_order_and_returns_its_places(world: &impl StoreWorld) {
    let store = world.store();
    let batch = vec![job("a", "1"), job("b", "2"), job("a", "3")];
    let submitted = submit(store, batch).await;
    let place = |receipt: &SubmitReceipt| match receipt {
        SubmitReceipt::Accepted { id, place } => (id.to_string(), *place),
        other => panic!("{other:?}"),
    };
    let places: Vec<_> = submitted.receipts.iter().map(place).collect();
    let expected = [("1", 1), ("2", 1), ("3", 2)].map(|(id, place)| (id.to_owned(), place));
    assert_eq!(places, expected);
    assert_eq!((submitted.queued, submitted.active), (3, 2));
}

pub(crate) async fn a_known_name_is_a_duplicate_and_changes_nothing(world: &impl StoreWorld) {
    let store = world.store();
    submit(store, jobs("a", 2)).await;
    let mut again = jobs("a", 3);
    again[0].payload = "other".into();
    let again = store.submit(SubmitBatch::from_jobs(again)).await.expect("answered");
    let known = |text| SubmitReceipt::Duplicate { id: name(text) };
    assert_eq!(again.receipts[..2], [known("a-0"), known("a-1")]);
    assert!(matches!(again.receipts[2], SubmitReceipt::Accepted { .. }));
    let claimed = claim(store, 9).await;
    assert_eq!(ids(&claimed), ["a-0", "a-1", "a-2"]);
    assert_eq!(claimed[0].payload, "a-0", "the first stays as it was");
}

pub(crate) async fn a_name_twice_in_one_batch_is_accepted_once(world: &impl StoreWorld) {
    let store = world.store();
    let batch = SubmitBatch::from_jobs(vec![job("a", "x"), job("b", "x")]);
    let submitted = store.submit(batch).await.expect("answered");
    assert!(matches!(submitted.receipts[0], SubmitReceipt::Accepted { .. }));
    let known = SubmitReceipt::Duplicate { id: name("x") };
    assert_eq!(submitted.receipts[1], known);
    assert_eq!(submitted.queued, 1);
}

// Remembered for 10 units after its end: known after 5, and unknown after 20.
pub(crate) async fn a_finished_job_name_is_remembered_for_its_retention(world: &impl StoreWorld) {
    let store = world.store();
    let unit = world.unit();
    let batch = || SubmitBatch {
        remember: unit * 10,
        ..SubmitBatch::from_jobs(vec![job("a", "x")])
    };
    store.submit(batch()).await.expect("taken");
    world.advance(unit * 20).await;
    let taken = claim(store, 1).await;
    settle_all(store, &taken, done()).await;
    world.advance(unit * 5).await;
    let early = store.submit(batch()).await.expect("answered");
    assert_eq!(early.receipts, [SubmitReceipt::Duplicate { id: name("x") }]);
    world.advance(unit * 15).await;
    let late = store.submit(batch()).await.expect("answered");
    assert!(matches!(late.receipts[0], SubmitReceipt::Accepted { .. }));
    assert_eq!(ids(&claim(store, 9).await), ["x"]);
}

pub(crate) async fn a_job_without_a_name_gets_a_unique_one(world: &impl StoreWorld) {
    let store = world.store();
    let mut nameless = jobs("a", 3);
    for job in &mut nameless {
        job.id = None;
    }
    let submitted = submit(store, nameless.clone()).await;
    submit(store, nameless).await;
    let expected: Vec<Name> = submitted
        .receipts
        .iter()
        .map(|receipt| match receipt {
            SubmitReceipt::Accepted { id, .. } => id.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    let claimed = claim(store, 9).await;
    let names: Vec<Name> = claimed.iter().map(|job| job.id.clone()).collect();
    assert_eq!(names[..3], expected);
    let different: std::collections::HashSet<_> = names.iter().collect();
    assert_eq!(different.len(), 6);
}

// 2 wait and 3 may: of 4 that are known or new, one fits.
pub(crate) async fn no_job_is_accepted_beyond_the_queue_bound(world: &impl StoreWorld) {
    let store = world.store();
    submit(store, jobs("a", 2)).await;
    let mut more = vec![job("a", "a-0")];
    more.extend(jobs("b", 3));
    let bounded = SubmitBatch {
        queue_max: 3,
        ..SubmitBatch::from_jobs(more)
    };
    let submitted = store.submit(bounded).await.expect("answered");
    let known = SubmitReceipt::Duplicate { id: name("a-0") };
    assert_eq!(submitted.receipts[0], known);
    assert!(matches!(submitted.receipts[1], SubmitReceipt::Accepted { .. }));
    assert_eq!(submitted.receipts[2..], [SubmitReceipt::Full, SubmitReceipt::Full]);
    assert_eq!(store.job_counts().await.expect("counted").queued, 3);
}

pub(crate) async fn an_empty_batch_changes_nothing(world: &impl StoreWorld) {
    let submitted = submit(world.store(), Vec::new()).await;
    assert_eq!((submitted.queued, submitted.active), (0, 0));
    assert!(submitted.receipts.is_empty());
}

pub(crate) async fn a_closed_action_accepts_no_more_jobs(world: &impl StoreWorld) {
    let store = world.store();
    let last = last("act", jobs("a", 1));
    store.submit(last).await.expect("taken");
    let mut late = jobs("a", 2);
    late.truncate(2);
    let late = store.submit(batch("act", late)).await.expect("answered");
    let known = SubmitReceipt::Duplicate { id: name("a-0") };
    assert_eq!(late.receipts, [known, SubmitReceipt::Closed]);
    assert_eq!(store.job_counts().await.expect("counted").queued, 1);
}

async fn act(store: &impl JobStore) -> Option<ActionReport> {
    store.action(&name("act")).await.expect("read")
}

async fn stage(store: &impl JobStore) -> ActionStage {
    act(store).await.expect("known").stage
}

async fn outcomes(store: &impl JobStore) -> Vec<JobOutcome> {
    let outcomes = store.outcomes(&name("act"), 0, 99).await;
    outcomes.expect("read")
}

/// Makes an action of two jobs, one done and one dead, whose end was notified.
async fn over(store: &impl JobStore) {
    store.submit(last("act", jobs("a", 2))).await.expect("taken");
    let taken = claim(store, 2).await;
    let kept = || StoredResult {
        status: 200,
        body: "made".into(),
        keep: Duration::from_hours(1),
    };
    let done = JobEnd::Done {
        took: Duration::ZERO,
        result: Some(kept()),
    };
    settle_all(store, &taken[..1], done).await;
    let failed = JobEnd::Failed {
        message: "no".to_owned(),
        result: None,
    };
    settle_all(store, &taken[1..], failed).await;
    store.mark_notified(&name("act")).await.expect("notified");
}

fn said(minutes: u64) -> ActionSpec {
    ActionSpec {
        timeout: Duration::from_mins(minutes),
        keep: Duration::from_mins(2 * minutes),
        note: Some(format!("{minutes} minutes")),
        ..ActionSpec::new(name("act"))
    }
}

pub(crate) async fn a_batch_opens_its_action_with_its_spec(world: &impl StoreWorld) {
    let store = world.store();
    let batch = SubmitBatch {
        action: Some(said(7)),
        ..last("act", jobs("a", 1))
    };
    store.submit(batch).await.expect("taken");
    let report = act(store).await.expect("known");
    assert_eq!((report.spec, report.stage), (said(7), ActionStage::Dispatched));
}

pub(crate) async fn an_open_action_keeps_its_spec(world: &impl StoreWorld) {
    let store = world.store();
    store.open(said(7)).await.expect("open");
    let batch = SubmitBatch {
        action: Some(said(8)),
        ..last("act", jobs("a", 1))
    };
    store.submit(batch).await.expect("taken");
    let report = act(store).await.expect("known");
    assert_eq!((report.spec, report.counts.queued), (said(7), 1));
}

pub(crate) async fn a_batch_of_known_jobs_does_not_change_a_finished_action(world: &impl StoreWorld) {
    let store = world.store();
    over(store).await;
    let (before, earlier) = (act(store).await, outcomes(store).await);
    assert_eq!(earlier.len(), 2);
    for rest in [BatchPosition::Last, BatchPosition::More] {
        let again = SubmitBatch {
            rest,
            action: Some(said(9)),
            ..last("act", jobs("a", 2))
        };
        let again = store.submit(again).await.expect("answered");
        let known = |text| SubmitReceipt::Duplicate { id: name(text) };
        assert_eq!(again.receipts, [known("a-0"), known("a-1")]);
        assert_eq!(act(store).await, before);
        assert_eq!(outcomes(store).await, earlier);
    }
    let dead = store.dead_letters(0, 9).await.expect("read");
    assert_eq!(dead[0].action, Some(name("act")));
    let purged = store.purge(&DeadLetterFilter::Action(name("act"))).await;
    assert_eq!(purged.expect("purged"), 1, "it is still its own");
    assert_eq!(act(store).await.expect("known").counts.failed, 1);
    assert_eq!(store.audit().await.expect("counted"), 0);
}

pub(crate) async fn a_new_job_reopens_a_finished_action(world: &impl StoreWorld) {
    let store = world.store();
    over(store).await;
    let again = SubmitBatch {
        action: Some(said(9)),
        ..last("act", jobs("a", 3))
    };
    let again = store.submit(again).await.expect("answered");
    assert!(matches!(again.receipts[1], SubmitReceipt::Duplicate { .. }));
    assert!(matches!(again.receipts[2], SubmitReceipt::Accepted { .. }));
    let report = act(store).await.expect("known");
    assert_eq!((report.spec, report.stage), (said(9), ActionStage::Dispatched));
    assert_eq!((report.counts.queued, report.counts.submitted()), (1, 1));
    assert!(outcomes(store).await.is_empty());
    let taken = claim(store, 9).await;
    settle_all(store, &taken, done()).await;
    assert_eq!(stage(store).await, ActionStage::Aggregating);
    assert_eq!(store.audit().await.expect("counted"), 0);
}

// One job is in flight and one waits at the cancellation: they no longer count.
pub(crate) async fn a_new_job_reopens_a_cancelled_action(world: &impl StoreWorld) {
    let store = world.store();
    store.submit(batch("act", jobs("a", 2))).await.expect("taken");
    let running = claim_one(store).await;
    let cancelled = store.cancel(&ControlScope::Action(name("act"))).await;
    assert_eq!(cancelled.expect("cancelled"), 1);
    let reopened = store.submit(last("act", jobs("b", 1))).await.expect("answered");
    assert!(matches!(reopened.receipts[0], SubmitReceipt::Accepted { .. }));
    settle_all(store, &[running], done()).await;
    let report = act(store).await.expect("known");
    assert_eq!((report.stage, report.counts.submitted()), (ActionStage::Dispatched, 1));
    assert_eq!(ids(&claim(store, 9).await), ["b-0"]);
    assert_eq!(store.audit().await.expect("counted"), 0);
}

pub(crate) async fn a_full_queue_opens_no_action(world: &impl StoreWorld) {
    let store = world.store();
    let full = |jobs| SubmitBatch {
        queue_max: 0,
        ..last("act", jobs)
    };
    let refused = store.submit(full(jobs("b", 1))).await.expect("answered");
    assert_eq!(refused.receipts, [SubmitReceipt::Full]);
    assert_eq!(act(store).await, None);
    over(store).await;
    let (before, earlier) = (act(store).await, outcomes(store).await);
    let refused = store.submit(full(jobs("b", 1))).await.expect("answered");
    assert_eq!(refused.receipts, [SubmitReceipt::Full]);
    assert_eq!((act(store).await, outcomes(store).await), (before, earlier));
}

// Twice: closing a closed action opens nothing.
pub(crate) async fn a_batch_without_jobs_opens_and_closes(world: &impl StoreWorld) {
    let store = world.store();
    let open = || batch("act", Vec::new());
    store.submit(open()).await.expect("taken");
    assert_eq!(stage(store).await, ActionStage::Created);
    store.submit(last("act", Vec::new())).await.expect("taken");
    assert_eq!(stage(store).await, ActionStage::Aggregating);
    store.mark_notified(&name("act")).await.expect("notified");
    store.submit(last("act", Vec::new())).await.expect("taken");
    assert_eq!(stage(store).await, ActionStage::Completed);
    store.submit(open()).await.expect("taken");
    assert_eq!(stage(store).await, ActionStage::Created);
}

// A caller that finds the queue full comes again with the rest, and may close then.
pub(crate) async fn a_full_queue_leaves_the_action_open_for_the_rest(world: &impl StoreWorld) {
    let store = world.store();
    let last = |queue_max| SubmitBatch {
        queue_max,
        ..last("act", jobs("a", 2))
    };
    let first = store.submit(last(1)).await.expect("answered");
    assert_eq!(first.receipts[1], SubmitReceipt::Full);
    let second = store.submit(last(9)).await.expect("answered");
    assert!(matches!(second.receipts[1], SubmitReceipt::Accepted { .. }));
    let third = store.submit(batch("act", jobs("b", 1))).await;
    assert_eq!(third.expect("answered").receipts, [SubmitReceipt::Closed]);
}

pub(crate) async fn waiting_for_a_change_ends_with_a_submission(world: &impl StoreWorld) {
    let store = world.store();
    let changed = store.changed();
    submit(store, jobs("a", 1)).await;
    // A missed notice would hang this test; a minute is longer than any slow machine needs.
    let rung = tokio::time::timeout(Duration::from_mins(1), changed).await;
    assert!(rung.is_ok(), "the notice was missed");
    claim_one(store).await;
}
