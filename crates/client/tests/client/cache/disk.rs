//! The disk store: stored responses survive a restart, stay with their caller, and are never
//! served damaged.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use http::{Method, StatusCode};
use outflow::cache::{Cache, CacheError, CacheSettings, DiskState};

use super::support::{TestRequest, at, fresh, headers_from, lookup, offer, on_disk, stale};

const FRESH: &str = "cache-control: max-age=60";

/// Returns the files of stored responses.
pub(crate) fn response_files(dir: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(dir).expect("a directory").flatten();
    let paths = files.map(|file| file.path());
    paths
        .filter(|path| path.file_name().is_some_and(|name| name.len() == 65))
        .collect()
}

/// Returns the size of the stored responses, in blocks.
pub(crate) fn stored_bytes(dir: &Path) -> u64 {
    let lengths = response_files(dir)
        .into_iter()
        .map(|path| fs::metadata(path).expect("a file").len());
    lengths.map(|length| length.div_ceil(4096) * 4096).sum()
}

#[test]
fn a_restart_finds_the_stored_responses() {
    let dir = tempfile::tempdir().expect("a directory");
    let request = TestRequest::page().with("accept", "text/plain");
    let cache = on_disk(dir.path());
    offer(
        &cache,
        &request,
        &format!("{FRESH}\nvary: accept\netag: \"1\"\nlink: <a>\nlink: <b>"),
        "body",
    );
    assert_eq!(cache.flush(), 1);
    drop(cache);

    let cache = on_disk(dir.path());
    assert!(
        cache.find_on_disk(&request.query()).is_some(),
        "nothing is read before it is asked for"
    );
    assert_eq!(fresh(&cache, &request, 59).as_deref(), Some(&b"body"[..]));
    assert!(
        cache.find_on_disk(&request.query()).is_none(),
        "and then it is in memory"
    );
    let (stored, conditions, _) = stale(&cache, &request, 60).expect("stale");
    assert_eq!(conditions["if-none-match"], "\"1\"");
    assert_eq!(stored.headers.get_all("link").iter().count(), 2);
    assert_eq!(lookup(&cache, &TestRequest::page(), 1), "missing", "another variant");
    assert_eq!(
        lookup(&cache, &request.with_credential(None), 1),
        "missing",
        "another caller"
    );
}

#[test]
fn memory_serves_a_response_before_it_is_written() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = on_disk(dir.path());
    offer(&cache, &TestRequest::page(), FRESH, "body");
    assert_eq!(lookup(&cache, &TestRequest::page(), 1), "fresh");
    drop(cache);
    assert_eq!(lookup(&on_disk(dir.path()), &TestRequest::page(), 1), "missing");
}

#[test]
fn only_the_owner_can_read_the_files() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("deep/cache");
    let cache = on_disk(&path);
    offer(&cache, &TestRequest::page(), FRESH, "body");
    cache.flush();
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    let files: Vec<_> = fs::read_dir(&path).expect("a directory").flatten().collect();
    assert_eq!(files.len(), 3, "an answer, the lock and the secret: {files:?}");
    for file in files {
        assert_eq!(mode(&file.path()), 0o600, "{file:?}");
    }
}

// Damages every byte and every length of the file: the cache drops, counts and deletes it each
// time.
#[test]
fn the_cache_drops_and_counts_a_damaged_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = on_disk(dir.path());
    offer(&cache, &TestRequest::page(), FRESH, "body");
    cache.flush();
    drop(cache);
    let [file] = &response_files(dir.path())[..] else {
        panic!("one file");
    };
    let whole = fs::read(file).expect("readable");
    let flipped = (0..whole.len()).map(|at| {
        let mut bent = whole.clone();
        bent[at] ^= 0x10;
        bent
    });
    let cut = (0..whole.len()).map(|end| whole[..end].to_vec());
    let longer = [[&whole[..], b"x"].concat()];
    for content in flipped.chain(cut).chain(longer) {
        fs::write(file, &content).expect("writable");
        let cache = on_disk(dir.path());
        assert_eq!(lookup(&cache, &TestRequest::page(), 1), "missing");
        assert_eq!(cache.report().dropped_files, 1, "{} bytes", content.len());
        assert!(!file.exists());
    }
    fs::write(file, &whole).expect("writable");
    assert_eq!(
        lookup(&on_disk(dir.path()), &TestRequest::page(), 1),
        "fresh",
        "it was the damage"
    );
}

