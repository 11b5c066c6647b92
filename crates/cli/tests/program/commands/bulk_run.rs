//! `outflow bulk run`: files of jobs against a strict API, with crashes in between.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use outflow_testkit::Process;
use serde_json::Value;
use tempfile::TempDir;

use super::support::{Ran, Upstream, command, configured, run_in};
use crate::support::PATIENCE;

/// A folder with a configuration for a strict API and a file of jobs.
pub(super) struct Desk {
    pub(super) folder: TempDir,
    pub(super) upstream: Upstream,
}

impl Desk {
    /// An API that allows so much, which the configuration knows.
    pub(super) fn new(limit: &str, jobs: &str) -> Self {
        Self::with(
            &["--limit", limit],
            &format!("limits = [\"{limit}\"]"),
            jobs,
        )
    }

    pub(super) fn with(flags: &[&str], config: &str, jobs: &str) -> Self {
        let upstream = Upstream::start(flags);
        let folder = configured(&upstream.config(config));
        fs::write(folder.path().join("jobs.ndjson"), jobs).expect("writable");
        Self { folder, upstream }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn run(&self, flags: &[&str]) -> Ran {
        run_in(
            self.folder.path(),
            &[&["bulk", "run", "jobs.ndjson"], flags].concat(),
        )
    }

    pub(super) fn start(&self, flags: &[&str]) -> Process {
        let arguments = [&["bulk", "run", "jobs.ndjson"], flags].concat();
        Process::start(command(self.folder.path(), &arguments)).expect("it starts")
    }
}

/// So many jobs of each of these tenants.
pub(super) fn jobs(tenants: &[&str], each: usize) -> String {
    let line = |tenant: &&str, number| {
        format!("{{\"tenant\":\"{tenant}\",\"api\":\"up\",\"path\":\"/{tenant}/{number}\"}}\n")
    };
    let of_one = |tenant| (0..each).map(move |number| line(tenant, number));
    tenants.iter().flat_map(of_one).collect()
}

pub(super) fn results(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("results");
    read(&text)
}

pub(super) fn read(text: &str) -> Vec<Value> {
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("a document"))
        .collect()
}

/// The lines of the file that have a result.
pub(super) fn lines(results: &[Value]) -> BTreeSet<u64> {
    results
        .iter()
        .filter_map(|result| result["line"].as_u64())
        .collect()
}

