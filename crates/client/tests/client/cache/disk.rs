//! What is left on disk: it comes back, it is nobody else's, and nothing damaged is ever given.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use http::{Method, StatusCode};
use outflow::cache::{Cache, CacheError, CacheSettings, DiskState};

use super::support::{Ask, at, fresh, offer, on_disk, said, stale, word};

const FRESH: &str = "cache-control: max-age=60";

/// The files of kept answers.
pub(crate) fn answers(dir: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(dir).expect("a directory").flatten();
    let paths = files.map(|file| file.path());
    paths
        .filter(|path| path.file_name().is_some_and(|name| name.len() == 65))
        .collect()
}

/// The bytes of the answers, in blocks.
pub(crate) fn bytes_in(dir: &Path) -> u64 {
    let lengths = answers(dir)
        .into_iter()
        .map(|path| fs::metadata(path).expect("a file").len());
    lengths.map(|length| length.div_ceil(4096) * 4096).sum()
}

#[test]
fn what_was_written_is_there_after_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let ask = Ask::page().with("accept", "text/plain");
    let cache = on_disk(dir.path());
    offer(
        &cache,
        &ask,
        &format!("{FRESH}\nvary: accept\netag: \"1\"\nlink: <a>\nlink: <b>"),
        "body",
    );
    assert_eq!(cache.flush(), 1);
    drop(cache);

    let cache = on_disk(dir.path());
    assert!(
        cache.find_on_disk(&ask.query()).is_some(),
        "nothing is read before it is asked for"
    );
    assert_eq!(fresh(&cache, &ask, 59).as_deref(), Some(&b"body"[..]));
    assert!(
        cache.find_on_disk(&ask.query()).is_none(),
        "and then it is in memory"
    );
    let (stored, conditions, _) = stale(&cache, &ask, 60).expect("stale");
    assert_eq!(conditions["if-none-match"], "\"1\"");
    assert_eq!(stored.headers.get_all("link").iter().count(), 2);
    assert_eq!(word(&cache, &Ask::page(), 1), "missing", "another variant");
    assert_eq!(word(&cache, &ask.by(None), 1), "missing", "another caller");
}

#[test]
fn what_was_not_written_is_in_memory_all_the_same() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = on_disk(dir.path());
    offer(&cache, &Ask::page(), FRESH, "body");
    assert_eq!(word(&cache, &Ask::page(), 1), "fresh");
    drop(cache);
    assert_eq!(word(&on_disk(dir.path()), &Ask::page(), 1), "missing");
}

#[test]
fn files_are_for_their_owner_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("deep/cache");
    let cache = on_disk(&path);
    offer(&cache, &Ask::page(), FRESH, "body");
    cache.flush();
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    let files: Vec<_> = fs::read_dir(&path)
        .expect("a directory")
        .flatten()
        .collect();
    assert_eq!(
        files.len(),
        3,
        "an answer, the lock and the secret: {files:?}"
    );
    for file in files {
        assert_eq!(mode(&file.path()), 0o600, "{file:?}");
    }
}

// Every byte of the file, and every length of it: each time it is dropped, counted and gone.
#[test]
fn a_damaged_file_is_dropped_and_counted() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = on_disk(dir.path());
    offer(&cache, &Ask::page(), FRESH, "body");
    cache.flush();
    drop(cache);
    let [file] = &answers(dir.path())[..] else {
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
        assert_eq!(word(&cache, &Ask::page(), 1), "missing");
        assert_eq!(cache.report().dropped_files, 1, "{} bytes", content.len());
        assert!(!file.exists());
    }
    fs::write(file, &whole).expect("writable");
    assert_eq!(
        word(&on_disk(dir.path()), &Ask::page(), 1),
        "fresh",
        "it was the damage"
    );
}

#[test]
fn a_file_moved_to_another_callers_name_is_not_given() {
    let dir = tempfile::tempdir().expect("a directory");
    let (alice, bob) = (Ask::page(), Ask::page().by(Some(b"the-key-of-bob")));
    let cache = on_disk(dir.path());
    offer(&cache, &alice, FRESH, "hers");
    cache.flush();
    let hers = answers(dir.path()).remove(0);
    offer(&cache, &bob, FRESH, "his");
    cache.flush();
    drop(cache);
    let his = answers(dir.path())
        .into_iter()
        .find(|path| *path != hers)
        .expect("two");
    fs::copy(&hers, &his).expect("writable");
    let cache = on_disk(dir.path());
    assert_eq!(fresh(&cache, &alice, 1).as_deref(), Some(&b"hers"[..]));
    assert_eq!(word(&cache, &bob, 1), "missing");
}

