//! Durability of the embedded store across any end of its process.

mod damaged_files;
mod lost_files;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crate::contract::{
    World, ask, batch, claim, claim_one, done, ids, job, jobs, name, settle, settle_all, submit,
};
use crate::support::store_dir::{clock, within};
use outflow_core::Weight;
use outflow_store::{
    ActionStage, ActionStore, AllowAll, ControlScope, DeadLetterFilter, DeadLetterStore, Defer,
    EmbeddedStore, FinishedQuery, JobEnd, JobQueue, StoreControl, StoreError, SubmitBatch,
    SubmitReceipt, TenantRule, TenantStore,
};
use outflow_testkit::Process;

fn failed() -> JobEnd {
    JobEnd::Failed {
        words: "no".to_owned(),
        result: None,
    }
}

/// Reads the database file after a checkpoint. Two connections that close at one instant each leave
/// the checkpoint to the other, and then the journal would repair the damage.
fn gathered(file: &Path) -> Vec<u8> {
    let disk = rusqlite::Connection::open(file).expect("a database");
    disk.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
        .expect("brought home");
    drop(disk);
    fs::read(file).expect("a file")
}

/// Opens a store that must be refused.
fn refused(dir: &Path) -> StoreError {
    let opened = EmbeddedStore::open(dir, clock());
    opened.map(drop).expect_err("it must be refused")
}

// 200 of one tenant: three pages and a part of one.
#[test]
fn what_waits_is_found_in_order_after_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let time = clock();
    within(dir.path(), Arc::clone(&time), async |room| {
        submit(&room.store, jobs("a", 200)).await;
        let taken = claim(&room.store, 10).await;
        settle_all(&room.store, &taken, done()).await;
        let again = claim(&room.store, 2).await;
        settle_all(&room.store, &again, JobEnd::Returned).await;
    });
    within(dir.path(), time, async |room| {
        let tally = room.store.job_counts().await.expect("counted");
        assert_eq!((tally.queued, tally.done, tally.in_flight), (190, 10, 0));
        assert_eq!(room.store.audit().await.expect("counted"), 0);
        let rest = ids(&claim(&room.store, 999).await);
        let expected: Vec<String> = (10..200).map(|number| format!("a-{number}")).collect();
        assert_eq!(rest, expected);
        assert_eq!(room.store.audit().await.expect("counted"), 0);
    });
}

// A dead letter counts as soon as the job ended, while it is still on its way to the disk, where
// letters are searched.
#[test]
fn a_letter_that_is_counted_is_found_by_whoever_purges() {
    let dir = tempfile::tempdir().expect("a directory");
    within(dir.path(), clock(), async |room| {
        submit(&room.store, jobs("a", 100)).await;
        for job in claim(&room.store, 100).await {
            let (_, purged) = tokio::join!(
                settle(&room.store, &job, failed()),
                room.store.purge(&DeadLetterFilter::All)
            );
            assert_eq!(purged.expect("purged"), 1, "{job:?}");
        }
    });
}

