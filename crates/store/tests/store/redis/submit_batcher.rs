//! Concurrent small submissions share a script call without visible effects.

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use outflow_store::{JobQueue, StoreControl, SubmitBatch, SubmitReceipt};

use super::script_calls::calls;
use super::*;

fn one(tenant: &str, n: usize) -> SubmitBatch {
    SubmitBatch::from_jobs(vec![job(tenant, n)])
}

// The first goes alone, and the 63 that come meanwhile as one: two calls instead of 64.
#[tokio::test]
async fn submissions_during_a_call_share_the_next_one() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 20).await;
    let before = calls(&fixture.server, "fcall");
    let all = (0..64).map(|n| fixture.store.submit(one(["a", "b"][n % 2], n)));
    let mut places: [Vec<u64>; 2] = Default::default();
    let mut ids = Vec::new();
    for (n, submitted) in join_all(all).await.into_iter().enumerate() {
        let receipts = submitted.expect("submitted").receipts;
        let [SubmitReceipt::Accepted { id, place }] = receipts.as_slice() else {
            panic!("{receipts:?}");
        };
        ids.push(id.clone());
        places[n % 2].push(*place);
    }
    assert_eq!(calls(&fixture.server, "fcall") - before, 2);
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 64);
    assert_eq!(places[0], (21..=52).collect::<Vec<_>>());
    assert_eq!(places[1], (1..=32).collect::<Vec<_>>());
    fixture.assert_balanced().await;
}

// A foreign key is in place of the list of b: of six at once, only b's two fail.
#[tokio::test]
async fn a_failure_is_reported_to_its_own_submitter_only() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 1).await;
    let list = "{outflow}:l:2:3:api:b";
    fixture.server.command(&["SET", list, "foreign"]).expect("set");
    let tenants = ["a", "b", "c", "a", "b", "c"];
    let all = tenants.map(|tenant| fixture.store.submit(one(tenant, 0)));
    for (tenant, submitted) in tenants.iter().zip(join_all(all).await) {
        match submitted {
            Ok(_) => assert_ne!(*tenant, "b"),
            Err(error) => assert!(*tenant == "b" && error.is_damaged(), "{tenant}: {error}"),
        }
    }
    assert_eq!(fixture.store.job_counts().await.expect("counts").queued, 5);
    fixture.server.command(&["DEL", list]).expect("deleted");
    fixture.assert_balanced().await;
}

// The second opens the batch, the third joins it; then the second is dropped.
#[tokio::test]
async fn a_dropped_submission_does_not_stop_the_others() {
    let fixture = RedisFixture::new().await;
    let [mut first, mut second, mut third] = [0, 1, 2].map(|n| Box::pin(fixture.store.submit(one("a", n))));
    for submission in [&mut first, &mut second, &mut third] {
        assert!(submission.now_or_never().is_none());
    }
    drop(second);
    first.await.expect("submitted");
    let third = third.await.expect("submitted");
    assert_eq!(third.receipts.len(), 1);
    let waiting = payloads(&fixture.claim(9).await.jobs);
    assert!(waiting.contains(&"a-0".into()) && waiting.contains(&"a-2".into()));
    fixture.assert_balanced().await;
}

// A bound of five, and eight at once.
#[tokio::test]
async fn the_bound_applies_to_batched_submissions() {
    let fixture = RedisFixture::new().await;
    let all = (0..8).map(|n| {
        let batch = one("a", n);
        fixture.store.submit(SubmitBatch { queue_max: 5, ..batch })
    });
    let answers = join_all(all).await;
    let accepted = answers.into_iter().map(|answer| {
        let receipts = answer.expect("an answer").receipts;
        matches!(receipts.as_slice(), [SubmitReceipt::Accepted { .. }])
    });
    let accepted: Vec<bool> = accepted.collect();
    assert_eq!(accepted.iter().filter(|taken| **taken).count(), 5, "{accepted:?}");
    fixture.assert_balanced().await;
}