#[test]
fn a_lost_secret_loses_the_answers_and_nothing_else() {
    for secret in [None, Some(&b"short"[..])] {
        let dir = tempfile::tempdir().expect("a directory");
        let cache = on_disk(dir.path());
        offer(&cache, &Ask::page(), FRESH, "body");
        cache.flush();
        drop(cache);
        fs::write(dir.path().join("mine.txt"), "mine").expect("writable");
        match secret {
            Some(bytes) => fs::write(dir.path().join("secret"), bytes).expect("writable"),
            None => fs::remove_file(dir.path().join("secret")).expect("there"),
        }
        let cache = on_disk(dir.path());
        assert_eq!(word(&cache, &Ask::page(), 1), "missing");
        assert_eq!(cache.report().dropped_files, 1);
        assert!(answers(dir.path()).is_empty() && dir.path().join("mine.txt").exists());
    }
}

#[test]
fn links_are_not_followed() {
    let dir = tempfile::tempdir().expect("a directory");
    let elsewhere = tempfile::tempdir().expect("a directory");
    let cache = on_disk(dir.path());
    offer(&cache, &Ask::page(), FRESH, "body");
    cache.flush();
    drop(cache);
    // An answer's file that is a link to its own content elsewhere: at the start, and later.
    let file = answers(dir.path()).remove(0);
    let moved = elsewhere.path().join("moved");
    fs::rename(&file, &moved).expect("movable");
    symlink(&moved, &file).expect("a link");
    let cache = on_disk(dir.path());
    assert_eq!(word(&cache, &Ask::page(), 1), "missing");
    assert_eq!(cache.report().dropped_files, 1);
    assert!(
        moved.exists() && !file.exists(),
        "the link went, its target did not"
    );
    drop(cache);
    fs::copy(&moved, &file).expect("writable");
    let cache = on_disk(dir.path());
    fs::remove_file(&file).expect("there");
    symlink(&moved, &file).expect("a link");
    assert_eq!(word(&cache, &Ask::page(), 1), "missing");
    drop(cache);
    // A directory that is a link.
    let link = elsewhere.path().join("link");
    symlink(dir.path(), &link).expect("a link");
    assert_eq!(refused(&link), CacheError::NotADirectory);
    assert_eq!(refused(&moved), CacheError::NotADirectory);
}

fn refused(dir: &Path) -> CacheError {
    let settings = CacheSettings {
        dir: Some(dir.to_owned()),
        ..CacheSettings::default()
    };
    Cache::open(settings).expect_err("refused")
}

#[test]
fn a_directory_that_others_read_is_closed_if_it_is_ours_and_refused_if_not() {
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
    assert_eq!(refused(home.path()), CacheError::NotOurs);
    assert_eq!(mode(home.path()), 0o755, "it was not touched");
}

#[test]
fn a_second_user_of_the_directory_works_from_memory_and_says_so() {
    let dir = tempfile::tempdir().expect("a directory");
    let first = on_disk(dir.path());
    let second = on_disk(dir.path());
    assert_eq!(first.report().state, DiskState::Used);
    assert_eq!(second.report().state, DiskState::Elsewhere);
    offer(&second, &Ask::page(), FRESH, "body");
    assert_eq!(
        (second.flush(), word(&second, &Ask::page(), 1)),
        (0, "fresh")
    );
    assert!(answers(dir.path()).is_empty());
    drop(first);
    assert_eq!(
        on_disk(dir.path()).report().state,
        DiskState::Used,
        "the lock goes with its holder"
    );
}

// A file where the directory should be made: nothing can be written there, by root either.
#[test]
fn a_directory_that_cannot_be_made_leaves_memory() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("file"), "").expect("writable");
    let cache = on_disk(&dir.path().join("file/cache"));
    assert_eq!(cache.report().state, DiskState::Unusable);
    offer(&cache, &Ask::page(), FRESH, "body");
    assert_eq!(word(&cache, &Ask::page(), 1), "fresh");
}

// The directory is gone, which fails every write as a full disk does.
#[test]
fn a_disk_that_fails_is_counted_rested_and_tried_again() {
    let parent = tempfile::tempdir().expect("a directory");
    let dir = parent.path().join("cache");
    let cache = on_disk(&dir);
    fs::remove_dir_all(&dir).expect("removable");
    let page = |n: u32| Ask::get(&format!("https://api.example.com/{n}"));
    for n in 0..3 {
        offer(&cache, &page(n), FRESH, "body");
    }
    assert_eq!(cache.flush(), 3, "they are not kept waiting");
    let report = cache.report();
    assert_eq!((report.failed_writes, report.skipped_writes), (1, 2));
    assert_eq!((report.state, report.disk), (DiskState::Failing, 0));
    assert_eq!(word(&cache, &page(0), 1), "fresh", "memory has it");
    // It comes back: after 64 spared writes the next is made.
    fs::create_dir(&dir).expect("a directory");
    for n in 3..67 {
        offer(&cache, &page(n), FRESH, "body");
    }
    cache.flush();
    assert_eq!(
        (cache.report().state, answers(&dir).len()),
        (DiskState::Used, 2)
    );
}

