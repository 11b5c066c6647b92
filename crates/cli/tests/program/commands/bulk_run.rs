//! `outflow bulk run`: files of jobs against a mock API, with crashes in between.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use outflow_mock::{MockApi, MockResponse};
use outflow_testkit::Process;
use serde_json::Value;
use tempfile::TempDir;

use super::support::{MockProcess, RunOutput, command, configured, run_in};
use crate::support::PATIENCE;

/// A folder with a configuration for a mock API and a file of jobs.
pub(super) struct BulkRun {
    pub(super) folder: TempDir,
    pub(super) mock: MockProcess,
}

impl BulkRun {
    /// Starts an API with this limit and configures the same limit.
    pub(super) fn new(limit: &str, jobs: &str) -> Self {
        Self::with(&["--limit", limit], &format!("limits = [\"{limit}\"]"), jobs)
    }

    pub(super) fn with(flags: &[&str], config: &str, jobs: &str) -> Self {
        let mock = MockProcess::start(flags);
        let folder = configured(&mock.config(config));
        fs::write(folder.path().join("jobs.ndjson"), jobs).expect("writable");
        Self { folder, mock }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn run(&self, flags: &[&str]) -> RunOutput {
        run_in(self.folder.path(), &[&["bulk", "run", "jobs.ndjson"], flags].concat())
    }

    pub(super) fn start(&self, flags: &[&str]) -> Process {
        let arguments = [&["bulk", "run", "jobs.ndjson"], flags].concat();
        Process::start(command(self.folder.path(), &arguments)).expect("it starts")
    }
}

/// Renders this number of jobs for each tenant.
pub(super) fn jobs(tenants: &[&str], each: usize) -> String {
    let line =
        |tenant: &&str, number| format!("{{\"tenant\":\"{tenant}\",\"api\":\"up\",\"path\":\"/{tenant}/{number}\"}}\n");
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

/// Returns the lines of the file that have a result.
pub(super) fn lines(results: &[Value]) -> BTreeSet<u64> {
    results.iter().filter_map(|result| result["line"].as_u64()).collect()
}

// 40 jobs at 20/s: two windows, and the API throttles nothing.
#[test]
fn bulk_run_sends_a_file_at_its_limit_with_a_result_for_every_line() {
    let bulk = BulkRun::new("20/s", &jobs(&["acme", "bolt"], 20));
    let ran = bulk.run(&[]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let results = read(&ran.out);
    assert_eq!(lines(&results), (1..=40).collect());
    assert_eq!(results.len(), 40);
    assert!(results.iter().all(|one| one["ended"] == "done" && one["status"] == 200));
    assert!(
        ran.talk.contains("40 jobs: 40 done; 40 attempts, 0 throttled"),
        "{ran:?}"
    );
    assert!(ran.talk.contains("ideal 1.0 s (by 20/s of up)"), "{ran:?}");
    assert!(ran.talk.contains("acme: "), "progress by tenant: {ran:?}");
    let again = bulk.run(&[]);
    assert_eq!((again.code, &*again.out), (Some(0), ""), "{again:?}");
    assert!(again.talk.contains("were over before"), "{again:?}");
    let seen = bulk.mock.end();
    assert_eq!((&seen["seen"], &seen["refused"]), (&40.into(), &0.into()));
}

#[test]
fn bulk_run_reads_csv_tables() {
    let bulk = BulkRun::new("100/s", "");
    let rows = "tenant,api,method,path,json,headers\n\
                acme,up,POST,/a,\"{\"\"n\"\":1}\",\"{\"\"X-A\"\":\"\"1\"\"}\"\nacme,up,,/b,,\n";
    fs::write(bulk.path("jobs.csv"), rows).expect("writable");
    let flags = ["bulk", "run", "jobs.csv", "--out", "out.ndjson", "--json"];
    let report = run_in(bulk.folder.path(), &flags).json(0);
    fs::write(bulk.path("again.CSV"), rows).expect("writable");
    let shouted = ["bulk", "run", "again.CSV", "--dry-run", "--json"];
    assert_eq!(run_in(bulk.folder.path(), &shouted).json(0)["jobs"], 2);
    assert_eq!(
        (&report["done"], &report["finished"]),
        (&2.into(), &true.into()),
        "{report}"
    );
    assert_eq!(lines(&results(&bulk.path("out.ndjson"))), [2, 3].into());
    assert_eq!(bulk.mock.end()["seen"], 2);
}

// Lines 2, 4 and 5 are invalid. Finding the last two takes the configuration and the rest of the file.
#[test]
fn bulk_run_reports_every_invalid_line_and_sends_nothing() {
    let good = r#"{"id":"a","api":"up","path":"/1"}"#;
    let text = format!("{good}\n{{\"api\":\n\n{{\"api\":\"nope\",\"path\":\"/\"}}\n{good}\n");
    let bulk = BulkRun::new("100/s", &text);
    let ran = bulk.run(&[]);
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
    let ran = bulk.run(&["--skip-invalid"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(read(&ran.out).len(), 1, "{ran:?}");
    assert_eq!(bulk.mock.end()["seen"], 1);
}

// A file of invalid lines and an empty file, with results and without.
#[test]
fn bulk_run_prints_a_json_document_when_it_sends_nothing() {
    let bulk = BulkRun::new("100/s", "{\"api\":\"nope\",\"path\":\"/\"}\n{\"api\":\n");
    for flags in [&["--json", "--out", "out"][..], &["--json", "--dry-run"]] {
        let document = bulk.run(flags).json(2);
        assert_eq!(document["exit_code"], 2, "{document}");
        let because = document["because"][0].as_str().expect("a line");
        assert!(because.starts_with("jobs.ndjson:1: no API"), "{document}");
        fs::write(bulk.path("empty.ndjson"), "\n").expect("writable");
        let empty = [&["bulk", "run", "empty.ndjson"], flags].concat();
        let document = run_in(bulk.folder.path(), &empty).json(2);
        let error = document["error"].as_str().expect("words");
        assert!(error.contains("has no valid job"), "{document}");
    }
    assert_eq!(bulk.mock.end()["seen"], 0);
}

// 60 jobs at 10/s: the last ten start after five seconds, a tenth of a second apart, and the last takes the assumed
// 200 ms. The first fifty calls count from their responses. One tenant owns two thirds.
#[test]
fn a_dry_run_prints_the_estimate_and_sends_nothing() {
    let text = jobs(&["acme"], 40) + &jobs(&["bolt"], 20);
    let bulk = BulkRun::new("10/s", &text);
    let document = bulk.run(&["--dry-run", "--json"]).json(0);
    assert_eq!(
        (&document["ideal_ms"], &document["jobs"]),
        (&5_000.into(), &60.into()),
        "{document}"
    );
    assert_eq!(document["tenants"][1]["alone_ms"], 1_000, "{document}");
    let ran = bulk.run(&["--dry-run"]);
    assert!(ran.out.contains("60 jobs take about 6.9 s, by 10/s of up"), "{ran:?}");
    assert!(!bulk.path(".outflow").exists(), "nothing is kept either");
    assert_eq!(bulk.mock.end()["seen"], 0);
}

// 300 jobs at 30/s need ten seconds, and 75 rounds of four at once that take 200 ms each fifteen. With calls of
// 100 ms the limit binds again.
#[test]
fn a_dry_run_promises_no_more_than_concurrency_allows() {
    let bulk = BulkRun::with(
        &["--limit", "30/s"],
        "limits = [\"30/s\"]\nconcurrency = 4",
        &jobs(&["acme", "bolt", "corp"], 100),
    );
    let document = bulk.run(&["--dry-run", "--json"]).json(0);
    assert_eq!(
        (&document["ideal_ms"], &document["estimate_ms"]),
        (&9_000.into(), &15_000.into())
    );
    assert_eq!(document["in_flight"]["binds_above_ms"], 137, "{document}");
    let text = bulk.run(&["--dry-run"]).out;
    let expected = "300 jobs take about 15.0 s, by concurrency 4 of up, if a call takes 200ms (`--latency`)\n\
                    the limits alone need 10.3 s, by 30/s of up: above 137ms a call `concurrency` binds, raise it\n";
    assert!(text.starts_with(expected), "{text}");
    let near = bulk.run(&["--dry-run", "--latency", "100ms"]).out;
    assert!(
        near.starts_with("300 jobs take about 10.1 s, by 30/s of up\n"),
        "{near}"
    );
    assert_eq!(bulk.mock.end()["seen"], 0);
}

// The mock takes 150 ms, and two calls at once are 13 a second: the run says why it takes longer than its limit.
#[test]
fn a_run_says_that_concurrency_binds() {
    let bulk = BulkRun::with(
        &["--limit", "30/s", "--latency", "150ms"],
        "limits = [\"30/s\"]\nconcurrency = 2",
        &jobs(&["acme"], 40),
    );
    let ran = bulk.run(&["--out", "out.ndjson"]);
    let bound = "up: 2 of 2 calls in flight: concurrency binds, not the limit 30/s; raise `concurrency`";
    assert_eq!((ran.code, ran.talk.matches(bound).count()), (Some(0), 2), "{ran:?}");
}

// 60 jobs at 20/s, killed after ten results. Jobs that were in flight run again, and every line still has
// exactly one result.
#[test]
fn a_killed_run_resumes() {
    let bulk = BulkRun::new("20/s", &jobs(&["acme", "bolt", "corp"], 20));
    let out = bulk.path("out.ndjson");
    let flags = ["--out", "out.ndjson"];
    let mut first = bulk.start(&flags);
    wait_for_results(&mut first, &out, 10);
    first.kill().expect("a signal");
    first.wait(PATIENCE).expect("it is gone");
    let before = results(&out).len();
    assert!((10..60).contains(&before), "{before}");
    let ran = bulk.run(&flags);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let results = results(&out);
    assert_eq!(results.len(), 60, "none twice");
    assert_eq!(lines(&results), (1..=60).collect(), "and none missing");
    let seen = bulk.mock.end();
    let sent = seen["seen"].as_u64().expect("a count");
    assert!((60..=80).contains(&sent), "{seen}");
}

#[test]
fn an_interrupted_run_keeps_its_jobs_and_resumes() {
    let bulk = BulkRun::new("20/s", &jobs(&["acme"], 60));
    let out = bulk.path("out.ndjson");
    let flags = ["--out", "out.ndjson", "--dir", "kept"];
    let mut first = bulk.start(&flags);
    wait_for_results(&mut first, &out, 10);
    first.terminate().expect("a signal");
    let ended = first.wait(PATIENCE).expect("it ends");
    assert_eq!(ended.code(), Some(130));
    first
        .wait_for_line("repeat the command to resume", PATIENCE)
        .expect("it says how to go on");
    let other = run_in(bulk.folder.path(), &["bulk", "run", "outflow.toml", "--dir", "kept"]);
    assert_eq!(other.code, Some(2), "another file does not go there: {other:?}");
    let ran = bulk.run(&flags);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.talk.contains("jobs are over already; resuming"), "{ran:?}");
    assert_eq!(lines(&results(&out)), (1..=60).collect());
    assert_eq!(results(&out).len(), 60);
    // A clean end leaves no job to be sent twice.
    let seen = bulk.mock.end();
    assert_eq!((&seen["seen"], &seen["refused"]), (&60.into(), &0.into()));
}

/// Waits until the file holds this number of results.
pub(super) fn wait_for_results(process: &mut Process, out: &Path, count: usize) {
    for _ in 0..2_000 {
        let written = fs::read_to_string(out).unwrap_or_default();
        if written.lines().count() >= count {
            return;
        }
        assert!(process.status().expect("known").is_none(), "{:?}", process.lines());
        // No line holds this text, so the call only sleeps and collects lines.
        let _none = process.wait_for_line("\u{0}", std::time::Duration::from_millis(10));
    }
    panic!("no results: {:?}", process.lines());
}

// Every attempt fails and no retry is granted.
#[test]
fn bulk_run_reports_failed_jobs_by_error_and_exit_code() {
    let text = "{\"api\":\"up\",\"path\":\"/1\",\"max_retries\":0}\n";
    let bulk = BulkRun::with(&["--fail", "100%"], "limits = [\"100/s\"]", text);
    let ran = bulk.run(&[]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let result = &read(&ran.out)[0];
    assert_eq!(result["ended"], "failed", "{result}");
    let reason = result["error"].as_str().expect("a reason");
    assert!(reason.contains("answered 5"), "{result}");
    assert!(ran.talk.contains("1 failed"), "{ran:?}");
}

/// Timeout of an action, in place of the hour that a user has: a test cannot wait for it.
const SHORT: &str = "\n[bulk]\naction_timeout = \"2s\"\n";

// The API fails for ever: the run stops, says so, and keeps every job for the next run.
#[test]
fn a_run_of_an_api_that_fails_for_ever_stops_and_keeps_its_jobs() {
    let config = format!("limits = [\"100/s\"]{SHORT}");
    let bulk = BulkRun::with(&["--fail", "100%"], &config, &jobs(&["acme"], 20));
    let ran = bulk.run(&["--out", "out.ndjson"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.talk.contains("repeat the command"), "{ran:?}");
    assert!(results(&bulk.path("out.ndjson")).is_empty(), "no job is lost or dead");
    let again = bulk.run(&["--out", "out.ndjson"]);
    assert_eq!(again.code, Some(3), "{again:?}");
    assert!(!again.talk.contains("over already"), "{again:?}");
}

// The API asks for ten minutes: it named its time, so the run waits for longer than its timeout and says why.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_waits_for_a_time_that_the_api_named() {
    let asks = MockResponse::status(503).header("retry-after", "600");
    let api = MockApi::builder().answer("/**", asks).build().expect("valid");
    let server = api.listen().await.expect("a port");
    let url = server.url();
    let folder = configured(&format!(
        "[apis.up]\nbase_url = \"{url}\"\nlimits = [\"10/s\"]\n{SHORT}"
    ));
    fs::write(folder.path().join("jobs.ndjson"), jobs(&["acme"], 5)).expect("writable");
    let arguments = ["bulk", "run", "jobs.ndjson", "--out", "out.ndjson"];
    let mut process = Process::start(command(folder.path(), &arguments)).expect("it starts");
    // Lines come every five seconds, the first before any response: the third is far behind the timeout.
    let mut line = String::new();
    for _ in 0..3 {
        line = process.wait_for_line("all: 0/5", PATIENCE).expect("progress");
    }
    assert!(
        line.contains("9 min") && line.contains("it asked for this wait"),
        "{line}"
    );
    assert!(process.status().expect("known").is_none(), "it goes on");
    process.kill().expect("a signal");
}

#[test]
fn bulk_run_rejects_invalid_arguments() {
    let bulk = BulkRun::new("10/s", &jobs(&["acme"], 1));
    for (flags, said) in [
        (&["--json"][..], "--out"),
        (&["--out", "outflow.toml"], "exists with other content"),
    ] {
        let ran = bulk.run(flags);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.talk.contains(said), "{ran:?}");
    }
    let ran = run_in(bulk.folder.path(), &["bulk", "run", "missing.ndjson"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    fs::write(bulk.path("empty.ndjson"), "\n").expect("writable");
    let ran = run_in(bulk.folder.path(), &["bulk", "run", "empty.ndjson"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.talk.contains("has no valid job"), "{ran:?}");
    assert_eq!(bulk.mock.end()["seen"], 0);
}