#[test]
fn rules_pauses_actions_names_and_letters_outlive_the_process() {
    let dir = tempfile::tempdir().expect("a directory");
    let time = clock();
    let rule = TenantRule {
        weight: Weight::new(5).expect("a weight"),
        in_flight: Some(2),
        ..TenantRule::default()
    };
    within(dir.path(), Arc::clone(&time), async |room| {
        let store = &room.store;
        store.set_rule(&name("a"), rule.clone()).await.expect("set");
        store.set_rule(&name("c"), rule.clone()).await.expect("set");
        store.remove_rule(&name("c")).await.expect("taken away");
        store.submit(batch("act", jobs("b", 3))).await.expect("in");
        let taken = claim(store, 3).await;
        settle(store, &taken[0], done()).await;
        settle(store, &taken[1], failed()).await;
        settle(
            store,
            &taken[2],
            JobEnd::PutOff(Defer::Fixed(Duration::from_mins(9))),
        )
        .await;
        store.close(&name("act")).await.expect("closed");
        store
            .pause(&ControlScope::Tenant(name("b")))
            .await
            .expect("paused");
    });
    time.advance(Duration::from_mins(10));
    within(dir.path(), time, async |room| {
        let store = &room.store;
        let report = store.tenant(&name("a")).await.expect("read");
        assert_eq!(report.expect("known").rule, rule);
        let report = store.tenant(&name("c")).await.expect("read");
        assert_eq!(report.expect("known").rule, TenantRule::default());
        let action = store.action(&name("act")).await.expect("read");
        let action = action.expect("known");
        assert_eq!((action.stage, action.tally.done), (ActionStage::Running, 1));
        assert_eq!((action.tally.dead, action.tally.queued), (1, 1));
        assert_eq!(action.tally.throttles, 1, "of a job that goes on");
        assert_eq!(store.job_counts().await.expect("counted").throttles, 1);
        assert_eq!(store.dead_letters(0, 9).await.expect("read").len(), 1);
        let outcomes = store.outcomes(&name("act"), 0, 9).await;
        assert_eq!(outcomes.expect("read").len(), 2);
        let again = store
            .submit(SubmitBatch::from_jobs(vec![job("b", "b-0")]))
            .await;
        let known = SubmitReceipt::Duplicate { id: name("b-0") };
        assert_eq!(again.expect("answered").receipts, [known]);
        assert!(claim(store, 9).await.is_empty(), "paused");
        store
            .resume(&ControlScope::Tenant(name("b")))
            .await
            .expect("on");
        let last = claim_one(store).await;
        assert_eq!((last.id.as_str(), last.throttles), ("b-2", 1));
        settle(store, &last, done()).await;
        let ripe = store
            .take_finished(FinishedQuery::peek(9))
            .await
            .expect("read");
        assert_eq!(ripe.len(), 1);
        assert_eq!(store.audit().await.expect("counted"), 0);
    });
}

// Recovered once and dead-lettered the second time: a bound of 1.
#[test]
fn a_job_that_was_claimed_when_the_process_died_is_taken_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let time = clock();
    within(dir.path(), Arc::clone(&time), async |room| {
        submit(&room.store, jobs("a", 3)).await;
        claim_one(&room.store).await;
    });
    let mut old = None;
    within(dir.path(), Arc::clone(&time), async |room| {
        let tally = room.store.job_counts().await.expect("counted");
        assert_eq!((tally.in_flight, tally.queued), (1, 2));
        let reaped = room.store.reap(9, 1).await.expect("reaped");
        assert_eq!((reaped.returned, reaped.buried), (1, 0));
        old = Some(claim_one(&room.store).await);
    });
    let old = old.expect("claimed");
    assert_eq!((old.id.as_str(), old.attempt), ("a-0", 2));
    within(dir.path(), time, async |room| {
        let fenced = settle(&room.store, &old, done()).await;
        assert_eq!(fenced, outflow_store::SettleResult::Fenced);
        let reaped = room.store.reap(9, 1).await.expect("reaped");
        assert_eq!((reaped.returned, reaped.buried), (0, 1));
        assert_eq!(ids(&claim(&room.store, 9).await), ["a-1", "a-2"]);
        let dead = room.store.dead_letters(0, 9).await.expect("read");
        assert_eq!((dead[0].recoveries, dead[0].history.len()), (2, 2));
        assert_eq!(room.store.audit().await.expect("counted"), 0);
    });
}

// A span of 10 minutes, of which 4 pass while no process runs.
#[test]
fn a_wait_goes_on_while_nobody_is_there() {
    let dir = tempfile::tempdir().expect("a directory");
    let time = clock();
    let minutes = Duration::from_mins;
    within(dir.path(), Arc::clone(&time), async |room| {
        submit(&room.store, jobs("a", 1)).await;
        let taken = claim_one(&room.store).await;
        let end = JobEnd::Retry {
            after: minutes(10),
            words: "no".to_owned(),
            result: None,
        };
        settle(&room.store, &taken, end).await;
    });
    time.advance(minutes(4));
    within(dir.path(), time, async |room| {
        room.pass(minutes(5)).await;
        assert!(claim(&room.store, 1).await.is_empty());
        room.pass(minutes(1)).await;
        assert_eq!(claim_one(&room.store).await.retries, 1);
    });
}