// 40 jobs at 20/s: two windows, and the API refuses nothing.
#[test]
fn a_file_is_done_at_the_limit_and_every_line_has_a_result() {
    let desk = Desk::new("20/s", &jobs(&["acme", "bolt"], 20));
    let ran = desk.run(&[]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let results = read(&ran.out);
    assert_eq!(lines(&results), (1..=40).collect());
    assert_eq!(results.len(), 40);
    assert!(
        results
            .iter()
            .all(|one| one["ended"] == "done" && one["status"] == 200)
    );
    assert!(
        ran.talk
            .contains("40 jobs: 40 done; 40 attempts, 0 throttled"),
        "{ran:?}"
    );
    assert!(ran.talk.contains("ideal 1.0 s (by 20/s of up)"), "{ran:?}");
    assert!(
        ran.talk.contains("acme: "),
        "progress is told by tenant: {ran:?}"
    );
    let again = desk.run(&[]);
    assert_eq!((again.code, &*again.out), (Some(0), ""), "{again:?}");
    assert!(again.talk.contains("were over before"), "{again:?}");
    let seen = desk.upstream.end();
    assert_eq!((&seen["seen"], &seen["refused"]), (&40.into(), &0.into()));
}

#[test]
fn a_table_is_done_as_lines_are() {
    let desk = Desk::new("100/s", "");
    let rows = "tenant,api,method,path,json,headers\n\
                acme,up,POST,/a,\"{\"\"n\"\":1}\",\"{\"\"X-A\"\":\"\"1\"\"}\"\nacme,up,,/b,,\n";
    fs::write(desk.path("jobs.csv"), rows).expect("writable");
    let flags = ["bulk", "run", "jobs.csv", "--out", "out.ndjson", "--json"];
    let report = run_in(desk.folder.path(), &flags).json(0);
    fs::write(desk.path("again.CSV"), rows).expect("writable");
    let shouted = ["bulk", "run", "again.CSV", "--dry-run", "--json"];
    assert_eq!(run_in(desk.folder.path(), &shouted).json(0)["jobs"], 2);
    assert_eq!(
        (&report["done"], &report["finished"]),
        (&2.into(), &true.into()),
        "{report}"
    );
    assert_eq!(lines(&results(&desk.path("out.ndjson"))), [2, 3].into());
    assert_eq!(desk.upstream.end()["seen"], 2);
}

// Lines 2, 4 and 5 are wrong for three reasons, of which the last two need the configuration or the rest
// of the file.
#[test]
fn every_wrong_line_is_told_and_nothing_is_sent() {
    let good = r#"{"id":"a","api":"up","path":"/1"}"#;
    let text = format!("{good}\n{{\"api\":\n\n{{\"api\":\"nope\",\"path\":\"/\"}}\n{good}\n");
    let desk = Desk::new("100/s", &text);
    let ran = desk.run(&[]);
    assert_eq!((ran.code, &*ran.out), (Some(2), ""), "{ran:?}");
    for said in [
        "jobs.ndjson:2: ",
        "jobs.ndjson:4: no API is called \"nope\"",
        "jobs.ndjson:5: id: line 1 has the same",
        "3 lines are invalid, and nothing was sent",
        "--skip-invalid",
    ] {
        assert!(ran.talk.contains(said), "{said} in {}", ran.talk);
    }
    let ran = desk.run(&["--skip-invalid"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(read(&ran.out).len(), 1, "{ran:?}");
    assert_eq!(desk.upstream.end()["seen"], 1);
}

// A file of wrong lines and an empty one, with results and without.
#[test]
fn whoever_reads_documents_gets_one_when_nothing_is_sent() {
    let desk = Desk::new("100/s", "{\"api\":\"nope\",\"path\":\"/\"}\n{\"api\":\n");
    for flags in [&["--json", "--out", "out"][..], &["--json", "--dry-run"]] {
        let told = desk.run(flags).json(2);
        assert_eq!(told["exit_code"], 2, "{told}");
        let because = told["because"][0].as_str().expect("a line");
        assert!(because.starts_with("jobs.ndjson:1: no API"), "{told}");
        fs::write(desk.path("empty.ndjson"), "\n").expect("writable");
        let empty = [&["bulk", "run", "empty.ndjson"], flags].concat();
        let told = run_in(desk.folder.path(), &empty).json(2);
        let error = told["error"].as_str().expect("words");
        assert!(error.contains("has no valid job"), "{told}");
    }
    assert_eq!(desk.upstream.end()["seen"], 0);
}

// 60 jobs at 10/s: the last ten go after five seconds. Two thirds are one tenant's.
#[test]
fn a_dry_run_says_how_long_it_takes_and_sends_nothing() {
    let text = jobs(&["acme"], 40) + &jobs(&["bolt"], 20);
    let desk = Desk::new("10/s", &text);
    let told = desk.run(&["--dry-run", "--json"]).json(0);
    assert_eq!(
        (&told["ideal_ms"], &told["jobs"]),
        (&5_000.into(), &60.into()),
        "{told}"
    );
    assert_eq!(told["tenants"][1]["alone_ms"], 1_000, "{told}");
    let ran = desk.run(&["--dry-run"]);
    assert!(
        ran.out
            .contains("60 jobs take at least 5.0 s, by 10/s of up"),
        "{ran:?}"
    );
    assert!(!desk.path(".outflow").exists(), "nothing is kept either");
    assert_eq!(desk.upstream.end()["seen"], 0);
}

// 60 jobs at 20/s, killed once ten results are there: whatever was under way then is done again, at most
// as many as can be under way, and every line still has exactly one result.
#[test]
fn a_killed_run_goes_on_where_it_was() {
    let desk = Desk::new("20/s", &jobs(&["acme", "bolt", "corp"], 20));
    let out = desk.path("out.ndjson");
    let flags = ["--out", "out.ndjson"];
    let mut first = desk.start(&flags);
    wait_for_results(&mut first, &out, 10);
    first.kill().expect("a signal");
    first.wait(PATIENCE).expect("it is gone");
    let before = results(&out).len();
    assert!((10..60).contains(&before), "{before}");
    let ran = desk.run(&flags);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let results = results(&out);
    assert_eq!(results.len(), 60, "none twice");
    assert_eq!(lines(&results), (1..=60).collect(), "and none missing");
    let seen = desk.upstream.end();
    let sent = seen["seen"].as_u64().expect("a count");
    assert!((60..=80).contains(&sent), "{seen}");
}

#[test]
fn an_interrupted_run_keeps_its_jobs_and_goes_on() {
    let desk = Desk::new("20/s", &jobs(&["acme"], 60));
    let out = desk.path("out.ndjson");
    let flags = ["--out", "out.ndjson", "--dir", "kept"];
    let mut first = desk.start(&flags);
    wait_for_results(&mut first, &out, 10);
    first.terminate().expect("a signal");
    let ended = first.wait(PATIENCE).expect("it ends");
    assert_eq!(ended.code(), Some(130));
    first
        .wait_for_line("repeat the command to resume", PATIENCE)
        .expect("it says how to go on");
    let other = run_in(
        desk.folder.path(),
        &["bulk", "run", "outflow.toml", "--dir", "kept"],
    );
    assert_eq!(
        other.code,
        Some(2),
        "another file does not go there: {other:?}"
    );
    let ran = desk.run(&flags);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.talk.contains("jobs are over already; resuming"),
        "{ran:?}"
    );
    assert_eq!(lines(&results(&out)), (1..=60).collect());
    assert_eq!(results(&out).len(), 60);
    // A clean end leaves nothing to be done twice.
    let seen = desk.upstream.end();
    assert_eq!((&seen["seen"], &seen["refused"]), (&60.into(), &0.into()));
}

/// Waits until so many results are written.
pub(super) fn wait_for_results(process: &mut Process, out: &Path, count: usize) {
    for _ in 0..2_000 {
        let written = fs::read_to_string(out).unwrap_or_default();
        if written.lines().count() >= count {
            return;
        }
        assert!(
            process.status().expect("known").is_none(),
            "{:?}",
            process.lines()
        );
        // Looks for lines that never come, which takes as long as one wants.
        let _none = process.wait_for_line("\u{0}", std::time::Duration::from_millis(10));
    }
    panic!("no results: {:?}", process.lines());
}

// Everything fails on purpose, and one retry each is granted: two attempts, then the reason.
#[test]
fn what_failed_is_told_with_its_reason_and_by_the_exit_code() {
    let text = "{\"api\":\"up\",\"path\":\"/1\",\"max_retries\":0}\n";
    let desk = Desk::with(&["--fail", "100%"], "limits = [\"100/s\"]", text);
    let ran = desk.run(&[]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let result = &read(&ran.out)[0];
    assert_eq!(result["ended"], "failed", "{result}");
    let reason = result["error"].as_str().expect("a reason");
    assert!(reason.contains("answered 5"), "{result}");
    assert!(ran.talk.contains("1 failed"), "{ran:?}");
}

#[test]
fn a_wrong_call_is_a_usage_error() {
    let desk = Desk::new("10/s", &jobs(&["acme"], 1));
    for (flags, said) in [
        (&["--json"][..], "--out"),
        (&["--out", "outflow.toml"], "exists with other content"),
    ] {
        let ran = desk.run(flags);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.talk.contains(said), "{ran:?}");
    }
    let ran = run_in(desk.folder.path(), &["bulk", "run", "missing.ndjson"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    fs::write(desk.path("empty.ndjson"), "\n").expect("writable");
    let ran = run_in(desk.folder.path(), &["bulk", "run", "empty.ndjson"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.talk.contains("has no valid job"), "{ran:?}");
    assert_eq!(desk.upstream.end()["seen"], 0);
}
