//! Responses that are only on disk, read without blocking a caller.

use std::fs;
use std::path::Path;
use std::time::Duration;

use outflow::cache::CacheLookup;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::disk::response_files;
use super::support::{TestRequest, at, lookup, offer, on_disk};

const FRESH: &str = "cache-control: max-age=60";

/// Far longer than any disk takes: a test that waits this long has failed.
const PATIENCE: Duration = Duration::from_secs(30);

// The response is only on disk: memory does not have it, and a memory lookup reads no file.
#[tokio::test]
async fn a_cold_response_is_read_off_the_runtime_and_then_hot() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = on_disk(dir.path());
    offer(&cache, &TestRequest::page(), FRESH, "body");
    cache.flush();
    drop(cache);
    let (cache, request) = (on_disk(dir.path()), TestRequest::page());
    let in_memory = || cache.lookup_in_memory(&request.query(), at(1));
    assert!(matches!(in_memory(), CacheLookup::Missing));
    assert!(cache.lookup_any_in_memory(&request.query(), at(1)).is_none());
    let cold = cache.find_on_disk(&request.query()).expect("only on disk");
    cold.load(PATIENCE).await;
    assert!(matches!(in_memory(), CacheLookup::Fresh(_)));
    assert!(cache.lookup_any_in_memory(&request.query(), at(1)).is_some());
    assert!(cache.find_on_disk(&request.query()).is_none());
    let elsewhere = TestRequest::get("https://api.example.com/other");
    assert!(cache.find_on_disk(&elsewhere.query()).is_none(), "there is nothing");
}

// A queued response is in memory, however long the writer takes.
#[test]
fn a_response_queued_for_writing_is_not_cold() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = on_disk(dir.path());
    offer(&cache, &TestRequest::page(), FRESH, "body");
    assert!(cache.find_on_disk(&TestRequest::page().query()).is_none());
    let found = cache.lookup_in_memory(&TestRequest::page().query(), at(1));
    assert!(matches!(found, CacheLookup::Fresh(_)));
}

/// Replaces a file by a pipe without a writer: reading it would block for ever.
fn replace_by_pipe(file: &Path) {
    fs::remove_file(file).expect("removable");
    let mode = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, file, FileType::Fifo, mode, 0).expect("a pipe");
}

// The pipe replaces the response, the secret or the lock, with no writer or a silent one. Neither
// a direct read nor a background read blocks.
#[tokio::test]
async fn a_pipe_in_place_of_a_file_blocks_no_caller() {
    for place in ["answer", "secret", "lock"] {
        for written in [false, true] {
            let dir = tempfile::tempdir().expect("a directory");
            let cache = on_disk(dir.path());
            offer(&cache, &TestRequest::page(), FRESH, "body");
            cache.flush();
            drop(cache);
            let file = match place {
                "answer" => response_files(dir.path()).remove(0),
                name => dir.path().join(name),
            };
            let indexed = (place == "answer").then(|| on_disk(dir.path()));
            replace_by_pipe(&file);
            let mut both = fs::OpenOptions::new();
            let _silent = written.then(|| both.read(true).write(true).open(&file));
            let cache = indexed.unwrap_or_else(|| on_disk(dir.path()));
            if let Some(cold) = cache.find_on_disk(&TestRequest::page().query()) {
                cold.load(PATIENCE).await;
            }
            let found = lookup(&cache, &TestRequest::page(), 1);
            let expected = if place == "lock" { "fresh" } else { "missing" };
            assert_eq!(found, expected, "{place}, written: {written}");
        }
    }
}