#[test]
fn a_second_process_is_refused_by_name() {
    let dir = tempfile::tempdir().expect("a directory");
    within(dir.path(), clock(), async |room| {
        let error = refused(dir.path());
        assert!(error.is_in_use());
        let words = error.to_string();
        assert!(words.contains(&dir.path().display().to_string()), "{words}");
        submit(&room.store, jobs("a", 1)).await;
    });
    within(dir.path(), clock(), async |room| {
        assert_eq!(room.store.job_counts().await.expect("counted").queued, 1);
    });
}

#[test]
fn a_damaged_file_is_refused_and_left_as_it_is() {
    let dir = tempfile::tempdir().expect("a directory");
    within(dir.path(), clock(), async |room| {
        submit(&room.store, jobs("a", 500)).await;
    });
    let file = dir.path().join("jobs.db");
    let whole = gathered(&file);
    // The head of the file, and pages in its middle.
    for (from, to) in [(0, 100), (8_192, 16_384)] {
        let mut bytes = whole.clone();
        bytes[from..to].fill(0xAB);
        fs::write(&file, &bytes).expect("written");
        let error = refused(dir.path());
        assert!(error.is_damaged(), "{error:?}");
        assert!(error.to_string().contains("backup"), "{error}");
        assert_eq!(fs::read(&file).expect("a file"), bytes, "nothing changed");
    }
    fs::write(&file, &whole).expect("written");
    within(dir.path(), clock(), async |room| {
        assert_eq!(room.store.job_counts().await.expect("counted").queued, 500);
    });
}

// 300 flips of one bit each, in the database and in the journal of a killed process: batches of 25
// jobs, so that a partial batch shows. Every missing job is reported.
#[test]
fn a_store_with_a_flipped_bit_is_whole_or_says_that_it_is_not() {
    flip_bits(300);
}

#[test]
#[ignore = "opens ten thousand stores"]
fn stress_a_store_with_any_flipped_bit_is_whole_or_says_that_it_is_not() {
    flip_bits(10_000);
}

/// State of a store after one bit flip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flipped {
    Refused,
    /// Every job is there.
    Whole,
    /// Some jobs are missing, and the store reports it: a call fails, a job is a dead letter, or
    /// the store gives a warning.
    Told,
    /// The last batch is missing: the bit was in the last frame of the journal, which ends there as
    /// if the power had failed during the write.
    Shorter,
    /// All jobs count as waiting, and some are never claimed: the bit was in the number of a job or
    /// of its queue, by which the store finds it.
    Stuck,
    /// Jobs are missing for another reason, and the store reports nothing.
    Silent,
}

fn flip_bits(flips: usize) {
    let dir = tempfile::tempdir().expect("a directory");
    let files = ["jobs.db", "jobs.db-wal"].map(|file| dir.path().join(file));
    let whole = within(dir.path(), clock(), async |room| {
        for round in 0..20 {
            let batch = (0..25).map(|number| job("a", &format!("r{round}-{number}")));
            submit(&room.store, batch.collect()).await;
            if round == 9 {
                gathered(&files[0]);
            }
        }
        // The files as a process that is killed now leaves them.
        files.clone().map(|file| fs::read(file).expect("a file"))
    });
    let mut seen = Vec::new();
    for flip in 0..flips {
        let mut bytes = whole.clone();
        let [database, journal] = &mut bytes;
        let last_frame = journal.len() - 2_048 - 24;
        let hit = if flip % 2 == 0 { database } else { journal };
        let bit = flip * 7_919 * 8 / 3 % (hit.len() * 8);
        let byte = hit.get_mut(bit / 8).expect("one of its bytes");
        *byte ^= 1 << (bit % 8);
        let dir = tempfile::tempdir_in(dir.path()).expect("a directory");
        for (file, bytes) in ["jobs.db", "jobs.db-wal"].iter().zip(&bytes) {
            fs::write(dir.path().join(file), bytes).expect("written");
        }
        let became = flipped(dir.path(), &bytes[0]);
        let of_journal = flip % 2 == 1;
        let what = if of_journal { "journal" } else { "database" };
        assert_ne!(became, Flipped::Silent, "bit {bit} of the {what}");
        if became == Flipped::Shorter {
            assert!(
                of_journal && bit / 8 >= last_frame,
                "bit {bit} of the {what}"
            );
        }
        if became == Flipped::Stuck {
            println!("stuck: bit {bit} of the {what}");
            assert!(!of_journal, "bit {bit}");
        }
        seen.push(became);
    }
    let count = |what| seen.iter().filter(|of| **of == what).count();
    let all = [
        Flipped::Refused,
        Flipped::Whole,
        Flipped::Told,
        Flipped::Shorter,
        Flipped::Stuck,
    ];
    println!("{:?}", all.map(|what| (what, count(what))));
    // SQLite has no checksum for a number that became another number.
    assert!(count(Flipped::Stuck) <= flips / 1_000, "{seen:?}");
    assert!(all[..3].iter().all(|what| count(*what) > 0), "{seen:?}");
}

