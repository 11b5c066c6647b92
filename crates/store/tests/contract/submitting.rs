//! Laws of submission.

use std::time::Duration;

use outflow_store::{Batch, JobStore, Name, Receipt, Rest};

use super::{World, batch, claim, claim_one, done, ids, job, jobs, name, settle_all, submit};

// Two tenants, so that places are counted for each.
pub(crate) async fn a_batch_is_taken_in_order_and_told_its_places(world: &impl World) {
    let store = world.store();
    let batch = vec![job("a", "1"), job("b", "2"), job("a", "3")];
    let submitted = submit(store, batch).await;
    let place = |receipt: &Receipt| match receipt {
        Receipt::Accepted { id, place } => (id.to_string(), *place),
        other => panic!("{other:?}"),
    };
    let places: Vec<_> = submitted.receipts.iter().map(place).collect();
    let expected = [("1", 1), ("2", 1), ("3", 2)].map(|(id, place)| (id.to_owned(), place));
    assert_eq!(places, expected);
    assert_eq!((submitted.queued, submitted.active), (3, 2));
}

pub(crate) async fn a_name_that_is_known_is_a_duplicate_and_changes_nothing(world: &impl World) {
    let store = world.store();
    submit(store, jobs("a", 2)).await;
    let mut again = jobs("a", 3);
    again[0].payload = "other".into();
    let again = store.submit(Batch::of(again)).await.expect("answered");
    let known = |text| Receipt::Duplicate { id: name(text) };
    assert_eq!(again.receipts[..2], [known("a-0"), known("a-1")]);
    assert!(matches!(again.receipts[2], Receipt::Accepted { .. }));
    let claimed = claim(store, 9).await;
    assert_eq!(ids(&claimed), ["a-0", "a-1", "a-2"]);
    assert_eq!(claimed[0].payload, "a-0", "the first stays as it was");
}

pub(crate) async fn a_name_twice_in_one_batch_is_taken_once(world: &impl World) {
    let store = world.store();
    let batch = Batch::of(vec![job("a", "x"), job("b", "x")]);
    let submitted = store.submit(batch).await.expect("answered");
    assert!(matches!(submitted.receipts[0], Receipt::Accepted { .. }));
    let known = Receipt::Duplicate { id: name("x") };
    assert_eq!(submitted.receipts[1], known);
    assert_eq!(submitted.queued, 1);
}

// Remembered for 10 units after its end: known after 5, and unknown after 20.
pub(crate) async fn a_finished_job_is_known_as_long_as_it_was_said(world: &impl World) {
    let store = world.store();
    let unit = world.unit();
    let batch = || Batch {
        remember: unit * 10,
        ..Batch::of(vec![job("a", "x")])
    };
    store.submit(batch()).await.expect("taken");
    world.pass(unit * 20).await;
    let taken = claim(store, 1).await;
    settle_all(store, &taken, done()).await;
    world.pass(unit * 5).await;
    let early = store.submit(batch()).await.expect("answered");
    assert_eq!(early.receipts, [Receipt::Duplicate { id: name("x") }]);
    world.pass(unit * 15).await;
    let late = store.submit(batch()).await.expect("answered");
    assert!(matches!(late.receipts[0], Receipt::Accepted { .. }));
    assert_eq!(ids(&claim(store, 9).await), ["x"]);
}

pub(crate) async fn a_job_without_a_name_gets_one_of_its_own(world: &impl World) {
    let store = world.store();
    let mut nameless = jobs("a", 3);
    for job in &mut nameless {
        job.id = None;
    }
    let submitted = submit(store, nameless.clone()).await;
    submit(store, nameless).await;
    let told: Vec<Name> = submitted
        .receipts
        .iter()
        .map(|receipt| match receipt {
            Receipt::Accepted { id, .. } => id.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    let claimed = claim(store, 9).await;
    let names: Vec<Name> = claimed.iter().map(|job| job.id.clone()).collect();
    assert_eq!(names[..3], told);
    let different: std::collections::HashSet<_> = names.iter().collect();
    assert_eq!(different.len(), 6);
}

// 2 wait and 3 may: of 4 that are known or new, one fits.
pub(crate) async fn nothing_is_taken_beyond_the_bound(world: &impl World) {
    let store = world.store();
    submit(store, jobs("a", 2)).await;
    let mut more = vec![job("a", "a-0")];
    more.extend(jobs("b", 3));
    let bounded = Batch {
        queue_max: 3,
        ..Batch::of(more)
    };
    let submitted = store.submit(bounded).await.expect("answered");
    let known = Receipt::Duplicate { id: name("a-0") };
    assert_eq!(submitted.receipts[0], known);
    assert!(matches!(submitted.receipts[1], Receipt::Accepted { .. }));
    assert_eq!(submitted.receipts[2..], [Receipt::Full, Receipt::Full]);
    assert_eq!(store.tally().await.expect("counted").queued, 3);
}

pub(crate) async fn an_empty_batch_changes_nothing(world: &impl World) {
    let submitted = submit(world.store(), Vec::new()).await;
    assert_eq!((submitted.queued, submitted.active), (0, 0));
    assert!(submitted.receipts.is_empty());
}

pub(crate) async fn a_closed_action_takes_no_more_jobs(world: &impl World) {
    let store = world.store();
    let last = Batch {
        rest: Rest::Last,
        ..batch("act", jobs("a", 1))
    };
    store.submit(last).await.expect("taken");
    let mut late = jobs("a", 2);
    late.truncate(2);
    let late = store.submit(batch("act", late)).await.expect("answered");
    let known = Receipt::Duplicate { id: name("a-0") };
    assert_eq!(late.receipts, [known, Receipt::Closed]);
    assert_eq!(store.tally().await.expect("counted").queued, 1);
}

// Whoever hears that there is no room comes again with the rest, and may close then.
pub(crate) async fn a_full_queue_leaves_the_action_open_for_the_rest(world: &impl World) {
    let store = world.store();
    let last = |queue_max| Batch {
        rest: Rest::Last,
        queue_max,
        ..batch("act", jobs("a", 2))
    };
    let first = store.submit(last(1)).await.expect("answered");
    assert_eq!(first.receipts[1], Receipt::Full);
    let second = store.submit(last(9)).await.expect("answered");
    assert!(matches!(second.receipts[1], Receipt::Accepted { .. }));
    let third = store.submit(batch("act", jobs("b", 1))).await;
    assert_eq!(third.expect("answered").receipts, [Receipt::Closed]);
}

pub(crate) async fn waiting_for_a_change_ends_with_a_submission(world: &impl World) {
    let store = world.store();
    let changed = store.changed();
    submit(store, jobs("a", 1)).await;
    // If it were missed, this would never end; a minute is longer than any machine is slow.
    let rung = tokio::time::timeout(Duration::from_mins(1), changed).await;
    assert!(rung.is_ok(), "the bell was missed");
    claim_one(store).await;
}