#[test]
fn the_cache_rejects_a_file_renamed_for_another_caller() {
    let dir = tempfile::tempdir().expect("a directory");
    let (alice, bob) = (
        TestRequest::page(),
        TestRequest::page().with_credential(Some(b"the-key-of-bob")),
    );
    let cache = on_disk(dir.path());
    offer(&cache, &alice, FRESH, "hers");
    cache.flush();
    let hers = response_files(dir.path()).remove(0);
    offer(&cache, &bob, FRESH, "his");
    cache.flush();
    drop(cache);
    let his = response_files(dir.path())
        .into_iter()
        .find(|path| *path != hers)
        .expect("two");
    fs::copy(&hers, &his).expect("writable");
    let cache = on_disk(dir.path());
    assert_eq!(fresh(&cache, &alice, 1).as_deref(), Some(&b"hers"[..]));
    assert_eq!(lookup(&cache, &bob, 1), "missing");
}

#[test]
fn losing_the_secret_file_loses_only_the_stored_responses() {
    for secret in [None, Some(&b"short"[..])] {
        let dir = tempfile::tempdir().expect("a directory");
        let cache = on_disk(dir.path());
        offer(&cache, &TestRequest::page(), FRESH, "body");
        cache.flush();
        drop(cache);
        fs::write(dir.path().join("mine.txt"), "mine").expect("writable");
        match secret {
            Some(bytes) => fs::write(dir.path().join("secret"), bytes).expect("writable"),
            None => fs::remove_file(dir.path().join("secret")).expect("there"),
        }
        let cache = on_disk(dir.path());
        assert_eq!(lookup(&cache, &TestRequest::page(), 1), "missing");
        assert_eq!(cache.report().dropped_files, 1);
        assert!(response_files(dir.path()).is_empty() && dir.path().join("mine.txt").exists());
    }
}

#[test]
fn the_cache_follows_no_symlinks() {
    let dir = tempfile::tempdir().expect("a directory");
    let elsewhere = tempfile::tempdir().expect("a directory");
    let cache = on_disk(dir.path());
    offer(&cache, &TestRequest::page(), FRESH, "body");
    cache.flush();
    drop(cache);
    // A response's file becomes a link to its own content: at the start, and later.
    let file = response_files(dir.path()).remove(0);
    let moved = elsewhere.path().join("moved");
    fs::rename(&file, &moved).expect("movable");
    symlink(&moved, &file).expect("a link");
    let cache = on_disk(dir.path());
    assert_eq!(lookup(&cache, &TestRequest::page(), 1), "missing");
    assert_eq!(cache.report().dropped_files, 1);
    assert!(moved.exists() && !file.exists(), "the link went, its target did not");
    drop(cache);
    fs::copy(&moved, &file).expect("writable");
    let cache = on_disk(dir.path());
    fs::remove_file(&file).expect("there");
    symlink(&moved, &file).expect("a link");
    assert_eq!(lookup(&cache, &TestRequest::page(), 1), "missing");
    drop(cache);
    // The directory itself is a link.
    let link = elsewhere.path().join("link");
    symlink(dir.path(), &link).expect("a link");
    assert_eq!(open_error(&link), CacheError::NotADirectory);
    assert_eq!(open_error(&moved), CacheError::NotADirectory);
}

fn open_error(dir: &Path) -> CacheError {
    let settings = CacheSettings {
        dir: Some(dir.to_owned()),
        ..CacheSettings::default()
    };
    Cache::open(settings).expect_err("refused")
}

