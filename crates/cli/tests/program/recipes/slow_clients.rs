//! slowhttptest: slow connections that stay open as long as the sidecar allows.
//!
//! It runs in real time, so the bounds are short: two seconds for a head and for a body. Other callers are
//! answered at once, and every slow connection is closed at its bound.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use outflow_mock::{Content, MockApi, MockResponse};
use outflow_testkit::Process;

use tokio::time::{interval, timeout};

use super::support::{RunningProgram, start_tool, tool};

const BOUNDS: &str = "header_timeout = \"2s\"\nbody_timeout = \"2s\"";

/// Attacks the sidecar in this mode and returns the observations.
async fn attack_sidecar(way: &str, path: &str) -> Option<SlowAttack> {
    let large = MockResponse::status(200).content(Content::Zeros(4 * 1024 * 1024));
    let api = MockApi::builder()
        .answer("/large", large)
        .answer("/**", MockResponse::ok("{\"ok\":true}"))
        .build()
        .expect("valid");
    let server = api.listen().await.expect("a port");
    // The concurrency exceeds the number of attackers, as an operator would configure it.
    let apis = format!(
        "[apis.strict]\nbase_url = \"{}\"\nlimits = []\nconcurrency = 100\ntimeout = \"4s\"",
        server.url()
    );
    let running = RunningProgram::serving(BOUNDS, &apis);
    let mut command = tool("slowhttptest");
    command
        .args(way.split(' '))
        .args("-c 50 -r 50 -l 12 -p 3 -v 1 -u".split(' '))
        .arg(format!("{}/strict/{path}", running.calls));
    let process = start_tool(command)?;
    let mut attack = SlowAttack {
        process,
        calls: 0,
        held: (0, 0),
    };
    let host = running.calls.strip_prefix("http://").expect("plain");
    // After a timeout the assertions report the observations so far.
    let _late = timeout(ATTACK_LENGTH, attack.outlive(host)).await;
    Some(attack)
}

struct SlowAttack {
    process: Process,
    /// Number of calls that were answered meanwhile.
    calls: usize,
    /// Highest and last number of connections.
    held: (usize, usize),
}

impl SlowAttack {
    /// Calls repeatedly until no connection of the attack is left.
    async fn outlive(&mut self, host: &str) {
        let mut every = interval(CALL_INTERVAL);
        while self.held.0 < MANY || self.held.1 > 0 {
            // Between two calls the attackers have the machine for themselves.
            every.tick().await;
            check_call(host);
            self.calls += 1;
            let now = connections(host);
            self.held = (self.held.0.max(now), now);
        }
    }

    fn assert_repelled(mut self) {
        let (most, left) = self.held;
        let lines = self.process.last_lines(Duration::ZERO).iter();
        let text: Vec<_> = lines.map(|line| line.text.as_str()).collect();
        let text = text.join("\n");
        assert!(most >= MANY && left == 0, "{most}, then {left}: {text}");
        assert!(!text.contains("NO"), "it was not to be reached: {text}");
        assert!(self.calls > 5, "{} calls meanwhile", self.calls);
    }
}

/// Counts the connections that the system keeps for this port. The attacker still reads buffered data, so it
/// would not notice a close.
fn connections(host: &str) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("Linux");
    let port: u16 = host
        .rsplit(':')
        .next()
        .and_then(|port| port.parse().ok())
        .expect("a port");
    let here = format!(":{port:04X}");
    let open = |line: &&str| {
        let mut words = line.split_whitespace().skip(1);
        let (local, state) = (words.next(), words.nth(1));
        local.is_some_and(|local| local.ends_with(&here)) && state.is_some_and(|state| OPEN.contains(&state))
    };
    table.lines().filter(open).count()
}

/// Sends one regular call and checks its response.
fn check_call(host: &str) {
    let mut stream = TcpStream::connect(host).expect("a place");
    stream.set_read_timeout(Some(RESPONSE_TIMEOUT)).expect("settable");
    let request = format!("GET /strict/x HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("in time");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

// One header a second, each of them in time.
#[tokio::test(flavor = "multi_thread")]
async fn slowhttptest_cannot_hold_connections_by_heads() {
    if let Some(attack) = attack_sidecar("-H -i 1", "x").await {
        attack.assert_repelled();
    }
}

// A few bytes a second: never silent for two seconds, and never complete. The sidecar buffers a small body; a
// large one streams to the API, whose call has four seconds.
#[tokio::test(flavor = "multi_thread")]
async fn slowhttptest_cannot_hold_connections_by_small_bodies() {
    if let Some(attack) = attack_sidecar("-B -i 1 -s 4096", "x").await {
        attack.assert_repelled();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slowhttptest_cannot_hold_connections_by_large_bodies() {
    if let Some(attack) = attack_sidecar("-B -i 1 -s 200000", "x").await {
        attack.assert_repelled();
    }
}

// Four megabytes, of which the attacker reads five bytes a second.
#[tokio::test(flavor = "multi_thread")]
async fn slowhttptest_cannot_hold_connections_by_not_reading() {
    if let Some(attack) = attack_sidecar("-X -n 1 -z 5", "large").await {
        attack.assert_repelled();
    }
}

/// States of established and half-closed connections, without listening and remembered ones.
const OPEN: [&str; 5] = ["01", "04", "05", "08", "09"];

/// Of fifty attackers a few may be closed before the last ones connect.
const MANY: usize = 40;

/// Duration of an attack that succeeds.
const ATTACK_LENGTH: Duration = Duration::from_secs(12);

/// Far longer than a response takes while other tests use the machine.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(3);

const CALL_INTERVAL: Duration = Duration::from_millis(50);
