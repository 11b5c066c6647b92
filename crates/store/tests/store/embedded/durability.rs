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
    StoreWorld, batch, claim, claim_one, claim_request, done, ids, job, jobs, name, settle, settle_all, submit,
};
use crate::support::store_dir::{clock, within};
use outflow_core::Weight;
use outflow_store::{
    ActionStage, ActionStore, AllowAll, ControlScope, DeadLetterFilter, DeadLetterStore, Defer, EmbeddedStore,
    FinishedQuery, JobEnd, JobQueue, StoreControl, StoreError, SubmitBatch, SubmitReceipt, TenantRule, TenantStore,
};
use outflow_testkit::Process;

fn failed() -> JobEnd {
    JobEnd::Failed {
        message: "no".to_owned(),
        result: None,
    }
}

/// Reads the database file after a checkpoint. Two connections that close at one instant each leave
/// the checkpoint to the other, and then the journal would repair the damage.
fn checkpointed(file: &Path) -> Vec<u8> {
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
fn waiting_jobs_keep_their_order_after_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let time = clock();
    within(dir.path(), Arc::clone(&time), async |fixture| {
        submit(&fixture.store, jobs("a", 200)).await;
        let taken = claim(&fixture.store, 10).await;
        settle_all(&fixture.store, &taken, done()).await;
        let again = claim(&fixture.store, 2).await;
        settle_all(&fixture.store, &again, JobEnd::Returned).await;
    });
    within(dir.path(), time, async |fixture| {
        let counts = fixture.store.job_counts().await.expect("counted");
        assert_eq!((counts.queued, counts.done, counts.in_flight), (190, 10, 0));
        assert_eq!(fixture.store.audit().await.expect("counted"), 0);
        let rest = ids(&claim(&fixture.store, 999).await);
        let expected: Vec<String> = (10..200).map(|number| format!("a-{number}")).collect();
        assert_eq!(rest, expected);
        assert_eq!(fixture.store.audit().await.expect("counted"), 0);
    });
}

// A dead letter counts as soon as the job ended, while it is still on its way to the disk, where
// letters are searched.
#[test]
fn a_counted_dead_letter_can_be_purged() {
    let dir = tempfile::tempdir().expect("a directory");
    within(dir.path(), clock(), async |fixture| {
        submit(&fixture.store, jobs("a", 100)).await;
        for job in claim(&fixture.store, 100).await {
            let (_, purged) = tokio::join!(
                settle(&fixture.store, &job, failed()),
                fixture.store.purge(&DeadLetterFilter::All)
            );
            assert_eq!(purged.expect("purged"), 1, "{job:?}");
        }
    });
}

#[test]
fn rules_pauses_actions_names_and_dead_letters_outlive_the_process() {
    let dir = tempfile::tempdir().expect("a directory");
    let time = clock();
    let rule = TenantRule {
        weight: Weight::new(5).expect("a weight"),
        in_flight: Some(2),
        ..TenantRule::default()
    };
    within(dir.path(), Arc::clone(&time), async |fixture| {
        let store = &fixture.store;
        store.set_rule(&name("a"), rule).await.expect("set");
        store.set_rule(&name("c"), rule).await.expect("set");
        store.remove_rule(&name("c")).await.expect("taken away");
        store.submit(batch("act", jobs("b", 3))).await.expect("in");
        let taken = claim(store, 3).await;
        settle(store, &taken[0], done()).await;
        settle(store, &taken[1], failed()).await;
        settle(store, &taken[2], JobEnd::Deferred(Defer::Fixed(Duration::from_mins(9)))).await;
        store.close(&name("act")).await.expect("closed");
        store.pause(&ControlScope::Tenant(name("b"))).await.expect("paused");
    });
    time.advance(Duration::from_mins(10));
    within(dir.path(), time, async |fixture| {
        let store = &fixture.store;
        let report = store.tenant(&name("a")).await.expect("read");
        assert_eq!(report.expect("known").rule, rule);
        let report = store.tenant(&name("c")).await.expect("read");
        assert_eq!(report.expect("known").rule, TenantRule::default());
        let action = store.action(&name("act")).await.expect("read");
        let action = action.expect("known");
        assert_eq!((action.stage, action.counts.done), (ActionStage::Running, 1));
        assert_eq!((action.counts.dead, action.counts.queued), (1, 1));
        assert_eq!(action.counts.throttles, 1, "of a job that goes on");
        assert_eq!(store.job_counts().await.expect("counted").throttles, 1);
        assert_eq!(store.dead_letters(0, 9).await.expect("read").len(), 1);
        let outcomes = store.outcomes(&name("act"), 0, 9).await;
        assert_eq!(outcomes.expect("read").len(), 2);
        let again = store.submit(SubmitBatch::from_jobs(vec![job("b", "b-0")])).await;
        let known = SubmitReceipt::Duplicate { id: name("b-0") };
        assert_eq!(again.expect("answered").receipts, [known]);
        assert!(claim(store, 9).await.is_empty(), "paused");
        store.resume(&ControlScope::Tenant(name("b"))).await.expect("on");
        let last = claim_one(store).await;
        assert_eq!((last.id.as_str(), last.throttles), ("b-2", 1));
        settle(store, &last, done()).await;
        let ripe = store.take_finished(FinishedQuery::peek(9)).await.expect("read");
        assert_eq!(ripe.len(), 1);
        assert_eq!(store.audit().await.expect("counted"), 0);
    });
}