#[test]
fn the_cache_closes_its_own_readable_directory_and_refuses_a_foreign_one() {
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755));
    let dir = tempfile::tempdir().expect("a directory");
    open(dir.path()).expect("ours");
    drop(on_disk(dir.path()));
    assert_eq!(mode(dir.path()), 0o700, "it was empty");
    open(dir.path()).expect("ours");
    drop(on_disk(dir.path()));
    assert_eq!(mode(dir.path()), 0o700, "it was a cache's");
    let home = tempfile::tempdir().expect("a directory");
    fs::write(home.path().join("thesis"), "text").expect("writable");
    open(home.path()).expect("ours");
    assert_eq!(open_error(home.path()), CacheError::NotOurs);
    assert_eq!(mode(home.path()), 0o755, "it was not touched");
}

#[test]
fn a_second_cache_on_one_directory_works_from_memory_and_reports_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let first = on_disk(dir.path());
    let second = on_disk(dir.path());
    assert_eq!(first.report().state, DiskState::Used);
    assert_eq!(second.report().state, DiskState::Elsewhere);
    offer(&second, &TestRequest::page(), FRESH, "body");
    assert_eq!((second.flush(), lookup(&second, &TestRequest::page(), 1)), (0, "fresh"));
    assert!(response_files(dir.path()).is_empty());
    drop(first);
    assert_eq!(
        on_disk(dir.path()).report().state,
        DiskState::Used,
        "the lock goes with its holder"
    );
}

// A file stands at the directory's path, so that not even root can write there.
#[test]
fn a_directory_that_cannot_be_created_leaves_the_memory_cache() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("file"), "").expect("writable");
    let cache = on_disk(&dir.path().join("file/cache"));
    assert_eq!(cache.report().state, DiskState::Unusable);
    offer(&cache, &TestRequest::page(), FRESH, "body");
    assert_eq!(lookup(&cache, &TestRequest::page(), 1), "fresh");
}

// A missing directory fails every write, as a full disk does.
#[test]
fn the_cache_counts_disk_failures_pauses_and_retries() {
    let parent = tempfile::tempdir().expect("a directory");
    let dir = parent.path().join("cache");
    let cache = on_disk(&dir);
    fs::remove_dir_all(&dir).expect("removable");
    let page = |n: u32| TestRequest::get(&format!("https://api.example.com/{n}"));
    for n in 0..3 {
        offer(&cache, &page(n), FRESH, "body");
    }
    assert_eq!(cache.flush(), 3, "they are not kept waiting");
    let report = cache.report();
    assert_eq!((report.failed_writes, report.skipped_writes), (1, 2));
    assert_eq!((report.state, report.disk), (DiskState::Failing, 0));
    assert_eq!(lookup(&cache, &page(0), 1), "fresh", "memory has it");
    // The directory returns: the cache writes again after 64 skipped writes.
    fs::create_dir(&dir).expect("a directory");
    for n in 3..67 {
        offer(&cache, &page(n), FRESH, "body");
    }
    cache.flush();
    assert_eq!((cache.report().state, response_files(&dir).len()), (DiskState::Used, 2));
}

#[test]
fn a_write_to_the_resource_deletes_its_files() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = on_disk(dir.path());
    let bob = TestRequest::page().with_credential(Some(b"the-key-of-bob"));
    offer(&cache, &TestRequest::page(), FRESH, "written");
    cache.flush();
    offer(&cache, &bob, FRESH, "waiting");
    let post = TestRequest::page().method(Method::POST);
    cache.invalidate(&post.query(), StatusCode::OK, &headers_from(""));
    assert!(response_files(dir.path()).is_empty(), "not even until the next flush");
    assert_eq!(cache.flush(), 0);
    drop(cache);
    let cache = on_disk(dir.path());
    assert_eq!(
        (lookup(&cache, &TestRequest::page(), 1), lookup(&cache, &bob, 1)),
        ("missing", "missing")
    );
}

// The first response is on disk, the second only in memory when the cache starts again.
#[test]
fn a_newer_response_replaces_the_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = on_disk(dir.path());
    for body in ["first", "second"] {
        offer(&cache, &TestRequest::page(), FRESH, body);
        cache.flush();
    }
    assert_eq!(response_files(dir.path()).len(), 1);
    drop(cache);
    let cache = on_disk(dir.path());
    assert_eq!(fresh(&cache, &TestRequest::page(), 1).as_deref(), Some(&b"second"[..]));
}

