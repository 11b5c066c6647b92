//! Results of `outflow bulk run` when their destination changes or closes.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

use super::bulk_rerun::kill_after_results;
use super::bulk_run::{BulkRun, jobs, lines, read, results};
use super::support::command;

/// Starts a run and a reader that reads the first result.
fn start_with_reader(bulk: &BulkRun, flags: &[&str]) -> (Child, BufReader<ChildStdout>) {
    let arguments = [&["bulk", "run", "jobs.ndjson"], flags].concat();
    let mut process = command(bulk.folder.path(), &arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut reader = BufReader::new(process.stdout.take().expect("a pipe"));
    let mut first = String::new();
    reader.read_line(&mut first).expect("a result");
    (process, reader)
}

/// Waits for the end and returns the exit code and the standard error.
fn wait_for_end(process: &mut Child) -> (Option<i32>, String) {
    let mut talk = String::new();
    let mut said = process.stderr.take().expect("a pipe");
    said.read_to_string(&mut talk).expect("text");
    (process.wait().expect("it ends").code(), talk)
}

// 40 jobs at 20/s take a second, and the reader closes after the first line. The next run writes the rest.
#[test]
fn bulk_run_writes_unread_results_again() {
    let bulk = BulkRun::new("20/s", &jobs(&["acme"], 40));
    let (mut process, reader) = start_with_reader(&bulk, &[]);
    drop(reader);
    let (code, talk) = wait_for_end(&mut process);
    assert_eq!(code, Some(1), "{talk}");
    assert!(talk.contains("repeat the command"), "{talk}");
    let again = bulk.run(&[]);
    assert_eq!(again.code, Some(0), "{again:?}");
    assert_eq!(lines(&read(&again.out)), (1..=40).collect(), "{again:?}");
    assert_eq!(bulk.mock.end()["seen"], 40, "nothing is sent twice");
}

// Two jobs at one in 30 s. The reader closes after the first result, and the run is interrupted before a
// second write could notice that.
#[test]
fn results_of_a_closed_pipe_count_as_unread() {
    let bulk = BulkRun::new("1/30s", &jobs(&["acme"], 2));
    let (mut process, reader) = start_with_reader(&bulk, &["--dir", "kept"]);
    drop(reader);
    let pid = process.id().to_string();
    let signal = Command::new("kill").arg(&pid).status();
    assert!(signal.expect("a signal").success());
    let (code, talk) = wait_for_end(&mut process);
    assert_eq!(code, Some(1), "{talk}");
    let note = fs::read_to_string(bulk.path("kept/run.json")).expect("a note");
    let note: Value = serde_json::from_str(&note).expect("a document");
    assert_eq!(note["written"], 0, "{note}");
}

// 30 jobs at 20/s, killed after ten. Another program then replaces the file by a longer, complete one.
#[test]
fn bulk_run_keeps_a_replaced_result_file() {
    let bulk = BulkRun::new("20/s", &jobs(&["acme"], 30));
    kill_after_results(&bulk, &["--out", "out"], 10);
    let theirs = "theirs\n".repeat(10_000);
    fs::write(bulk.path("out"), &theirs).expect("writable");
    let ran = bulk.run(&["--out", "out"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.talk.contains("--out"), "{ran:?}");
    let kept = fs::read_to_string(bulk.path("out")).expect("there");
    assert!(kept == theirs, "it was touched: {} bytes", kept.len());
    let ran = bulk.run(&["--out", "other"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(lines(&results(&bulk.path("other"))), (1..=30).collect());
}

// A line that another program adds survives a run that was killed and a run that ended.
#[test]
fn bulk_run_keeps_foreign_lines_of_a_result_file() {
    let bulk = BulkRun::new("20/s", &jobs(&["acme"], 30));
    kill_after_results(&bulk, &["--out", "out"], 10);
    let is_refused = |out: &str| {
        let before = fs::read_to_string(bulk.path(out)).expect("there") + "a note of mine\n";
        fs::write(bulk.path(out), &before).expect("writable");
        let ran = bulk.run(&["--out", out]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.talk.contains("another program"), "{ran:?}");
        let kept = fs::read_to_string(bulk.path(out)).expect("there");
        assert_eq!(kept, before);
    };
    is_refused("out");
    let ran = bulk.run(&["--out", "other"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    is_refused("other");
}

// All ten results are in the file. Another destination receives all ten again, without a further call.
#[test]
fn a_new_destination_receives_all_results() {
    let bulk = BulkRun::new("20/s", &jobs(&["acme"], 10));
    let kept = bulk.run(&["--dir", "kept", "--out", "results.ndjson"]);
    assert_eq!(kept.code, Some(0), "{kept:?}");
    let shown = bulk.run(&["--dir", "kept"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert_eq!(lines(&read(&shown.out)), (1..=10).collect(), "{shown:?}");
    let again = bulk.run(&["--dir", "kept"]);
    assert_eq!(again.out, "", "there was nothing more");
    assert_eq!(bulk.mock.end()["seen"], 10);
}