// Recovered once and dead-lettered the second time: a bound of 1.
#[test]
fn a_job_claimed_by_a_dead_process_is_recovered() {
    let dir = tempfile::tempdir().expect("a directory");
    let time = clock();
    within(dir.path(), Arc::clone(&time), async |fixture| {
        submit(&fixture.store, jobs("a", 3)).await;
        claim_one(&fixture.store).await;
    });
    let mut old = None;
    within(dir.path(), Arc::clone(&time), async |fixture| {
        let counts = fixture.store.job_counts().await.expect("counted");
        assert_eq!((counts.in_flight, counts.queued), (1, 2));
        let reaped = fixture.store.reap(9, 1).await.expect("reaped");
        assert_eq!((reaped.returned, reaped.dead_lettered), (1, 0));
        old = Some(claim_one(&fixture.store).await);
    });
    let old = old.expect("claimed");
    assert_eq!((old.id.as_str(), old.attempt), ("a-0", 2));
    within(dir.path(), time, async |fixture| {
        let fenced = settle(&fixture.store, &old, done()).await;
        assert_eq!(fenced, outflow_store::SettleResult::Fenced);
        let reaped = fixture.store.reap(9, 1).await.expect("reaped");
        assert_eq!((reaped.returned, reaped.dead_lettered), (0, 1));
        assert_eq!(ids(&claim(&fixture.store, 9).await), ["a-1", "a-2"]);
        let dead = fixture.store.dead_letters(0, 9).await.expect("read");
        assert_eq!((dead[0].recoveries, dead[0].history.len()), (2, 2));
        assert_eq!(fixture.store.audit().await.expect("counted"), 0);
    });
}

// A span of 10 minutes, of which 4 pass while no process runs.
#[test]
fn a_delay_elapses_while_no_process_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    let time = clock();
    let minutes = Duration::from_mins;
    within(dir.path(), Arc::clone(&time), async |fixture| {
        submit(&fixture.store, jobs("a", 1)).await;
        let taken = claim_one(&fixture.store).await;
        let end = JobEnd::Retry {
            after: minutes(10),
            message: "no".to_owned(),
            result: None,
        };
        settle(&fixture.store, &taken, end).await;
    });
    time.advance(minutes(4));
    within(dir.path(), time, async |fixture| {
        fixture.advance(minutes(5)).await;
        assert!(claim(&fixture.store, 1).await.is_empty());
        fixture.advance(minutes(1)).await;
        assert_eq!(claim_one(&fixture.store).await.retries, 1);
    });
}

#[test]
fn a_second_process_is_refused_by_name() {
    let dir = tempfile::tempdir().expect("a directory");
    within(dir.path(), clock(), async |fixture| {
        let error = refused(dir.path());
        assert!(error.is_in_use());
        let words = error.to_string();
        assert!(words.contains(&dir.path().display().to_string()), "{words}");
        submit(&fixture.store, jobs("a", 1)).await;
    });
    within(dir.path(), clock(), async |fixture| {
        assert_eq!(fixture.store.job_counts().await.expect("counted").queued, 1);
    });
}

#[test]
fn a_damaged_file_is_refused_and_unchanged() {
    let dir = tempfile::tempdir().expect("a directory");
    within(dir.path(), clock(), async |fixture| {
        submit(&fixture.store, jobs("a", 500)).await;
    });
    let file = dir.path().join("jobs.db");
    let whole = checkpointed(&file);
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
    within(dir.path(), clock(), async |fixture| {
        assert_eq!(fixture.store.job_counts().await.expect("counted").queued, 500);
    });
}

// 300 flips of one bit each, in the database and in the journal of a killed process: batches of 25
// jobs, so that a partial batch shows. Every missing job is reported.
#[test]
fn a_store_with_a_flipped_bit_is_complete_or_reports_it() {
    flip_bits(300);
}

