//! Disk errors, and recovery from them.
//!
//! The system returns an error in the middle of a program's work: the disk is full, or a sync
//! fails. After a failed sync the system has forgotten the unwritten data, so no later result may
//! depend on it.

use std::path::Path;

use super::check::Told;
use super::disk_model::Image;
use super::power_cuts::{STORE, Thoroughness, check, cuts, memory};
use super::strace::{self, Event};
use super::workload::endure;

/// Variable that passes a child process the directory for the endurance run.
const ENDURES_IN: &str = "OUTFLOW_TEST_ENDURES_IN";

/// Injects a system error into a run, and cuts the power at some of its syncs. Returns the number
/// of errors that the run saw.
fn refused(test: &str, what: &str, points: usize) -> usize {
    let home = memory();
    let endures = (ENDURES_IN, home.path().join(STORE));
    let test = format!("embedded::crash::disk_faults::{test}");
    let events = strace::of_test(&test, (endures.0, &endures.1), Some(what));
    let said = |words: &str| {
        let is = |event: &&Event| matches!(event, Event::Said(said) if said.starts_with(words));
        events.iter().filter(is).count()
    };
    let how = Thoroughness {
        points,
        torn: 1,
        second: 1,
    };
    let life = (home.path(), &Image::new(), &Told::default());
    let mut images = 0;
    cuts(life, &events, how, |left| {
        check(&left);
        images += 1;
    });
    println!("{what}: {} times, {images} power cuts", said("refused"));
    assert_eq!(said("batch"), 100, "all were taken in the end");
    assert!(images > 0, "no power was cut");
    said("refused")
}

fn child() -> bool {
    let dir = std::env::var_os(ENDURES_IN);
    if let Some(dir) = &dir {
        endure(Path::new(dir));
    }
    dir.is_some()
}

// At the 10th, 80th and 400th write of a thread, and for fifteen more: in the journal, and during a
// checkpoint.
#[test]
fn a_full_disk_takes_nothing_that_was_told_as_strace_sees_it() {
    if child() {
        return;
    }
    for first in [10, 80, 400, 5_000] {
        let what = format!("pwrite64:error=ENOSPC:when={first}..{}", first + 15);
        let test = "a_full_disk_takes_nothing_that_was_told_as_strace_sees_it";
        let times = refused(test, &what, 23);
        assert!(times > 0, "{what}: nothing was refused");
    }
}

// The 1st and the 7th sync of a thread belong to the creation of a store, the others to its work.
#[test]
fn a_failed_sync_takes_nothing_that_was_told_as_strace_sees_it() {
    if child() {
        return;
    }
    for sync in [1, 7, 30, 60] {
        let what = format!("fsync,fdatasync:error=EIO:when={sync}");
        let test = "a_failed_sync_takes_nothing_that_was_told_as_strace_sees_it";
        let times = refused(test, &what, 31);
        assert!(times > 0, "{what}: nothing was refused");
    }
}

// Each sync of a run of some hundred and fifty, for any number of syncs of a thread.
#[test]
#[ignore = "lives a hundred and twenty times"]
fn stress_no_failed_sync_takes_what_was_told_as_strace_sees_it() {
    if child() {
        return;
    }
    let mut refusals = 0;
    for sync in 1..=120 {
        let what = format!("fsync,fdatasync:error=EIO:when={sync}");
        let test = "stress_no_failed_sync_takes_what_was_told_as_strace_sees_it";
        refusals += usize::from(refused(test, &what, 29) > 0);
    }
    println!("{refusals} of 120 were met");
    assert!(refusals >= 60, "{refusals} of 120 were met");
}
