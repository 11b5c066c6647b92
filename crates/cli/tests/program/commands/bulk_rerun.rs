//! `outflow bulk run` of a file that ran before: concurrently, with another configuration, after its end, and
//! for failed jobs.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::thread;

use serde_json::Value;

use super::bulk_run::{BulkRun, jobs, lines, results, wait_for_results};
use super::bulk_submit::answer;
use super::support::{MockProcess, configured, document, run_in};
use crate::support::PATIENCE;

/// Configures a second API at the same URL with a low limit.
fn other_api(bulk: &BulkRun) -> String {
    let url = &bulk.mock.url;
    format!("[apis.other]\nbase_url = \"{url}\"\nlimits = [\"2/s\"]\n")
}

/// Renders jobs of the second API.
fn other_jobs(count: usize) -> String {
    let line = |number| format!("{{\"api\":\"other\",\"path\":\"/other/{number}\"}}\n");
    (0..count).map(line).collect()
}

fn configure(bulk: &BulkRun, text: &str) {
    fs::write(bulk.path("outflow.toml"), text).expect("writable");
}

pub(super) fn kill_after_results(bulk: &BulkRun, flags: &[&str], after: usize) {
    let mut process = bulk.start(flags);
    wait_for_results(&mut process, &bulk.path("out"), after);
    process.kill().expect("a signal");
    process.wait(PATIENCE).expect("it is gone");
}

fn ids(results: &[Value]) -> BTreeSet<&str> {
    let ids = results.iter().filter_map(|result| result["id"].as_str());
    ids.collect()
}

// 60 jobs at 20/s: the second start comes in the middle of the first run.
#[test]
fn bulk_run_refuses_a_concurrent_second_start() {
    let bulk = BulkRun::new("20/s", &jobs(&["acme"], 60));
    let flags = ["--out", "out"];
    let mut first = bulk.start(&flags);
    wait_for_results(&mut first, &bulk.path("out"), 10);
    for again in [&["--out", "./out"][..], &["--out", "elsewhere"]] {
        let second = bulk.run(again);
        assert_eq!(second.code, Some(1), "{second:?}");
        assert!(second.talk.contains("another process runs this file"), "{second:?}");
    }
    assert!(!bulk.path("elsewhere").exists());
    let ended = first.wait(PATIENCE).expect("it ends");
    assert_eq!(ended.code(), Some(0), "{:?}", first.lines());
    let results = results(&bulk.path("out"));
    assert_eq!((results.len(), ids(&results).len()), (60, 60));
    assert_eq!(bulk.mock.end()["seen"], 60);
}

// 30 jobs at 20/s and one of an unknown API. The run is killed, then continues with that API configured.
#[test]
fn bulk_run_sends_a_skipped_line_once_its_api_is_configured() {
    let text = jobs(&["acme"], 30) + &other_jobs(1);
    let bulk = BulkRun::with(&["--limit", "1000/s"], "limits = [\"20/s\"]", &text);
    let flags = ["--skip-invalid", "--out", "out"];
    kill_after_results(&bulk, &flags, 10);
    let config = bulk.mock.config("limits = [\"20/s\"]");
    configure(&bulk, &(config + &other_api(&bulk)));
    let ran = bulk.run(&flags);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(lines(&results(&bulk.path("out"))), (1..=31).collect());
}

// The first run ends with one of two lines, the second run sends the other, the third sends nothing. A run
// without jobs must not wait for the long window.
#[test]
fn a_finished_run_sends_skipped_lines_and_otherwise_ends_at_once() {
    let text = jobs(&["acme"], 1) + &other_jobs(1);
    let bulk = BulkRun::with(&["--limit", "1000/s"], "limits = [\"5/s\"]", &text);
    let flags = ["--skip-invalid", "--out", "out"];
    assert_eq!(bulk.run(&flags).code, Some(0));
    assert_eq!(lines(&results(&bulk.path("out"))), [1].into());
    let config = bulk.mock.config("limits = [\"5/s\"]") + &other_api(&bulk);
    configure(&bulk, &config);
    let ran = bulk.run(&flags);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(lines(&results(&bulk.path("out"))), [1, 2].into());
    configure(&bulk, &config.replace("5/s", "5/min"));
    let again = bulk.run(&flags);
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(again.talk.contains("nothing was sent"), "{again:?}");
    assert!(!again.talk.contains("waiting"), "{again:?}");
    assert_eq!(bulk.mock.end()["seen"], 2);
}