#[test]
#[ignore = "opens ten thousand stores"]
fn stress_a_store_with_any_flipped_bit_is_complete_or_reports_it() {
    flip_bits(10_000);
}

/// State of a store after one bit flip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FlipResult {
    Refused,
    /// Every job is there.
    Complete,
    /// Some jobs are missing, and the store reports it: a call fails, a job is a dead letter, or
    /// the store gives a warning.
    Reported,
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
    let whole = within(dir.path(), clock(), async |fixture| {
        for round in 0..20 {
            let batch = (0..25).map(|number| job("a", &format!("r{round}-{number}")));
            submit(&fixture.store, batch.collect()).await;
            if round == 9 {
                checkpointed(&files[0]);
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
        assert_ne!(became, FlipResult::Silent, "bit {bit} of the {what}");
        if became == FlipResult::Shorter {
            assert!(of_journal && bit / 8 >= last_frame, "bit {bit} of the {what}");
        }
        if became == FlipResult::Stuck {
            println!("stuck: bit {bit} of the {what}");
            assert!(!of_journal, "bit {bit}");
        }
        seen.push(became);
    }
    let count = |what| seen.iter().filter(|of| **of == what).count();
    let all = [
        FlipResult::Refused,
        FlipResult::Complete,
        FlipResult::Reported,
        FlipResult::Shorter,
        FlipResult::Stuck,
    ];
    println!("{:?}", all.map(|what| (what, count(what))));
    // SQLite has no checksum for a number that became another number.
    assert!(count(FlipResult::Stuck) <= flips / 1_000, "{seen:?}");
    assert!(all[..3].iter().all(|what| count(*what) > 0), "{seen:?}");
}

/// Opens a store with one bit flipped.
fn flipped(dir: &Path, database: &[u8]) -> FlipResult {
    match EmbeddedStore::open(dir, clock()) {
        Err(error) => {
            assert!(error.is_damaged(), "{error:?}");
            let now = fs::read(dir.join("jobs.db")).expect("a file");
            assert!(now == database, "{error}: it was changed");
            return FlipResult::Refused;
        }
        Ok((store, _)) if store.take_warning().is_some() => return FlipResult::Reported,
        Ok(opened) => drop(opened),
    }
    within(dir, clock(), async |fixture| {
        let store = &fixture.store;
        let queued = store.job_counts().await.expect("counted").queued;
        let claims = store.claim(claim_request(999), &mut AllowAll).await;
        let failed = claims.is_err();
        let jobs = claims.map_or(Vec::new(), |claims| claims.jobs);
        assert!(jobs.iter().all(|job| job.payload == job.id.as_str()));
        let found = u64::try_from(jobs.len()).expect("few");
        let letters = store.dead_letters(0, 999).await;
        let drift = store.audit().await;
        let is_reported =
            failed || letters.is_ok_and(|letters| !letters.is_empty()) || drift.map_or(true, |drift| drift > 0);
        match (found, found == queued) {
            (500, true) if !is_reported => FlipResult::Complete,
            (475, true) if !is_reported => FlipResult::Shorter,
            _ if is_reported => FlipResult::Reported,
            (found, false) if found < 500 && queued == 500 => FlipResult::Stuck,
            _ => FlipResult::Silent,
        }
    })
}

// The first version had no column for the errors of a job.
#[test]
fn a_store_of_the_first_version_opens_and_stores_later_errors() {
    let dir = tempfile::tempdir().expect("a directory");
    let fails = async |store: &EmbeddedStore, tenant: &str| {
        let taken = store.submit(batch("act", jobs(tenant, 1))).await;
        taken.expect("taken");
        settle(store, &claim_one(store).await, failed()).await;
    };
    within(dir.path(), clock(), async |fixture| {
        fails(&fixture.store, "a").await;
    });
    let disk = rusqlite::Connection::open(dir.path().join("jobs.db")).expect("a database");
    disk.execute_batch(
        "ALTER TABLE outcome DROP COLUMN words; ALTER TABLE job DROP COLUMN sum; \
         ALTER TABLE dead DROP COLUMN sum; PRAGMA user_version = 1",
    )
    .expect("as it was");
    drop(disk);
    for tenant in ["b", "c"] {
        within(dir.path(), clock(), async |fixture| {
            fails(&fixture.store, tenant).await;
        });
    }
    within(dir.path(), clock(), async |fixture| {
        let reported = fixture.store.outcomes(&name("act"), 0, 9).await;
        let reported = reported.expect("read").into_iter().map(|one| one.error);
        let no = Some("no".to_owned());
        assert_eq!(reported.collect::<Vec<_>>(), [None, no.clone(), no]);
    });
}

// A program of the release before must open the file after a downgrade.
#[test]
fn the_stored_names_are_those_of_earlier_programs() {
    let dir = tempfile::tempdir().expect("a directory");
    within(dir.path(), clock(), async |_| {});
    let disk = rusqlite::Connection::open(dir.path().join("jobs.db")).expect("a database");
    let version = disk.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0));
    assert_eq!(version.expect("a version"), 3);
    for sql in [
        "SELECT id, seq, at, words FROM mishap",
        "SELECT told, fate, closed FROM action",
    ] {
        disk.prepare(sql).expect(sql);
    }
}

