//! Size and speed of the embedded store with a long queue: printed, and bounded.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::contract::{claim, done, name, settle_all};
use crate::support::store_dir::{clock, within};
use outflow_store::{JobQueue, NewJob, StoreControl, SubmitBatch};

/// Makes unnamed jobs of ten tenants with a record of 105 bytes.
fn records(count: usize) -> Vec<NewJob> {
    let record = |number| {
        let tenant = name(&format!("t{}", number % 10));
        NewJob::new(tenant, name("mail"), vec![7; 105].into())
    };
    (0..count).map(record).collect()
}

/// Returns the size of the store's files.
fn size(dir: &Path) -> u64 {
    let files = fs::read_dir(dir).expect("a directory");
    files
        .map(|file| file.expect("a file").metadata().expect("its size").len())
        .sum()
}

// 20,000 jobs of 105 bytes in batches of 100: at most 150 bytes each in the database, and the files
// do not grow when that many jobs go and come again.
#[test]
fn a_waiting_job_takes_little_more_than_its_record() {
    let dir = tempfile::tempdir().expect("a directory");
    let time = clock();
    let fill = |rounds: usize| {
        within(dir.path(), Arc::clone(&time), async |room| {
            for _ in 0..rounds {
                let batch = SubmitBatch::from_jobs(records(100));
                room.store.submit(batch).await.expect("submitted");
            }
        });
    };
    fill(200);
    let first = size(dir.path());
    assert!(first <= 20_000 * 150, "{} bytes a job", first / 20_000);
    within(dir.path(), Arc::clone(&time), async |room| {
        for _ in 0..200 {
            let jobs = claim(&room.store, 100).await;
            assert_eq!(jobs.len(), 100);
            settle_all(&room.store, &jobs, done()).await;
        }
        assert_eq!(room.store.audit().await.expect("counted"), 0);
    });
    fill(200);
    let again = size(dir.path());
    assert!(again <= first + first / 10, "{again} after {first}");
}

// A million jobs, opened without reading them: run this with `time` for the duration.
#[test]
#[ignore = "fills a hundred and fifty megabytes"]
fn stress_a_million_jobs_are_opened_without_reading_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let time = clock();
    within(dir.path(), Arc::clone(&time), async |room| {
        for _ in 0..1_000 {
            let batch = SubmitBatch::from_jobs(records(1_000));
            room.store.submit(batch).await.expect("submitted");
        }
    });
    println!("{} bytes a job", size(dir.path()) / 1_000_000);
    for _ in 0..20 {
        within(dir.path(), Arc::clone(&time), async |room| {
            assert_eq!(claim(&room.store, 1).await.len(), 1);
        });
    }
}