#[test]
fn the_cache_ignores_partial_files_and_foreign_names() {
    let dir = tempfile::tempdir().expect("a directory");
    drop(on_disk(dir.path()));
    let half = dir.path().join(format!("{}-{}.half", "0".repeat(32), "0".repeat(32)));
    let other = dir.path().join("notes.txt");
    fs::write(&half, "half").expect("writable");
    fs::write(&other, "mine").expect("writable");
    let cache = on_disk(dir.path());
    assert_eq!(cache.report().disk, 0);
    assert!(!half.exists() && other.exists());
}

// The writer's task waits until there is something to write, and an empty queue does not block it.
#[tokio::test]
async fn the_writer_wakes_when_a_response_is_queued() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = on_disk(dir.path());
    let write = async {
        cache.wait_for_writes().await;
        cache.flush()
    };
    let come = async { offer(&cache, &TestRequest::page(), FRESH, "body") };
    let (written, _) = tokio::join!(write, come);
    assert_eq!((written, response_files(dir.path()).len()), (1, 1));
}

/// Stops the other threads, also when this one panics.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Opens a cache so small that most responses are only on disk, or queued for it.
fn small_cache(dir: &Path) -> Cache {
    Cache::open(CacheSettings {
        dir: Some(dir.to_owned()),
        memory: 64 << 10,
        ..CacheSettings::default()
    })
    .expect("a cache")
}

fn withdraw(cache: &Cache, request: &TestRequest) {
    let delete = request.clone().method(Method::DELETE);
    cache.invalidate(&delete.query(), StatusCode::NO_CONTENT, &headers_from(""));
}

// A hundred responses fit into memory and are written first, because the map protects its oldest
// entries. Two more and three hundred others follow: the queue alone holds the two.
#[test]
fn a_response_queued_for_writing_is_found_and_withdrawn() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = small_cache(dir.path());
    let page = |n: u32| TestRequest::get(&format!("https://api.example.com/{n}"));
    for n in 100..300 {
        offer(&cache, &page(n), FRESH, "body");
        cache.flush();
    }
    for n in [0, 1].into_iter().chain(300..600) {
        offer(&cache, &page(n), FRESH, "body");
    }
    let found = || (lookup(&cache, &page(0), 1), lookup(&cache, &page(1), 1));
    assert_eq!(found(), ("fresh", "fresh"));
    withdraw(&cache, &page(0));
    assert_eq!(found(), ("missing", "fresh"));
    cache.flush();
    assert_eq!(found(), ("missing", "fresh"));
}

// One thread stores and withdraws, one writes, one reads: in 2000 rounds their steps interleave at
// random. No lookup and no restart finds a withdrawn response.
#[test]
fn a_withdrawn_response_stays_gone_during_concurrent_reads_and_writes() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = small_cache(dir.path());
    let page = |n: u32| TestRequest::get(&format!("https://api.example.com/{n}"));
    let (running, now) = (AtomicBool::new(true), AtomicU32::new(0));
    let runs = || running.load(Ordering::Relaxed);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while runs() {
                cache.flush();
            }
        });
        scope.spawn(|| {
            while runs() {
                let request = page(now.load(Ordering::Relaxed));
                drop(cache.lookup(&request.query(), at(1)));
            }
        });
        let _stop = StopAtEnd(&running);
        for round in 0..2000 {
            now.store(round, Ordering::Relaxed);
            offer(&cache, &page(round), FRESH, "body");
            // Few enough that the writer keeps up and sometimes holds the withdrawn response.
            if round % 50 == 0 {
                offer(&cache, &page(10_000 + round), FRESH, "others");
            }
            withdraw(&cache, &page(round));
            assert_eq!(lookup(&cache, &page(round), 1), "missing", "round {round}");
        }
    });
    cache.flush();
    let none_of = |cache: &Cache, when: &str| {
        let back = (0..2000).find(|n| lookup(cache, &page(*n), 1) != "missing");
        assert_eq!(back, None, "{when}");
    };
    none_of(&cache, "at the end");
    drop(cache);
    let cache = small_cache(dir.path());
    assert!(cache.report().disk > 0, "the others were written");
    none_of(&cache, "after a restart");
}
