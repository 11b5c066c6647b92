//! Results of `outflow bulk run`, whatever becomes of where they are written.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

use super::bulk_rerun::killed;
use super::bulk_run::{Desk, jobs, lines, read, results};
use super::support::command;

/// A run whose results go to a reader who has read the first.
fn reading(desk: &Desk, flags: &[&str]) -> (Child, BufReader<ChildStdout>) {
    let arguments = [&["bulk", "run", "jobs.ndjson"], flags].concat();
    let mut process = command(desk.folder.path(), &arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut reader = BufReader::new(process.stdout.take().expect("a pipe"));
    let mut first = String::new();
    reader.read_line(&mut first).expect("a result");
    (process, reader)
}

/// How it ended, and what it said.
fn ended(process: &mut Child) -> (Option<i32>, String) {
    let mut talk = String::new();
    let mut said = process.stderr.take().expect("a pipe");
    said.read_to_string(&mut talk).expect("text");
    (process.wait().expect("it ends").code(), talk)
}

// 40 jobs at 20/s take a second, and the reader leaves with the first line. What it did not take comes with
// the next run.
#[test]
fn results_that_nobody_took_come_again() {
    let desk = Desk::new("20/s", &jobs(&["acme"], 40));
    let (mut process, reader) = reading(&desk, &[]);
    drop(reader);
    let (code, talk) = ended(&mut process);
    assert_eq!(code, Some(1), "{talk}");
    assert!(talk.contains("repeat the command"), "{talk}");
    let again = desk.run(&[]);
    assert_eq!(again.code, Some(0), "{again:?}");
    assert_eq!(lines(&read(&again.out)), (1..=40).collect(), "{again:?}");
    assert_eq!(desk.upstream.end()["seen"], 40, "nothing is sent twice");
}

// Two jobs at one in 30 s: the reader leaves with the first result, and it is interrupted before there is
// another by which that would be noticed.
#[test]
fn a_reader_that_leaves_before_the_end_has_not_taken_what_was_written() {
    let desk = Desk::new("1/30s", &jobs(&["acme"], 2));
    let (mut process, reader) = reading(&desk, &["--dir", "kept"]);
    drop(reader);
    let pid = process.id().to_string();
    let told = Command::new("kill").arg(&pid).status();
    assert!(told.expect("a signal").success());
    let (code, talk) = ended(&mut process);
    assert_eq!(code, Some(1), "{talk}");
    let note = fs::read_to_string(desk.path("kept/run.json")).expect("a note");
    let note: Value = serde_json::from_str(&note).expect("a document");
    assert_eq!(note["written"], 0, "{note}");
}

// 30 jobs at 20/s, killed after ten. The file is another's by then: longer than ours was, and complete.
#[test]
fn a_file_that_somebody_replaced_is_not_cut() {
    let desk = Desk::new("20/s", &jobs(&["acme"], 30));
    killed(&desk, &["--out", "out"], 10);
    let theirs = "theirs\n".repeat(10_000);
    fs::write(desk.path("out"), &theirs).expect("writable");
    let ran = desk.run(&["--out", "out"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.talk.contains("--out"), "{ran:?}");
    let kept = fs::read_to_string(desk.path("out")).expect("there");
    assert!(kept == theirs, "it was touched: {} bytes", kept.len());
    let ran = desk.run(&["--out", "other"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(lines(&results(&desk.path("other"))), (1..=30).collect());
}

// Killed in the middle, and over: a line that somebody added is there afterwards in both.
#[test]
fn lines_that_somebody_added_are_not_cut_off() {
    let desk = Desk::new("20/s", &jobs(&["acme"], 30));
    killed(&desk, &["--out", "out"], 10);
    let is_refused = |out: &str| {
        let before = fs::read_to_string(desk.path(out)).expect("there") + "a note of mine\n";
        fs::write(desk.path(out), &before).expect("writable");
        let ran = desk.run(&["--out", out]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.talk.contains("another program"), "{ran:?}");
        let kept = fs::read_to_string(desk.path(out)).expect("there");
        assert_eq!(kept, before);
    };
    is_refused("out");
    let ran = desk.run(&["--out", "other"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    is_refused("other");
}

// All ten are in the file; whoever wants to see them too, or has them told to a device, gets all ten again, and nothing
// is sent for that.
#[test]
fn results_that_go_somewhere_else_go_there_from_the_first() {
    let desk = Desk::new("20/s", &jobs(&["acme"], 10));
    let kept = desk.run(&["--dir", "kept", "--out", "results.ndjson"]);
    assert_eq!(kept.code, Some(0), "{kept:?}");
    let shown = desk.run(&["--dir", "kept"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert_eq!(lines(&read(&shown.out)), (1..=10).collect(), "{shown:?}");
    let again = desk.run(&["--dir", "kept"]);
    assert_eq!(again.out, "", "there was nothing more");
    assert_eq!(desk.upstream.end()["seen"], 10);
}
