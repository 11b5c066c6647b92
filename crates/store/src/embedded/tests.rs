//! A full disk, from inside: only the writer's own connection can limit the pages of the database.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use outflow_core::ManualClock;
use tokio::runtime::Builder;

use super::*;
use crate::{
    AllowAll, ClaimRequest, JobEnd, JobQueue, Name, NewJob, SettleResult, Settlement, StoreControl, SubmitBatch,
};

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

fn batch(jobs: usize) -> SubmitBatch {
    let job = NewJob::new(name("a"), name("mail"), vec![7; 400].into());
    SubmitBatch::from_jobs(vec![job; jobs])
}

fn request(most: usize) -> ClaimRequest {
    ClaimRequest {
        lane: name("mail"),
        session: name("w"),
        max: most,
        lease: Duration::from_hours(1),
        recoveries: 2,
        limits: None,
        cost: None,
    }
}

/// Runs a test in a store whose database has a limited number of pages.
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
fn a_full_disk_refuses_whole_batches_and_accepts_them_when_it_has_space() {
    within_pages(100, async |store| {
        let claimed = store.claim(request(1), &mut AllowAll).await.expect("none");
        assert!(claimed.jobs.is_empty());
        let mut accepted = 0;
        let error = loop {
            match store.submit(batch(50)).await {
                Ok(_) => accepted += 50,
                Err(error) => break error,
            }
        };
        assert!(error.is_full() && error.is_passing(), "{error:?}");
        assert!((50..1_000).contains(&accepted), "{accepted}");
        assert_eq!(store.job_counts().await.expect("counted").queued, accepted);
        assert_eq!(store.audit().await.expect("counted"), 0);
        let jobs = store.claim(request(50), &mut AllowAll).await;
        let jobs = jobs.expect("a claim fits").jobs;
        let ends = jobs.iter().map(|job| Settlement {
            token: job.token,
            end: JobEnd::Done {
                took: Duration::ZERO,
                result: None,
            },
            arrived: None,
        });
        let settled = store.settle(&name("w"), ends.collect()).await;
        assert_eq!(settled.expect("settled").len(), 50);
        store.submit(batch(20)).await.expect("there is room again");
        let counts = store.job_counts().await.expect("counted");
        assert_eq!((counts.queued, counts.done), (accepted - 30, 50));
        assert_eq!(store.audit().await.expect("counted"), 0);
    });
}

// A settlement that needs space for its result fails; its session still holds the claim, and a settlement without
// a result succeeds.
#[test]
fn a_claim_whose_settlement_failed_is_still_held() {
    within_pages(60, async |store| {
        let mut batch = batch(1);
        batch.action = Some(crate::ActionSpec::new(name("act")));
        store.submit(batch).await.expect("submitted");
        let claims = store.claim(request(1), &mut AllowAll).await.expect("claimed");
        let token = claims.jobs[0].token;
        let settle = |result| {
            let end = JobEnd::Done {
                took: Duration::ZERO,
                result,
            };
            store.settle(
                &WORKER,
                vec![Settlement {
                    token,
                    end,
                    arrived: None,
                }],
            )
        };
        let large = crate::StoredResult {
            status: 200,
            body: vec![7; 400_000].into(),
            keep: Duration::from_hours(1),
        };
        let error = settle(Some(large)).await.expect_err("no room");
        assert!(error.is_full(), "{error:?}");
        let counts = store.job_counts().await.expect("counted");
        assert_eq!((counts.in_flight, counts.done), (1, 0));
        let again = settle(None).await.expect("settled");
        assert_eq!(again, [SettleResult::Done]);
        assert_eq!(store.audit().await.expect("counted"), 0);
    });
}

// A removed or replaced file takes no job; the same file in its place again takes them.
#[test]
fn a_store_whose_file_was_removed_refuses_submissions() {
    for file in ["jobs.db", "jobs.db-wal"] {
        let dir = tempfile::tempdir().expect("a directory");
        let (store, writer) = EmbeddedStore::open(dir.path(), Arc::new(ManualClock::default())).expect("a store");
        let (here, away) = (dir.path().join(file), dir.path().join("away"));
        thread::scope(|threads| {
            threads.spawn(|| writer.run());
            let store = store;
            let runtime = Builder::new_current_thread().build().expect("a runtime");
            runtime.block_on(async {
                store.submit(batch(1)).await.expect("accepted");
                std::fs::rename(&here, &away).expect("moved");
                let removed = store.submit(batch(1)).await.expect_err("it is gone");
                assert!(
                    removed.is_passing() && removed.to_string().contains("removed"),
                    "{removed}"
                );
                assert!(store.job_counts().await.is_err(), "readiness asks for the counts");
                std::fs::copy(&away, &here).expect("copied");
                assert!(store.submit(batch(1)).await.is_err(), "it is another file");
                std::fs::rename(&away, &here).expect("moved");
                store.submit(batch(1)).await.expect("accepted");
                assert_eq!(store.job_counts().await.expect("counted").queued, 2);
            });
        });
    }
}

static WORKER: std::sync::LazyLock<Name> = std::sync::LazyLock::new(|| name("w"));