// The two numbers are at bytes 60 and 68 of every SQLite file.
#[test]
fn a_later_version_and_a_foreign_file_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    within(dir.path(), clock(), async |_| {});
    let file = dir.path().join("jobs.db");
    let whole = checkpointed(&file);
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
fn a_closed_store_reports_it() {
    let dir = tempfile::tempdir().expect("a directory");
    within(dir.path(), clock(), async |fixture| {
        submit(&fixture.store, jobs("a", 1)).await;
        fixture.store.end();
        let error = fixture.store.submit(SubmitBatch::from_jobs(jobs("a", 1))).await;
        assert!(error.expect_err("it is closed").to_string().contains("closed"));
    });
}

/// Variable that passes the child process its store.
const CHILD: &str = "OUTFLOW_TEST_STORE";

/// Submits, claims and settles for ever, and prints each result.
fn run_child(dir: &Path) {
    within(dir, clock(), async |fixture| {
        let store = &fixture.store;
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
fn a_killed_process_loses_no_reported_result() {
    if let Some(dir) = std::env::var_os(CHILD) {
        return run_child(Path::new(&dir));
    }
    for kill in 0..8 {
        let dir = tempfile::tempdir().expect("a directory");
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command
            .args([
                "--exact",
                "embedded::durability::a_killed_process_loses_no_reported_result",
            ])
            .args(["--nocapture", "--test-threads", "1"])
            .env(CHILD, dir.path());
        let mut child = Process::start(command).expect("a child");
        let patience = Duration::from_secs(30);
        let line = format!("submitted {}", kill * 3);
        child.wait_for_line(&line, patience).expect("it works");
        child.kill().expect("killed");
        let mut reported = (BTreeSet::new(), 0);
        for line in child.last_lines(patience) {
            match line.text.split_once(' ') {
                Some(("submitted", round)) => drop(reported.0.insert(round.to_owned())),
                Some(("settled", count)) => reported.1 += count.parse::<u64>().expect("a count"),
                _ => {}
            }
        }
        drop(child);
        within(dir.path(), clock(), async |fixture| {
            assert_all_there(&fixture.store, reported.0, reported.1).await
        });
    }
}

/// Asserts that every reported job is over or can be claimed, and counts once.
async fn assert_all_there(store: &EmbeddedStore, rounds: BTreeSet<String>, settled: u64) {
    assert_eq!(store.audit().await.expect("counted"), 0);
    let counts = store.job_counts().await.expect("counted");
    let reported = 7 * u64::try_from(rounds.len()).expect("a few");
    assert!(counts.submitted() >= reported, "{counts:?} of {reported}");
    assert!(counts.done >= settled, "{counts:?} of {settled}");
    store.reap(999, 3).await.expect("reaped");
    let all: Vec<_> = rounds
        .iter()
        .flat_map(|round| (0..7).map(move |number| job("a", &format!("r{round}-{number}"))))
        .collect();
    let again = store.submit(SubmitBatch::from_jobs(all)).await.expect("answered");
    let known = |receipt: &SubmitReceipt| matches!(receipt, SubmitReceipt::Duplicate { .. });
    assert!(again.receipts.iter().all(known), "a name was lost");
    let open = claim(store, 9_999).await;
    let open = u64::try_from(open.len()).expect("a few");
    assert_eq!(open + counts.done, counts.submitted());
}

// The file holds the payloads of tenants, with their keys.
#[cfg(unix)]
#[test]
fn store_files_are_readable_by_their_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = tempfile::tempdir().expect("a directory");
    let dir = home.path().join("jobs");
    within(&dir, clock(), async |fixture| {
        submit(&fixture.store, jobs("a", 3)).await;
        let entries = fs::read_dir(&dir).expect("a directory");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        for path in paths.chain([dir.clone()]) {
            let mode = fs::metadata(&path).expect("there").permissions().mode();
            assert_eq!(mode & 0o077, 0, "{}", path.display());
        }
    });
}
