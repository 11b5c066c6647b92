//! slowhttptest: connections that do next to nothing, for as long as they are let.
//!
//! It lives in real time, so the bounds are short: a head and a body have two seconds. Whoever comes
//! meanwhile is answered at once, and every slow connection is closed when its time is over, which the
//! tool tells by its last words.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use outflow_testkit::Process;
use outflow_upstream::{Answer, Content, StrictApi};

use crate::support::{Running, SECOND, started, tool};

const BOUNDS: &str = "header_timeout = \"2s\"\nbody_timeout = \"2s\"";

/// Has the sidecar attacked in this way; what the tool says at its end.
async fn attacked(way: &str, path: &str) -> Option<Attack> {
    let large = Answer::status(200).content(Content::Zeros(8 * 1024 * 1024));
    let api = StrictApi::builder()
        .answer("/large", large)
        .answer("/**", Answer::ok("{\"ok\":true}"))
        .build()
        .expect("valid");
    let server = api.listen().await.expect("a port");
    // More places than there are attackers, as everybody has who expects some.
    let apis = format!(
        "[apis.strict]\nbase_url = \"{}\"\nlimits = []\nconcurrency = 100\ntimeout = \"4s\"",
        server.url()
    );
    let running = Running::serving(BOUNDS, &apis);
    let mut command = tool("slowhttptest");
    command
        .args(way.split(' '))
        .args("-c 50 -r 50 -l 12 -p 3 -v 1 -u".split(' '))
        .arg(format!("{}/strict/{path}", running.calls));
    let process = started(command)?;
    let mut attack = Attack { process, calls: 0 };
    attack.outlive(&running.calls);
    Some(attack)
}

struct Attack {
    process: Process,
    /// How many calls were answered meanwhile.
    calls: usize,
}

impl Attack {
    /// Calls again and again until it is over.
    fn outlive(&mut self, calls: &str) {
        while self.process.status().expect("known").is_none() {
            healthy(calls.strip_prefix("http://").expect("plain"));
            self.calls += 1;
            // Between two calls the attackers have the machine to themselves.
            let _over = self.process.wait(BREATH);
        }
    }

    fn has_failed(mut self) {
        let lines = self.process.last_lines(SECOND).iter();
        let text: Vec<_> = lines.map(|line| line.text.as_str()).collect();
        let text = text.join("\n");
        assert!(text.contains("No open connections left"), "{text}");
        assert!(!text.contains("NO"), "it was not to be reached: {text}");
        assert!(self.calls > 5, "{} calls beside it", self.calls);
    }
}

/// Somebody who wants an answer, and has it within a second.
fn healthy(host: &str) {
    let mut stream = TcpStream::connect(host).expect("a place");
    stream.set_read_timeout(Some(SECOND)).expect("settable");
    let request = format!("GET /strict/x HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("in time");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

// A header a second, of which each alone is quick enough.
#[tokio::test(flavor = "multi_thread")]
async fn slowhttptest_cannot_hold_connections_by_heads() {
    if let Some(attack) = attacked("-H -i 1", "x").await {
        attack.has_failed();
    }
}

// A few bytes a second: never silent for two, and never done. A small body would be held until it is
// whole; a large one is on its way to the API, whose call has four seconds.
#[tokio::test(flavor = "multi_thread")]
async fn slowhttptest_cannot_hold_connections_by_small_bodies() {
    if let Some(attack) = attacked("-B -i 1 -s 4096", "x").await {
        attack.has_failed();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slowhttptest_cannot_hold_connections_by_large_bodies() {
    if let Some(attack) = attacked("-B -i 1 -s 200000", "x").await {
        attack.has_failed();
    }
}

// Eight megabytes, of which five bytes a second are taken.
#[tokio::test(flavor = "multi_thread")]
async fn slowhttptest_cannot_hold_connections_by_not_reading() {
    if let Some(attack) = attacked("-X -n 1 -z 5", "large").await {
        attack.has_failed();
    }
}

const BREATH: Duration = Duration::from_millis(50);