/// Opens a store with one bit flipped.
fn flipped(dir: &Path, database: &[u8]) -> Flipped {
    match EmbeddedStore::open(dir, clock()) {
        Err(error) => {
            assert!(error.is_damaged(), "{error:?}");
            let now = fs::read(dir.join("jobs.db")).expect("a file");
            assert!(now == database, "{error}: it was changed");
            return Flipped::Refused;
        }
        Ok((store, _)) if store.take_warning().is_some() => return Flipped::Told,
        Ok(opened) => drop(opened),
    }
    within(dir, clock(), async |room| {
        let store = &room.store;
        let queued = store.job_counts().await.expect("counted").queued;
        let claims = store.claim(ask(999), &mut AllowAll).await;
        let failed = claims.is_err();
        let jobs = claims.map_or(Vec::new(), |claims| claims.jobs);
        assert!(jobs.iter().all(|job| job.payload == job.id.as_str()));
        let found = u64::try_from(jobs.len()).expect("few");
        let letters = store.dead_letters(0, 999).await;
        let drift = store.audit().await;
        let is_told = failed
            || letters.is_ok_and(|letters| !letters.is_empty())
            || drift.map_or(true, |drift| drift > 0);
        match (found, found == queued) {
            (500, true) if !is_told => Flipped::Whole,
            (475, true) if !is_told => Flipped::Shorter,
            _ if is_told => Flipped::Told,
            (found, false) if found < 500 && queued == 500 => Flipped::Stuck,
            _ => Flipped::Silent,
        }
    })
}

// The first version had no column for the errors of a job.
#[test]
fn a_store_of_the_first_version_goes_on_and_tells_why_jobs_fail_from_now_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let fails = async |store: &EmbeddedStore, tenant: &str| {
        let taken = store.submit(batch("act", jobs(tenant, 1))).await;
        taken.expect("taken");
        settle(store, &claim_one(store).await, failed()).await;
    };
    within(dir.path(), clock(), async |room| {
        fails(&room.store, "a").await;
    });
    let disk = rusqlite::Connection::open(dir.path().join("jobs.db")).expect("a database");
    disk.execute_batch(
        "ALTER TABLE outcome DROP COLUMN words; ALTER TABLE job DROP COLUMN sum; \
         ALTER TABLE dead DROP COLUMN sum; PRAGMA user_version = 1",
    )
    .expect("as it was");
    drop(disk);
    for tenant in ["b", "c"] {
        within(dir.path(), clock(), async |room| {
            fails(&room.store, tenant).await;
        });
    }
    within(dir.path(), clock(), async |room| {
        let told = room.store.outcomes(&name("act"), 0, 9).await;
        let told = told.expect("read").into_iter().map(|one| one.error);
        let no = Some("no".to_owned());
        assert_eq!(told.collect::<Vec<_>>(), [None, no.clone(), no]);
    });
}

