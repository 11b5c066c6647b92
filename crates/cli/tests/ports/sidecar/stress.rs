//! Many idle and slow clients, and a few that measure their calls.

use std::process::Command;
use std::time::Duration;

use outflow_testkit::Process;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::support::{PATIENCE, echo};

/// A sidecar in its own process, so that its memory can be measured.
pub(super) struct SidecarProcess {
    process: Process,
    pub(super) address: String,
    _dir: tempfile::TempDir,
}

impl SidecarProcess {
    /// Starts in front of the API at this URL, with these lines for it.
    pub(super) fn start(url: &str, api: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("outflow.toml");
        let text = format!(
            "[log]\nlevel = \"error\"\n[server]\nlisten = \"127.0.0.1:0\"\n\
             max_connections = 20000\nmax_connections_per_client = 20000\n\
             header_timeout = \"5m\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
             [apis.strict]\nbase_url = \"{url}\"\naddresses = \"any\"\n\
             limits = [\"100000/s\"]\nconcurrency = 1000\n{api}\n"
        );
        std::fs::write(&file, text).expect("written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_outflow"));
        command.arg("serve").arg("--config").arg(&file);
        let mut process = Process::start(command).expect("it starts");
        let line = process.wait_for_line("calls", PATIENCE).expect("a banner");
        let address = line.split("http://").nth(1).expect("an address");
        let address = address.split('/').next().expect("an address").to_owned();
        Self {
            process,
            address,
            _dir: dir,
        }
    }

    /// Returns the resident memory in KiB.
    pub(super) fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()));
        let status = status.expect("it runs");
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let figure = line.and_then(|line| line.split_whitespace().nth(1));
        figure.and_then(|figure| figure.parse().ok()).expect("a figure")
    }

    pub(super) async fn caller(&self) -> TimedCaller {
        let stream = TcpStream::connect(&self.address).await;
        TimedCaller {
            stream: stream.expect("it listens"),
            request: format!("GET /strict/x HTTP/1.1\r\nhost: {}\r\n\r\n", self.address),
            times: Vec::new(),
        }
    }
}

/// A client that measures repeated calls.
pub(super) struct TimedCaller {
    stream: TcpStream,
    request: String,
    times: Vec<Duration>,
}

impl TimedCaller {
    pub(super) async fn call(&mut self) {
        let begun = Instant::now();
        let written = self.stream.write_all(self.request.as_bytes()).await;
        written.expect("written");
        let mut answer = Vec::new();
        while !answer.ends_with(b"}") {
            let count = self.stream.read_buf(&mut answer).await.expect("an answer");
            assert!(count > 0, "closed");
        }
        self.times.push(begun.elapsed());
        // A refusal would be quick, so the response is checked.
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains("\"path\":\"/x\""), "{answer}");
    }

    /// Returns the duration that this percentage of calls did not exceed.
    fn within(&mut self, percent: usize) -> Duration {
        self.times.sort_unstable();
        let place = self.times.len() * percent / 100;
        *self.times.get(place).expect("some were made")
    }
}

// 10,000 idle clients, 1,000 slow ones and 64 with huge heads take at most 256 MiB, and other calls take at
// most twice the time. The test alternates between an empty and a loaded sidecar, so that both see the same
// machine. On a busy machine the system's scheduler dominates the p99, so the medians are printed too.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes more open files than most machines allow without asking"]
async fn stress_ten_thousand_idle_and_a_thousand_slow_clients() {
    let (_, server) = echo().await;
    let (empty, loaded) = (
        SidecarProcess::start(&server.url(), ""),
        SidecarProcess::start(&server.url(), ""),
    );
    let before = loaded.resident();
    let mut clients = Vec::new();
    for number in 0..11_064 {
        let mut stream = TcpStream::connect(&loaded.address).await.expect("a place");
        let said = match number {
            0..10_000 => String::new(),
            10_000..11_000 => "GET /strict/x HTTP/1.1\r\nhost:".to_owned(),
            _ => format!("GET /strict/x HTTP/1.1\r\nx: {}", "a".repeat(32_000)),
        };
        stream.write_all(said.as_bytes()).await.expect("written");
        clients.push(stream);
    }
    let (mut alone, mut among) = (empty.caller().await, loaded.caller().await);
    for _ in 0..5_000 {
        alone.call().await;
        among.call().await;
    }
    let rss = loaded.resident();
    let (p50, p50_among) = (alone.within(50), among.within(50));
    let (p99, p99_among) = (alone.within(99), among.within(99));
    println!("resident {before} KiB, then {rss} KiB");
    println!("p50 {p50:?}, among them {p50_among:?}; p99 {p99:?}, among them {p99_among:?}");
    assert!(rss <= 256 * 1_024, "{rss} KiB");
    assert!(p50_among <= p50 * 2, "{p50:?}, then {p50_among:?}");
    assert!(p99_among <= p99 * 2, "{p99:?}, then {p99_among:?}");
    drop(clients);
}