#[test]
fn a_write_to_the_resource_takes_its_files_along() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = on_disk(dir.path());
    let bob = Ask::page().by(Some(b"the-key-of-bob"));
    offer(&cache, &Ask::page(), FRESH, "written");
    cache.flush();
    offer(&cache, &bob, FRESH, "waiting");
    let post = Ask::page().method(Method::POST);
    cache.invalidate(&post.query(), StatusCode::OK, &said(""));
    assert!(
        answers(dir.path()).is_empty(),
        "not even until the next flush"
    );
    assert_eq!(cache.flush(), 0);
    drop(cache);
    let cache = on_disk(dir.path());
    assert_eq!(
        (word(&cache, &Ask::page(), 1), word(&cache, &bob, 1)),
        ("missing", "missing")
    );
}

// The first answer is on disk, the second only in memory when the next start comes.
#[test]
fn a_newer_answer_replaces_the_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = on_disk(dir.path());
    for body in ["first", "second"] {
        offer(&cache, &Ask::page(), FRESH, body);
        cache.flush();
    }
    assert_eq!(answers(dir.path()).len(), 1);
    drop(cache);
    let cache = on_disk(dir.path());
    assert_eq!(
        fresh(&cache, &Ask::page(), 1).as_deref(),
        Some(&b"second"[..])
    );
}

#[test]
fn half_written_files_and_other_names_are_not_answers() {
    let dir = tempfile::tempdir().expect("a directory");
    drop(on_disk(dir.path()));
    let half = dir
        .path()
        .join(format!("{}-{}.half", "0".repeat(32), "0".repeat(32)));
    let other = dir.path().join("notes.txt");
    fs::write(&half, "half").expect("writable");
    fs::write(&other, "mine").expect("writable");
    let cache = on_disk(dir.path());
    assert_eq!(cache.report().disk, 0);
    assert!(!half.exists() && other.exists());
}

// What the writer's task does: it waits until there is something, and is not held up by nothing.
#[tokio::test]
async fn the_writer_is_woken_when_there_is_something_to_write() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = on_disk(dir.path());
    let write = async {
        cache.wait_for_writes().await;
        cache.flush()
    };
    let come = async { offer(&cache, &Ask::page(), FRESH, "body") };
    let (written, _) = tokio::join!(write, come);
    assert_eq!((written, answers(dir.path()).len()), (1, 1));
}

/// Lets the other threads end, also when this one panics.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Small enough that most answers are only on disk, or on the way there.
fn tight(dir: &Path) -> Cache {
    Cache::open(CacheSettings {
        dir: Some(dir.to_owned()),
        memory: 64 << 10,
        ..CacheSettings::default()
    })
    .expect("a cache")
}

fn withdraw(cache: &Cache, ask: &Ask) {
    let delete = ask.clone().method(Method::DELETE);
    cache.invalidate(&delete.query(), StatusCode::NO_CONTENT, &said(""));
}

// A hundred fit into memory. They come first and are written, for the map protects its elders; then
// two, and three hundred that push these out: they wait to be written and are nowhere else.
#[test]
fn an_answer_that_only_waits_to_be_written_is_found_and_withdrawn() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = tight(dir.path());
    let page = |n: u32| Ask::get(&format!("https://api.example.com/{n}"));
    for n in 100..300 {
        offer(&cache, &page(n), FRESH, "body");
        cache.flush();
    }
    for n in [0, 1].into_iter().chain(300..600) {
        offer(&cache, &page(n), FRESH, "body");
    }
    let found = || (word(&cache, &page(0), 1), word(&cache, &page(1), 1));
    assert_eq!(found(), ("fresh", "fresh"));
    withdraw(&cache, &page(0));
    assert_eq!(found(), ("missing", "fresh"));
    cache.flush();
    assert_eq!(found(), ("missing", "fresh"));
}

// One thread keeps and withdraws, one writes, one reads: 2000 rounds in which each step can fall
// between any two of another's. What was withdrawn is found by nobody afterwards, nor by a restart.
#[test]
fn nothing_withdrawn_comes_back_while_others_read_and_write() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = tight(dir.path());
    let page = |n: u32| Ask::get(&format!("https://api.example.com/{n}"));
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
                let ask = page(now.load(Ordering::Relaxed));
                drop(cache.lookup(&ask.query(), at(1)));
            }
        });
        let _stop = StopAtEnd(&running);
        for round in 0..2000 {
            now.store(round, Ordering::Relaxed);
            offer(&cache, &page(round), FRESH, "body");
            // Few enough that the writer keeps up and has the withdrawn one in hand now and then.
            if round % 50 == 0 {
                offer(&cache, &page(10_000 + round), FRESH, "others");
            }
            withdraw(&cache, &page(round));
            assert_eq!(word(&cache, &page(round), 1), "missing", "round {round}");
        }
    });
    cache.flush();
    let none_of = |cache: &Cache, when: &str| {
        let back = (0..2000).find(|n| word(cache, &page(*n), 1) != "missing");
        assert_eq!(back, None, "{when}");
    };
    none_of(&cache, "at the end");
    drop(cache);
    let cache = tight(dir.path());
    assert!(cache.report().disk > 0, "the others were written");
    none_of(&cache, "after a restart");
}
