//! A disk that is full, from inside: only the writer's own connection can be told to find no more room.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use outflow_core::ManualClock;
use tokio::runtime::Builder;

use super::*;
use crate::{
    AllowAll, ClaimRequest, JobEnd, JobQueue, Name, NewJob, SettleResult, Settlement, StoreControl,
    SubmitBatch,
};

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

fn batch(jobs: usize) -> SubmitBatch {
    let job = NewJob::new(name("a"), name("mail"), vec![7; 400].into());
    SubmitBatch::from_jobs(vec![job; jobs])
}

fn ask(most: usize) -> ClaimRequest {
    ClaimRequest {
        lane: name("mail"),
        session: name("w"),
        most,
        lease: Duration::from_hours(1),
        recoveries: 2,
        plan: None,
    }
}

/// Runs something in a store whose database has this many pages at most.
fn within_pages(pages: u32, act: impl AsyncFnOnce(&EmbeddedStore)) {
    let dir = tempfile::tempdir().expect("a directory");
    let clock = Arc::new(ManualClock::default());
    let (store, writer) = EmbeddedStore::open(dir.path(), clock).expect("a store");
    writer.limit(pages);
    thread::scope(|threads| {
        threads.spawn(|| writer.run());
        let store = store;
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(act(&store));
    });
}

// 100 pages of 2 kB hold some 400 jobs of 400 bytes: the disk is full after a few batches of 50.
#[test]
fn a_full_disk_refuses_whole_batches_and_works_again_when_there_is_room() {
    within_pages(100, async |store| {
        let claimed = store.claim(ask(1), &mut AllowAll).await.expect("none");
        assert!(claimed.jobs.is_empty());
        let mut taken = 0;
        let error = loop {
            match store.submit(batch(50)).await {
                Ok(_) => taken += 50,
                Err(error) => break error,
            }
        };
        assert!(error.is_full() && error.is_passing(), "{error:?}");
        assert!((50..1_000).contains(&taken), "{taken}");
        assert_eq!(store.job_counts().await.expect("counted").queued, taken);
        assert_eq!(store.audit().await.expect("counted"), 0);
        let jobs = store.claim(ask(50), &mut AllowAll).await;
        let jobs = jobs.expect("a claim fits").jobs;
        let ends = jobs.iter().map(|job| Settlement {
            token: job.token,
            end: JobEnd::Done {
                took: Duration::ZERO,
                result: None,
            },
        });
        let settled = store.settle(&name("w"), ends.collect()).await;
        assert_eq!(settled.expect("settled").len(), 50);
        store.submit(batch(20)).await.expect("there is room again");
        let tally = store.job_counts().await.expect("counted");
        assert_eq!((tally.queued, tally.done), (taken - 30, 50));
        assert_eq!(store.audit().await.expect("counted"), 0);
    });
}

// A settlement that needs room, for its result, fails; the claim is still its session's, and the same
// settlement without a result goes through.
#[test]
fn a_claim_whose_settlement_failed_is_still_held() {
    within_pages(60, async |store| {
        let mut batch = batch(1);
        batch.action = Some(crate::ActionSpec::new(name("act")));
        store.submit(batch).await.expect("submitted");
        let claims = store.claim(ask(1), &mut AllowAll).await.expect("claimed");
        let token = claims.jobs[0].token;
        let settle = |result| {
            let end = JobEnd::Done {
                took: Duration::ZERO,
                result,
            };
            store.settle(&WORKER, vec![Settlement { token, end }])
        };
        let large = crate::StoredResult {
            status: 200,
            body: vec![7; 400_000].into(),
            keep: Duration::from_hours(1),
        };
        let error = settle(Some(large)).await.expect_err("no room");
        assert!(error.is_full(), "{error:?}");
        let tally = store.job_counts().await.expect("counted");
        assert_eq!((tally.in_flight, tally.done), (1, 0));
        let again = settle(None).await.expect("settled");
        assert_eq!(again, [SettleResult::Done]);
        assert_eq!(store.audit().await.expect("counted"), 0);
    });
}

static WORKER: std::sync::LazyLock<Name> = std::sync::LazyLock::new(|| name("w"));
