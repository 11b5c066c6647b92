//! A process that a worker started, and that outlives it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use outflow_testkit::Process;

use super::worker_processes::{End, Field, PATIENCE};

/// The files that a process has open.
fn open_files(id: &str) -> Vec<PathBuf> {
    let open = fs::read_dir(format!("/proc/{id}/fd")).expect("it lives");
    open.filter_map(|one| fs::read_link(one.ok()?.path()).ok())
        .collect()
}

/// A worker in a directory that has started another program, which is told by its number.
fn with_a_child(field: &Field, store: &str) -> (Process, String) {
    let mut worker = field.worker(store, &["submit=20", "child"], None);
    let line = worker.wait_for_line("child ", PATIENCE).expect("it starts");
    let id = line.trim_start_matches("child ").to_owned();
    (worker, id)
}

// A lock that a child inherits outlives its dead owner. The child of this one has nothing of the store open, so
// the next worker finds the directory free while the child still lives, and does what is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_that_outlives_its_owner_does_not_keep_the_store() {
    let field = Field::new().await;
    let dir = tempfile::tempdir().expect("a directory");
    let store = dir.path().canonicalize().expect("a path");
    let place = store.to_str().expect("text");
    let (mut owner, child) = with_a_child(&field, place);
    owner.wait_for_line("acked 20", PATIENCE).expect("taken");
    let kept = open_files(&owner.id().to_string());
    assert!(kept.iter().any(|file| file.starts_with(&store)), "{kept:?}");
    owner.kill().expect("killed");
    owner.wait(PATIENCE).expect("gone");
    let inherited = open_files(&child);
    assert!(
        !inherited.iter().any(|file| file.starts_with(&store)),
        "{inherited:?}"
    );
    let mut next = field.worker(place, &[], None);
    let end = End::of(&mut next);
    assert_eq!((end.submitted, end.done, end.drift), (20, 20, 0), "{end:?}");
    assert!(!open_files(&child).is_empty(), "it lived through all of it");
    let ended = Command::new("kill").arg(&child).status();
    assert!(ended.expect("it runs").success());
}
