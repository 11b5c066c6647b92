//! A store whose database was emptied, removed or exchanged is no new store.

use std::fs;
use std::path::Path;

use outflow_store::{StoreControl, StoreError};

use super::{gathered, refused};
use crate::contract::{jobs, submit};
use crate::support::store_dir::{clock, within};

/// Makes a closed store with some jobs.
fn filled(dir: &Path, count: u32) {
    within(dir, clock(), async |room| {
        submit(&room.store, jobs("a", count)).await;
    });
}

fn queued(dir: &Path) -> u64 {
    within(dir, clock(), async |room| {
        room.store.job_counts().await.expect("counted").queued
    })
}

/// Reads all files.
fn contents(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(dir).expect("a directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> = paths
        .map(|path| (path.display().to_string(), fs::read(&path).expect("a file")))
        .collect();
    files.sort();
    files
}

/// Opens a store that must be refused as gone, with nothing changed.
fn refused_as_gone(dir: &Path) {
    let before = contents(dir);
    let error: StoreError = refused(dir);
    assert!(error.is_damaged(), "{error:?}");
    let words = error.to_string();
    assert!(words.contains("empty or gone"), "{words}");
    assert!(words.contains("restore"), "{words}");
    assert!(words.contains(&dir.display().to_string()), "{words}");
    assert_eq!(contents(dir), before, "nothing was changed");
}

/// Copies the named files of a directory.
fn copied(from: &Path, names: &[&str]) -> tempfile::TempDir {
    let to = tempfile::tempdir().expect("a directory");
    for name in names {
        fs::copy(from.join(name), to.path().join(name)).expect("copied");
    }
    to
}

// 300 jobs; refused twice, since the first refusal must not create the files that the second finds.
#[test]
fn an_emptied_or_missing_database_is_refused_and_a_restored_one_goes_on() {
    let dir = tempfile::tempdir().expect("a directory");
    filled(dir.path(), 300);
    let file = dir.path().join("jobs.db");
    let whole = gathered(&file);
    for _ in 0..2 {
        fs::write(&file, b"").expect("emptied");
        refused_as_gone(dir.path());
        fs::remove_file(&file).expect("taken away");
        refused_as_gone(dir.path());
    }
    fs::write(&file, &whole).expect("restored");
    assert_eq!(queued(dir.path()), 300);
}

// The state of a killed process: all jobs are in the journal, which SQLite would remove.
#[test]
fn a_journal_without_its_database_is_refused_with_or_without_a_seal() {
    let dir = tempfile::tempdir().expect("a directory");
    let (sealed, bare) = within(dir.path(), clock(), async |room| {
        submit(&room.store, jobs("a", 300)).await;
        let sealed = copied(dir.path(), &["jobs.db-wal", "seal"]);
        (sealed, copied(dir.path(), &["jobs.db-wal"]))
    });
    for dir in [&sealed, &bare] {
        // Opening creates the lock file.
        refused(dir.path());
        refused_as_gone(dir.path());
        fs::write(dir.path().join("jobs.db"), b"").expect("emptied");
        refused_as_gone(dir.path());
    }
}

// The tables are in the journal until the first megabytes were written: without it the database
// holds nothing at all.
#[test]
fn a_database_whose_tables_went_with_its_journal_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let left = within(dir.path(), clock(), async |room| {
        submit(&room.store, jobs("a", 3)).await;
        copied(dir.path(), &["jobs.db", "seal"])
    });
    let error = refused(left.path());
    assert!(error.is_damaged(), "{error:?}");
    assert!(error.to_string().contains("empty or gone"), "{error}");
}

#[test]
fn a_copy_without_the_seal_opens_and_is_guarded_from_then_on() {
    let dir = tempfile::tempdir().expect("a directory");
    filled(dir.path(), 3);
    gathered(&dir.path().join("jobs.db"));
    let copy = copied(dir.path(), &["jobs.db"]);
    assert_eq!(queued(copy.path()), 3);
    fs::write(copy.path().join("jobs.db"), b"").expect("emptied");
    fs::remove_file(copy.path().join("jobs.db-wal")).ok();
    refused_as_gone(copy.path());
}

// The power fails during the write of the identity file: the rest proves that there was a store,
// not which.
#[test]
fn a_torn_seal_guards_and_is_mended() {
    let dir = tempfile::tempdir().expect("a directory");
    filled(dir.path(), 3);
    let (file, seal) = (dir.path().join("jobs.db"), dir.path().join("seal"));
    let (database, whole) = (gathered(&file), fs::read(&seal).expect("a seal"));
    fs::write(&seal, &whole[..5]).expect("torn");
    fs::write(&file, b"").expect("emptied");
    refused_as_gone(dir.path());
    fs::write(&file, &database).expect("restored");
    assert_eq!(queued(dir.path()), 3);
    assert_eq!(fs::read(&seal).expect("a seal"), whole);
}

// Another store is created a second later: unnamed jobs would get names that another store gave.
#[test]
fn the_database_of_another_store_is_refused_until_somebody_says_that_it_is_meant() {
    let (dir, other) = (tempfile::tempdir(), tempfile::tempdir());
    let (dir, other) = (dir.expect("a directory"), other.expect("a directory"));
    filled(dir.path(), 3);
    let later = clock();
    later.advance(std::time::Duration::from_secs(1));
    within(other.path(), later, async |room| {
        submit(&room.store, jobs("b", 5)).await;
    });
    let foreign = gathered(&other.path().join("jobs.db"));
    gathered(&dir.path().join("jobs.db"));
    fs::write(dir.path().join("jobs.db"), &foreign).expect("exchanged");
    let error = refused(dir.path());
    assert!(error.is_damaged(), "{error:?}");
    assert!(error.to_string().contains("`seal`"), "{error}");
    fs::remove_file(dir.path().join("seal")).expect("it is meant");
    assert_eq!(queued(dir.path()), 5);
}
