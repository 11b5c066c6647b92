//! A process that a worker started and that outlives it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use outflow_testkit::Process;

use super::worker_processes::{FinalCounts, TestApi, WAIT_LIMIT};

/// Returns the open files of a process.
fn open_files(id: &str) -> Vec<PathBuf> {
    let open = fs::read_dir(format!("/proc/{id}/fd")).expect("it lives");
    open.filter_map(|one| fs::read_link(one.ok()?.path()).ok()).collect()
}

/// Starts a worker in a directory. The worker starts another program and prints its process id.
fn start_with_child(api: &TestApi, store: &str) -> (Process, String) {
    let mut worker = api.worker(store, &["submit=20", "child"], None);
    let line = worker.wait_for_line("child ", WAIT_LIMIT).expect("it starts");
    let id = line.trim_start_matches("child ").to_owned();
    (worker, id)
}

// A lock that a child inherits outlives its dead owner. This child has no file of the store open. So the next
// worker can open the directory while the child lives, and completes the remaining jobs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_process_does_not_hold_the_lock_of_the_store() {
    let api = TestApi::new().await;
    let dir = tempfile::tempdir().expect("a directory");
    let store = dir.path().canonicalize().expect("a path");
    let path = store.to_str().expect("text");
    let (mut owner, child) = start_with_child(&api, path);
    owner.wait_for_line("acked 20", WAIT_LIMIT).expect("accepted");
    let own = open_files(&owner.id().to_string());
    assert!(own.iter().any(|file| file.starts_with(&store)), "{own:?}");
    owner.kill().expect("killed");
    owner.wait(WAIT_LIMIT).expect("gone");
    let inherited = open_files(&child);
    assert!(!inherited.iter().any(|file| file.starts_with(&store)), "{inherited:?}");
    let mut next = api.worker(path, &[], None);
    let end = FinalCounts::read(&mut next);
    assert_eq!((end.submitted, end.done, end.drift), (20, 20, 0), "{end:?}");
    assert!(!open_files(&child).is_empty(), "it lived through all of it");
    let ended = Command::new("kill").arg(&child).status();
    assert!(ended.expect("it runs").success());
}
