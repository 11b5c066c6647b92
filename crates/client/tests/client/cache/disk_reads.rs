//! What is on disk alone, and how it is read without holding anybody up.

use std::fs;
use std::path::Path;
use std::time::Duration;

use outflow::cache::CacheLookup;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::disk::answers;
use super::support::{Ask, at, offer, on_disk, word};

const FRESH: &str = "cache-control: max-age=60";

/// Far longer than any disk takes; who waits for it has failed.
const PATIENCE: Duration = Duration::from_secs(30);

// The answer is on disk alone: memory does not have it, and who asks memory reads no file.
#[tokio::test]
async fn what_is_cold_is_read_beside_the_runtime_and_then_hot() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = on_disk(dir.path());
    offer(&cache, &Ask::page(), FRESH, "body");
    cache.flush();
    drop(cache);
    let (cache, ask) = (on_disk(dir.path()), Ask::page());
    let in_memory = || cache.lookup_in_memory(&ask.query(), at(1));
    assert!(matches!(in_memory(), CacheLookup::Missing));
    assert!(cache.lookup_any_in_memory(&ask.query(), at(1)).is_none());
    let cold = cache.find_on_disk(&ask.query()).expect("only on disk");
    cold.load(PATIENCE).await;
    assert!(matches!(in_memory(), CacheLookup::Fresh(_)));
    assert!(cache.lookup_any_in_memory(&ask.query(), at(1)).is_some());
    assert!(cache.find_on_disk(&ask.query()).is_none());
    let elsewhere = Ask::get("https://api.example.com/other");
    assert!(
        cache.find_on_disk(&elsewhere.query()).is_none(),
        "there is nothing"
    );
}

// What is yet to be written is in memory, however long the writer takes.
#[test]
fn what_waits_to_be_written_is_not_cold() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = on_disk(dir.path());
    offer(&cache, &Ask::page(), FRESH, "body");
    assert!(cache.find_on_disk(&Ask::page().query()).is_none());
    let found = cache.lookup_in_memory(&Ask::page().query(), at(1));
    assert!(matches!(found, CacheLookup::Fresh(_)));
}

/// Puts a pipe that nobody writes into in the place of a file: reading it would wait for ever.
fn becomes_a_pipe(file: &Path) {
    fs::remove_file(file).expect("removable");
    let mode = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, file, FileType::Fifo, mode, 0).expect("a pipe");
}

// In the place of the answer, of the secret and of the lock; with nobody at its other end, and with
// somebody who says nothing. Whoever reads on the spot and whoever reads beside the runtime goes on.
#[tokio::test]
async fn a_pipe_in_the_place_of_a_file_holds_nobody_up() {
    for place in ["answer", "secret", "lock"] {
        for written in [false, true] {
            let dir = tempfile::tempdir().expect("a directory");
            let cache = on_disk(dir.path());
            offer(&cache, &Ask::page(), FRESH, "body");
            cache.flush();
            drop(cache);
            let file = match place {
                "answer" => answers(dir.path()).remove(0),
                name => dir.path().join(name),
            };
            let indexed = (place == "answer").then(|| on_disk(dir.path()));
            becomes_a_pipe(&file);
            let mut both = fs::OpenOptions::new();
            let _silent = written.then(|| both.read(true).write(true).open(&file));
            let cache = indexed.unwrap_or_else(|| on_disk(dir.path()));
            if let Some(cold) = cache.find_on_disk(&Ask::page().query()) {
                cold.load(PATIENCE).await;
            }
            let told = word(&cache, &Ask::page(), 1);
            let expected = if place == "lock" { "fresh" } else { "missing" };
            assert_eq!(told, expected, "{place}, written: {written}");
        }
    }
}
