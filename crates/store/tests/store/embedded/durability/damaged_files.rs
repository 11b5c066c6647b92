//! A job that was damaged on the disk is not sent.

use std::fs;
use std::path::Path;

use outflow_store::{
    ActionStore, AllowAll, DeadLetterStore, FinishedQuery, JobQueue, JobStatus, NewJob, SettleResult, StoreControl,
    SubmitBatch,
};

use super::{checkpointed, failed};
use crate::contract::{batch, claim, claim_one, claim_request, done, ids, job, jobs, name, settle, settle_all};
use crate::support::store_dir::{clock, within};

/// Returns the last position of some bytes in a file.
fn last_position(bytes: &[u8], what: &[u8]) -> usize {
    let mut windows = bytes.windows(what.len());
    windows.rposition(|window| window == what).expect("they are there")
}

/// Flips one bit of the payload of the named job.
fn flip_payload_bit(file: &Path, id: &str) {
    let disk = rusqlite::Connection::open(file).expect("a database");
    let mut payload = id.as_bytes().to_vec();
    payload[0] ^= 1;
    let harmed = disk.execute(
        "UPDATE job SET payload = ?1 WHERE name = ?2",
        rusqlite::params![payload, id],
    );
    assert_eq!(harmed, Ok(1));
}

fn assert_reported(words: &str) {
    assert!(words.contains("not sent") && words.contains("checksum"), "{words}");
}

// 100 jobs: after the restart, the 80th is read with its neighbours.
#[test]
fn a_damaged_job_is_dead_lettered_with_the_reason() {
    let dir = tempfile::tempdir().expect("a directory");
    within(dir.path(), clock(), async |fixture| {
        let mut all = batch("act", jobs("a", 100));
        all.rest = outflow_store::BatchPosition::Last;
        fixture.store.submit(all).await.expect("taken");
    });
    flip_payload_bit(&dir.path().join("jobs.db"), "a-80");
    within(dir.path(), clock(), async |fixture| {
        let store = &fixture.store;
        let given = claim(store, 999).await;
        let expected: Vec<String> = (0..100).filter(|of| *of != 80).map(|of| format!("a-{of}")).collect();
        assert_eq!(ids(&given), expected);
        assert!(given.iter().all(|job| job.payload == job.id.as_str()));
        let dead = store.dead_letters(0, 9).await.expect("read");
        assert_eq!((dead.len(), dead[0].id.as_str(), dead[0].attempts), (1, "a-80", 0));
        assert_reported(&dead[0].history[0].message);
        let settled = settle_all(store, &given, done()).await;
        assert!(settled.iter().all(|of| *of == SettleResult::Done));
        let outcomes = store.outcomes(&name("act"), 0, 999).await.expect("read");
        let lost: Vec<_> = outcomes.iter().filter(|of| of.ended == JobStatus::Failed).collect();
        assert_eq!((outcomes.len(), lost.len(), lost[0].id.as_str()), (100, 1, "a-80"));
        assert_reported(lost[0].error.as_deref().expect("a reason"));
        assert_eq!(
            store.take_finished(FinishedQuery::peek(9)).await.expect("read").len(),
            1,
            "the action is over"
        );
        assert_eq!(store.audit().await.expect("counted"), 0);
    });
}

// Attempted once before, and so read alone for its retry; then requeued, and detected once more.
#[test]
fn a_job_damaged_between_two_attempts_is_detected() {
    let dir = tempfile::tempdir().expect("a directory");
    within(dir.path(), clock(), async |fixture| {
        fixture
            .store
            .submit(SubmitBatch::from_jobs(jobs("a", 2)))
            .await
            .expect("taken");
        let first = claim_one(&fixture.store).await;
        settle(&fixture.store, &first, outflow_store::JobEnd::Returned).await;
        let first = claim_one(&fixture.store).await;
        settle(&fixture.store, &first, failed()).await;
        let revived = fixture.store.requeue(&outflow_store::DeadLetterFilter::All).await;
        assert_eq!(revived.expect("revived"), 1);
    });
    flip_payload_bit(&dir.path().join("jobs.db"), "a-0");
    within(dir.path(), clock(), async |fixture| {
        let store = &fixture.store;
        assert_eq!(ids(&claim(store, 9).await), ["a-1"]);
        for round in 0..2 {
            let dead = store.dead_letters(0, 9).await.expect("read");
            assert_eq!((dead.len(), dead[0].id.as_str()), (1, "a-0"), "{round}");
            assert_reported(&dead[0].history.last().expect("a reason").message);
            let revived = store.requeue(&outflow_store::DeadLetterFilter::All).await;
            assert_eq!(revived.expect("revived"), 1);
            assert!(claim(store, 9).await.is_empty());
        }
        assert_eq!(store.audit().await.expect("counted"), 0);
    });
}