// The two numbers are at bytes 60 and 68 of every SQLite file.
#[test]
fn a_later_version_and_a_foreign_file_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    within(dir.path(), clock(), async |_| {});
    let file = dir.path().join("jobs.db");
    let whole = gathered(&file);
    for (at, words) in [(60, "later"), (68, "another directory")] {
        let mut bytes = whole.clone();
        bytes[at..at + 4].copy_from_slice(&9_u32.to_be_bytes());
        fs::write(&file, &bytes).expect("written");
        let error = refused(dir.path());
        assert!(error.is_damaged(), "{error:?}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn an_ended_store_says_so() {
    let dir = tempfile::tempdir().expect("a directory");
    within(dir.path(), clock(), async |room| {
        submit(&room.store, jobs("a", 1)).await;
        room.store.end();
        let error = room
            .store
            .submit(SubmitBatch::from_jobs(jobs("a", 1)))
            .await;
        assert!(
            error
                .expect_err("it is closed")
                .to_string()
                .contains("closed")
        );
    });
}

/// Variable that passes the child process its store.
const CHILD: &str = "OUTFLOW_TEST_STORE";

/// Submits, claims and settles for ever, and prints each result.
fn live(dir: &Path) {
    within(dir, clock(), async |room| {
        let store = &room.store;
        for round in 0.. {
            let batch = (0..7).map(|number| job("a", &format!("r{round}-{number}")));
            submit(store, batch.collect()).await;
            println!("\nsubmitted {round}");
            let taken = claim(store, 5).await;
            settle_all(store, &taken, done()).await;
            println!("\nsettled {}", taken.len());
        }
    });
}

// Eight kills at different points of a child's run; 7 come and 5 go in each of its rounds.
#[test]
fn a_killed_process_loses_nothing_that_it_was_told() {
    if let Some(dir) = std::env::var_os(CHILD) {
        return live(Path::new(&dir));
    }
    for kill in 0..8 {
        let dir = tempfile::tempdir().expect("a directory");
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command
            .args([
                "--exact",
                "embedded::durability::a_killed_process_loses_nothing_that_it_was_told",
            ])
            .args(["--nocapture", "--test-threads", "1"])
            .env(CHILD, dir.path());
        let mut child = Process::start(command).expect("a child");
        let patience = Duration::from_secs(30);
        let line = format!("submitted {}", kill * 3);
        child.wait_for_line(&line, patience).expect("it works");
        child.kill().expect("killed");
        let mut told = (BTreeSet::new(), 0);
        for line in child.last_lines(patience) {
            match line.text.split_once(' ') {
                Some(("submitted", round)) => drop(told.0.insert(round.to_owned())),
                Some(("settled", count)) => told.1 += count.parse::<u64>().expect("a count"),
                _ => {}
            }
        }
        drop(child);
        within(dir.path(), clock(), async |room| {
            all_is_there(&room.store, told).await
        });
    }
}

/// Asserts that every reported job is over or can be claimed, and counts once.
async fn all_is_there(store: &EmbeddedStore, (rounds, settled): (BTreeSet<String>, u64)) {
    assert_eq!(store.audit().await.expect("counted"), 0);
    let tally = store.job_counts().await.expect("counted");
    let told = 7 * u64::try_from(rounds.len()).expect("a few");
    assert!(tally.submitted() >= told, "{tally:?} of {told}");
    assert!(tally.done >= settled, "{tally:?} of {settled}");
    store.reap(999, 3).await.expect("reaped");
    let all: Vec<_> = rounds
        .iter()
        .flat_map(|round| (0..7).map(move |number| job("a", &format!("r{round}-{number}"))))
        .collect();
    let again = store
        .submit(SubmitBatch::from_jobs(all))
        .await
        .expect("answered");
    let known = |receipt: &SubmitReceipt| matches!(receipt, SubmitReceipt::Duplicate { .. });
    assert!(again.receipts.iter().all(known), "a name was lost");
    let open = claim(store, 9_999).await;
    let open = u64::try_from(open.len()).expect("a few");
    assert_eq!(open + tally.done, tally.submitted());
}

// The file holds the payloads of tenants, with their keys.
#[cfg(unix)]
#[test]
fn jobs_are_their_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = tempfile::tempdir().expect("a directory");
    let dir = home.path().join("jobs");
    within(&dir, clock(), async |room| {
        submit(&room.store, jobs("a", 3)).await;
        let entries = fs::read_dir(&dir).expect("a directory");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        for path in paths.chain([dir.clone()]) {
            let mode = fs::metadata(&path).expect("there").permissions().mode();
            assert_eq!(mode & 0o077, 0, "{}", path.display());
        }
    });
}