// Ten jobs of an API at 2/s wait when the run is killed. The next run does not know the API.
#[test]
fn bulk_run_reports_and_keeps_jobs_of_a_removed_api() {
    let text = other_jobs(10) + &jobs(&["acme"], 40);
    let bulk = BulkRun::with(&["--limit", "1000/s"], "limits = [\"20/s\"]", &text);
    let config = bulk.mock.config("limits = [\"20/s\"]");
    let both = format!("{config}{}", other_api(&bulk));
    configure(&bulk, &both);
    let flags = ["--skip-invalid", "--out", "out"];
    kill_after_results(&bulk, &flags, 12);
    configure(&bulk, &config);
    let ran = bulk.run(&flags);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.talk.contains("waits in"), "{ran:?}");
    assert!(ran.talk.contains("for `other`"), "{ran:?}");
    configure(&bulk, &both);
    let ran = bulk.run(&flags);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(lines(&results(&bulk.path("out"))), (1..=50).collect());
}

// Both lines fail for good; then the configuration names an API that works. One line has its own id.
#[test]
fn retry_failed_sends_failed_jobs_again() {
    let text = "{\"id\":\"order-7\",\"api\":\"up\",\"path\":\"/7\",\"max_retries\":0}\n\
                {\"api\":\"up\",\"path\":\"/8\",\"max_retries\":0}\n";
    let bulk = BulkRun::with(&["--fail", "100%"], "limits = [\"100/s\"]", text);
    let flags = ["--out", "out"];
    let ran = bulk.run(&flags);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.talk.contains("--retry-failed"), "{ran:?}");
    assert_eq!(lines(&results(&bulk.path("out"))), [1, 2].into());
    let works = MockProcess::start(&[]);
    configure(&bulk, &works.config("limits = [\"100/s\"]"));
    assert_eq!(bulk.run(&flags).code, Some(3), "without the flag");
    let again = bulk.run(&["--out", "out", "--retry-failed"]);
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(again.talk.contains("2 jobs: 2 done"), "{again:?}");
    let results = results(&bulk.path("out"));
    let retried: Vec<_> = results.iter().filter(|one| one["round"] == 2).collect();
    assert_eq!((results.len(), retried.len()), (4, 2));
    let named = retried.iter().find(|one| one["line"] == 1).expect("line 1");
    assert_eq!((&named["id"], &named["ended"]), (&"order-7".into(), &"done".into()));
    let over = bulk.run(&["--out", "out", "--retry-failed"]);
    assert_eq!(over.code, Some(0), "{over:?}");
    assert!(over.talk.contains("nothing was sent"), "{over:?}");
    assert_eq!(works.end()["seen"], 2);
}

// The key comes from a header, from a field, or from the job id. The API refuses each line for good twice.
#[test]
fn retry_failed_keeps_idempotency_keys() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let place = listener.local_addr().expect("an address");
    let folder = configured(&format!("[apis.shop]\nbase_url = \"http://{place}\"\n"));
    let lines = [
        r#"{"api":"shop","method":"POST","path":"/1","headers":{"Idempotency-Key":"pay-77"},"body":"x"}"#,
        r#"{"api":"shop","method":"POST","path":"/2","idempotency_key":"pay-78"}"#,
        r#"{"id":"pay-79","api":"shop","method":"POST","path":"/3"}"#,
    ];
    fs::write(folder.path().join("jobs.ndjson"), lines.join("\n")).expect("writable");
    let keys = || {
        let mut keys = BTreeSet::new();
        for _ in 0..lines.len() {
            let stream = listener.accept().expect("a connection").0;
            let asked = answer(stream, ("400 Bad Request", "{}")).to_lowercase();
            let said = asked.lines();
            let said = said.filter_map(|line| line.strip_prefix("idempotency-key: "));
            keys.insert(said.collect::<Vec<_>>().join(" and "));
        }
        keys
    };
    let expected: BTreeSet<_> = ["pay-77", "pay-78", "pay-79"].map(str::to_owned).into();
    for more in [&[][..], &["--retry-failed"]] {
        let ran = thread::scope(|threads| {
            let sent = threads.spawn(keys);
            let run = ["bulk", "run", "jobs.ndjson", "--out", "out"];
            let ran = run_in(folder.path(), &[&run[..], more].concat());
            assert_eq!(sent.join().expect("all came"), expected, "{more:?}");
            ran
        });
        assert_eq!(ran.code, Some(3), "{ran:?}");
    }
}