/// Makes a job that uses every column.
fn full_job() -> NewJob {
    let mut precious = job("a", "gem");
    precious.payload = b"what-is-sent".to_vec().into();
    precious.cost = outflow_core::Cost::new(5);
    precious.deadline = Some(outflow_core::WallTime::from_unix_secs(1_900_000_000));
    precious
}

// Every bit of the row: its 9 bytes of head, the number before it, and all columns up to the
// checksum.
#[test]
fn no_flipped_bit_of_a_row_changes_a_claimed_job() {
    let dir = tempfile::tempdir().expect("a directory");
    within(dir.path(), clock(), async |fixture| {
        let all = vec![job("a", "before"), full_job(), job("a", "after")];
        fixture.store.submit(SubmitBatch::from_jobs(all)).await.expect("taken");
    });
    let whole = checkpointed(&dir.path().join("jobs.db"));
    let row = last_position(&whole, b"what-is-sent");
    let (mut opened, mut dead_lettered) = (0, 0);
    for bit in (row - 32) * 8..(row + 16) * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let dir = dir.expect("a directory");
        fs::write(dir.path().join("jobs.db"), &bytes).expect("written");
        if outflow_store::EmbeddedStore::open(dir.path(), clock()).is_err() {
            continue;
        }
        opened += 1;
        within(dir.path(), clock(), async |fixture| {
            dead_lettered += assert_claims_sound(&fixture.store).await;
        });
    }
    println!("{opened} opened, {dead_lettered} dead_lettered");
    assert!(
        opened > 100 && dead_lettered > 100,
        "{opened} opened, {dead_lettered} dead_lettered"
    );
}

/// Asserts that every claimed job is as submitted; returns the number of dead-lettered ones.
async fn assert_claims_sound(store: &outflow_store::EmbeddedStore) -> usize {
    let Ok(claims) = store.claim(claim_request(9), &mut AllowAll).await else {
        return 0;
    };
    for given in &claims.jobs {
        let submitted = match given.id.as_str() {
            "gem" => full_job(),
            other => job("a", other),
        };
        assert_eq!(given.payload, submitted.payload);
        assert_eq!((given.cost, given.deadline), (submitted.cost, submitted.deadline));
        assert_eq!((&given.tenant, given.priority), (&submitted.tenant, submitted.priority));
    }
    let dead = store.dead_letters(0, 9).await.expect("letters can be read");
    for letter in &dead {
        assert_reported(&letter.history[0].message);
    }
    assert_eq!(claims.expired, 0, "nothing was too late");
    assert_eq!(
        store.job_counts().await.expect("counted").dead,
        u64::try_from(dead.len()).expect("few")
    );
    dead.len()
}

// Jobs of the second version have no checksums: they are handed out as they are, and new jobs have
// checksums.
#[test]
fn a_store_of_the_second_version_adds_checksums_to_new_jobs() {
    let dir = tempfile::tempdir().expect("a directory");
    within(dir.path(), clock(), async |fixture| {
        fixture
            .store
            .submit(SubmitBatch::from_jobs(jobs("a", 2)))
            .await
            .expect("taken");
    });
    let file = dir.path().join("jobs.db");
    let disk = rusqlite::Connection::open(&file).expect("a database");
    disk.execute_batch("ALTER TABLE job DROP COLUMN sum; ALTER TABLE dead DROP COLUMN sum; PRAGMA user_version = 2")
        .expect("as it was");
    drop(disk);
    within(dir.path(), clock(), async |fixture| {
        fixture
            .store
            .submit(SubmitBatch::from_jobs(jobs("b", 2)))
            .await
            .expect("taken");
    });
    flip_payload_bit(&file, "b-1");
    within(dir.path(), clock(), async |fixture| {
        let mut given = ids(&claim(&fixture.store, 9).await);
        given.sort();
        assert_eq!(given, ["a-0", "a-1", "b-0"]);
        assert_eq!(fixture.store.audit().await.expect("counted"), 0);
    });
}

// The rows of its queue are gone, and 100 jobs have no queue: opening the store without them would
// lose acknowledged jobs.
#[test]
fn a_store_with_jobs_outside_any_queue_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    within(dir.path(), clock(), async |fixture| {
        fixture
            .store
            .submit(SubmitBatch::from_jobs(jobs("a", 100)))
            .await
            .expect("taken");
    });
    let disk = rusqlite::Connection::open(dir.path().join("jobs.db")).expect("a database");
    assert_eq!(disk.execute("DELETE FROM line", []), Ok(1));
    drop(disk);
    let opened = outflow_store::EmbeddedStore::open(dir.path(), clock());
    let refused = opened.expect_err("jobs are lost").to_string();
    assert!(refused.contains("damaged"), "{refused}");
}
