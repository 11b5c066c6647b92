//! `outflow bulk release`, and the same over the admin API: jobs that were put off go on, and no faster than
//! their limit.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use super::bulk_serve::{Working, jobs};
use super::serve::serve;
use super::support::{Upstream, configured};
use crate::support::PATIENCE;

/// Ten a second, and who is put off waits for a minute at least: nothing moves between two questions.
fn by_the_formula() -> Working {
    let upstream = Upstream::start(&["--limit", "10/s"]);
    let bulk = "[bulk]\ndir = \"kept\"\nscheduler = \"backoff\"\n\
                congestion = { base_backoff = \"1m\", max_backoff = \"2m\" }\n";
    let folder = configured(&(bulk.to_owned() + &upstream.config("limits = [\"10/s\"]")));
    let served = serve(&folder, &["--bulk"]);
    Working {
        folder,
        upstream,
        served,
    }
}

impl Working {
    /// How many jobs of the tenant are put off, once no other is left that is not done.
    fn put_off(&self) -> u64 {
        for _ in 0..ASKED_AGAIN {
            let jobs = &self.json(&["status"])["jobs"];
            let number = |name: &str| jobs[name].as_u64().expect("a number");
            if number("queued") == number("non_ready") && number("in_flight") == 0 {
                return number("non_ready");
            }
        }
        panic!("it does not come to rest: {}", self.json(&["status"]));
    }

    /// What the admin API answers to a body that is posted there.
    fn post(&self, path: &str, body: &str) -> Value {
        let host = self.served.admin.trim_start_matches("http://");
        let mut stream = TcpStream::connect(host).expect("somebody listens");
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

// Of 40 jobs ten go and thirty are put off, or some less where the machine is slow. Five are released by the command and five over the API; each answers
// how many are left. All others are let go at once, again and again, because those who find no permit are put
// off anew: never are there more than ten in a second.
#[test]
fn jobs_that_are_released_go_on_through_the_limiter() {
    let working = by_the_formula();
    working.jobs("jobs.ndjson", &jobs("acme", 40));
    working.told(&["submit", "jobs.ndjson", "--action", "a"]);
    let waiting = working.put_off();
    assert!((11..=30).contains(&waiting), "{waiting}");
    let told = working.told(&["release", "acme", "5"]);
    let left = waiting - 5;
    assert!(
        told.starts_with(&format!("{left} jobs are still deferred")),
        "{told}"
    );
    let waiting = working.put_off();
    let path = "/v1/bulk/tenants/acme/release";
    let told = working.post(path, "{\"most\":5}");
    assert_eq!(
        (&told["what"], &told["jobs"]),
        (&"release".into(), &(waiting - 5).into())
    );
    for _ in 0..ASKED_AGAIN {
        if working.put_off() == 0 {
            break;
        }
        let told = working.json(&["release", "acme"]);
        assert_eq!(told["jobs"], 0, "all of them");
    }
    let status = working.json(&["status", "a"]);
    assert_eq!(
        (&status["stage"], &status["jobs"]["done"]),
        (&"COMPLETED".into(), &40.into())
    );
    let seen = working.upstream.end();
    assert_eq!((&seen["seen"], &seen["refused"]), (&40.into(), &0.into()));
    let most = seen["limits"][0]["most_in_any_window"].as_u64();
    assert!(most.expect("a number") <= 10, "{seen}");
}

/// Each question starts a program, so this is half a minute at least.
const ASKED_AGAIN: usize = 2_000;