// Both lines have one id, and the run sends the first.
#[test]
fn a_duplicate_id_belongs_to_the_first_line() {
    let line = "{\"id\":\"a\",\"api\":\"up\",\"path\":\"/\",\"max_retries\":0}\n";
    let text = format!("{line}{line}");
    let bulk = BulkRun::with(&["--fail", "100%"], "limits = [\"100/s\"]", &text);
    let flags = ["--skip-invalid", "--out", "out"];
    assert_eq!(bulk.run(&flags).code, Some(3));
    assert_eq!(lines(&results(&bulk.path("out"))), [1].into());
    let works = MockProcess::start(&[]);
    configure(&bulk, &works.config("limits = [\"100/s\"]"));
    let again = bulk.run(&[&flags[..], &["--retry-failed"]].concat());
    assert_eq!(again.code, Some(0), "{again:?}");
    let results = results(&bulk.path("out"));
    let last = results.last().expect("a result");
    let expected = (&1.into(), &2.into(), &"a".into());
    assert_eq!((&last["line"], &last["round"], &last["id"]), expected);
    assert_eq!(works.end()["seen"], 1);
}

// The first line has the id and is invalid; the second is valid.
#[test]
fn an_invalid_line_does_not_reserve_its_id() {
    let text = "{\"id\":\"a\",\"api\":\"nope\",\"path\":\"/\"}\n\
                {\"id\":\"a\",\"api\":\"up\",\"path\":\"/\"}\n";
    let bulk = BulkRun::new("100/s", text);
    let ran = bulk.run(&["--skip-invalid", "--out", "out"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(lines(&results(&bulk.path("out"))), [2].into());
    assert_eq!(bulk.mock.end()["seen"], 1);
}

// 12 jobs at 10 in 3 s: the first ten start at once. The second run waits for most of 3 s, then sends two in
// less than a second.
#[test]
fn the_pace_of_a_rerun_excludes_the_wait_for_old_windows() {
    let bulk = BulkRun::new("10/3s", &jobs(&["acme"], 12));
    kill_after_results(&bulk, &["--out", "out"], 10);
    let ran = bulk.run(&["--out", "out", "--json"]);
    assert!(ran.talk.contains("waiting"), "{ran:?}");
    let report = ran.json(0);
    assert_eq!(report["in_this_sitting"], 2, "{report}");
    let actual = report["actual_ms"].as_u64().expect("a number");
    assert!(actual < 1_800, "{actual} ms");
}

// 8 jobs at 5 in 20 s, killed after five: the second run waits long enough to be interrupted.
#[test]
fn bulk_run_prints_a_json_report_when_its_wait_is_interrupted() {
    let bulk = BulkRun::new("5/20s", &jobs(&["acme"], 8));
    kill_after_results(&bulk, &["--out", "out"], 5);
    let mut waits = bulk.start(&["--out", "out", "--json"]);
    waits.wait_for_line("waiting", PATIENCE).expect("it waits");
    waits.terminate().expect("a signal");
    let ended = waits.wait(PATIENCE).expect("it ends");
    assert_eq!(ended.code(), Some(130));
    let report = document(&mut waits);
    assert_eq!((&report["finished"], &report["jobs"]), (&false.into(), &5.into()));
    assert_eq!(report["in_this_sitting"], 0, "{report}");
}

#[test]
fn bulk_run_writes_results_to_stdout_for_a_dash() {
    let bulk = BulkRun::new("100/s", &jobs(&["acme"], 2));
    let ran = bulk.run(&["--out", "-"]);
    assert_eq!((ran.code, ran.out.lines().count()), (Some(0), 2), "{ran:?}");
    assert!(!bulk.path("-").exists());
}

// 5 finished jobs: an emptied database and a missing one must not look like a file that never ran.
#[test]
fn bulk_run_refuses_a_run_whose_store_is_lost() {
    let bulk = BulkRun::new("1000/s", &jobs(&["acme"], 5));
    let flags = ["--dir", "mine", "--out", "out"];
    let ran = bulk.run(&flags);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let gone = |what: &str| {
        let again = bulk.run(&flags);
        assert_eq!(again.code, Some(1), "{again:?}");
        assert!(again.talk.contains(what), "{again:?}");
        assert!(again.talk.contains("restore"), "{again:?}");
    };
    let kept = bulk.path("mine/jobs");
    fs::write(kept.join("jobs.db"), b"").expect("emptied");
    gone("jobs.db is empty or gone");
    fs::remove_dir_all(&kept).expect("removed");
    gone("the jobs of this run are missing");
    gone("the jobs of this run are missing");
    assert_eq!(bulk.mock.end()["seen"], 5);
}
