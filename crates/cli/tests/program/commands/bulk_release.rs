//! `outflow bulk release` and its admin route: deferred jobs continue, and no faster than their limit.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use super::bulk_serve::{BulkProgram, jobs};
use super::serve::serve;
use super::support::{MockProcess, configured};
use crate::support::PATIENCE;

/// Starts a backoff scheduler at 10/s that defers a job for at least a minute, so no job moves between two
/// queries.
fn start_backoff() -> BulkProgram {
    let mock = MockProcess::start(&["--limit", "10/s"]);
    let bulk = "[bulk]\ndir = \"kept\"\nscheduler = \"backoff\"\n\
                congestion = { base_backoff = \"1m\", max_backoff = \"2m\" }\n";
    let folder = configured(&(bulk.to_owned() + &mock.config("limits = [\"10/s\"]")));
    let served = serve(&folder, &["--bulk"]);
    BulkProgram { folder, mock, served }
}

impl BulkProgram {
    /// Returns the number of deferred jobs once every other job is done.
    fn count_deferred(&self) -> u64 {
        for _ in 0..MAX_QUERIES {
            let jobs = &self.json(&["status"])["jobs"];
            let number = |name: &str| jobs[name].as_u64().expect("a number");
            if number("queued") == number("non_ready") && number("in_flight") == 0 {
                return number("non_ready");
            }
        }
        panic!("it does not come to rest: {}", self.json(&["status"]));
    }

    /// Posts a body to the admin API and returns its response.
    fn post(&self, path: &str, body: &str) -> Value {
        let host = self.served.admin.trim_start_matches("http://");
        let mut stream = TcpStream::connect(host).expect("a listener");
        stream.set_read_timeout(Some(PATIENCE)).expect("settable");
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        let request = head + body;
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        let (_, document) = answer.split_once("\r\n\r\n").expect("a body");
        serde_json::from_str(document).expect("a document")
    }
}

// Ten of 40 jobs run and up to thirty are deferred, fewer on a slow machine. The command releases five, the
// admin API five more; both report how many are left. A job without a permit is deferred again, so the loop
// releases repeatedly. No second sees more than ten calls.
#[test]
fn released_jobs_pass_through_the_limiter() {
    let program = start_backoff();
    program.jobs("jobs.ndjson", &jobs("acme", 40));
    program.output(&["submit", "jobs.ndjson", "--action", "a"]);
    let waiting = program.count_deferred();
    assert!((11..=30).contains(&waiting), "{waiting}");
    let output = program.output(&["release", "acme", "5"]);
    let left = waiting - 5;
    assert!(
        output.starts_with(&format!("{left} jobs are still deferred")),
        "{output}"
    );
    let waiting = program.count_deferred();
    let path = "/v1/bulk/tenants/acme/release";
    let output = program.post(path, "{\"most\":5}");
    assert_eq!(
        (&output["what"], &output["jobs"]),
        (&"release".into(), &(waiting - 5).into())
    );
    for _ in 0..MAX_QUERIES {
        if program.count_deferred() == 0 {
            break;
        }
        let output = program.json(&["release", "acme"]);
        assert_eq!(output["jobs"], 0, "all of them");
    }
    let status = program.json(&["status", "a"]);
    assert_eq!(
        (&status["stage"], &status["jobs"]["done"]),
        (&"COMPLETED".into(), &40.into())
    );
    let seen = program.mock.end();
    assert_eq!((&seen["seen"], &seen["refused"]), (&40.into(), &0.into()));
    let most = seen["limits"][0]["most_in_any_window"].as_u64();
    assert!(most.expect("a number") <= 10, "{seen}");
}

/// Each query starts a process, so this lasts at least half a minute.
const MAX_QUERIES: usize = 2_000;
